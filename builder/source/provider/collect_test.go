package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/providertest"
)

// market makes the requests of its test.
type market struct{ ask func(r provider.Round) error }

func (m *market) Collect(_ context.Context, r provider.Round) error { return m.ask(r) }

func (*market) Write(*provider.Feed) {}

// subject is the source under test, with its market.
type subject struct {
	*provider.Source
	*market
}

func open(t *testing.T, p *providertest.Provider, options string) subject {
	t.Helper()
	o := must.Get(provider.ParseOptions("test", "?"+options, nil))(t)
	m := &market{}
	env := provider.Env{Log: slog.New(slog.DiscardHandler), Transport: p.Transport()}
	plan := provider.Plan{Base: "https://api.example.test", PerMinute: 60_000, Burst: 1000}
	s := must.Get(provider.NewSource(o, env, plan, func() provider.Market { return m }))(t)
	return subject{s, m}
}

// collect runs a round and returns its report on the parts.
func (s subject) collect(t *testing.T, ask func(r provider.Round) error) []source.Part {
	t.Helper()
	s.ask = ask
	files := must.Get(s.Files(t.Context(), time.Unix(1, 0)))(t)
	return files.(source.Provenance).Parts()
}

// rowsPart returns the part of a list that is not divided into pages.
func rowsPart(every time.Duration) provider.Part {
	return provider.Part{Name: "rows", Path: "/rows", Every: every, Check: provider.CheckArray}
}

// required requests a list of prices and returns its rows.
func required(t *testing.T, r provider.Round, p provider.Part) (string, error) {
	var rows []provider.Row
	err := r.Lists(t.Context(), provider.List{Required: true, Into: &rows, Part: p})
	var all []string
	for _, row := range rows {
		all = append(all, string(row.Raw))
	}
	return strings.Join(all, " "), err
}

// got is the result of a round for one part.
type got struct {
	rows  string
	state source.PartState
	err   error
}

// get runs a round that requests one part.
func get(t *testing.T, s subject, p provider.Part) (g got) {
	t.Helper()
	parts := s.collect(t, func(r provider.Round) error {
		g.rows, g.err = required(t, r, p)
		return nil
	})
	if len(parts) != 1 || parts[0].Name != p.Name {
		t.Fatalf("parts %+v", parts)
	}
	g.state = parts[0].State
	return g
}

func (g got) check(t *testing.T, rows string, state source.PartState) {
	t.Helper()
	if g.rows != rows || g.state != state || (g.err != nil) != (state == source.PartMissing) {
		t.Errorf("got %q, %s, %v; want %q, %s", g.rows, g.state, g.err, rows, state)
	}
}

// TestLastGoodAnswer follows a list whose provider fails: its answer is new, then stale for an
// hour, then too old, and finally new again.
func TestLastGoodAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		p.Set("/rows", []byte(`[1]`))
		c := open(t, p, "")
		get(t, c, rowsPart(0)).check(t, "1", source.PartNew)
		began := time.Now()
		p.Fault("/rows", providertest.Status(503))
		for _, at := range []time.Duration{10 * time.Minute, 59 * time.Minute, time.Hour} {
			time.Sleep(time.Until(began.Add(at)))
			get(t, c, rowsPart(0)).check(t, "1", source.PartStale)
		}
		time.Sleep(time.Until(began.Add(time.Hour + time.Second)))
		g := get(t, c, rowsPart(0))
		g.check(t, "", source.PartMissing)
		if g.err == nil || !strings.Contains(g.err.Error(), "status 503") {
			t.Errorf("error %v, want the 503", g.err)
		}
		p.Fault("/rows", nil)
		p.Set("/rows", []byte(`[1,2]`))
		get(t, c, rowsPart(0)).check(t, "1 2", source.PartNew)
	})
}

