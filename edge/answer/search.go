package answer

import (
	"bytes"
	"math/bits"
	"slices"
	"unicode/utf8"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/query"
	"example.com/marketdata/edge/snapshot"
)

// The views in which beginnings are found.
const (
	inWords = iota
	inSymbols
	inSlugs
	searched
)

// maxFound is how many items /search answers at most.
const maxFound = 20

// The classes of matches, which come one after the other. Within each assets stand
// by rank, then by id.
const (
	sameSymbol = iota << 32
	sameName   // or slug
	sameStart
)

// wordRange are the rows and the runs of a view whose keys a word matches.
type wordRange struct{ start, end, firstRun, endRun int }

func (r wordRange) rows() int { return r.end - r.start }

// wordRanges are those of one word in the views by word, symbol and slug, and how
// many rows they have.
type wordRanges struct {
	in   [searched]wordRange
	rows int
}

// sameAs are the views whose keys are compared with the whole of q.
var sameAs = [...]struct {
	sort  query.Sort
	class uint64
}{{query.SortSymbol, sameSymbol}, {query.SortName, sameName}, {query.SortSlug, sameName}}

// search appends the items that q finds. Those that equal the text come from the
// indexes of assets. The others begin with each word: of the word that the fewest rows
// match these are visited. Whether such an asset has the other words, too, their rows say,
// as long as they are not many times as many, and else, of each that may still be among the
// first, the asset's row. So it costs by the rows of the rarest word, which are charged
// before they are visited, and keeps no more of them than are sorted without a place.
func (w *work) search(s *snapshot.Snapshot, q *query.Query) error {
	defer w.settle()
	w.entries = w.entries[:0]
	if !utf8.Valid(q.Text) {
		return nil // a part of a letter is the beginning of none
	}
	if err := w.budget.Check(); err != nil {
		return err
	}
	if !q.Loose {
		if err := w.searchSame(s, q); err != nil {
			return err
		}
	}
	if len(w.entries) < maxFound {
		if err := w.searchWords(s, q); err != nil {
			return err
		}
	}
	byID := s.View(query.Assets, query.SortID)
	for _, e := range w.entries {
		shard, row, ok, err := w.find(&w.rows, byID, e.id)
		if err != nil {
			return err
		}
		if !ok {
			return errShort
		}
		w.append(shard, row, row+1)
	}
	return nil
}

// searchSame finds the assets whose symbol, name or slug equals the text.
func (w *work) searchSame(s *snapshot.Snapshot, q *query.Query) error {
	var same [len(sameAs)]wordRange
	rows := 0
	for i, as := range sameAs {
		var err error
		if same[i], err = w.starting(s.View(query.Assets, as.sort), q.Text, true); err != nil {
			return err
		}
		rows += same[i].rows()
	}
	if err := w.charge(rows); err != nil {
		return err
	}
	for i, as := range sameAs {
		if err := w.visit(s, q, s.View(query.Assets, as.sort), same[i], as.class, false); err != nil {
			return err
		}
	}
	return nil
}

// loosen has q ask for its words alone, so that queries that differ in blanks and in the
// order of words are one, unless the whole of q is the symbol, name or slug of an asset.
func (w *work) loosen(s *snapshot.Snapshot, q *query.Query) error {
	if q.Endpoint != query.Search || q.Loose || !q.CanLoosen() || s == nil || s.View(query.Search, query.SortWord) == nil || !utf8.Valid(q.Text) {
		return nil
	}
	for _, as := range sameAs {
		same, err := w.starting(s.View(query.Assets, as.sort), q.Text, true)
		if err != nil || same.rows() > 0 {
			return err
		}
	}
	q.Loosen()
	return nil
}

// charge has rows paid for before they are visited.
func (w *work) charge(rows int) error {
	if w.request != nil && !w.request.Bill.Visit(rows) {
		return ErrLimited
	}
	return nil
}

// settle tells what was visited: the rows that were come upon, also before an error, and
// all rows of each shard that was not in memory and had to be read.
func (w *work) settle() {
	if w.request != nil {
		w.request.Bill.Settle(w.searched + w.budget.Read)
	}
	w.searched, w.budget.Read = 0, 0
}

