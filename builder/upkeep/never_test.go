package upkeep

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
)

// chronicle records everything that a store has ever published, through builds, rollbacks, losses,
// repairs and restores.
type chronicle struct {
	t       *testing.T
	dice    *rand.Rand
	s       *memstore.Store
	backups []*memstore.Store
	now     time.Time
	log     []string

	sequence  uint64
	owner     map[uint64]string              // the asset's name, by id
	views     map[time.Time][]artifacts.View // by the snapshot's time
	withdrawn map[time.Time]bool
}

// TestNever checks random histories. An id must never change its asset, and a time must never have
// two snapshots. A withdrawn snapshot may come back only if the report says that this could not be
// determined.
func TestNever(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) { // determining whether a swap took effect takes time
				p := &chronicle{
					t: t, dice: rand.New(rand.NewPCG(27, seed)), s: memstore.New(), now: epoch,
					owner: map[uint64]string{}, views: map[time.Time][]artifacts.View{},
					withdrawn: map[time.Time]bool{},
				}
				p.build(p.s)
				p.backup()
				for range 25 {
					p.step()
					if t.Failed() {
						t.Fatalf("after %s", strings.Join(p.log, "\n"))
					}
				}
			})
		})
	}
}

func (p *chronicle) step() {
	_, _, err := p.s.Get(p.t.Context(), artifacts.CurrentKey, artifacts.MaxPointerSize)
	switch n := p.dice.IntN(20); {
	case n < 3 || err != nil:
		p.restore()
	case n < 10:
		p.build(p.s)
	case n < 12: // the builder dies before the pointer moves
		p.build(faultstore.New(p.s, func(op faultstore.Op) faultstore.Decision {
			if op.Kind == faultstore.Swap && op.Key == artifacts.CurrentKey {
				return faultstore.Refuse
			}
			return faultstore.Pass
		}))
	case n < 14:
		p.backup()
	case n < 16:
		p.rollback()
	case n < 18:
		p.lose()
	default:
		p.repair()
	}
}

// build publishes a feed with some of twelve assets.
func (p *chronicle) build(s artifacts.Store) {
	p.now = p.now.Add(time.Duration(p.dice.IntN(3)) * artifacts.Step)
	at := p.now.Add(-time.Duration(p.dice.IntN(2)) * artifacts.Step)
	var assets, quotes bytes.Buffer
	for i := range 12 {
		if p.dice.IntN(3) > 0 {
			continue
		}
		fmt.Fprintf(&assets, `{"key":"coin-%d","name":"coin-%d","symbol":"C","slug":"coin-%d"}`+"\n", i, i, i)
		fmt.Fprintf(&quotes, `{"key":"coin-%d","price":"%d","market_cap":1,"volume":"1"}`+"\n", i, 1+p.dice.IntN(1e6))
	}
	b, err := builder.New(config(s, given{Feed: source.FS(buildtest.Files(at, map[string][]byte{
		source.AssetsFile: assets.Bytes(),
		source.QuotesFile: quotes.Bytes(),
	}))}))
	ok(p.t, err)
	b.Guards.Force, b.Retain = true, time.Duration(p.dice.IntN(4))*artifacts.Step
	b.Now = func() time.Time { return p.now }
	_, err = b.Build(context.Background(), time.Time{})
	p.note("build", at, err)
}

func (p *chronicle) backup() {
	to := memstore.New()
	_, err := Backup(p.t.Context(), BackupConfig{From: p.s, To: to})
	if err == nil {
		p.backups = append(p.backups, to)
	}
	p.note("backup", len(p.backups)-1, err)
}

func (p *chronicle) restore() {
	cfg := RestoreConfig{Store: p.s, Now: func() time.Time { return p.now }}
	if p.dice.IntN(2) == 0 {
		cfg.Seen = p.sequence
	}
	i := p.dice.IntN(len(p.backups))
	cfg.From = Copy{p.backups[i], "backup"}
	r, err := Restore(p.t.Context(), cfg)
	var notes []string
	if err == nil {
		notes = r.Notes
	}
	p.note("restore", i, err, notes...)
	if err != nil { // the store is lost for good: only backups are left
		for key := range contents(p.t, p.s) {
			_ = p.s.Delete(p.t.Context(), key)
		}
	}
}