// TestSchedule checks that a part is not requested while its answer counts as new. If the part is
// unavailable after that, the answer is used for another hour.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		p.Set("/rows", []byte(`[1]`))
		c := open(t, p, "")
		part := rowsPart(30 * time.Minute)
		get(t, c, part).check(t, "1", source.PartNew)
		p.Set("/rows", []byte(`[1,2]`))
		time.Sleep(29 * time.Minute)
		get(t, c, part).check(t, "1", source.PartKept)
		time.Sleep(time.Minute)
		get(t, c, part).check(t, "1 2", source.PartNew)
		if asked := p.Asked(); len(asked) != 2 {
			t.Errorf("asked %v", asked)
		}
		p.Fault("/rows", providertest.Says("<html>"))
		time.Sleep(90 * time.Minute)
		get(t, c, part).check(t, "1 2", source.PartStale)
		time.Sleep(time.Second)
		get(t, c, part).check(t, "", source.PartMissing)
	})
}

// TestClockSetBack checks that answers that were fetched while the clock was a year ahead are
// requested again when the clock is right. Their prices are not used if new ones are unavailable,
// since their age is unknown (README, "prices for an hour, after which builds stop"). A clock may
// be ten minutes ahead, but not eleven.
func TestClockSetBack(t *testing.T) {
	p := providertest.New()
	p.Set("/rows", []byte(`[1]`))
	for ahead, want := range map[time.Duration]string{
		365 * 24 * time.Hour: "", 11 * time.Minute: "", 10 * time.Minute: "1"} {
		cached := "cache=" + t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(ahead)
			get(t, open(t, p, cached), rowsPart(30*time.Minute)).check(t, "1", source.PartNew)
		})
		synctest.Test(t, func(t *testing.T) { // each bubble has its own clock
			away := providertest.New()
			away.Set("/rows", []byte(`[1,2]`))
			if want == "" {
				get(t, open(t, away, cached), rowsPart(30*time.Minute)).check(t, "1 2", source.PartNew)
				return
			}
			get(t, open(t, away, cached), rowsPart(30*time.Minute)).check(t, want, source.PartKept)
		})
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(ahead)
			get(t, open(t, p, cached+"x"), rowsPart(30*time.Minute)).check(t, "1", source.PartNew)
		})
		synctest.Test(t, func(t *testing.T) {
			away := providertest.New()
			away.Fault("/rows", providertest.Status(500))
			state := source.PartMissing
			if want != "" {
				state = source.PartKept
			}
			get(t, open(t, away, cached+"x"), rowsPart(30*time.Minute)).check(t, want, state)
		})
	}
}

// TestNotModified checks that a 304 makes the cached answer new again.
func TestNotModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		p.Set("/rows", []byte(`[1]`))
		c := open(t, p, "")
		get(t, c, rowsPart(0)).check(t, "1", source.PartNew)
		time.Sleep(50 * time.Minute)
		get(t, c, rowsPart(0)).check(t, "1", source.PartNew) // a 304
		p.Fault("/rows", providertest.Status(500))
		time.Sleep(50 * time.Minute)
		get(t, c, rowsPart(0)).check(t, "1", source.PartStale)
	})
}

// TestDoubtfulAnswer checks that an answer that has lost more than half of its rows is used, but
// does not replace the last good one.
func TestDoubtfulAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		p.Set("/rows", []byte(`[1,2,3,4,5]`))
		c := open(t, p, "")
		part := rowsPart(30 * time.Minute)
		get(t, c, part).check(t, "1 2 3 4 5", source.PartNew)
		time.Sleep(31 * time.Minute)
		p.Set("/rows", []byte(`[9,9]`))
		get(t, c, part).check(t, "9 9", source.PartNew)
		p.Set("/rows", []byte(`[1,2,3]`))
		get(t, c, part).check(t, "1 2 3", source.PartNew) // requested again immediately, and good
		time.Sleep(31 * time.Minute)
		p.Set("/rows", []byte(`[9]`))
		get(t, c, part).check(t, "9", source.PartNew)
		p.Fault("/rows", providertest.Status(500))
		get(t, c, part).check(t, "1 2 3", source.PartStale)
		p.Fault("/rows", nil)
		time.Sleep(2 * time.Hour)
		get(t, c, part).check(t, "9", source.PartNew) // the last good answer is too old to compare with
		get(t, c, part).check(t, "9", source.PartKept)
	})
}

