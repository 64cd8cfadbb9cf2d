package main

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/cmdline"
)

const noSnapshot = "the store holds no snapshot yet"

type changeCmd struct {
	storeFlag
	JSON bool `help:"Print the record as one JSON object, or null if there is no snapshot."`
}

func (c *changeCmd) Run(e *env) error {
	store, err := c.openStore(e)
	if err != nil {
		return err
	}
	change, err := change.Record(e.ctx, store, time.Now)
	return e.show(change, err, c.JSON, func() {
		if change == nil {
			e.print("%s: nothing recorded", noSnapshot)
		} else {
			e.print("%s %% from %s to %s", change.Value, change.Base.Format(time.RFC3339),
				change.Snapshot.Format(time.RFC3339))
		}
	})
}

type verifyCmd struct {
	Store string `placeholder:"STORE" help:"The object store: file:PATH or s3://bucket/prefix?endpoint=URL&region=REGION."`
	keyFlags
	Proof      string `type:"existingfile" placeholder:"FILE" help:"Check this proof instead (see builder prove), with --trust-key and without a store."`
	Checkpoint string `type:"existingfile" placeholder:"FILE" help:"Check instead that the store's log continues the log of the older checkpoint in this file, or in this proof."`
	File       string `type:"existingfile" placeholder:"FILE" help:"Check instead this downloaded file against the files.json next to it, offline. With --trust-key, check the signature of files.json, too."`
	JSON       bool   `help:"Print the report as one JSON object."`
}

func (c *verifyCmd) Run(e *env) error {
	switch {
	case c.File != "" && c.Proof+c.Checkpoint != "" || c.Proof != "" && c.Checkpoint != "":
		return cmdline.Wrong("--file, --proof and --checkpoint are different checks: give one")
	case c.File != "":
		return c.verifyFile(e)
	case c.Proof == "" && c.Store == "":
		return cmdline.Wrong("--store, --proof or --file is needed")
	case c.Proof+c.Checkpoint != "":
		return c.log(e)
	}
	return c.all(e)
}

// verifyFile checks a file without a store. If the file is in a subfolder, as a day's prices are,
// files.json is in the parent folder.
func (c *verifyCmd) verifyFile(e *env) error {
	_, trust, err := c.keys()
	if err != nil {
		return err
	}
	dir, name := filepath.Split(c.File)
	list, err := os.ReadFile(filepath.Join(dir, artifacts.FilesJSON))
	if errors.Is(err, fs.ErrNotExist) {
		if above, aerr := os.ReadFile(filepath.Join(dir, "..", artifacts.FilesJSON)); aerr == nil {
			name, list, err = path.Join(filepath.Base(dir), name), above, nil
		}
	}
	if err != nil {
		return err
	}
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	var of time.Time
	if err == nil {
		of, err = artifacts.VerifyFile(list, trust, name, artifacts.Digest(sum.Sum(nil)), size)
	}
	at := of.Format(time.RFC3339)
	return e.show(map[string]any{"file": name, "time": at, "bytes": size, "signed": trust != nil}, err, c.JSON, func() {
		if trust == nil {
			e.print("%s is the file that files.json of %s lists; give --trust-key to check who signed that", name, at)
		} else {
			e.succeeded("%s is the file that the signed files.json of %s lists", name, at)
		}
	})
}

// all checks all objects of a store.
func (c *verifyCmd) all(e *env) error {
	store, err := (&storeFlag{c.Store, c.keyFlags}).openStore(e)
	if err != nil {
		return err
	}
	p := e.progress()
	report, err := upkeep.Verify(e.ctx, store, p.show)
	p.close()
	err = e.show(report, err, c.JSON, func() {
		if report.Snapshot == "" && len(report.Problems) == 0 {
			e.print("%s", noSnapshot)
			return
		}
		say := e.succeeded
		if len(report.Problems) > 0 {
			say = e.print
		}
		say("snapshot %s (sequence %d): read %s, %s, %s, %s; %s", report.Snapshot, report.Sequence,
			count(report.Snapshots, "snapshot"), count(report.Objects, "object"), size(report.Bytes),
			count(report.Rows, "row"), count(len(report.Problems), "problem"))
		for _, problem := range report.Problems {
			e.print("%s", e.paint.Red("problem: "+problem))
		}
	})
	if n := len(report.Problems); err == nil && n > 0 {
		err = errors.New(count(n, "problem"))
	}
	return err
}

type gcCmd struct {
	storeFlag
	MinAge time.Duration  `former:"grace" default:"${grace}" help:"Keep objects that are younger than this, or that a snapshot reached less than this ago, by the store's clock."`
	Retain *time.Duration `placeholder:"D" help:"Then publish the snapshot again with as few retained ones as a build with this --retain would have, and remove objects that only the dropped ones needed. For a store that is full."`
	DryRun bool           `help:"Report what gc would remove, but remove nothing."`
	JSON   bool           `help:"Print the report as one JSON object."`
}

func (c *gcCmd) Run(e *env) error {
	store, err := c.openStore(e)
	if err != nil {
		return err
	}
	if !c.DryRun {
		if err := c.mayWrite(e, store); err != nil {
			return err
		}
	}
	if c.Retain != nil && (c.DryRun || *c.Retain < 0 || *c.Retain > builder.MaxRetain) {
		return cmdline.Wrong("--retain: want 0 to %v, and no --dry-run", builder.MaxRetain)
	}
	if c.MinAge < builder.BuildDeadline {
		e.log.Warn("with such a short grace period gc may remove objects of a running build", "grace", c.MinAge,
			"build_deadline", builder.BuildDeadline)
	}
	p := e.progress()
	cfg := upkeep.GCConfig{Store: store, Grace: c.MinAge, DryRun: c.DryRun, Log: e.log, Progress: p.show}
	report, err := upkeep.Collect(e.ctx, cfg)
	if err == nil && c.Retain != nil && report.Snapshot {
		before := *report
		if _, err = upkeep.Shrink(e.ctx, store, *c.Retain, time.Now); err == nil {
			report, err = upkeep.Collect(e.ctx, cfg)
		}
		if err == nil {
			report.Deleted, report.DeletedBytes = report.Deleted+before.Deleted, report.DeletedBytes+before.DeletedBytes
		}
	}
	p.close()
	return e.show(report, err, c.JSON, func() {
		switch {
		case !report.Snapshot:
			e.print("%s: nothing removed", noSnapshot)
		case c.DryRun:
			e.print("would remove %s, %s, and keep %s", count(report.Deleted, "object"), size(report.DeletedBytes),
				comma(report.Kept))
		default:
			e.print("removed %s, %s, and kept %s", count(report.Deleted, "object"), size(report.DeletedBytes),
				comma(report.Kept))
		}
	})
}

type rollbackCmd struct {
	storeFlag
	To   cmdline.Moment `required:"" placeholder:"T" help:"Time of the retained snapshot to go back to."`
	JSON bool           `help:"Print the report as one JSON object."`
}

func (c *rollbackCmd) Run(e *env) error {
	store, err := c.openStore(e)
	if err != nil {
		return err
	}
	report, err := upkeep.Rollback(e.ctx, store, c.To.Time, time.Now)
	return e.printReport(report, nil, err, c.JSON)
}
