package gen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"example.com/marketdata/internal/model"
	"pgregory.net/rapid"
)

var endpoints = []string{
	"quotes", "markets", "assets", "categories", "exchanges", "chains", "history", "candles", "prices",
	"changes", "search", "trending", "global"}

// maxQuery keeps requests within the maximum of 32 KiB.
const maxQuery = 31 << 10

// Questions generates valid and invalid requests to a service in the state of w. The
// requests' pins are the times of retained or deleted snapshots, or nonsense. They are never the time of a
// future snapshot, because an edge would wait for it.
func Questions(w *model.World) *rapid.Generator[model.Question] {
	return rapid.Custom(func(t *rapid.T) model.Question {
		d := draw{t}
		q := model.Question{Method: "GET"}
		snapshot := w.Newest()
		if retained := w.Retained(); len(retained) > 0 && d.chance(20) {
			snapshot = retained[len(retained)-1-d.upTo(len(retained)-1)]
			q.Pins = []string{snapshot.Time.Format(time.RFC3339)}
		}
		if d.chance(4) {
			q.Pins = d.oddPins(w)
		}
		if d.chance(6) {
			q.Method = pick(
				d, []string{"HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "get", "TRACE", "PROPFIND"})
		}
		endpoint := pick(d, endpoints)
		path := "/openapi/v1/" + endpoint
		if slices.Contains([]string{"markets", "history", "candles", "prices"}, endpoint) && d.chance(35) ||
			d.chance(1) {
			path += ".csv"
		}
		if d.chance(4) {
			path = d.oddPath(endpoint)
		}
		q.Target = ascii(path)
		if query := ascii(d.query(snapshot, endpoint)); len(query) <= maxQuery {
			q.Target += query
		}
		return q
	})
}

// Queries generates query strings, without the question mark, of requests to an endpoint before the
// first snapshot.
func Queries(endpoint string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string { return strings.TrimPrefix(draw{t}.query(nil, endpoint), "?") })
}

// ascii escapes bytes that must not appear in a request target, where they would cause a 400 before
// anything else is checked; see package rawhttp.
func ascii(target string) string {
	var b strings.Builder
	for _, c := range []byte(target) {
		if c > '~' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Searches generates searches for assets of the newest snapshot.
func Searches(w *model.World) *rapid.Generator[model.Question] {
	return rapid.Custom(func(t *rapid.T) model.Question {
		d := draw{t}
		return model.Question{Method: "GET", Target: ascii(model.Prefix + "search?q=" + d.encode(d.typed(w.Newest())))}
	})
}

// LongFilters generates requests for any page, in any order, with a filter that matches many rows
// of a crowd.
func LongFilters(w *model.World) *rapid.Generator[model.Question] {
	return rapid.Custom(func(t *rapid.T) model.Question {
		d := draw{t}
		endpoint := pick(d, []string{"assets", "quotes", "exchanges"})
		ids, slugs, symbols := w.Newest().Known(endpoint)
		pairs := []string{"sort=" + d.encode(d.sort(endpoint))}
		if endpoint == "exchanges" {
			symbols = slugs // Exchanges have no symbols, but several may have the same slug.
			pairs = append(pairs, "slug="+d.csv(symbols, []string{"none"}, nil))
		} else {
			pairs = append(pairs, "symbol="+d.csv(symbols, []string{"crowd", "dup", "solo"}, nil))
			if d.chance(10) {
				pairs = append(pairs, "slug="+d.csv(slugs, []string{"none"}, nil))
			}
		}
		at := rapid.Float64Range(0, 1).Draw(t, "") * float64(len(ids)) / 2
		size := d.between(1, 100)
		if d.chance(50) {
			pairs = append(pairs, fmt.Sprintf("limit=%d&offset=%d", size, int(at)))
		} else {
			pairs = append(pairs, fmt.Sprintf("size=%d&page=%d", size, int(at)/size+1))
		}
		query := strings.Join(pairs, "&")
		if len(query) > maxQuery {
			query = pairs[0]
		}
		return model.Question{Method: "GET", Target: ascii("/openapi/v1/" + endpoint + "?" + query)}
	})
}

func (d draw) oddPath(endpoint string) string {
	return pick(d, []string{
		"/openapi/v1/" + endpoint + "/", "/openapi/v1//" + endpoint, "//openapi/v1/" + endpoint, "/openapi/v1/%61ssets",
		"/openapi/v1/" + strings.ToUpper(endpoint),
		"/openapi/v1/", "/openapi/v1", "/openapi/v2/" + endpoint, "/openapi/v1/" + endpoint + "%3F",
		"/openapi/v1/./" + endpoint, "/openapi/v1/x/../" + endpoint,
		"/openapi/v1/" + endpoint + ";a=b", "/openapi/v1/" + endpoint + "%00", "/openapi/v1/" + endpoint + "s",
		"/OPENAPI/v1/" + endpoint, "/openapi/v1/market", "/" + endpoint,
		"/openapi/v1/" + endpoint + "é", "/openapi/v1/" + endpoint + "%20",
	})
}

func (d draw) oddPins(w *model.World) []string {
	pins := []string{
		"", "now", "2025-06-01T12:00:00", "2025-06-01T12:00:00+00:00", "2025-06-01 12:00:00Z", "2025-06-01T12:00:00.0Z",
		"2025-02-30T00:00:00Z", "2025-06-01t12:00:00z", "0", "2025-6-1T12:00:00Z", "99999-01-01T00:00:00Z",
		"9999-01-01T00:00:00Z"}
	if newest := w.Newest(); newest != nil {
		for _, back := range []time.Duration{10 * time.Minute, time.Second, -time.Second, -5 * time.Minute,
			50 * time.Minute, time.Hour, 70 * time.Minute, 24 * time.Hour, 1000 * 24 * time.Hour} {
			pins = append(pins, newest.Time.Add(-back).Format(time.RFC3339))
		}
		for _, s := range w.Retained() {
			pins = append(pins, s.Time.Format(time.RFC3339), s.Time.Format("2006-01-02T15:04:05.000Z"),
				s.Time.Format("2006-01-02T15:04Z"), s.Time.In(time.FixedZone("", -9000)).Format(time.RFC3339))
		}
	}
	if d.chance(10) {
		return []string{pick(d, pins), pick(d, pins)}
	}
	return []string{pick(d, pins)}
}

// query returns a query string with its question mark, or an empty string.
func (d draw) query(s *model.Snapshot, endpoint string) string {
	var pairs []string
	for _, name := range []string{
		"sort", "page", "size", "limit", "offset", "id", "slug", "symbol", "category", "chain", "fields", "by",
		"window", "q", "interval", "from", "to", "time", "since", "collection", "kind"} {
		often := map[string]int{"sort": 50, "page": 30, "size": 30, "limit": 20, "offset": 20, "id": 15, "slug": 20,
			"symbol": 20, "category": 3, "chain": 3, "fields": 15, "by": 8, "window": 5, "q": 5,
			"interval": 2, "from": 2, "to": 2, "time": 2, "since": 2, "collection": 2, "kind": 2}[name]
		switch {
		case endpoint == "trending" && name == "by":
			often = 60
		case endpoint == "markets" && (name == "category" || name == "chain"):
			often = 30
		case endpoint == "changes" && (name == "since" || name == "collection" || name == "kind"):
			often = 40
		case endpoint == "search" && name == "q":
			often = 97
		case endpoint == "search":
			often = 3
		case endpoint == "history" && name == "window":
			often = 70
		case endpoint == "candles" && (name == "interval" || name == "from" || name == "to"):
			often = 40
		case endpoint == "prices" && name == "time":
			often = 96
		case endpoint == "history", endpoint == "candles", endpoint == "prices":
			often = map[string]int{"id": 70, "page": 15, "size": 10, "limit": 10, "offset": 10}[name] + often/4
		}
		if !d.chance(often) {
			continue
		}
		pairs = append(pairs, d.pair(name, d.value(s, endpoint, name)))
		for d.chance(8) { // The parameter is repeated.
			pairs = append(pairs, d.pair(name, d.value(s, endpoint, name)))
		}
	}
	if d.chance(10) {
		odd := []string{"", "=", "a", "x=1", "%", "=1", "page", "Page=5", "SORT=name", "%00=1", "sort%20=name",
			"size=&size=5", "a=%zz", "q[]=1", ";page=2", "page;=2", "\xff=\xfe", "limit", "sort=;id",
			"mdk_live_x=1", "a%6Ddk_live_", "mdk%255Flive_", "%70age=", "l%69mit=5&limit=6",
			"utm_source=a&utm_source=b", "é+%2C=1", "key=1", "k%65y=", "key=1&%6bey=2", "key[]=1"}
		pairs = append(pairs, pick(d, odd))
	}
	if d.chance(5) { // Add unknown names, up to the maximum of X-Ignored and beyond.
		for range d.between(1, 200) {
			pairs = append(pairs, d.encode(pick(d, []string{"a", "b", "é", "z", "_"})+
				strings.Repeat("n", d.upTo(pick(d, []int{2, 20, 300})))+strconv.Itoa(d.upTo(99))))
		}
	}
	if shift := d.upTo(max(0, len(pairs)-1)); shift > 0 {
		pairs = append(pairs[shift:len(pairs):len(pairs)], pairs[:shift]...)
	}
	if len(pairs) == 0 && !d.chance(10) {
		return ""
	}
	return "?" + strings.Join(pairs, "&")
}

func (d draw) pair(name, value string) string {
	if d.chance(3) {
		name = pick(d, []string{strings.ToUpper(name), "%" + strconv.FormatInt(int64(name[0]), 16) + name[1:],
			name + "%20", "+" + name, name + "[]", name + "[0]", name + "%5B17%5d", name + "[x]", name + "[",
			"[]" + name})
	}
	if d.chance(2) {
		return name
	}
	return name + "=" + value
}

// encode encodes a value for a query string in one of several ways.
func (d draw) encode(value string) string {
	style := 0
	if d.chance(40) {
		style = d.between(1, 4)
	}
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		c := value[i]
		unreserved := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("-._~", c) >= 0
		must := c <= ' ' || c == 0x7f || c == '#' || c == '&' || c == '%' || c == '+'
		switch {
		case c == ' ' && style != 1:
			b.WriteByte('+')
		case style == 4 || must || !unreserved && c != ',' && c != ':' && style == 0, style == 1 && !unreserved:
			format := "%%%02X"
			if style == 2 {
				format = "%%%02x"
			}
			fmt.Fprintf(&b, format, c)
		default: // Leave the byte as it is, even above ASCII.
			b.WriteByte(c)
		}
	}
	if d.chance(2) {
		b.WriteString(pick(d, []string{"%", "%4", "%zz", "%%41", "%2", "%FF", "%C3", "%e2%84", "%00", "%C0%AF",
			"%ED%A0%80", "%2C", "\xff", "%25"}))
	}
	return b.String()
}

func (d draw) value(s *model.Snapshot, endpoint, name string) string {
	ids, knownSlugs, knownSymbols := s.Known(endpoint)
	if d.chance(2) {
		return ""
	}
	switch name {
	case "sort":
		return d.encode(d.sort(endpoint))
	case "page", "offset":
		if d.chance(20) { // Choose a position in the listing, preferably near its end.
			at := max(0, len(ids)+5-d.upTo(len(ids)+5))
			if name == "page" {
				at = at/20 + 1
			}
			return strconv.Itoa(at)
		}
		if name == "offset" {
			return d.encode(
				d.integer([]string{"0", "1", "2", "5", "10", "19", "20", "100", "100000", "100001", "99999", "-1"}))
		}
		return d.encode(d.integer([]string{"1", "2", "3", "4", "10", "0", "-1", "100000", "9223372036854775807",
			"461168601842738791", "4611686018427387904", "92233720368547759", "92233720368547760"}))
	case "size", "limit":
		return d.encode(d.integer([]string{
			"20", "1", "2", "3", "7", "10", "100", "99", "101", "0", "-1", "500", "21", "-9223372036854775808"}))
	case "id":
		var known []string
		for _, id := range ids {
			known = append(known, strconv.FormatInt(id, 10))
		}
		return d.csv(known, []string{"", "1", "2", "3", "999", "0", "-1", "-0", "007", "9007199254740991",
			"9223372036854775807", "-9223372036854775808"},
			[]string{"9223372036854775808", "1.5", "1e3", " 1", "+1", "0x1", "a", "١", "1 ", "-", "--1", "1;2"})
	case "slug":
		return d.csv(knownSlugs, append([]string{"", "nothing", "nothing-else", "a%b", "~", "é&=", "x y",
			strings.Repeat("long", 100), strings.Repeat("é", 300)}, slugs...), nil)
	case "category", "chain":
		_, known, _ := s.Known(map[string]string{"category": "categories", "chain": "chains"}[name])
		return d.csv(known, []string{"", "nothing", "x y", "\u212A"}, nil)
	case "symbol":
		return d.csv(knownSymbols, append([]string{"", "NOPE", "nope", "\u212A", "x=y", "😀😀"}, symbols...), nil)
	case "fields":
		return d.csv([]string{"links", "groups"}, []string{
			"", "GROUP\u017f", "LINKS", "lin\u212As", "link\u017f", "links ", " links", "link",
			"name", "*", "all", "links;"}, nil)
	case "q":
		return d.encode(d.typed(s))
	case "interval":
		return d.encode(pick(d, []string{"1h", "1d", "1D", "1H", "4h", "10m", " 1h", "1\u1d48", "day"}))
	case "from", "to":
		return d.encode(d.moment(s))
	case "since":
		if s != nil && s.Changes != nil && d.chance(70) {
			t := s.Changes.Since
			if n := len(s.Changes.Items); n > 0 && d.chance(80) {
				t = s.Changes.Items[d.upTo(n-1)].Time
			}
			return d.encode(t.Add(time.Duration(d.between(-1, 1)) * time.Second).Format(time.RFC3339))
		}
		return d.encode(d.moment(s))
	case "collection":
		return d.csv([]string{"assets", "exchanges", "categories", "chains"}, []string{"", "aſſets"},
			[]string{"quotes", "asset", " assets", "assets;"})
	case "kind":
		return d.csv([]string{"added", "removed", "back", "changed"}, []string{"", "bacK"},
			[]string{"new", "add", "changed ", "*"})
	case "time":
		var some []string
		for range d.between(1, pick(d, []int{2, 3, 10, 60, 101})) {
			some = append(some, d.moment(s))
		}
		return d.encode(strings.Join(some, ","))
	case "window":
		return d.encode(pick(d, []string{"max", "MAX", "24h", "7d", "30d", "90d", "1y", "1Y", "24H", "1h", "365d",
			" 7d", "7d ", "1y,7d", "all", "7\u1d48", "\x007d"}))
	case "by":
		return d.encode(
			pick(d, []string{
				"gainers", "GAINERS", " gainers ", "gainer\u017f", "\tgainers\r\n", "\v\fgainers", "", " ", "\t",
				"searched", "losers", "gainers,", "gain ers", "\u00a0gainers", "gainers\x00", "\u0085gainers",
				"\u2003"}))
	}
	panic("gen: unknown parameter " + name)
}

// moment returns a time in one of the notations that people use, usually in the year before a
// snapshot.
func (d draw) moment(s *model.Snapshot) string {
	if s == nil || d.chance(3) {
		return pick(d, []string{"0", "1795255200", "-1", "x", "2026-11-21", "2026-11-21T10:00:00", "2026-11-21 10:00Z",
			"2026-11-21T10:00:00.25Z", "2026-11-21T10:00:00,5Z", "253402300799", "253402300800", "1795255200000",
			"9999-12-31T23:59:59Z", "2026-11-21T24:00:00Z", "1795255200.5", ""})
	}
	unit := pick(d, []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour})
	t := s.Time.Add(-time.Duration(d.between(-5, 400)) * unit)
	if d.chance(30) {
		t = t.Truncate(unit)
	}
	if d.chance(30) {
		t = t.Add(time.Duration(d.between(-1, 1)) * time.Second)
	}
	if d.chance(40) {
		return strconv.FormatInt(t.Unix(), 10)
	}
	return t.In(time.FixedZone("", 3600*d.between(-3, 3))).Format(pick(d, []string{time.RFC3339, time.RFC3339Nano}))
}

// typed returns a text that a user could type to find an asset: parts of its name, symbol and slug,
// and near misses.
func (d draw) typed(s *model.Snapshot) string {
	known := s.Texts()
	if len(known) == 0 || d.chance(5) {
		known = append(known, "bitcoin", "a", " ", "", "é", strings.Repeat("x", 64), strings.Repeat("a ", 8),
			strings.Repeat("b ", 9), "\xff", "\x00")
	}
	text := pick(d, known)
	for d.chance(30) {
		text += pick(d, []string{" ", "  ", ""}) + pick(d, known)
	}
	if d.chance(60) { // Use its words, some of them, or prefixes of them.
		words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		for i := range words {
			if runes := []rune(words[i]); d.chance(50) {
				words[i] = string(runes[:d.between(1, min(len(runes), 4))])
			}
		}
		text = strings.Join(words[min(d.upTo(2), len(words)):], pick(d, []string{" ", " ", "  ", "-"}))
	}
	if d.chance(70) {
		text = strings.ToValidUTF8(text[:min(len(text), 64)], "")
	}
	if d.chance(30) {
		text = d.refold(text)
	}
	return text
}

func (d draw) sort(endpoint string) string {
	keys := model.SortKeys(endpoint)
	if keys == nil || d.chance(8) {
		keys = []string{"price", "market_cap", "volume", "volume_24h", "display_name", "symbol", "rank", "id", "",
			" id", "id ", "percent_change", "slug,name", "-id", "\u017flug", "na\u1d0de"}
	}
	key := pick(d, keys)
	direction := pick(d, []string{"", ":desc", ":asc"})
	switch {
	case d.chance(6):
		direction = pick(d, []string{":", ":up", ":DESC", ":Asc", ":de\u017fc", ": desc", ":desc ", ":asc:desc",
			":descending", "::asc", " desc"})
	case d.chance(6):
		key = strings.ToUpper(key)
	case d.chance(6):
		key = strings.ReplaceAll(key, "k", "\u212A")
	}
	return key + direction
}

func (d draw) integer(usual []string) string {
	if d.chance(8) {
		return pick(
			d, []string{
				"1.5", "1e3", " 1", "1 ", "+1", "0x1", "abc", "-", "9223372036854775808", "-9223372036854775809",
				"99999999999999999999999", "１", "1,2", "1_0", "--1", "\x00", "1\x00", "NaN", "٢", "-0", "007", "-007",
				"000000000000000000000000000000000000002", "null", "-1-", "2147483648", "4294967297"})
	}
	if d.chance(20) {
		return strconv.Itoa(d.upTo(120))
	}
	return pick(d, usual)
}

// csv returns a list of known, unknown and rejected values, sometimes with the maximum number of
// elements or more.
func (d draw) csv(known, others, refused []string) string {
	count := d.between(1, 6)
	if d.chance(6) {
		count = pick(d, []int{100, 101, 99, 102, 100})
	}
	var elements []string
	for range count {
		switch {
		case len(refused) > 0 && d.chance(2):
			elements = append(elements, pick(d, refused))
		case len(known) == 0 || d.chance(25):
			elements = append(elements, pick(d, others))
		default:
			e := known[d.upTo(len(known)-1)]
			if d.chance(40) {
				e = d.refold(e)
			}
			elements = append(elements, e)
		}
	}
	separator := ","
	if d.chance(5) {
		separator = "%2C"
	}
	for i := range elements {
		elements[i] = d.encode(elements[i])
	}
	return strings.Join(elements, separator)
}

// refold replaces code points of a text with others that usually, but not always, have the same
// folded form.
func (d draw) refold(s string) string {
	switch d.upTo(3) {
	case 0:
		return strings.ToUpper(s)
	case 1:
		return strings.ToLower(s)
	case 2:
		return s + pick(d, []string{"", " ", "\x00", "\u0301", "\xff"})
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if d.chance(80) {
			r = unicode.SimpleFold(r)
		}
		b.WriteRune(r)
		s = s[size:]
	}
	return b.String()
}