func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		part := provider.Part{
			Name: "rows", Path: "/rows", Pager: provider.Numbered("page", 2), Check: provider.CheckArray,
		}
		c := open(t, p, "")
		p.Set("/rows?page=1", []byte(`[1,2]`))
		p.Set("/rows?page=2", []byte(`[3,4]`))
		p.Set("/rows?page=3", []byte(`[5]`))
		get(t, c, part).check(t, "1 2 3 4 5", source.PartNew)
		if asked := p.Asked(); len(asked) != 3 {
			t.Errorf("asked %v", asked)
		}

		// All pages come from the same round, or all come from the last good one.
		p.Set("/rows?page=1", []byte(`[1,20]`))
		p.Fault("/rows?page=3", providertest.Status(404))
		get(t, c, part).check(t, "1 2 3 4 5", source.PartStale)
		p.Fault("/rows?page=3", nil)
		p.Set("/rows?page=3", []byte(`[]`))
		get(t, c, part).check(t, "1 20 3 4", source.PartNew)

		// An answer without any rows is a failure, unless the part may be empty.
		p.Set("/rows?page=1", []byte(`[]`))
		get(t, c, part).check(t, "1 20 3 4", source.PartStale)
		part.MayBeEmpty = true
		get(t, open(t, p, ""), part).check(t, "", source.PartNew)
		part.MayBeEmpty = false
		p.Set("/rows?page=1", []byte(`[1,20]`))

		part.Pages = 2
		get(t, c, part).check(t, "1 20 3 4", source.PartNew)

		// A server that ignores the page number.
		other := providertest.New()
		other.Set("/rows", []byte(`[1,2]`))
		part.Pages = 0
		c = open(t, other, "")
		get(t, c, part).check(t, "", source.PartMissing)

		// A missing first page does not mean that the list is gone.
		c = open(t, providertest.New(), "")
		get(t, c, part).check(t, "", source.PartMissing)
	})
}

// TestPagers checks that every kind of pager requests all pages, that they are recorded and
// replayed, and that rows are found at any path. An endless list is a failure.
func TestPagers(t *testing.T) {
	for name, test := range map[string]struct {
		pager   *provider.Pager
		at      string
		answers string // pairs of a query and the answer to it, in order
		want    string // the rows of all pages; "" for a failure
	}{
		"numbered":   {provider.Numbered("page", 1), "", "page=1 [1,2] page=2 [3] page=3 [4] page=4 []", "1 2 3 4"},
		"short page": {provider.Numbered("page", 2), "", "page=1 [1,2] page=2 [3]", "1 2 3"},
		"offset": {
			provider.Offset("start", 1, 1), "data",
			`start=1 {"data":["x","y"]} start=3 {"data":["z"]} start=4 {"data":[]}`, `"x" "y" "z"`,
		},
		"BOM":       {nil, "data", "- \ufeff{\"data\":[1]}", "1"},
		"elsewhere": {nil, "data.coins", `- {"data":[1]}`, ""},
		"endless":   {provider.Numbered("page", 1), "", "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := providertest.New()
			left, asked := strings.Fields(test.answers), 0
			p.Fault("/rows", func(w http.ResponseWriter, r *http.Request) {
				switch asked++; {
				case name == "endless":
					fmt.Fprintf(w, "[%d]", asked)
					return
				case len(left) == 0 || strings.TrimPrefix(left[0], "-") != r.URL.RawQuery:
					t.Errorf("%s: asked %q", name, r.URL.RawQuery)
					return
				}
				_, _ = io.WriteString(w, left[1])
				if left = left[2:]; test.want == "" {
					left = strings.Fields(test.answers)
				}
			})
			part := provider.Part{
				Name: "rows", Path: "/rows", Pager: test.pager, At: test.at, Check: provider.CheckArray,
			}
			live := open(t, p, "")
			rows := ""
			live.ask = func(r provider.Round) (err error) {
				rows, err = required(t, r, part)
				return err
			}
			dir := filepath.Join(t.TempDir(), "recording")
			err := live.Record(t.Context(), dir)
			if rows != test.want || (err != nil) != (test.want == "") || test.want != "" && len(left) > 0 {
				t.Errorf("%s: got %q, %v, want %q; not asked for %q", name, rows, err, test.want, left)
			}
			if name == "endless" && asked != provider.MaxPages {
				t.Errorf("%d pages", asked)
			}
			if test.want != "" {
				get(t, open(t, p, "replay="+dir), part).check(t, test.want, source.PartNew)
			}
		})
	}
}