func (w *work) searchWords(s *snapshot.Snapshot, q *query.Query) error {
	views := [searched]*snapshot.View{
		inWords:   s.View(query.Search, query.SortWord),
		inSymbols: s.View(query.Assets, query.SortSymbol),
		inSlugs:   s.View(query.Assets, query.SortSlug),
	}
	rarest := 0
	for i, word := range q.Words {
		r := &w.ranges[i]
		r.rows = 0
		whole := utf8.RuneCount(word) == 1
		for j, v := range views {
			var err error
			if r.in[j], err = w.starting(v, word, whole); err != nil {
				return err
			}
			r.rows += r.in[j].rows()
		}
		if r.rows == 0 {
			return nil
		}
		if r.rows < w.ranges[rarest].rows {
			rarest = i
		}
	}
	if err := w.charge(w.ranges[rarest].rows); err != nil {
		return err
	}
	if w.ranges[rarest].rows > largeSort {
		if err := w.enter(limit.LargeSort); err != nil {
			return err
		}
		defer w.leavePlace(limit.LargeSort)
	}
	if some, err := w.meet(views, q, rarest); err != nil || !some {
		return err
	}
	for j, v := range views {
		if err := w.visit(s, q, v, w.ranges[rarest].in[j], sameStart, true); err != nil {
			return err
		}
	}
	return nil
}

const (
	// leastMet is the number of rows from which on those of other words are gone through:
	// fewer are looked up one by one.
	leastMet = 32
	// worthMeeting is how many rows of another word are gone through rather than one asset
	// looked up for it: the rows stand side by side, the asset anywhere in memory.
	worthMeeting = 32
)

// meet finds out which assets of the rarest word have others, too, from the rows of those
// words, where that costs less than to look up each asset. It sets w.known to the words
// that are then known, and reports whether there may be an asset that has all.
func (w *work) meet(views [searched]*snapshot.View, q *query.Query, rarest int) (some bool, err error) {
	w.known = 1 << rarest
	left := w.ranges[rarest].rows
	w.met.reset(0)
	if left < leastMet || left > largeSort || len(q.Words) == 1 {
		return true, nil
	}
	var order [query.MaxWords]int
	others := order[:0]
	for i := range q.Words {
		if i != rarest {
			others = append(others, i)
		}
	}
	slices.SortFunc(others, func(a, b int) int { return w.ranges[a].rows - w.ranges[b].rows })
	if w.ranges[others[0]].rows > worthMeeting*left {
		return true, nil
	}
	w.met.reset(left)
	if err := w.eachID(views, rarest, func(id uint64) { w.met.add(id, w.known) }); err != nil {
		return false, err
	}
	for _, i := range others {
		if w.ranges[i].rows > worthMeeting*left {
			break
		}
		left = 0
		if err := w.eachID(views, i, func(id uint64) { left += w.met.raise(id, w.known, 1<<i) }); err != nil || left == 0 {
			return false, err
		}
		w.known |= 1 << i
	}
	return true, nil
}

