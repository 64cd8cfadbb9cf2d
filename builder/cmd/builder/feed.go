package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/cmdline"
)

type feedCmd struct {
	Source string         `required:"" placeholder:"SOURCE" help:"Where the feed comes from."`
	Out    string         `required:"" placeholder:"DIR" help:"Folder for the feed. It must be missing or empty."`
	Time   cmdline.Moment `placeholder:"T" help:"Time for which to ask the source, by default its present. Only sim: has other times."`
	JSON   bool           `help:"Print the report as one JSON object."`
}

func (c *feedCmd) Run(e *env) error {
	src, err := e.openSource(c.Source)
	if err != nil {
		return err
	}
	var report *feedReport
	p := e.progress()
	err = newFolder(c.Out, func(hidden string) error {
		return source.Use(e.ctx, src, c.Time.Time, func(files source.Files) error {
			err := source.Write(e.ctx, hidden, files, p.file("write "))
			if err != nil {
				return fmt.Errorf("%s: %w", src, err)
			}
			report, _, err = e.readFeed(source.FS(os.DirFS(hidden)), p)
			if live, ok := files.(source.Provenance); err == nil && ok {
				report.Parts = live.Parts()
			}
			return err
		})
	})
	p.close()
	if err != nil {
		return err
	}
	return e.printFeed(report, "feed", c.Out, c.JSON)
}

type recordCmd struct {
	Source string `required:"" placeholder:"SOURCE" help:"What to record, with its options."`
	Out    string `required:"" placeholder:"DIR" help:"Folder for the recording. It must be missing or empty."`
	JSON   bool   `help:"Print the report as one JSON object."`
}

func (c *recordCmd) Run(e *env) error {
	src, err := e.openSource(c.Source)
	if err != nil {
		return err
	}
	recorder, ok := src.(*provider.Source)
	if !ok {
		return (&feedCmd{Source: c.Source, Out: c.Out, JSON: c.JSON}).Run(e)
	}
	scheme, _, _ := strings.Cut(c.Source, ":")
	var report *feedReport
	p := e.progress()
	err = newFolder(c.Out, func(hidden string) error {
		if err := recorder.Record(e.ctx, hidden); err != nil {
			return err
		}
		// Check now that a build from the recording will not fail.
		replay, err := e.openSource(scheme + ":?replay=" + url.QueryEscape(hidden))
		if err != nil {
			return err
		}
		files, err := replay.Files(e.ctx, time.Time{})
		if err != nil {
			return err
		}
		report, _, err = e.readFeed(files, p)
		return err
	})
	p.close()
	if err != nil {
		return err
	}
	return e.printFeed(report, "recording", c.Out, c.JSON)
}

// feedReport describes a feed.
type feedReport struct {
	// Folder is the folder of the feed or the recording.
	Folder   string `json:"folder,omitempty"`
	Database string `json:"database,omitempty"`
	Time     string `json:"time,omitempty"`
	at       time.Time
	// Counts holds the number of rows that a build would accept, by collection. Rejected holds the
	// number of rows that it would set aside, by file, and Rejections describes the first of them.
	// Warned is the number of values that it would ignore.
	Counts     map[string]int `json:"counts"`
	Rejected   map[string]int `json:"rejected"`
	Rejections []string       `json:"rejections"`
	Warned     int            `json:"warned"`
	// Parts say where the parts of a live source's feed came from.
	Parts []source.Part `json:"parts,omitempty"`
}

// maxShownRejections limits the length of feedReport.Rejections.
const maxShownRejections = 20

func newFeedReport() *feedReport {
	return &feedReport{Counts: map[string]int{}, Rejected: map[string]int{}, Rejections: []string{}}
}

// readFeed reads a feed as a build into an empty store does. If it returns an error, the reports
// describe the part that it could read.
func (e *env) readFeed(files source.Files, p *progress) (*feedReport, *source.Report, error) {
	feed, rows, err := source.Read(e.ctx, files, source.ReadOptions{
		Progress: p.file("check "), Listed: maxListed, GoOn: true,
	})
	r := newFeedReport()
	if err == nil {
		r.Database, r.at = feed.Database, feed.Time.UTC()
		r.Time = r.at.Format(time.RFC3339)
	}
	r.Parts = rows.Parts
	for _, f := range rows.Files {
		r.Counts[strings.TrimSuffix(f.Name, filepath.Ext(f.Name))] = f.Accepted
		r.Rejected[f.Name] = f.Rejected
		r.Warned += f.Warned
		for _, row := range f.Rejections[:min(len(f.Rejections), maxShownRejections-len(r.Rejections))] {
			r.Rejections = append(r.Rejections, row.String())
		}
	}
	return r, rows, err
}

func (e *env) printFeed(r *feedReport, kind, dir string, asJSON bool) error {
	r.Folder = dir
	if asJSON {
		return e.printJSON(r)
	}
	for _, reason := range r.Rejections {
		e.log.Warn("a build will set this row aside", "row", reason)
	}
	for _, part := range r.Parts {
		if part.Reason != "" {
			e.log.Info("part", "part", part.Name, "state", part.State, "reason", part.Reason)
		}
	}
	e.print("%s of %s at %s is in %s: %s; a build will set %s aside", kind, r.Database, r.Time, dir, rowsOf(r.Counts),
		count(r.rejected(), "row"))
	return nil
}

// rejected returns the number of rows set aside in all files.
func (r *feedReport) rejected() (n int) {
	for _, f := range r.Rejected {
		n += f
	}
	return n
}