// each runs a round that requests /coins/ID for each id. It returns the bodies by id, and the
// report on the kind.
func each(t *testing.T, s subject, ids ...string) (map[string]string, source.Part) {
	t.Helper()
	found := map[string]string{}
	parts := s.collect(t, func(r provider.Round) error {
		answers, err := r.Each(t.Context(), "coins", ids, func(id string) provider.Part {
			return provider.Part{
				Path: "/coins/" + provider.Escape(id), Every: 24 * time.Hour, Check: provider.CheckObject,
				Reduce: func(b []byte) []byte { return []byte(`{"reduced":` + string(b) + `}`) },
			}
		})
		for id, a := range answers {
			if found[id] = ""; !a.Gone {
				found[id] = string(a.Pages[0].Body)
			}
		}
		return err
	})
	return found, parts[0]
}

func TestEachWithinItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			p.Set("/coins/"+id, []byte(`{"id":"`+id+`"}`))
		}
		c := open(t, p, "slow=2")
		ask := func(ids ...string) []string {
			found, part := each(t, c, ids...)
			if part.State != source.PartKept {
				t.Errorf("state %+v", part)
			}
			return slices.Sorted(maps.Keys(found))
		}
		wantAsked := func(want ...string) {
			t.Helper()
			if asked := p.Asked(); !slices.Equal(asked, want) {
				t.Errorf("asked %v, want %v", asked, want)
			}
		}
		ids := []string{"a", "gone", "b", "c", "d", "e"}
		if found := ask(ids...); !slices.Equal(found, []string{"a", "gone"}) {
			t.Errorf("found %v", found)
		}
		wantAsked("/coins/a", "/coins/gone")
		ask(ids...)
		wantAsked("/coins/b", "/coins/c")
		time.Sleep(time.Hour)
		if found := ask(ids...); len(found) != 6 {
			t.Errorf("found %v", found)
		}
		wantAsked("/coins/d", "/coins/e")
		ask(ids...)
		wantAsked()
		time.Sleep(23 * time.Hour)
		ask("x", "b", "a") // first the item that was never requested, then the oldest
		wantAsked("/coins/x", "/coins/b")
		ask("d", "e", "b", "a")
		wantAsked("/coins/a")
	})
}

// TestEachReduces checks that answers that stay in memory between rounds are reduced.
func TestEachReduces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		p.Set("/coins/a", []byte(`{"id":"a"}`))
		c := open(t, p, "slow=1")
		for _, want := range []string{`{"id":"a"}`, `{"reduced":{"id":"a"}}`, `{"reduced":{"id":"a"}}`} {
			if found, _ := each(t, c, "a"); found["a"] != want {
				t.Errorf("got %s, want %s", found["a"], want)
			}
		}
	})
}

