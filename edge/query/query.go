// Package query parses the parameters of requests: see INTERFACE.md, "Parameters" to "Ignored parameters",
// "History", "Candles", "Prices at a time", "Search" and "Changes".
//
// A Query should be reused. Parse does not copy the query string as a whole. It copies only the strings that
// it must unescape and fold, into its own buffers, so it allocates nothing after the first few requests. The
// contents of a Query remain valid until the next Parse, and do not refer to the query string.
//
// AppendKey writes the normalized query, which is the key of the response cache. It fills in defaults, omits
// ignored parameters, and sorts filters and removes their duplicates. Equal keys mean equal answers from the
// same snapshot.
package query

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"example.com/marketdata/artifacts"
)

// Bounds and defaults of parameters, from INTERFACE.md, "Parameters", "Paging", "History" and "Search".
const (
	// maxValues is the largest number of elements of a csv parameter, including empty elements and
	// duplicates.
	maxValues = 100
	// maxSize is the largest page size, and maxHistory the largest for /history and /candles.
	maxSize    = 100
	maxHistory = 20
	// MaxText is the maximum length of q for /search, in bytes, and MaxWords is the maximum number of its
	// words.
	MaxText  = 64
	MaxWords = 8
	// defaultSize is the default page size.
	defaultSize = 20
	// maxOffset is the largest offset.
	maxOffset = 100_000
)

// maxFirst is the largest value of Query.First, and replaces larger values. No listing is that long, and
// adding a page size to it does not overflow.
const maxFirst = math.MaxInt64 / 2

// Query contains the parameters of a request. The zero value is ready for Parse. A Query must not be used by
// several goroutines at the same time.
type Query struct {
	Endpoint Endpoint
	// CSV reports whether the answer is a table in CSV.
	CSV bool
	// Sort and Desc are the order of the rows, with defaults filled in. They have no meaning for /global.
	Sort Sort
	Desc bool
	// Tails reports whether the request asks for fields=links on /assets, or for fields=groups on /markets.
	Tails bool
	// Window is the window of /history, as an index into artifacts.HistoryWindows, or MaxWindow for the
	// whole past.
	Window int
	// Past contains the parameters of /candles and /prices, and Change contains the parameters of /changes.
	Past   Past
	Change Change

	// Page is the page number that the answer states: in page mode the number sent, in offset mode
	// offset/limit + 1.
	Page int64
	// Size is the page size, from 1 to 100: the parameter "size" in page mode, and "limit" in offset mode. It is
	// 0 for /trending, /global and /search, which have no pages.
	Size int
	// First is the index of the page's first row. It is at most maxFirst.
	First int64

	// HasID and the other fields report whether a filter was sent. If it was sent without values, it matches
	// nothing. Only /markets has the filters category and chain.
	HasID, HasSlug, HasSymbol, HasCategory, HasChain bool
	// IDs are the values of the filter id, in ascending order, without duplicates. They may be any int64;
	// values that are not ids match nothing.
	IDs []int64
	// Slugs and the other fields are the values of filters, folded (artifacts.Fold), sorted as bytes, without
	// duplicates. An empty element is kept as an empty first value. It matches nothing, whatever the
	// directory contains, and X-Not-Found names it.
	Slugs, Symbols, Categories, Chains [][]byte

	// Text is the folded value of q. Words contains its words, which are separated by spaces; there are 1
	// to MaxWords.
	Text  []byte
	Words [][]byte

	// Ignored contains the names of the parameters that have no effect (INTERFACE.md, "Ignored parameters").
	Ignored Names

	buf []byte // the memory behind Slugs, the other strings, and unescaped values
}

// Filtered reports whether any filter was sent.
func (q *Query) Filtered() bool {
	return q.HasID || q.HasSlug || q.HasSymbol || q.HasCategory || q.HasChain
}

// Parse parses the query string of a request to endpoint e, without the question mark. It returns nil, or an
// error about the first invalid parameter in the order id, symbol, slug, category, chain, page, size, limit,
// offset, sort, fields, by, window, interval, from, to, time, since, collection, kind, q. After an error the
// fields of q have no meaning. Parse keeps no reference to query.
func (q *Query) Parse(e Endpoint, query []byte) *ParamError { return q.parse(e, query, false) }

