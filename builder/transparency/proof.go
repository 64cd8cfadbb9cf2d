package transparency

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"golang.org/x/mod/sumdb/tlog"
)

// MaxProofSize is the maximum size of a proof file, in bytes. It allows for an object and a
// manifest in base64, and for the rest of the proof.
const MaxProofSize = (artifacts.MaxObjectSize+artifacts.MaxManifestSize)/3*4 + 1<<20

// Collection and Sort name the view whose rows can be proved.
const Collection, Sort = "quotes", "id"

// Proof shows that a row was published, to anyone who holds only the proof and a trusted key. The
// row is in the shard, and the shard is in the object. The object's digest is in the manifest, the
// manifest's digest is in the leaf, and the leaf is in the tree of the checkpoint, which the key
// has signed.
type Proof struct {
	Format int `json:"format"`
	// Time is the time of the snapshot.
	Time time.Time `json:"time"`
	// Asset is the row's id. Row is the row as it appears in answers.
	Asset uint64 `json:"asset"`
	Row   string `json:"row"`
	// Shard is the index, within Object, of the shard that contains the row.
	Shard int `json:"shard"`
	// Object and Manifest are the bytes as stored.
	Object   []byte `json:"object"`
	Manifest []byte `json:"manifest"`
	// Leaf is the index of the leaf. Inclusion is its inclusion proof (RFC 6962, section 2.1.1).
	Leaf      int64            `json:"leaf"`
	Inclusion tlog.RecordProof `json:"inclusion"`
	// Checkpoint is a signed note.
	Checkpoint string `json:"checkpoint"`
}

// Encode returns the proof file: a line of JSON with its checksum last.
func (p *Proof) Encode() []byte { return artifacts.EncodeSmall(p) }

// Prove adds the inclusion proof of the leaf at index to p.
func (v *View) Prove(p *Proof, index int64) (err error) {
	p.Leaf, p.Checkpoint = index, string(v.Note)
	p.Inclusion, err = tlog.ProveRecord(v.N, index, v.hashes)
	return err
}

// Verify checks a proof file and returns the proof with its checkpoint. It needs no store and no
// network. It returns artifacts.ErrCorrupt if the proof is not valid, or artifacts.ErrSignature if
// none of the trusted keys signed its checkpoint.
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

// Trusted checks that a trusted key has signed the checkpoint in note, and parses it.
func Trusted(note []byte, trust artifacts.Trust) (Checkpoint, error) {
	if err := trust.Verify(artifacts.CheckpointKey, note); err != nil {
		return Checkpoint{}, err
	}
	return ParseCheckpoint(note)
}

// verify checks the proof, from the log's root down to the row.
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