// TestEachFails checks that a failing item does not delay others, is requested less and less often,
// even across restarts, and is named in the report.
func TestEachFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		dir := filepath.Join(t.TempDir(), "cache")
		ids := []string{"bad", "worse", "a", "b", "c", "d"}
		for _, id := range ids[2:] {
			p.Set("/coins/"+id, []byte(`{}`))
		}
		p.Fault("/coins/bad", providertest.Status(402))
		p.Fault("/coins/worse", providertest.Status(403))
		var part source.Part
		var found map[string]string
		asked := map[string]int{}
		round := func() {
			c := open(t, p, "slow=2&cache="+dir)
			found, part = each(t, c, ids...)
			for _, path := range p.Asked() {
				asked[path]++
			}
			time.Sleep(time.Hour)
		}
		for range 3 {
			round()
		}
		if len(found) != 4 || part.State != source.PartStale || !strings.Contains(part.Reason,
			"2 failing: coins/bad (1 times: GET /coins/bad: status 402") || !strings.Contains(part.Reason,
			"coins/worse") {
			t.Errorf("found %v, %+v", found, part)
		}
		for range 48 {
			round()
		}
		// The item is retried after 1, 3, 7, 15 and 31 hours.
		if n := asked["/coins/bad"]; n != 6 || asked["/coins/a"] < 2 || len(found) != 4 {
			t.Errorf("asked %v, found %v", asked, found)
		}
		p.Set("/coins/bad", []byte(`{}`))
		p.Fault("/coins/bad", nil)
		for range 32 {
			round()
		}
		if len(found) != 5 || strings.Contains(part.Reason, "bad") {
			t.Errorf("over, found %v, %+v", found, part)
		}
	})
}

// TestEachGivesUp checks that the provider receives no more calls after a few consecutive failures.
func TestEachGivesUp(t *testing.T) {
	for status, want := range map[int]int{402: 3, 429: 4} { // a 429 is retried, and then ends the round
		synctest.Test(t, func(t *testing.T) {
			p := providertest.New()
			ids := []string{"a", "b", "c", "d", "e"}
			for _, id := range ids {
				p.Fault("/coins/"+id, providertest.Status(status))
			}
			each(t, open(t, p, "slow=10"), ids...)
			if asked := p.Asked(); len(asked) != want {
				t.Errorf("%d: asked %v", status, asked)
			}
		})
	}
}

func TestCacheOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "cache")
		p := providertest.New()
		p.Set("/rows", []byte(`[1]`))
		p.Set("/coins/..%2F", []byte(`{}`))
		p.Set("/coins/%2E%2E%2F", []byte(`{"id":"../"}`))
		cached := "slow=10&cache=" + dir
		get(t, open(t, p, cached), rowsPart(0)).check(t, "1", source.PartNew)
		each(t, open(t, p, cached), "../", "gone")

		away := providertest.New()
		away.Fault("/rows", providertest.Status(500))
		time.Sleep(time.Hour)
		get(t, open(t, away, cached), rowsPart(0)).check(t, "1", source.PartStale)
		if found, _ := each(t, open(t, away, cached), "../", "gone"); found["../"] != `{"id":"../"}` ||
			len(found) != 2 {
			t.Errorf("found %v", found)
		}
		if asked := away.Asked(); len(asked) != 4 {
			t.Errorf("asked %v", asked)
		}
		time.Sleep(time.Hour)
		get(t, open(t, away, cached), rowsPart(0)).check(t, "", source.PartMissing)

		// The cache contains the provider's ETag, too, so this is a 304.
		p.Fault("/rows", nil)
		c := open(t, p, cached)
		get(t, c, rowsPart(0)).check(t, "1", source.PartNew)

		// A damaged file is ignored.
		saved := must.Get(filepath.Glob(filepath.Join(dir, "rows.*.json")))(t)
		ok(t, os.WriteFile(saved[0], []byte(`[7]`), 0o644))
		get(t, open(t, away, cached), rowsPart(0)).check(t, "", source.PartMissing)
		// A cache that is invalid, or that belongs to another provider, is ignored, too.
		for _, index := range []string{
			"{", `{"format":2,"source":"test"}`, `{"format":1,"source":"other"}`,
			`{"format":1,"source":"test","parts":{"rows":{}}}`,
		} {
			ok(t, os.WriteFile(filepath.Join(dir, "recording.json"), []byte(index), 0o644))
			get(t, open(t, p, cached), rowsPart(time.Hour)).check(t, "1", source.PartNew)
		}
		get(t, open(t, p, cached), rowsPart(time.Hour)).check(t, "1", source.PartKept)
	})
}

