package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/cmdline"
	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

type checkCmd struct {
	Source string `required:"" placeholder:"SOURCE" help:"Where the feed comes from."`
	JSON   bool   `help:"Print the report as one JSON object."`
}

// maxListed bounds the rows set aside and the warnings of each file that check lists. All are counted.
const maxListed = 1000

// checkReport is what check finds in a feed.
type checkReport struct {
	// Ready is false if a row is set aside, or the feed cannot be built at all.
	Ready bool `json:"ready"`
	// Error says why the feed cannot be built.
	Error    string `json:"error,omitempty"`
	Database string `json:"database,omitempty"`
	Time     string `json:"time,omitempty"`
	// Counts are the rows that a build accepts, by collection; Rejected those that it sets aside,
	// by file; Warned what it ignores.
	Counts   map[string]int `json:"counts"`
	Rejected map[string]int `json:"rejected"`
	Warned   int            `json:"warned"`
	Problems []problem      `json:"problems"`
}

// problem is a row set aside, or a warning.
type problem struct {
	Kind string `json:"kind"`
	source.Problem
}

const (
	setAside = "set aside"
	warning  = "warning"
)

func (c *checkCmd) Run(e *env) error {
	src, err := e.openSource(c.Source)
	if err != nil {
		return err
	}
	r := &checkReport{Counts: map[string]int{}, Rejected: map[string]int{}, Problems: []problem{}}
	p := e.progress()
	rejected, err := r.read(e, src, p)
	p.close()
	if e.ctx.Err() != nil {
		return e.ctx.Err()
	}
	if err != nil {
		r.Error = err.Error()
	}
	r.Ready = err == nil && rejected == 0
	if c.JSON {
		err = e.printJSON(r)
	} else {
		r.print(e, rejected)
		err = nil
	}
	if err == nil && !r.Ready {
		return cmdline.Status(cmdline.Failed)
	}
	return err
}

// read reads the feed as a build into an empty store does, and returns how many rows are set aside.
func (r *checkReport) read(e *env, src source.Source, p *progress) (rejected int, err error) {
	files, err := src.Files(e.ctx, time.Time{})
	if err != nil {
		return 0, err
	}
	feed, rows, err := source.Read(e.ctx, files, source.ReadOptions{Progress: p.file("check "), Listed: maxListed})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", src, err)
	}
	r.Database, r.Time = feed.Database, feed.Time.UTC().Format(time.RFC3339)
	for _, f := range rows.Files {
		r.Counts[strings.TrimSuffix(f.Name, ".ndjson")] = f.Accepted
		r.Rejected[f.Name] = f.Rejected
		r.Warned += f.Warned
		rejected += f.Rejected
		for _, row := range f.Rejections {
			r.Problems = append(r.Problems, problem{setAside, row})
		}
		for _, w := range f.Warnings {
			r.Problems = append(r.Problems, problem{warning, w})
		}
	}
	switch {
	case len(feed.Assets) == 0:
		err = errors.New("no asset is accepted")
	case len(feed.Quotes) == 0:
		err = errors.New("no quote is accepted")
	}
	return rejected, err
}

func (r *checkReport) print(e *env, rejected int) {
	for _, p := range r.Problems {
		if p.Kind == warning {
			p.Reason = "warning: " + p.Reason
		}
		e.print("%s", p)
	}
	if n := rejected + r.Warned - len(r.Problems); n > 0 {
		e.print("and %s more problems", humanize.Comma(int64(n)))
	}
	if r.Error != "" {
		e.print("%s", r.Error)
	}
	verdict := "ready"
	if !r.Ready {
		verdict = "not ready"
	}
	parts := []string{count(r.Counts["assets"], "asset"), count(r.Counts["quotes"], "quote")}
	for _, c := range [][2]string{{"exchanges", "exchange"}, {"categories", "category"}, {"chains", "chain"}} {
		if n := r.Counts[c[0]]; n > 0 {
			parts = append(parts, count(n, c[1]))
		}
	}
	if rejected > 0 {
		parts = append(parts, count(rejected, "row")+" set aside")
	}
	if r.Warned > 0 {
		parts = append(parts, count(r.Warned, "warning"))
	}
	e.print("%s: %s", verdict, strings.Join(parts, ", "))
}

func count(n int, what string) string {
	return humanize.Comma(int64(n)) + " " + english.PluralWord(n, what, "")
}

// warn logs what a build ignored: the first of all.
func (e *env) warn(first []string, all int) {
	for _, w := range first {
		e.log.Warn("ignored", "what", w)
	}
	if n := all - len(first); n > 0 {
		e.log.Warn("more is ignored: builder check lists it", "more", n)
	}
}
