// Package deploy holds documents and configurations for those who run the service. Its test measures
// what COST.md says.
package deploy

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
)

var update = flag.Bool("update", false, "write the measured tables into COST.md")

// Of a month of 30 days.
const (
	minutes   = 30 * 24 * 60
	snapshots = minutes / 10
	changes   = minutes / 5
	gcs       = minutes / 60
	renewals  = minutes * 6 // of the builder's lease
	// atRest are an edge's requests a minute beside those for a new snapshot: for the pointer each two
	// seconds, for the key set each 6.4 to 8, for the change record each minute. TestAtRest of
	// edge/snapshot and edge/auth count them.
	pointers, keySets, records = 30, 60 / 7.2, 1
	atRest                     = pointers + keySets + records
)

// asked are requests by what providers charge for them, and bytes.
type asked struct {
	reads, writes int // a list costs as much as a write
	bytes         int64
}

func count(s *faultstore.Store) (a asked) {
	for kind, c := range s.Counts() {
		switch kind {
		case faultstore.Get, faultstore.GetIf:
			a.reads += c.Calls
		case faultstore.Put, faultstore.Swap, faultstore.List:
			a.writes += c.Calls
		}
		a.bytes += c.Bytes
	}
	return a
}

// usage is what one snapshot costs, and what the builder's other jobs do.
type usage struct {
	fetch, build, change, gc asked // fetch is an edge's
	stored                   int64 // bytes
}

// measure builds a year's past and two more snapshots, of which an edge that has the first fetches
// the second.
func measure(t *testing.T, assets int) (u usage) {
	ctx, mem := t.Context(), memstore.New()
	at := time.Date(2026, 3, 4, 5, 10, 0, 0, time.UTC)
	mem.SetClock(func() time.Time { return at })
	what := fmt.Sprintf("?assets=%d&seed=1", assets)
	var past []time.Time
	for _, days := range []int{364, 300, 180, 89, 60, 29, 20, 13, 6, 3, 2, 1, 0} {
		past = append(past, at.AddDate(0, 0, -days))
	}
	teststore.Simulate(t, mem, what, past...)
	store := faultstore.New(mem, nil)
	b := must.Get(builder.New(builder.Config{Store: store, Source: must.Get(sim.Open(ctx, what))(t),
		Retain: builder.DefaultRetain, Settings: buildtest.Settings, Guards: builder.DefaultGuards,
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return at }}))(t)
	next := func() {
		at = at.Add(artifacts.Step)
		must.Get(b.Build(ctx, at))(t)
	}
	next()
	var read sync.Map
	reads := faultstore.New(mem, func(op faultstore.Op) faultstore.Decision {
		read.Store(op.Key, true)
		return faultstore.Pass
	})
	edge := testedge.Start(t, testedge.Config{Reader: reads, AuthOff: true, Coins: true, HistoryFetch: 1 << 30,
		Now: func() time.Time { return at.Add(time.Minute) }})
	await(t, mem, &read)
	reads.Reset()
	store.Reset()
	next()
	u.build = count(store)
	await(t, mem, &read)
	edge.Stop() // what it asked for last is counted then
	objects := reads.Counts()[faultstore.Get]
	u.fetch = asked{reads: objects.Calls, bytes: objects.Bytes}

	store.Reset()
	teststore.Change(t, store, at)
	u.change = count(store)
	store.Reset()
	must.Get(upkeep.Collect(ctx, upkeep.GCConfig{Store: store, Grace: time.Hour,
		Now: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler)}))(t)
	u.gc = count(store)
	must.OK(t, mem.List(ctx, "", func(i artifacts.Info) error { u.stored += i.Size; return nil }))
	return u
}

// await waits until an edge has read the newest snapshot's manifest and all its objects.
func await(t *testing.T, store artifacts.Reader, read *sync.Map) {
	t.Helper()
	p := teststore.Read(t, store)
	want := []artifacts.Key{artifacts.ManifestKey(p.Pointer.Manifest.Digest)}
	for _, v := range p.Manifest.Views {
		for _, o := range v.Objects {
			want = append(want, artifacts.ObjectKey(o.Ref.Digest))
		}
	}
	lacks := func(key artifacts.Key) bool { _, ok := read.Load(key); return !ok }
	for end := time.Now().Add(2 * time.Minute); slices.ContainsFunc(want, lacks); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the edge has not read all of %d objects", len(want))
		}
	}
}

