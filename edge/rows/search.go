package rows

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

// The views that are searched by prefix.
const (
	inWords = iota
	inSymbols
	inSlugs
	searched
)

// maxFound is the largest number of items in an answer of /search.
const maxFound = 20

// The classes of matches, best first. Within a class, assets are sorted by rank, then by id.
const (
	sameSymbol = iota << 32
	sameName   // or slug
	sameStart
)

// wordRange is the range of rows, and of runs, whose keys match a word in a view.
type wordRange struct{ start, end, firstRun, endRun int }

func (r wordRange) rows() int { return r.end - r.start }

// wordRanges contains the ranges of a word in the searched views, and their total number of rows.
type wordRanges struct {
	in   [searched]wordRange
	rows int
}

// sameAs lists the views whose keys are compared with the whole text.
var sameAs = [...]struct {
	sort  query.Sort
	class uint64
}{{query.SortSymbol, sameSymbol}, {query.SortName, sameName}, {query.SortSlug, sameName}}

// wordSearch is the state of a search.
type wordSearch struct {
	ranges     [query.MaxWords]wordRanges
	text, name []byte
	met        metTable
	known      uint8 // the words that the table met covers; only the rarest word if the table is not in use
}

// search appends the items that match q. First come the assets whose symbol, name or slug equals the text.
// Then come the assets for which each word of the query begins the symbol, the slug or a word of the name.
// search visits the rows of the rarest word. If the other words have few rows, it determines from them
// which of these assets match all words. Otherwise it looks up the assets that could be among the first
// results, and checks their names. So the cost is proportional to the number of rows of the rarest word.
func (f *Finder) search(s *snapshot.Snapshot, q *query.Query) error {
	f.entries = f.entries[:0]
	if !utf8.Valid(q.Text) {
		return nil // an incomplete character is a prefix of nothing
	}
	if err := f.Budget.Check(); err != nil {
		return err
	}
	if err := f.searchSame(s, q); err != nil {
		return err
	}
	if len(f.entries) < maxFound {
		if err := f.searchWords(s, q); err != nil {
			return err
		}
	}
	byID := s.View(query.Assets, query.SortID)
	for _, e := range f.entries {
		shard, row, ok, err := f.find(&f.rows, byID, e.id)
		if err != nil {
			return err
		}
		if !ok {
			return errShort
		}
		f.append(shard, row, row+1)
	}
	return nil
}

// searchSame finds the assets whose symbol, name or slug equals the text.
func (f *Finder) searchSame(s *snapshot.Snapshot, q *query.Query) error {
	var same [len(sameAs)]wordRange
	for i, as := range sameAs {
		var err error
		if same[i], err = f.starting(s.View(query.Assets, as.sort), q.Text, true); err != nil {
			return err
		}
	}
	for i, as := range sameAs {
		if err := f.visit(s, q, s.View(query.Assets, as.sort), same[i], as.class, false); err != nil {
			return err
		}
	}
	return nil
}

func (f *Finder) searchWords(s *snapshot.Snapshot, q *query.Query) error {
	views := [searched]*snapshot.View{
		inWords:   s.View(query.Search, query.SortWord),
		inSymbols: s.View(query.Assets, query.SortSymbol),
		inSlugs:   s.View(query.Assets, query.SortSlug),
	}
	rarest := 0
	for i, word := range q.Words {
		r := &f.words.ranges[i]
		r.rows = 0
		whole := utf8.RuneCount(word) == 1
		for j, v := range views {
			var err error
			if r.in[j], err = f.starting(v, word, whole); err != nil {
				return err
			}
			r.rows += r.in[j].rows()
		}
		if r.rows == 0 {
			return nil
		}
		if r.rows < f.words.ranges[rarest].rows {
			rarest = i
		}
	}
	if f.words.ranges[rarest].rows > largeSort {
		if err := f.enter(limit.LargeSort); err != nil {
			return err
		}
		defer f.leavePlace(limit.LargeSort)
	}
	if some, err := f.meet(views, q, rarest); err != nil || !some {
		return err
	}
	for j, v := range views {
		if err := f.visit(s, q, v, f.words.ranges[rarest].in[j], sameStart, true); err != nil {
			return err
		}
	}
	return nil
}