func (p *chronicle) rollback() {
	h, err := publish.ReadHead(p.t.Context(), p.s)
	if err != nil || len(h.Manifest.Retained) == 0 {
		return
	}
	to := h.Manifest.Retained[p.dice.IntN(len(h.Manifest.Retained))].Time
	_, err = Rollback(p.t.Context(), p.s, to, func() time.Time { return p.now })
	p.note("rollback", to, err)
}

// lose removes some or all objects, sometimes including the pointer.
func (p *chronicle) lose() {
	one := 1 + p.dice.IntN(30)
	keys := buildtest.Keys(contents(p.t, p.s))
	lost := 0
	for _, key := range keys {
		if p.dice.IntN(one) == 0 && key != artifacts.IdentityKey {
			lost++
			ok(p.t, p.s.Delete(p.t.Context(), key))
		}
	}
	p.note("lose", fmt.Sprintf("%d of %d", lost, len(keys)), nil)
}

func (p *chronicle) repair() {
	_, err := Repair(p.t.Context(), RepairConfig{Store: p.s, DropLost: true, Now: func() time.Time { return p.now }})
	p.note("repair", "", err)
}

// note compares what is published with the chronicle.
func (p *chronicle) note(op string, what any, err error, notes ...string) {
	h, herr := publish.ReadHead(p.t.Context(), p.s)
	if herr != nil || h.Manifest == nil {
		p.log = append(p.log, fmt.Sprintf("%s %v: %v; %v", op, what, err, herr))
		return
	}
	m := h.Manifest
	p.log = append(p.log, fmt.Sprintf("%s %v: %v; %d is %s, withdrawn %s through %s; %v", op, what, err,
		h.Pointer.Sequence, publish.Stamp(m.Time), m.Withdrawn, publish.Stamp(m.WithdrawnThrough), notes))
	if h.Pointer.Sequence == p.sequence {
		return
	}
	p.sequence = h.Pointer.Sequence
	for _, at := range append([]artifacts.Retained{{Time: m.Time}}, m.Retained...) {
		if strings.Contains(fmt.Sprint(notes), "whether a rollback withdrew") {
			delete(p.withdrawn, at.Time)
		}
		if p.withdrawn[at.Time] {
			p.t.Errorf("snapshot %s was withdrawn", publish.Stamp(at.Time))
		}
	}
	p.answered(m, op == "build" && err == nil)
	for _, ret := range m.Retained {
		old, err := artifacts.ReadManifest(p.t.Context(), p.s, ret.Manifest)
		if err == nil {
			p.answered(old, false)
		}
	}
	for at := range p.views {
		p.withdrawn[at] = p.withdrawn[at] || at.After(m.Time)
	}
}

// answered compares a snapshot that clients can request with earlier answers for the same time.
func (p *chronicle) answered(m *artifacts.Manifest, isNew bool) {
	views := slices.DeleteFunc(slices.Clone(m.Views), func(v artifacts.View) bool {
		return artifacts.IsHistory(v.Collection)
	})
	before, ok := p.views[m.Time]
	switch {
	case ok && !reflect.DeepEqual(views, before):
		p.t.Errorf("snapshot %s was published with other rows", publish.Stamp(m.Time))
	case !ok && !isNew:
		p.t.Errorf("snapshot %s was never published", publish.Stamp(m.Time))
	}
	p.views[m.Time] = views
	objects := m.View("assets", "id").Objects
	for i := range objects {
		err := walk.Rows(p.t.Context(), p.s, objects[i:i+1], func(id uint64, row []byte) error {
			var r struct{ Name string }
			if err := json.Unmarshal(row, &r); err != nil {
				return err
			}
			if was := cmp.Or(p.owner[id], r.Name); was != r.Name {
				return fmt.Errorf("id %d was %s, is %s", id, was, r.Name)
			}
			p.owner[id] = r.Name
			return nil
		})
		if err != nil && !errors.Is(err, artifacts.ErrNotFound) {
			p.t.Error(err)
		}
	}
}
