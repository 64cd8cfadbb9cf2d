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

// SearchCollection and SearchSort name the view of the names' words (see the
// package documentation), by which assets are searched.
const (
	SearchCollection = "search"
	SearchSort       = "word"
)

// NextWord returns the first word of a name, as it stands there, and what is behind
// it; nil when there is none. A word is a maximal run of Unicode L and Nd, by the
// tables of FoldUnicodeVersion. A name is cut into words before it is folded, since
// the lowest code point that a letter folds to may be a mark.
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

// AppendSearchRow appends the row of an asset in the view of words; rank 0: none.
func AppendSearchRow(dst []byte, id uint64, rank uint32) []byte {
	dst = strconv.AppendUint(append(dst, `{"id":`...), id, 10)
	if rank > 0 {
		dst = strconv.AppendUint(append(dst, rankField...), uint64(rank), 10)
	}
	return append(dst, '}')
}

// SearchRank returns the rank in a row of the view of words; 0: none.
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

// wordSum stands for the rows of the view of words that an asset's row needs: the
// sum of their hashes, each word once. Like pair it is against mistakes.
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

// hashWord hashes a row of the view of words and its key.
func hashWord(key, row []byte) uint64 { return xxh3.HashSeed(row, xxh3.Hash(key)) }