const (
	// leastMet is the smallest number of rows of the rarest word for which scanning the rows of other
	// words pays off. If there are fewer, the assets are looked up one by one.
	leastMet = 32
	// worthMeeting is how many rows of another word can be read at the cost of looking up one asset. Rows are
	// adjacent in memory, and assets are not.
	worthMeeting = 32
)

// meet determines, from the rows of the other words, which of the rarest word's assets also match those
// words. It reads only the words for which that costs less than looking up each asset. It sets
// f.words.known to the words covered, and reports whether any asset may match all words.
func (f *Finder) meet(views [searched]*snapshot.View, q *query.Query, rarest int) (some bool, err error) {
	f.words.known = 1 << rarest
	left := f.words.ranges[rarest].rows
	f.words.met.reset(0)
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
	slices.SortFunc(others, func(a, b int) int { return f.words.ranges[a].rows - f.words.ranges[b].rows })
	if f.words.ranges[others[0]].rows > worthMeeting*left {
		return true, nil
	}
	f.words.met.reset(left)
	if err := f.eachID(views, rarest, func(id uint64) { f.words.met.add(id, f.words.known) }); err != nil {
		return false, err
	}
	for _, i := range others {
		if f.words.ranges[i].rows > worthMeeting*left {
			break
		}
		left = 0
		err := f.eachID(views, i, func(id uint64) { left += f.words.met.raise(id, f.words.known, 1<<i) })
		if err != nil || left == 0 {
			return false, err
		}
		f.words.known |= 1 << i
	}
	return true, nil
}