// ParseCSV is like Parse, for a request for the endpoint's table. It does not report the parameter "key" as
// ignored, because the server reads it.
func (q *Query) ParseCSV(e Endpoint, query []byte) *ParamError { return q.parse(e, query, true) }

func (q *Query) parse(e Endpoint, query []byte, csv bool) *ParamError {
	*q = Query{Endpoint: e, CSV: csv, IDs: q.IDs[:0], Slugs: q.Slugs[:0], Symbols: q.Symbols[:0],
		Categories: q.Categories[:0], Chains: q.Chains[:0], Words: q.Words[:0], Ignored: q.Ignored[:0], buf: q.buf[:0],
		Past: Past{Times: q.Past.Times[:0]}}
	// Unescaping and folding never lengthen a value, so only lists that are sent in parts need more room.
	q.buf = slices.Grow(q.buf, len(query))

	var p params
	q.split(&p, query)
	var err *ParamError
	switch e {
	case Global:
	case Trending:
		q.Sort = SortBoard
		err = q.by(p.value[paramBy])
	case Search:
		q.Sort = SortWord
		err = q.text(p.value[paramQ])
	default:
		err = q.list(&p)
	}
	for i := 0; p.ignored != 0; i++ {
		if p.ignored.has(i) {
			q.Ignored.Add(paramNames[i])
			p.ignored &^= 1 << i
		}
	}
	return err
}

// list parses the parameters of an endpoint with pages.
func (q *Query) list(p *params) *ParamError {
	err := q.filters(p)
	if err == nil {
		err = q.page(p)
	}
	if err == nil {
		switch q.Endpoint {
		case History:
			return q.window(p.value[paramWindow])
		case Candles:
			return q.candles(p)
		case Prices:
			return q.prices(p)
		case Changes:
			return q.changes(p)
		}
		err = q.sort(p.value[paramSort])
	}
	if err == nil {
		err = q.fields(p.value[paramFields])
	}
	return err
}

func (q *Query) filters(p *params) *ParamError {
	if v := p.value[paramID]; len(v) > 0 {
		q.HasID = true
		if err := q.ids(q.unescape(v)); err != nil {
			return err
		}
	}
	for _, texts := range [...]struct {
		param    int
		sent     *bool
		values   *[][]byte
		errCount *ParamError
	}{
		{paramSymbol, &q.HasSymbol, &q.Symbols, errSymbolCount},
		{paramSlug, &q.HasSlug, &q.Slugs, errSlugCount},
		{paramCategory, &q.HasCategory, &q.Categories, errCategoryCount},
		{paramChain, &q.HasChain, &q.Chains, errChainCount},
	} {
		v := p.value[texts.param]
		if len(v) == 0 {
			continue
		}
		var ok bool
		*texts.sent = true
		if *texts.values, ok = splitTexts(*texts.values, q.fold(v)); !ok {
			return texts.errCount
		}
	}
	if q.Endpoint.OfThePast() && !q.Filtered() {
		return errNoneAsked
	}
	return nil
}

func (q *Query) ids(csv []byte) *ParamError {
	if bytes.Count(csv, comma) >= maxValues {
		return errIDCount
	}
	for n, more := 0, true; more; n++ {
		var element []byte
		element, csv, more = bytes.Cut(csv, comma)
		if len(element) == 0 {
			continue
		}
		id, ok := ParseInt(element)
		if !ok {
			return errIDElement[n]
		}
		q.IDs = append(q.IDs, id)
	}
	slices.Sort(q.IDs)
	q.IDs = slices.Compact(q.IDs)
	return nil
}

// splitTexts appends the elements of a folded csv to dst, sorts them, and removes duplicates. It returns
// false if there are too many.
func splitTexts(dst [][]byte, csv []byte) ([][]byte, bool) {
	if bytes.Count(csv, comma) >= maxValues {
		return dst, false
	}
	for more := true; more; {
		var element []byte
		element, csv, more = bytes.Cut(csv, comma)
		dst = append(dst, element)
	}
	slices.SortFunc(dst, bytes.Compare)
	return slices.CompactFunc(dst, bytes.Equal), true
}