// TestRecordAndReplay checks that a recording contains the answers byte for byte, and replays them.
func TestRecordAndReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "recording")
		p := providertest.New()
		p.Set("/rows", []byte(" [ 1.50 ,\n2e-8 ] "))
		p.Set("/pages?page=1", []byte(`[1,2]`))
		p.Set("/pages?page=2", []byte(`[3]`))
		p.Set("/coins/a", []byte(`{"id":"a"}`))
		long := strings.Repeat("long", 100)
		p.Set("/coins/"+long, []byte(`{"id":"long"}`))
		pages := provider.Part{
			Name: "pages", Path: "/pages", Pager: provider.Numbered("page", 2), Check: provider.CheckArray,
		}
		ask := func(r provider.Round) error {
			_, err := required(t, r, rowsPart(0))
			if err == nil {
				_, err = required(t, r, pages)
			}
			if err != nil {
				return err
			}
			answers, err := r.Each(t.Context(), "coins", []string{"a", "gone", long}, func(id string) provider.Part {
				return provider.Part{
					Path: "/coins/" + id, Check: provider.CheckObject,
					Reduce: func([]byte) []byte { return []byte(`{}`) },
				}
			})
			if len(answers) != 3 {
				t.Errorf("%d answers, want 3", len(answers))
			}
			return err
		}
		began := time.Now()
		live := open(t, p, "slow=9")
		live.ask = ask
		ok(t, live.Record(t.Context(), dir))
		for file, want := range map[string]string{
			"rows.json": " [ 1.50 ,\n2e-8 ] ", "pages.1.json": `[1,2]`, "pages.2.json": `[3]`,
			"coins/a.json": `{"id":"a"}`,
		} {
			if b, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(b) != want {
				t.Errorf("%s: %q, %v", file, b, err)
			}
		}

		time.Sleep(1000 * time.Hour)
		again := filepath.Join(t.TempDir(), "again")
		replay := "replay=" + dir
		replayed := open(t, providertest.New(), replay)
		replayed.ask = ask
		ok(t, replayed.Record(t.Context(), again))
		files := must.Get(replayed.Files(t.Context(), time.Time{}))(t)
		if _, at, err := source.ReadInfo(t.Context(), files); err != nil || !at.Equal(began) {
			t.Errorf("replayed at %v, recorded at %v, %v", at, began, err)
		}
		if a, b := providertest.Tree(t, dir), providertest.Tree(t, again); !maps.Equal(a, b) {
			t.Errorf("the recording of a replay differs:\n%v\n%v", a, b)
		}

		// A file that was changed after the recording is an error.
		ok(t, os.WriteFile(filepath.Join(dir, "rows.json"), []byte(`[3]`), 0o644))
		g := get(t, open(t, p, replay), rowsPart(0))
		if g.err == nil || !strings.Contains(g.err.Error(), "rows.json does not match its digest in recording.json") {
			t.Errorf("changed by hand: %v", g.err)
		}
	})
}