// eachID calls visitID with the asset id of each row of a word.
func (f *Finder) eachID(views [searched]*snapshot.View, word int, visitID func(id uint64)) error {
	for j, v := range views {
		err := f.eachShard(v, f.words.ranges[word].in[j], func(shard *artifacts.Shard, from, to int) error {
			f.Rows += to - from
			for i := from; i < to; i++ {
				visitID(shard.ID(i))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachShard calls visitShard with each shard that contains rows of r, and with the range of these rows in the
// shard.
func (f *Finder) eachShard(
	v *snapshot.View, r wordRange, visitShard func(shard *artifacts.Shard, from, to int) error,
) error {
	for row := r.start; row < r.end; {
		shard, err := f.at(v, row/v.PerShard())
		if err != nil {
			return err
		}
		i := row % v.PerShard()
		end := min(shard.Len(), i+r.end-row)
		if end <= i {
			return errShort
		}
		row += end - i
		if err := f.Budget.Check(); err != nil {
			return err
		}
		if err := visitShard(shard, i, end); err != nil {
			return err
		}
	}
	return nil
}

// starting returns the range of the keys of v that begin with prefix or, if whole is set, equal it.
func (f *Finder) starting(v *snapshot.View, prefix []byte, whole bool) (r wordRange, err error) {
	if r.start, r.firstRun, err = v.FindBound(prefix, &f.Budget); err != nil {
		return r, err
	}
	// The range ends before the next possible key. All bytes of UTF-8 are less than 0xff.
	f.words.text = append(f.words.text[:0], prefix...)
	if whole {
		f.words.text = append(f.words.text, 0)
	} else {
		f.words.text[len(f.words.text)-1]++
	}
	r.end, r.endRun, err = v.FindBound(f.words.text, &f.Budget)
	f.Shards += 2
	return r, err
}

// visit adds the assets in the rows r of v to the entries, with the given class. If allWords is set, it adds
// only assets that match all words of the query.
func (f *Finder) visit(
	s *snapshot.Snapshot, q *query.Query, v *snapshot.View, r wordRange, class uint64, allWords bool,
) error {
	ranked, rank := s.View(query.Assets, query.SortRank), int(v.Columns[query.SortRank])
	return f.eachShard(v, r, func(shard *artifacts.Shard, from, to int) error {
		f.Rows += to - from
		f.Visited += to - from
		for i := from; i < to; i++ {
			e := entry{id: shard.ID(i)}
			if allWords && !f.words.met.has(e.id, f.words.known) {
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
			at, ok := f.among(e)
			if !ok {
				continue
			}
			if allWords && bits.OnesCount8(f.words.known) < len(q.Words) {
				if ok, err := f.hasOthers(s, q, e.id); err != nil {
					return err
				} else if !ok {
					continue
				}
			}
			if len(f.entries) == maxFound {
				f.entries = f.entries[:maxFound-1]
			}
			f.entries = slices.Insert(f.entries, at, e)
		}
		return nil
	})
}

// among returns the index at which to insert e into the entries. ok is false if the asset is already in them,
// or if e would not be among the first maxFound.
func (f *Finder) among(e entry) (at int, ok bool) {
	if len(f.entries) == maxFound && compareEntries(e, f.entries[maxFound-1]) > 0 {
		return 0, false
	}
	if slices.ContainsFunc(f.entries, func(f entry) bool { return f.id == e.id }) {
		return 0, false
	}
	at, _ = slices.BinarySearchFunc(f.entries, e, compareEntries)
	return at, true
}

// hasOthers reports whether an asset matches all words other than the known ones.
func (f *Finder) hasOthers(s *snapshot.Snapshot, q *query.Query, id uint64) (bool, error) {
	v := s.View(query.Assets, query.SortID)
	shard, row, ok, err := f.find(&f.rows, v, id)
	if err != nil {
		return false, err
	}
	if !ok {
		return false, errShort
	}
	symbol, slug := int(shard.Ord(int(v.Columns[query.SortSymbol]), row)),
		int(shard.Ord(int(v.Columns[query.SortSlug]), row))
	f.words.text = f.words.text[:0]
	for i, word := range q.Words {
		r := &f.words.ranges[i].in
		if f.words.known>>i&1 != 0 || r[inSymbols].hasRun(symbol) || r[inSlugs].hasRun(slug) {
			continue
		}
		if len(f.words.text) == 0 {
			if err := f.splitName(shard.Row(row)); err != nil {
				return false, err
			}
		}
		if !hasWord(f.words.text, word) {
			return false, nil
		}
	}
	return true, nil
}

func (r wordRange) hasRun(run int) bool { return r.firstRun <= run && run < r.endRun }

// splitName writes the folded words of an asset's name to f.words.text, with a space before and after each.
func (f *Finder) splitName(row []byte) error {
	start := bytes.Index(row, nameKey)
	if start < 0 {
		return errShort
	}
	f.words.name = f.words.name[:0]
	for rest := row[start+len(nameKey)+1:]; ; {
		end := bytes.IndexAny(rest, `"\`)
		if end < 0 || end+1 == len(rest) {
			return errShort
		}
		f.words.name = append(f.words.name, rest[:end]...)
		if rest[end] == '"' {
			break
		}
		// An escaped character is neither a letter nor a digit.
		f.words.name = append(f.words.name, ' ')
		if rest = rest[end+1:]; rest[0] == 'u' {
			rest = rest[min(len("u0000"), len(rest)):]
		} else {
			rest = rest[1:]
		}
	}
	f.words.text = append(f.words.text, ' ')
	for word, rest := artifacts.NextWord(f.words.name); word != nil; word, rest = artifacts.NextWord(rest) {
		f.words.text = append(artifacts.AppendFold(f.words.text, word), ' ')
	}
	return nil
}

// hasWord reports whether a word in words begins with prefix. If prefix is a single character, the word must
// equal it. Each word in words has a space before and after it.
func hasWord(words, prefix []byte) bool {
	for {
		at := bytes.IndexByte(words, ' ')
		if at < 0 {
			return false
		}
		words = words[at+1:]
		if bytes.HasPrefix(words, prefix) &&
			(utf8.RuneCount(prefix) > 1 || bytes.HasPrefix(words[len(prefix):], blank)) {
			return true
		}
	}
}

var blank = []byte{' '}