// page parses the paging parameters. For /exchanges, it parses only the parameters of the chosen paging
// mode, and the size must be positive. For all other endpoints, it checks all four parameters in either
// mode.
func (q *Query) page(p *params) *ParamError {
	least, most, errs := int64(math.MinInt64), int64(maxSize), &errLengths
	switch q.Endpoint {
	case Exchanges:
		least, errs = 1, &errExchangeLengths
	case Prices:
		errs = &errPricesLengths
	case History, Candles:
		most, errs = maxHistory, &errHistoryLengths
	}
	page, sent, err := q.integer(p, paramPage, 1, math.MaxInt64, &errPage)
	if err != nil {
		return err
	}
	pages := sent || len(p.value[paramLimit]) == 0 && len(p.value[paramOffset]) == 0
	all := q.Endpoint != Exchanges
	var size, limit, offset int64
	if all || pages {
		size, _, err = q.integer(p, paramSize, least, most, &errs.size)
	}
	if err == nil && (all || !pages) {
		limit, _, err = q.integer(p, paramLimit, least, most, &errs.limit)
	}
	if err == nil && (all || !pages) {
		offset, _, err = q.integer(p, paramOffset, 0, maxOffset, &errOffset)
	}
	switch {
	case err != nil:
		return err
	case pages:
		q.setPage(p, max(page, 1), size)
	default:
		q.setOffset(p, offset, limit)
	}
	return nil
}

// usualSize returns the default page size. For /prices it is the largest number of assets that a request can
// name.
func (q *Query) usualSize() int64 {
	if q.Endpoint == Prices {
		return maxSize
	}
	return defaultSize
}

func (q *Query) setPage(p *params, page, size int64) {
	p.drop(paramLimit, paramOffset)
	if size <= 0 {
		size = q.usualSize()
	}
	q.Page, q.Size = page, int(size)
	q.First = maxFirst
	if page-1 <= maxFirst/size {
		q.First = (page - 1) * size
	}
}

func (q *Query) setOffset(p *params, offset, limit int64) {
	p.drop(paramPage, paramSize)
	if limit <= 0 {
		limit = q.usualSize()
	}
	q.Page, q.Size, q.First = offset/limit+1, int(limit), offset
}

func (q *Query) sort(v []byte) *ParamError {
	spec := &endpoints[q.Endpoint]
	if len(v) == 0 {
		q.Sort, q.Desc = spec.sort, spec.desc
		return nil
	}
	key, direction, sent := bytes.Cut(q.fold(v), colon)
	if sent {
		switch string(direction) {
		case "asc":
		case "desc":
			q.Desc = true
		default:
			return spec.errSort
		}
	}
	for _, s := range spec.sorts {
		if string(key) == sortNames[s] {
			q.Sort = s
			q.Desc = q.Desc || !sent && q.Endpoint == Markets && s.figure()
			return nil
		}
	}
	if q.Endpoint == Quotes && slices.ContainsFunc(endpoints[Markets].sorts, func(s Sort) bool {
		return string(key) == sortNames[s]
	}) {
		return errSortMarkets
	}
	return spec.errSort
}

func (q *Query) fields(v []byte) *ParamError {
	if len(v) == 0 {
		return nil
	}
	csv := q.fold(v)
	spec := &endpoints[q.Endpoint]
	if bytes.Count(csv, comma) >= maxValues {
		return spec.errFields
	}
	for more := true; more; {
		var name []byte
		name, csv, more = bytes.Cut(csv, comma)
		if string(name) == spec.field {
			q.Tails = true
		}
	}
	return nil
}

func (q *Query) by(v []byte) *ParamError {
	switch string(bytes.Trim(q.fold(v), " \t\n\v\f\r")) {
	case "", "gainers":
		return nil
	}
	return errBy
}

// defaultWindow is the default window.
const defaultWindow = "7d"

// MaxWindow is the index of the window "max", which contains each day's first price over the whole past.
const (
	MaxWindow = len(artifacts.HistoryWindows)
	maxName   = "max"
)

func (q *Query) window(v []byte) *ParamError {
	name := q.fold(v)
	for i := range artifacts.HistoryWindows {
		if w := artifacts.HistoryWindows[i].Name; string(name) == w || len(name) == 0 && w == defaultWindow {
			q.Window = i
			return nil
		}
	}
	if string(name) == maxName {
		q.Window = MaxWindow
		return nil
	}
	return errWindow
}