// eachID calls f with the ids of a word's rows.
func (w *work) eachID(views [searched]*snapshot.View, word int, f func(id uint64)) error {
	for j, v := range views {
		err := w.eachShard(v, w.ranges[word].in[j], func(shard *artifacts.Shard, from, to int) error {
			w.visited += to - from
			for i := from; i < to; i++ {
				f(shard.ID(i))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachShard calls f with the shards that have the rows of r, and which of theirs these are.
func (w *work) eachShard(v *snapshot.View, r wordRange, f func(shard *artifacts.Shard, from, to int) error) error {
	for row := r.start; row < r.end; {
		shard, err := w.at(v, row/v.PerShard())
		if err != nil {
			return err
		}
		i := row % v.PerShard()
		end := min(shard.Len(), i+r.end-row)
		if end <= i {
			return errShort
		}
		row += end - i
		if err := w.budget.Check(); err != nil {
			return err
		}
		if err := f(shard, i, end); err != nil {
			return err
		}
	}
	return nil
}

// starting returns where the keys of v stand that begin with start, or are whole it.
func (w *work) starting(v *snapshot.View, start []byte, whole bool) (r wordRange, err error) {
	if r.start, r.firstRun, err = v.FindBound(start, &w.budget); err != nil {
		return r, err
	}
	// What is behind them begins with the next key there could be. A byte of UTF-8 is
	// below 0xff.
	w.text = append(w.text[:0], start...)
	if whole {
		w.text = append(w.text, 0)
	} else {
		w.text[len(w.text)-1]++
	}
	r.end, r.endRun, err = v.FindBound(w.text, &w.budget)
	w.shards += 2
	return r, err
}

// visit adds the assets of the rows of v to those found, in a class: all of them, or with
// words those that have all words.
func (w *work) visit(s *snapshot.Snapshot, q *query.Query, v *snapshot.View, r wordRange, class uint64, words bool) error {
	ranked, rank := s.View(query.Assets, query.SortRank), int(v.Columns[query.SortRank])
	return w.eachShard(v, r, func(shard *artifacts.Shard, from, to int) error {
		w.visited += to - from
		w.searched += to - from
		for i := from; i < to; i++ {
			e := entry{id: shard.ID(i)}
			if words && !w.met.has(e.id, w.known) {
				continue
			}
			if rank >= 0 {
				e.key = place(ranked, shard.Ord(rank, i), false)
			} else if e.key = uint64(artifacts.SearchRank(shard.Row(i))); e.key == 0 {
				e.key = uint64(ranked.Rows - ranked.Last)
			} else {
				e.key--
			}
			e.key |= class
			at, ok := w.among(e)
			if !ok {
				continue
			}
			if words && bits.OnesCount8(w.known) < len(q.Words) {
				if ok, err := w.hasOthers(s, q, e.id); err != nil {
					return err
				} else if !ok {
					continue
				}
			}
			if len(w.entries) == maxFound {
				w.entries = w.entries[:maxFound-1]
			}
			w.entries = slices.Insert(w.entries, at, e)
		}
		return nil
	})
}

// among returns which of those found e would be; not ok when it is there already, or
// would not be among the first.
func (w *work) among(e entry) (at int, ok bool) {
	if len(w.entries) == maxFound && compareEntries(e, w.entries[maxFound-1]) > 0 {
		return 0, false
	}
	if slices.ContainsFunc(w.entries, func(f entry) bool { return f.id == e.id }) {
		return 0, false
	}
	at, _ = slices.BinarySearchFunc(w.entries, e, compareEntries)
	return at, true
}

// hasOthers reports whether an asset has all words but those that are known.
func (w *work) hasOthers(s *snapshot.Snapshot, q *query.Query, id uint64) (bool, error) {
	v := s.View(query.Assets, query.SortID)
	shard, row, ok, err := w.find(&w.rows, v, id)
	if err != nil {
		return false, err
	}
	if !ok {
		return false, errShort
	}
	symbol, slug := int(shard.Ord(int(v.Columns[query.SortSymbol]), row)), int(shard.Ord(int(v.Columns[query.SortSlug]), row))
	w.text = w.text[:0]
	for i, word := range q.Words {
		if r := &w.ranges[i].in; w.known>>i&1 != 0 || r[inSymbols].hasRun(symbol) || r[inSlugs].hasRun(slug) {
			continue
		}
		if len(w.text) == 0 {
			if err := w.splitName(shard.Row(row)); err != nil {
				return false, err
			}
		}
		if !hasWord(w.text, word) {
			return false, nil
		}
	}
	return true, nil
}

func (r wordRange) hasRun(run int) bool { return r.firstRun <= run && run < r.endRun }

// splitName writes the folded words of the name in an asset's row into w.text, with a
// blank before and behind each.
func (w *work) splitName(row []byte) error {
	start := bytes.Index(row, nameKey)
	if start < 0 {
		return errShort
	}
	w.name = w.name[:0]
	for rest := row[start+len(nameKey)+1:]; ; {
		end := bytes.IndexAny(rest, `"\`)
		if end < 0 || end+1 == len(rest) {
			return errShort
		}
		w.name = append(w.name, rest[:end]...)
		if rest[end] == '"' {
			break
		}
		// What is escaped is neither a letter nor a digit, whatever it is.
		w.name = append(w.name, ' ')
		if rest = rest[end+1:]; rest[0] == 'u' {
			rest = rest[min(len("u0000"), len(rest)):]
		} else {
			rest = rest[1:]
		}
	}
	w.text = append(w.text, ' ')
	for word, rest := artifacts.NextWord(w.name); word != nil; word, rest = artifacts.NextWord(rest) {
		w.text = append(artifacts.AppendFold(w.text, word), ' ')
	}
	return nil
}

// hasWord reports whether a word among words, with blanks around each, begins with
// start, or is it when start is one letter.
func hasWord(words, start []byte) bool {
	for {
		at := bytes.IndexByte(words, ' ')
		if at < 0 {
			return false
		}
		words = words[at+1:]
		if bytes.HasPrefix(words, start) && (utf8.RuneCount(start) > 1 || bytes.HasPrefix(words[len(start):], blank)) {
			return true
		}
	}
}

var blank = []byte{' '}
