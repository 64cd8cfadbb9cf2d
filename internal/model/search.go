package model

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// search is the endpoint that finds assets by text.
const search = "search"

const (
	maxText  = 64 // maximum length of the parameter "q", in bytes
	maxWords = 8
	maxFound = 20 // items in an answer
)

// searchWords returns the words of text, which are separated by spaces.
func searchWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' })
}

// nameWords returns the words of a name, each folded.
func nameWords(name string) []string {
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.Nd) })
	for i, w := range words {
		words[i] = Fold(w)
	}
	return words
}

// Search returns the assets that match a folded text, in the order of INTERFACE.md, "Search".
func Search(text string, among []*Row) []*Row {
	if !utf8.ValidString(text) {
		return nil
	}
	type match struct {
		*Row
		class int
	}
	words := searchWords(text)
	var found []match
	for _, r := range among {
		switch {
		case r.Symbol == text:
			found = append(found, match{r, 0})
		case r.Name == text || r.Slug == text:
			found = append(found, match{r, 1})
		case !slices.ContainsFunc(words, func(w string) bool { return !r.has(w) }):
			found = append(found, match{r, 2})
		}
	}
	slices.SortFunc(found, func(a, b match) int {
		return cmp.Or(cmp.Compare(a.class, b.class), Order("rank", false)(a.Row, b.Row))
	})
	var rows []*Row
	for _, m := range found[:min(len(found), maxFound)] {
		rows = append(rows, m.Row)
	}
	return rows
}

// has reports whether word is a prefix of a word in the name, of the symbol or of the slug. A
// one-character word must equal one of them.
func (r *Row) has(word string) bool {
	return slices.ContainsFunc(slices.Concat(r.words, []string{r.Symbol, r.Slug}), func(of string) bool {
		return of == word || utf8.RuneCountInString(word) > 1 && strings.HasPrefix(of, word)
	})
}