func (q *Query) text(v []byte) *ParamError {
	n := len(q.buf)
	q.buf = AppendUnescaped(q.buf, v)
	if q.Text = q.buf[n:]; len(q.Text) > MaxText {
		return errQ
	}
	q.buf = artifacts.AppendFold(q.buf[:n], q.Text)
	q.Text = q.buf[n:]
	for rest := q.Text; len(rest) > 0; {
		var word []byte
		if word, rest, _ = bytes.Cut(rest, blank); len(word) == 0 {
			continue
		}
		if len(q.Words) == MaxWords {
			return errQ
		}
		q.Words = append(q.Words, word)
	}
	if len(q.Words) == 0 {
		return errQ
	}
	return nil
}

// AppendKey appends the normalized query to dst. Queries for an endpoint have equal keys if they differ only
// in the order of parameters, in explicit defaults, in duplicates, in letter case, in ignored parameters, or
// in the paging mode (page=2&size=20 and limit=20&offset=20). Queries with equal keys get equal answers from
// the same snapshot, including headers. Keys are binary, not text.
func (q *Query) AppendKey(dst []byte) []byte {
	dst = append(dst, byte(q.Endpoint))
	switch {
	case q.Endpoint == Search:
		return append(dst, q.Text...)
	case q.Size == 0:
		return dst
	}
	var flags byte
	for i, set := range [...]bool{q.Desc, q.Tails, q.HasID, q.HasSlug, q.HasSymbol, q.HasCategory, q.HasChain,
		q.CSV} {
		if set {
			flags |= 1 << i
		}
	}
	dst = append(dst, byte(q.Sort), flags, byte(q.Size), byte(q.Window))
	// Page can be computed from First, except for pages that begin after maxFirst.
	dst = binary.AppendUvarint(dst, uint64(q.First))
	if q.First == maxFirst {
		dst = binary.AppendUvarint(dst, uint64(q.Page))
	}
	if q.Endpoint == Candles || q.Endpoint == Prices {
		dst = q.appendPast(dst)
	}
	if q.Endpoint == Changes {
		dst = q.Change.append(dst)
	}
	if q.HasID {
		dst = binary.AppendUvarint(dst, uint64(len(q.IDs)))
		for _, id := range q.IDs {
			dst = binary.AppendVarint(dst, id)
		}
	}
	if q.HasSlug {
		dst = AppendTexts(dst, q.Slugs)
	}
	if q.HasSymbol {
		dst = AppendTexts(dst, q.Symbols)
	}
	if q.HasCategory {
		dst = AppendTexts(dst, q.Categories)
	}
	if q.HasChain {
		dst = AppendTexts(dst, q.Chains)
	}
	return dst
}

// AppendTexts appends a list with its length, so that more data can follow it.
func AppendTexts(dst []byte, texts [][]byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(texts)))
	for _, t := range texts {
		dst = binary.AppendUvarint(dst, uint64(len(t)))
		dst = append(dst, t...)
	}
	return dst
}

// integer parses an integer parameter, which must be in [low, high]. The value is 0 if it was not sent.
func (q *Query) integer(
	p *params, param int, low, high int64, errs *integerErrors,
) (n int64, sent bool, err *ParamError) {
	v := p.value[param]
	if len(v) == 0 {
		return 0, false, nil
	}
	n, ok := ParseInt(q.unescape(v))
	switch {
	case !ok:
		return 0, true, errs.notInt
	case n < low || n > high:
		return 0, true, errs.outside
	}
	return n, true, nil
}

// unescape returns the unescaped value. If it differs from v, it is in q.buf.
func (q *Query) unescape(v []byte) []byte {
	if !escaped(v) {
		return v
	}
	n := len(q.buf)
	q.buf = AppendUnescaped(q.buf, v)
	return q.buf[n:]
}

// fold returns the unescaped and folded value, in q.buf. Folding neither adds nor removes commas, colons or
// white space, so a list can be folded before it is split.
func (q *Query) fold(v []byte) []byte {
	n := len(q.buf)
	q.buf = AppendUnescaped(q.buf, v)
	q.buf = artifacts.AppendFold(q.buf[:n], q.buf[n:])
	return q.buf[n:]
}
