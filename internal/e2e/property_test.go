package e2e

import (
	"flag"
	"os"
	"testing"

	"example.com/marketdata/internal/model/gen"
	"pgregory.net/rapid"
)

// TestMain keeps a run short unless it is asked to be long: each property here
// builds many snapshots and asks many questions in one check.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := os.Getenv("RAPID_CHECKS") != ""
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		_ = flag.Set("rapid.checks", "12")
	}
	os.Exit(m.Run())
}

// TestOneSnapshot asks many questions about one snapshot of many feeds.
func TestOneSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t)
		defer p.close()
		for range 10 {
			p.check(gen.Questions(p.world).Draw(t, "before the first snapshot"))
		}
		m := gen.Histories(1, 60, 0).Draw(t, "feed")[0]
		if !p.build(m.Files) {
			return
		}
		for range 400 {
			p.check(gen.Questions(p.world).Draw(t, "question"))
		}
	})
}

// TestYear follows markets over two dozen snapshots that span a year and more,
// with change jobs between, and asks after each of them, pinned questions too.
func TestYear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t)
		defer p.close()
		for _, m := range gen.Histories(24, 25, 0).Draw(t, "history") {
			if !p.build(m.Files) {
				continue
			}
			if m.Changes {
				p.change(m.After)
			}
			for range 25 {
				p.check(gen.Questions(p.world).Draw(t, "question"))
			}
		}
	})
}

// TestCrowd asks about directories of thousands of rows that share tickers,
// names and amounts: listings and filters far longer than a page.
func TestCrowd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t)
		defer p.close()
		for _, m := range gen.Histories(3, 10, 3000).Draw(t, "history") {
			if !p.build(m.Files) {
				continue
			}
			for range 150 {
				p.check(gen.Questions(p.world).Draw(t, "question"))
			}
		}
	})
}
