package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/transparency"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/durable"
)

type proveCmd struct {
	storeFlag
	Time  cmdline.Moment `required:"" placeholder:"T" help:"Time of the snapshot, which must be published or retained."`
	Asset uint64         `required:"" placeholder:"ID" help:"The asset's id, as in answers."`
	Out   string         `required:"" placeholder:"FILE" help:"New file for the proof."`
}

func (c *proveCmd) Run(e *env) error {
	store, err := c.openStore(e)
	if err != nil {
		return err
	}
	p, err := upkeep.Prove(e.ctx, store, c.Time.Time, c.Asset)
	if err != nil {
		return err
	}
	file := p.Encode()
	err = durable.CreateFile(c.Out, bytes.NewReader(file), 0o644)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s: %w; a proof is never overwritten: name a new file", c.Out, fs.ErrExist)
	}
	if err == nil {
		e.succeeded("%s: %s; builder verify --proof checks it", c.Out, size(int64(len(file))))
	}
	return err
}

// logReport is the part of verify's report that describes a log.
type logReport struct {
	Log    string           `json:"log"`
	Leaves int64            `json:"leaves"`
	Root   artifacts.Digest `json:"root"`
	// Continued is the number of leaves in the older checkpoint. For a proof, Leaf is the index of
	// the snapshot's leaf, Snapshot is the snapshot's time, and Row is the proved row.
	Continued int64     `json:"continued,omitzero"`
	Leaf      *int64    `json:"leaf,omitempty"`
	Snapshot  time.Time `json:"snapshot,omitzero"`
	Row       string    `json:"row,omitzero"`
}

// log checks a proof, or checks that the store's log continues the log of an older checkpoint.
func (c *verifyCmd) log(e *env) error {
	_, trust, err := c.keys()
	if err != nil {
		return err
	}
	if trust == nil {
		return cmdline.Wrong("--trust-key is needed: without a trusted signature a log or a proof shows nothing")
	}
	name := c.Proof + c.Checkpoint // only one of them is set
	file, err := readFile(name)
	if err != nil {
		return err
	}
	var p *transparency.Proof
	cp, err := transparency.Trusted(file, trust)
	if bytes.HasPrefix(file, []byte("{")) {
		p, cp, err = transparency.Verify(file, trust)
	} else if err == nil && c.Proof != "" {
		err = errors.New("it is a checkpoint, not a proof")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r := logReport{Log: cp.Origin, Leaves: cp.N, Root: artifacts.Digest(cp.Hash)}
	if c.Proof != "" {
		r.Leaf, r.Snapshot, r.Row = &p.Leaf, p.Time, p.Row
	} else if r, err = c.continues(e, cp); err != nil {
		return err
	}
	return e.show(r, nil, c.JSON, func() {
		if c.Proof == "" {
			e.succeeded("the log %s has %d leaves, and the first %d are those of the older checkpoint", r.Log, r.Leaves,
				r.Continued)
		} else {
			e.print("%s", r.Row)
			e.succeeded("this row was published in snapshot %s: leaf %d of %d in the log %s, which a trusted key signed",
				r.Snapshot.Format(time.RFC3339), p.Leaf, r.Leaves, r.Log)
		}
		for _, k := range trust {
			if text, err := k.NoteKey(r.Log); err == nil {
				e.print("key for other programs: %s", text)
			}
		}
	})
}

// continues checks that the store's log continues the log of an older checkpoint.
func (c *verifyCmd) continues(e *env, older transparency.Checkpoint) (r logReport, err error) {
	store, err := (&storeFlag{c.Store, c.keyFlags}).openStore(e)
	if err != nil {
		return r, err
	}
	log, err := transparency.Open(e.ctx, store)
	if errors.Is(err, artifacts.ErrNotFound) {
		err = fmt.Errorf("%w: the store has none, and had one of %d leaves", transparency.ErrRewritten, older.N)
	}
	if err == nil {
		err = log.Continues(older)
	}
	if err != nil {
		return r, err
	}
	return logReport{Log: log.Origin, Leaves: log.N, Root: artifacts.Digest(log.Hash), Continued: older.N}, nil
}

// readFile reads a proof or a checkpoint.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, transparency.MaxProofSize+1))
	if err == nil && len(b) > transparency.MaxProofSize {
		err = fmt.Errorf("%s: %w: a proof has at most %d bytes", name, artifacts.ErrTooLarge, transparency.MaxProofSize)
	}
	return b, err
}
