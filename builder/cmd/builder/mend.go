package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/retry"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/cmdline"
)

// openCopy opens a store, or a folder, for reading. flag is the name of the flag that gave the
// address.
func (e *env) openCopy(flag, address string) (upkeep.Copy, error) {
	c := upkeep.Copy{Name: address}
	if !strings.HasPrefix(address, "file:") && !strings.HasPrefix(address, "s3:") {
		address = "file:" + address
	}
	r, err := stores.OpenReader(context.WithoutCancel(e.ctx), address)
	if err != nil {
		return c, cmdline.Wrong("--%s: %w", flag, err)
	}
	c.Reader = retry.NewReader(r, retry.Options{Log: e.log})
	return c, nil
}

// openCopies opens several copies as openCopy does. If trust is not empty, one of its keys must
// have signed their small objects.
func (e *env) openCopies(flag string, addresses []string, trust artifacts.Trust) ([]upkeep.Copy, error) {
	var copies []upkeep.Copy
	for _, address := range addresses {
		c, err := e.openCopy(flag, address)
		if err != nil {
			return nil, err
		}
		if trust != nil {
			c.Reader = signed.Reader(c.Reader, trust)
		}
		copies = append(copies, c)
	}
	return copies, nil
}

type repairCmd struct {
	storeFlag
	From     []string `sep:"none" placeholder:"STORE|DIR" help:"Take missing objects from this store, copy of a store, or cache folder of an edge. Repeatable; copies are tried in this order."`
	DropLost bool     `help:"Drop data that no copy has, and data that depends on it: old prices, returns, groups, files, retained snapshots. The report says what was dropped."`
	JSON     bool     `help:"Print the report as one JSON object."`
}

func (c *repairCmd) Run(e *env) error {
	store, err := c.openStore(e)
	if err != nil {
		return err
	}
	sign, _, err := c.keys()
	if err != nil {
		return err
	}
	p := e.progress()
	cfg := upkeep.RepairConfig{Store: store, DropLost: c.DropLost, Sign: sign, Progress: p.show, Now: time.Now}
	for _, address := range c.From {
		from, err := e.openCopy("from", address)
		if err != nil {
			return err
		}
		// An inaccessible copy is an error, even if nothing is needed from it.
		if _, _, err := from.Get(e.ctx, artifacts.CurrentKey,
			artifacts.MaxPointerSize); errors.Is(err, artifacts.ErrNoAccess) {
			return fmt.Errorf("--from %s: %w", address, err)
		}
		cfg.From = append(cfg.From, from)
	}
	report, err := upkeep.Repair(e.ctx, cfg)
	p.close()
	err = e.show(report, err, c.JSON, func() { c.print(e, report) })
	if err == nil && len(report.Missing) > 0 {
		err = errors.New("left: " + count(len(report.Missing), "problem"))
	}
	return err
}

func (c *repairCmd) print(e *env, r *upkeep.RepairReport) {
	if r.Snapshot == "" {
		e.print("%s: nothing to repair; restore a backup with builder restore", noSnapshot)
		return
	}
	for _, m := range r.Mended {
		e.print("mended: %s from %s", m.Key, m.From)
	}
	for _, problem := range r.Missing {
		e.print("%s", e.paint.Red("missing: "+problem))
	}
	switch {
	case r.Dropped:
		e.print("%s", e.paint.Red("dropped: "+r.Loss))
	case r.Loss != "":
		e.print("%s", e.paint.Red("no copy has all of it; with --drop-lost "+r.Loss))
	}
	say := e.succeeded
	if len(r.Missing) > 0 {
		say = e.print
	}
	say("snapshot %s (sequence %d): %s mended, %s left", r.Snapshot, r.Sequence, count(len(r.Mended), "object"),
		count(len(r.Missing), "problem"))
}

type backupCmd struct {
	storeFlag
	To   string `required:"" placeholder:"STORE" help:"Destination: an empty store, or an earlier backup of this one. A folder must exist."`
	JSON bool   `help:"Print the report as one JSON object."`
}

