package e2e

import (
	"flag"
	"maps"
	"os"
	"strconv"
	"testing"
	"time"

	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/gen"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

// asked says whether the command line or the environment sets the number of checks, which requests
// a long run.
var asked bool

func TestMain(m *testing.M) {
	flag.Parse()
	asked = os.Getenv("RAPID_CHECKS") != ""
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	os.Exit(m.Run())
}

// checkProperty checks a property the given number of times, unless another number was set. The
// numbers are small because each check builds snapshots and sends many questions.
func checkProperty(t *testing.T, times int, property func(*rapid.T)) {
	t.Helper()
	if !asked {
		must.OK(t, flag.Set("rapid.checks", strconv.Itoa(times)))
	}
	rapid.Check(t, property)
}

// poll is the interval at which the edges in these tests look for a new snapshot.
const poll = time.Millisecond

// askAll checks count questions, some of them a second time with codings and conditions.
func (p *pair) askAll(t *rapid.T, count int) {
	for range count {
		q := gen.Questions(p.world).Draw(t, "question")
		want, got := p.check(q)
		if want.Status == 200 && rapid.IntRange(0, 99).Draw(t, "again") > 70 {
			p.recheck(q, want, gen.AcceptEncodings().Draw(t, "Accept-Encoding"), gen.Conditions{})
			accept := gen.AcceptEncodings().Draw(t, "Accept-Encoding")
			p.recheck(q, want, accept, gen.ConditionsOn(got.header.Get("ETag"), got.header.Get("Last-Modified"),
				model.Coding(accept, len(want.Body))).Draw(t, "conditions"))
		}
	}
}

// TestOneSnapshot sends many questions about one snapshot of many feeds.
func TestOneSnapshot(t *testing.T) {
	checkProperty(t, 4, func(t *rapid.T) {
		p := newPair(t, gen.Settings().Draw(t, "settings"), poll)
		p.askAll(t, 10) // before the first snapshot
		m := gen.Histories(1, 60, 0).Draw(t, "feed")[0]
		if p.build(m.Files, time.Time{}) {
			p.askAll(t, 400)
			for range 100 {
				p.check(gen.Searches(p.world).Draw(t, "search"))
			}
		}
	})
}

// TestYear follows markets over two dozen snapshots that span a year or more, with change jobs in
// between, and sends questions after each of them, including pinned ones.
func TestYear(t *testing.T) {
	checkProperty(t, 2, func(t *rapid.T) {
		p := newPair(t, gen.Settings().Draw(t, "settings"), poll)
		for _, m := range gen.Histories(24, 25, 0).Draw(t, "history") {
			if !p.build(m.Files, time.Time{}) {
				continue
			}
			if m.Changes {
				p.change(m.After)
			}
			if m.Again {
				p.rebuild(m.Files)
			}
			p.askAll(t, 25)
		}
		p.verify()
	})
}

// rebuild builds the feed of the newest snapshot again, which changes nothing. It also tries
// another feed of the same time and one of an earlier time, which the builder refuses.
func (p *pair) rebuild(files model.Files) {
	p.t.Helper()
	if p.publish(files, time.Time{}) {
		p.t.Fatalf("the same feed was published twice")
	}
	other := maps.Clone(files)
	other["assets.ndjson"] += "\n" + `{"key":"more","name":"more","symbol":"more","slug":"one more"}`
	if p.publish(other, time.Time{}) || p.publish(files, p.world.Newest().Time.Add(-10*time.Minute)) {
		p.t.Fatalf("an older feed, or another one of the same time, was published")
	}
}

// TestCrowd sends questions about directories of thousands of rows that share tickers, names and
// amounts, so that listings and filters are far longer than a page.
func TestCrowd(t *testing.T) {
	checkProperty(t, 3, func(t *rapid.T) {
		p := newPair(t, gen.Settings().Draw(t, "settings"), poll)
		for _, m := range gen.Histories(3, 10, 3000).Draw(t, "history") {
			if p.build(m.Files, time.Time{}) {
				p.askAll(t, 100)
				for range 150 {
					p.check(gen.LongFilters(p.world).Draw(t, "question"))
				}
				for range 50 {
					p.check(gen.Searches(p.world).Draw(t, "search"))
				}
			}
		}
		p.verify()
	})
}

// TestRollback rolls back to retained snapshots now and then and continues from there with builds
// at withdrawn times, which the builder refuses, and at later times.
func TestRollback(t *testing.T) {
	checkProperty(t, 3, func(t *rapid.T) {
		p := newPair(t, gen.Settings().Draw(t, "settings"), poll)
		var before model.Files
		for _, m := range gen.Histories(16, 20, 0).Draw(t, "history") {
			if !p.build(m.Files, time.Time{}) {
				continue
			}
			if m.Changes {
				p.change(m.After)
			}
			p.askAll(t, 5)
			retained := p.world.Retained()
			if back := rapid.IntRange(0, 3).Draw(t, "back"); back > 0 && back < len(retained) {
				p.rollback(retained[len(retained)-1-back].Time)
				p.askAll(t, 10)
				switch again := rapid.IntRange(0, 2).Draw(t, "again"); {
				case again == 1:
					p.build(m.Files, time.Time{})
				case again == 2 && before != nil:
					p.build(before, m.At)
				}
				p.askAll(t, 10)
			}
			before = m.Files
		}
		p.verify()
	})
}

// TestPast follows a few assets over a long time and compares their changes at every moment.
func TestPast(t *testing.T) {
	checkProperty(t, 2, func(t *rapid.T) {
		p := newPair(t, gen.Settings().Draw(t, "settings"), poll)
		for _, m := range gen.Pasts(80).Draw(t, "history") {
			p.build(m.Files, time.Time{})
			if m.Changes {
				p.change(m.After)
			}
			for _, endpoint := range []string{"quotes?size=100", "global", "chains"} {
				p.check(model.Question{Method: "GET", Target: "/openapi/v1/" + endpoint})
			}
			p.askHistory(1)
		}
		p.verify()
	})
}

// TestHistory follows a few assets over a long time. The history comes from builds, backfills, and
// imports of rows from before, between and at the times of snapshots. Rollbacks and changes of the
// number of assets that have points happen in between. Every point of every window is compared at
// every moment, also in the retained snapshots.
func TestHistory(t *testing.T) {
	all := shapes(t)
	checkProperty(t, 2, func(t *rapid.T) {
		settings := gen.Settings().Draw(t, "settings")
		p := newPair(t, settings, poll)
		moments := gen.Pasts(60).Draw(t, "history")
		draw := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		past := moments[:draw("past", 20)] // imported after others have been built
		moments = moments[len(past):]
		served := map[string]string{}
		for built := moments; len(moments) > 0; {
			if draw("reset", 19) == 19 { // the next builder's flag
				n := draw("assets", 9)
				p.builder.Settings.HistoryAssets = n
				p.world.SetHistory(n)
			}
			switch action := draw("action", 19); {
			case action >= 18:
				n := 1 + draw("feeds", min(10, len(moments)-1))
				p.backfill(moments[:n])
				moments = moments[n:]
			case action == 17 && len(p.world.Retained()) > 1:
				retained := p.world.Retained()
				p.rollback(retained[len(retained)-2].Time)
				clear(served) // some of the withdrawn snapshots are built again
			case action >= 15 && p.world.Newest() != nil:
				// The import becomes visible with the next build.
				n := draw("imported", len(past))
				rows := gen.PastRows(past[:n], built).Draw(t, "rows")
				p.importPast(rows, []string{"csv", "ndjson"}[draw("kind", 1)])
				past = past[n:]
				fallthrough
			default:
				p.build(moments[0].Files, time.Time{})
				moments = moments[1:]
			}
			p.askHistory(1)
			p.candlesStay(served)
			retained := p.world.Retained()
			pinned := retained[draw("pin", len(retained)-1)]
			p.askHistory(1, pinned.Time.Format(time.RFC3339))
			for range 4 {
				p.askCoinPast(t, all, pinned)
				p.askCoinPast(t, all, p.world.Newest())
			}
		}
		p.verify()
		p.restart()
		p.askHistory(1)
		p.askAll(t, 20)
	})
}

// TestLaterPin requests snapshots that the edge does not have yet. The edge looks for them
// immediately, and after a while answers that they do not exist.
func TestLaterPin(t *testing.T) {
	p := newPair(t, model.Defaults(), time.Hour)
	feed := func(at string) model.Files {
		return model.Files{"feed.json": `{"format":1,"database":"d","time":"` + at + `"}`,
			"assets.ndjson": `{"key":"a","name":"a","symbol":"a","slug":"` + at + `"}`}
	}
	question := model.Question{Method: "GET", Target: "/openapi/v1/assets"}
	for _, at := range []string{"2025-06-01T12:00:00Z", "2025-06-01T12:10:00Z"} {
		p.publish(feed(at), time.Time{})
		question.Pins = []string{at}
		p.check(question)
	}
	for _, at := range []string{"2025-06-01T12:20:00Z", "2025-06-01T12:20:01Z", "9999-12-31T23:50:00Z"} {
		question.Pins = []string{at}
		p.check(question)
	}
}
