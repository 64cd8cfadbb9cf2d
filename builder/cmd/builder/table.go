package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table prints rows of cells in columns.
type table struct {
	rows   []string
	paints []func(string) string
}

// row adds a row. If paint is not nil, it colors the whole row.
func (t *table) row(paint func(string) string, cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = strings.ReplaceAll(fmt.Sprint(c), "\n", "; ")
	}
	t.rows, t.paints = append(t.rows, strings.Join(texts, "\t")), append(t.paints, paint)
}

// print writes the table. It adds the colors last, since tabwriter would count their codes as
// characters of a column.
func (t *table) print(to io.Writer) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(w, row)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, paint := range t.paints {
		line, _ := text.ReadString('\n')
		if line = strings.TrimRight(line, " \n"); paint != nil {
			line = paint(line)
		}
		if _, err := fmt.Fprintln(to, line); err != nil {
			return err
		}
	}
	return nil
}
