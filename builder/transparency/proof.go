package transparency

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"golang.org/x/mod/sumdb/tlog"
)

// MaxProofSize bounds a proof's file, in bytes: an object and a manifest in base64, and the rest.
const MaxProofSize = (artifacts.MaxObjectSize+artifacts.MaxManifestSize)/3*4 + 1<<20

// The view that proofs are of.
const Collection, Sort = "quotes", "id"

// Proof shows that a row was published, to whom has nothing but it and a key to trust: the row is
// in the shard, that in the object, whose digest is in the manifest, whose digest is in the leaf,
// which is in the tree of the checkpoint, which the key has signed.
type Proof struct {
	Format int `json:"format"`
	// Time is the snapshot's.
	Time time.Time `json:"time"`
	// Asset is the row's id, and Row the row as clients get it.
	Asset uint64 `json:"asset"`
	Row   string `json:"row"`
	// Shard is the number in Object, from 0, of the shard with the row.
	Shard int `json:"shard"`
	// Object and Manifest are bytes as they are stored.
	Object   []byte `json:"object"`
	Manifest []byte `json:"manifest"`
	// Leaf is the leaf's number, from 0, and Inclusion its proof (RFC 6962, section 2.1.1).
	Leaf      int64            `json:"leaf"`
	Inclusion tlog.RecordProof `json:"inclusion"`
	// Checkpoint is a signed note.
	Checkpoint string `json:"checkpoint"`
}

// Encode returns the proof's file: a line of JSON with its checksum last.
func (p *Proof) Encode() []byte { return artifacts.EncodeSmall(p) }

// Prove adds the proof of a leaf to p.
func (v *View) Prove(p *Proof, index int64) (err error) {
	p.Leaf, p.Checkpoint = index, string(v.Note)
	p.Inclusion, err = tlog.ProveRecord(v.N, index, v.hashes)
	return err
}

// Verify checks a proof's file and returns it with its checkpoint. It asks nobody. What does not
// fit gives artifacts.ErrCorrupt, or artifacts.ErrSignature if no key of trust signed.
func Verify(file []byte, trust artifacts.Trust) (*Proof, Checkpoint, error) {
	var p Proof
	if err := artifacts.ParseSmall("proof", file, &p); err != nil {
		return nil, Checkpoint{}, err
	}
	if !bytes.Equal(p.Encode(), file) {
		return nil, Checkpoint{}, fmt.Errorf("%w: proof: not in the form that builders write", artifacts.ErrCorrupt)
	}
	cp, err := Trusted([]byte(p.Checkpoint), trust)
	if err == nil {
		err = p.verify(cp)
	}
	if err != nil {
		return nil, cp, fmt.Errorf("proof: %w", err)
	}
	return &p, cp, nil
}

// Trusted returns a checkpoint that a key of trust has signed.
func Trusted(note []byte, trust artifacts.Trust) (Checkpoint, error) {
	if err := trust.Verify(artifacts.CheckpointKey, note); err != nil {
		return Checkpoint{}, err
	}
	return ParseCheckpoint(note)
}

// verify goes from the root down to the row.
func (p *Proof) verify(cp Checkpoint) error {
	leaf := tlog.RecordHash([]byte(Leaf(p.Time, artifacts.Sum(p.Manifest))))
	if p.Leaf < 0 || p.Leaf >= cp.N || tlog.CheckRecord(p.Inclusion, cp.N, cp.Hash, p.Leaf, leaf) != nil {
		return fmt.Errorf("%w: the manifest is not in the log", artifacts.ErrCorrupt)
	}
	m, err := artifacts.ParseManifest(p.Manifest)
	if err != nil {
		return err
	}
	ref := artifacts.RefOf(p.Object)
	view := m.View(Collection, Sort)
	if !m.Time.Equal(p.Time) || view == nil ||
		!slices.ContainsFunc(view.Objects, func(o artifacts.ViewObject) bool { return o.Ref == ref }) {
		return fmt.Errorf("%w: the manifest does not name the object, or is of another time", artifacts.ErrCorrupt)
	}
	shards, err := artifacts.ParseObject(p.Object)
	if err != nil {
		return err
	}
	if p.Shard >= 0 && p.Shard < len(shards) {
		if row, ok := shards[p.Shard].FindID(p.Asset); ok && string(shards[p.Shard].Row(row)) == p.Row {
			return nil
		}
	}
	return fmt.Errorf("%w: the shard does not have the row", artifacts.ErrCorrupt)
}
