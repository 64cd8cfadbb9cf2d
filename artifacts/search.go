package artifacts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// SearchCollection and SearchSort name the view of the words in assets' names, which searches use
// (see the package documentation).
const (
	SearchCollection = "search"
	SearchSort       = "word"
)

// NextWord returns the first word of name, unchanged, and the rest of name after it. word is nil if
// there is none. A word is a maximal sequence of Unicode letters (L) and decimal digits (Nd),
// according to the tables of FoldUnicodeVersion. Names must be split before they are folded,
// because the lowest code point that a letter folds to may be a mark.
func NextWord(name []byte) (word, rest []byte) {
	start := -1
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRune(name[i:])
		switch in := unicode.IsLetter(r) || unicode.IsDigit(r); {
		case in && start < 0:
			start = i
		case !in && start >= 0:
			return name[start:i], name[i:]
		}
		i += n
	}
	if start < 0 {
		return nil, nil
	}
	return name[start:], nil
}

const rankField = `,"rank":`

// AppendSearchRow appends the row of an asset in the view of words. A rank of 0 means that the
// asset has no rank.
func AppendSearchRow(dst []byte, id uint64, rank uint32) []byte {
	dst = strconv.AppendUint(append(dst, `{"id":`...), id, 10)
	if rank > 0 {
		dst = strconv.AppendUint(append(dst, rankField...), uint64(rank), 10)
	}
	return append(dst, '}')
}

// SearchRank returns the rank in a row of the view of words, or 0 if it has none.
func SearchRank(row []byte) uint32 {
	var rank, unit uint32 = 0, 1
	i := len(row) - 2
	for ; i > 0 && '0' <= row[i] && row[i] <= '9'; i-- {
		rank += uint32(row[i]-'0') * unit
		unit *= 10
	}
	if !bytes.HasSuffix(row[:i+1], []byte(rankField)) {
		return 0
	}
	return rank
}

// wordSum returns the sum of the hashes of all rows that the view of words must have for the asset
// with this row. It counts each word once. The sum detects mistakes, not forgery.
func wordSum(row []byte) (sum uint64, err error) {
	var asset struct {
		ID   uint64 `json:"id"`
		Rank uint32 `json:"rank"`
		Name string `json:"name"`
	}
	if err := json.Unmarshal(row, &asset); err != nil {
		return 0, fmt.Errorf("row of an asset: %w", err)
	}
	search := AppendSearchRow(nil, asset.ID, asset.Rank)
	seen := map[string]bool{}
	for word, rest := NextWord([]byte(asset.Name)); word != nil; word, rest = NextWord(rest) {
		if folded := Fold(string(word)); !seen[folded] {
			seen[folded] = true
			sum += hashWord([]byte(folded), search)
		}
	}
	return sum, nil
}

// hashWord hashes a row of the view of words together with its key.
func hashWord(key, row []byte) uint64 { return xxh3.HashSeed(row, xxh3.Hash(key)) }