// TestReplayOfFilesMadeByHand tests the names that a file can have.
func TestReplayOfFilesMadeByHand(t *testing.T) {
	whole := rowsPart(0)
	paged := provider.Part{Name: "rows", Pager: provider.Numbered("page", 2), Check: provider.CheckArray}
	one := provider.Part{Name: "rows/..", Check: provider.CheckArray}
	for _, test := range []struct {
		files string
		part  provider.Part
		want  string
	}{
		{"rows.json=[1]", whole, "1"},
		{"rows-default.json=[1]", whole, "1"},
		{"rows-default.json=[1] rows.json=[2]", whole, "2"},
		{"rows-a.json=[1] rows-b.json=[2]", whole, ""},
		{"rowsmore.json=[1]", whole, ""},
		{"rows.json={}", whole, ""},
		{"rows.1.json=[1] rows.2.json=[2] rows.4.json=[4]", paged, "1 2"},
		{"rows.json=[1,2,3] rows.2.json=[4]", paged, "1 2 3 4"},
		{"rows-x.json=[1]", paged, "1"},
		{"rows.2.json=[1]", paged, ""},
		{"rows.1.json=[1] rows.2.json={}", paged, ""},
		{"rows/%2E%2E.json=[1]", one, "1"},
		{"rows/x.json=[1]", one, ""},
		{"", whole, ""},
	} {
		dir := t.TempDir()
		for _, f := range strings.Fields(test.files) {
			name, body, _ := strings.Cut(f, "=")
			path := filepath.Join(dir, name)
			must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o777),
				os.WriteFile(path, []byte(body), 0o644)))
		}
		c := open(t, providertest.New(), "replay="+dir)
		state := source.PartNew
		if test.want == "" {
			state = source.PartMissing
		}
		t.Run(test.files, func(t *testing.T) { get(t, c, test.part).check(t, test.want, state) })
	}
	o, err := provider.ParseOptions("test", "?replay="+filepath.Join(t.TempDir(), "away"), nil)
	if err == nil {
		_, err = provider.NewSource(o, provider.Env{Log: slog.New(slog.DiscardHandler)},
			provider.Plan{Base: "https://x"}, nil)
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a recording that is away: %v", err)
	}
}

// TestStops checks that a canceled round fails instead of reporting missing parts.
func TestStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		p.Fault("/rows", providertest.Status(500))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		s := open(t, p, "")
		s.ask = func(r provider.Round) error {
			return r.Lists(ctx, provider.List{Required: true, Into: new([]provider.Row), Part: rowsPart(0)})
		}
		_, err := s.Files(ctx, time.Time{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestParseOptions(t *testing.T) {
	taken := map[string]string{"pages": "N"}
	for rest, want := range map[string]string{
		"": "test:", "?": "test:", "?cache=a%2Fb&slow=3": "test:?cache=a%2Fb&slow=3",
		"?slow=3&cache=x": "test:?cache=x&slow=3", "?replay=x": "test:?replay=x",
	} {
		if o, err := provider.ParseOptions("test", rest, taken); err != nil || o.String() != want {
			t.Errorf("%q: %v, %v", rest, o, err)
		}
	}
	for rest, want := range map[string]string{
		"x": `unexpected "x"`, "?slo=1": `unknown option "slo"`, "?slow=1&slow=2": "slow is given 2 times",
		"?cache=": "cache is empty",
		"?a=%zz":  `query "a=%zz"`, "?replay=x&cache=y": "cache has no effect with replay",
		"//host": `unexpected "//host"`,
	} {
		_, err := provider.ParseOptions("test", rest, taken)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(),
			"want test:?base=URL&cache=DIR&pages=N&plan=NAME&quota=N|none&rate=N&replay=DIR&slow=N, all optional") {
			t.Errorf("%q: %v, want %s", rest, err, want)
		}
	}
	o := must.Get(provider.ParseOptions("test", "?slow=7", taken))(t)
	if n, err := o.Number("slow", 1, 0, 7); n != 7 || err != nil {
		t.Errorf("slow: %d, %v", n, err)
	}
	if n, err := o.Number("other", 5, 0, 7); n != 5 || err != nil {
		t.Errorf("other: %d, %v", n, err)
	}
	if _, err := o.Number("slow", 1, 0, 6); err == nil || err.Error() != "slow=7: want a whole number from 0 to 6" {
		t.Errorf("slow beyond its range: %v", err)
	}
}

var ok = must.OK
