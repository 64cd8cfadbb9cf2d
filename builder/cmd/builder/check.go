package main

import (
	"fmt"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/logs"
	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

type checkCmd struct {
	Source string `required:"" placeholder:"SOURCE" help:"Where the feed comes from."`
	JSON   bool   `help:"Print the report as one JSON object."`
}

// maxListed is the maximum number of rows set aside, and of warnings, that the command check lists
// for each file. The totals include the rest.
const maxListed = 1000

// checkReport describes the problems of a feed.
type checkReport struct {
	// Ready is false if a row is set aside, or if the feed cannot be built at all. In the latter
	// case Error says why.
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"`
	text  string // Error, formatted for people
	*feedReport
	Problems []problem `json:"problems"`
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
	r := &checkReport{feedReport: newFeedReport(), Problems: []problem{}}
	p := e.progress()
	err = r.read(e, src, p)
	p.close()
	switch {
	case e.ctx.Err() != nil:
		return e.ctx.Err()
	case err != nil:
		r.Error, r.text = err.Error(), logs.Text(err)
	}
	r.Ready = err == nil && r.rejected() == 0
	if err := e.show(r, nil, c.JSON, func() { r.print(e) }); err != nil || r.Ready {
		return err
	}
	return cmdline.Status(cmdline.Failed)
}

func (r *checkReport) read(e *env, src source.Source, p *progress) error {
	var rows *source.Report
	err := source.Use(e.ctx, src, time.Time{}, func(files source.Files) (err error) {
		r.feedReport, rows, err = e.readFeed(files, p)
		return err
	})
	if rows == nil {
		return err
	}
	if err == nil {
		err = builder.Ahead(r.at.Truncate(artifacts.Step), time.Now())
	}
	for _, f := range rows.Files {
		for _, row := range f.Rejections {
			r.Problems = append(r.Problems, problem{setAside, row})
		}
		for _, w := range f.Warnings {
			r.Problems = append(r.Problems, problem{warning, w})
		}
	}
	for i, c := range []string{"asset", "quote"} {
		switch {
		case err != nil || r.Counts[c+"s"] > 0:
		case rows.Files[i].Rows == 0:
			err = fmt.Errorf("no %s is accepted: %s is missing or has no rows", c, rows.Files[i].Shown)
		default:
			err = fmt.Errorf("no %s is accepted", c)
		}
	}
	return err
}

func (r *checkReport) print(e *env) {
	for _, p := range r.Problems {
		paint := e.paint.Red
		if p.Kind == warning {
			p.Reason = "warning: " + p.Reason
			paint = e.paint.Yellow
		}
		e.print("%s", paint(p.String()))
	}
	if n := r.rejected() + r.Warned - len(r.Problems); n > 0 {
		e.print("and %s", count(n, "more problem"))
	}
	if r.Error != "" {
		for line := range strings.SplitSeq(r.text, "\n") { // one line for each error
			e.print("%s", e.paint.Red(line))
		}
	}
	verdict, paint := "ready", e.paint.Green
	if !r.Ready {
		verdict, paint = "not ready", e.paint.Red
	}
	parts := []string{rowsOf(r.Counts)}
	if n := r.rejected(); n > 0 {
		parts = append(parts, count(n, "row")+" set aside")
	}
	if r.Warned > 0 {
		parts = append(parts, count(r.Warned, "warning"))
	}
	e.print("%s: %s", paint(verdict), strings.Join(parts, ", "))
}

// rowsOf lists the number of rows in each collection.
func rowsOf(counts map[string]int) string {
	parts := []string{count(counts["assets"], "asset"), count(counts["quotes"], "quote")}
	for _, c := range [][2]string{
		{"exchanges", "exchange"}, {"categories", "category"}, {"chains", "chain"}, {"rates", "rate"},
	} {
		if n := counts[c[0]]; n > 0 {
			parts = append(parts, count(n, c[1]))
		}
	}
	return strings.Join(parts, ", ")
}

func count[T int | int64](n T, what string) string {
	return comma(n) + " " + english.PluralWord(int(n), what, "")
}

func comma[T int | int64](n T) string { return humanize.Comma(int64(n)) }