func (c *backupCmd) Run(e *env) error {
	from, err := c.openStore(e)
	if err != nil {
		return err
	}
	if _, err := e.openCopy("to", c.To); err != nil {
		return err
	}
	to, err := stores.Open(e.ctx, c.To, stores.Options{})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--to %s: there is no such folder, and backup makes none, which could be where a disk is not "+
			"mounted: mount it, or mkdir the folder", c.To)
	}
	if err != nil {
		return err
	}
	p := e.progress()
	r, err := upkeep.Backup(e.ctx,
		upkeep.BackupConfig{From: from, To: retry.New(to, retry.Options{Log: e.log}), Progress: p.show})
	p.close()
	return e.show(r, err, c.JSON, func() {
		if r.Snapshot == "" {
			e.print("%s: nothing copied", noSnapshot)
		} else {
			e.succeeded("snapshot %s (sequence %d): %s, %s; copied %s of them, %s", r.Snapshot, r.Sequence,
				count(r.Snapshots, "snapshot"), count(r.Objects, "object"), comma(r.Copied), size(r.CopiedBytes))
			if r.Lost > 0 {
				e.print("%s", e.paint.Red(fmt.Sprintf("lost: %s of files, which the backup lacks, too; builder repair lists them"+
					" and puts them back", count(r.Lost, "object"))))
			}
		}
	})
}

type restoreCmd struct {
	storeFlag
	From           string   `required:"" placeholder:"STORE" help:"The backup."`
	Above          uint64   `former:"seen" placeholder:"N" help:"The highest sequence that any edge has seen, if both stores may have a lower one: see /status of the edges."`
	KeysFrom       []string `sep:"none" placeholder:"STORE|DIR" help:"An edge's cache folder, or a folder with a copy of its file keys: the newest key set wins, and keys that are revoked in any of them stay revoked. Repeatable: give the folder of every edge."`
	KeysFromBackup bool     `help:"Take the backup's key set in place of a lost or damaged one, because no edge has a key set. Keys that are revoked in the store stay revoked."`
	JSON           bool     `help:"Print the report as one JSON object."`
}

func (c *restoreCmd) Run(e *env) error {
	from, err := e.openCopy("from", c.From)
	if err != nil {
		return err
	}
	sign, trust, err := c.keys()
	if err != nil {
		return err
	}
	if len(sign) == 0 {
		if err := signed.Unsigned(e.ctx, from); err != nil {
			return fmt.Errorf("--from: %w", err)
		}
	}
	if trust != nil {
		from.Reader = signed.Reader(from.Reader, trust)
	}
	keysFrom, err := e.openCopies("keys-from", c.KeysFrom, trust)
	if err != nil {
		return err
	}
	store, err := c.openAny(e, false)
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		store, err = c.openAny(e, true)
	}
	if err != nil {
		return err
	}
	holder, err := builder.LeaseHolder(e.ctx, store, leaseTime, e.log)
	if err == nil && holder != "" {
		err = fmt.Errorf("a builder is at work on the store (%s has the lease, and renews it): stop it first", holder)
	}
	if err != nil {
		return err
	}
	c.announce(e, store, made, "nothing was there: the backup is put there")
	p := e.progress()
	r, err := upkeep.Restore(e.ctx, upkeep.RestoreConfig{
		Store: store, From: from, Seen: c.Above, KeysFrom: keysFrom, KeysFromBackup: c.KeysFromBackup, Progress: p.show,
		Now: time.Now,
	})
	p.close()
	if err != nil && made {
		_ = os.Remove(strings.TrimPrefix(c.Store, "file:")) // fails unless the folder is empty
	}
	if err == nil {
		c.remember(e, store)
	}
	return e.show(r, err, c.JSON, func() {
		for _, note := range r.Notes {
			e.print("%s", e.paint.Yellow("note: "+note))
		}
		e.succeeded("snapshot %s is published (sequence %d): %s put back; %s, %s of them revoked", r.Snapshot,
			r.Sequence, count(r.Put, "object"), count(r.Keys, "key"), comma(r.Revoked))
	})
}