func millions(n float64) string { return fmt.Sprintf("%.2f M", n/1e6) }

func gigabytes(n float64) string { return fmt.Sprintf("%.1f GB", n/1e9) }

// tables returns what COST.md says of the measured usage.
func tables(sizes []int, of []usage) string {
	var b strings.Builder
	row := func(what string, cell func(u usage) string) {
		fmt.Fprintf(&b, "| %s |", what)
		for _, u := range of {
			fmt.Fprintf(&b, " %s |", cell(u))
		}
		b.WriteString("\n")
	}
	head := func() {
		b.WriteString("| |")
		for _, n := range sizes {
			fmt.Fprintf(&b, " %d,%03d assets |", n/1000, n%1000)
		}
		b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(sizes)) + "\n")
	}
	head()
	row("an edge at rest, reads a minute", func(usage) string { return fmt.Sprintf("%.0f", float64(atRest)) })
	row("a new snapshot, reads by an edge", func(u usage) string { return fmt.Sprint(u.fetch.reads) })
	row("a new snapshot, bytes to an edge", func(u usage) string {
		return fmt.Sprintf("%.2f MB", float64(u.fetch.bytes)/1e6)
	})
	row("a build, reads", func(u usage) string { return fmt.Sprint(u.build.reads) })
	row("a build, writes", func(u usage) string { return fmt.Sprint(u.build.writes) })
	row("the change job, reads and writes", func(u usage) string {
		return fmt.Sprintf("%d, %d", u.change.reads, u.change.writes)
	})
	row("gc, reads and lists", func(u usage) string { return fmt.Sprintf("%d, %d", u.gc.reads, u.gc.writes) })
	reads := func(u usage) float64 { return minutes*float64(atRest) + snapshots*float64(u.fetch.reads) }
	leaves := func(u usage) float64 { return snapshots * float64(u.fetch.bytes) }
	builds := func(u usage) float64 {
		return snapshots*float64(u.build.reads) + changes*float64(u.change.reads) + gcs*float64(u.gc.reads)
	}
	writes := func(u usage) float64 {
		return snapshots*float64(u.build.writes) + changes*float64(u.change.writes) + gcs*float64(u.gc.writes) +
			renewals
	}
	b.WriteString("\nA month of 30 days:\n\n")
	head()
	row("each edge, reads", func(u usage) string { return millions(reads(u)) })
	row("each edge, bytes", func(u usage) string { return gigabytes(leaves(u)) })
	row("the builder, reads", func(u usage) string { return millions(builds(u)) })
	row("the builder, writes and lists", func(u usage) string { return millions(writes(u)) })
	for _, p := range []struct {
		name                        string
		read, write, stored, leaves float64
	}{
		{"Amazon S3, edges in its region", 0.40, 5, 0.023, 0},
		{"Amazon S3, edges elsewhere", 0.40, 5, 0.023, 0.09},
		{"Cloudflare R2", 0.36, 4.50, 0.015, 0},
	} {
		row(p.name+", three edges", func(u usage) string {
			const edges = 3
			return fmt.Sprintf("$%.2f", p.read*(edges*reads(u)+builds(u))/1e6+p.write*writes(u)/1e6+
				p.stored*float64(u.stored)/1e9+p.leaves*edges*leaves(u)/1e9)
		})
	}
	return b.String()
}

// TestCost: COST.md says what is measured here. -update writes it.
func TestCost(t *testing.T) {
	const file, begin, end = "COST.md", "<!-- measured -->\n", "<!-- /measured -->"
	text := string(must.Get(os.ReadFile(file))(t))
	before, rest, ok := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %s … %s", file, begin, end)
	}
	sizes := []int{2000, 20_000}
	var of []usage
	for _, n := range sizes {
		of = append(of, measure(t, n))
	}
	want := before + begin + tables(sizes, of) + end + after
	switch {
	case text == want:
	case *update:
		must.OK(t, os.WriteFile(file, []byte(want), 0o644))
	default:
		t.Errorf("%s is not what is measured; go test ./deploy -update writes:\n%s", file, tables(sizes, of))
	}
}
