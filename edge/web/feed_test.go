package web_test

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

// atom contains the elements that RFC 4287 requires in a feed. Lists show how often an element occurs.
type atom struct {
	XMLName xml.Name   `xml:"http://www.w3.org/2005/Atom feed"`
	ID      []string   `xml:"http://www.w3.org/2005/Atom id"`
	Title   []string   `xml:"http://www.w3.org/2005/Atom title"`
	Updated []string   `xml:"http://www.w3.org/2005/Atom updated"`
	Authors []string   `xml:"http://www.w3.org/2005/Atom author>name"`
	Links   []atomLink `xml:"http://www.w3.org/2005/Atom link"`
	Entries []struct {
		ID      []string   `xml:"http://www.w3.org/2005/Atom id"`
		Title   []string   `xml:"http://www.w3.org/2005/Atom title"`
		Updated []string   `xml:"http://www.w3.org/2005/Atom updated"`
		Summary []string   `xml:"http://www.w3.org/2005/Atom summary"`
		Links   []atomLink `xml:"http://www.w3.org/2005/Atom link"`
	} `xml:"http://www.w3.org/2005/Atom entry"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	HRef string `xml:"href,attr"`
}

// TestFeed checks that /changes.atom needs no key and meets the requirements of RFC 4287, that names that
// look like markup stay text, and that an entry keeps its id when a later snapshot adds other entries.
func TestFeed(t *testing.T) {
	const hostile = `A</title><b>&amp; & "B" ]]>`
	type row = map[string]any
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	store := memstore.New()
	publish := func(at time.Time, name string, more ...row) {
		assets := append([]row{{"key": "a", "id": 1, "name": name, "symbol": "<A&B>", "slug": "a"}}, more...)
		teststore.Publish(t, store, teststore.Rows{"assets": assets, "quotes": {}, "exchanges": {}, "categories": {},
			"chains": {}}, at)
	}
	publish(now, "Before & after")
	publish(now.Add(10*time.Minute), hostile)
	base := openapitest.Start(t, edge.Config{Reader: store})
	openapitest.Await(t, base, teststore.Key(t, store, 100, 100).Key)

	first := readFeed(t, base, now.Add(10*time.Minute))
	if len(first.Entries) != 1 {
		t.Fatalf("%d entries", len(first.Entries))
	}
	e := first.Entries[0]
	if want := "Asset " + hostile + " (<A&B>): name changed"; e.Title[0] != want {
		t.Errorf("the title is %q, want %q", e.Title[0], want)
	}
	if want := "name: Before & after \u2192 " + hostile; len(e.Summary) != 1 || e.Summary[0] != want {
		t.Errorf("the summary is %q, want %q", e.Summary, want)
	}
	if want := base + "/?id=1"; e.Links[0].HRef != want {
		t.Errorf("the entry leads to %s, want %s", e.Links[0].HRef, want)
	}

	publish(now.Add(20*time.Minute), hostile, row{"key": "c", "id": 2, "name": "C", "symbol": "C", "slug": "c"})
	publish(now.Add(30*time.Minute), hostile)
	later := readFeed(t, base, now.Add(30*time.Minute))
	var titles []string
	for _, e := range later.Entries {
		titles = append(titles, e.Title[0])
	}
	if got := strings.Join(titles[:len(titles)-1], "; "); got != "Asset C (C): removed; Asset C (C): added" {
		t.Errorf("the new entries are %q", got)
	}
	if last := later.Entries[len(titles)-1]; last.ID[0] != e.ID[0] || last.Updated[0] != e.Updated[0] ||
		later.ID[0] != first.ID[0] {
		t.Errorf("the entry is now %+v, and was %+v", last, e)
	}
	if link := later.Entries[0].Links[0].HRef; link != base+"/?view=changes" {
		t.Errorf("the entry of what was removed leads to %s", link)
	}
}

// readFeed reads the feed of a snapshot, and checks the requirements of RFC 4287.
func readFeed(t *testing.T, base string, at time.Time) (f atom) {
	t.Helper()
	var body []byte
	want := at.Format(time.RFC3339)
	for end := time.Now().Add(patience); len(f.Updated) != 1 || f.Updated[0] != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no feed of %s: %s", want, body)
		}
		res := must.Get(http.Get(base + "/changes.atom"))(t)
		body = must.Get(io.ReadAll(res.Body))(t)
		must.OK(t, res.Body.Close())
		if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK ||
			kind != "application/atom+xml; charset=utf-8" {
			t.Fatalf("%s, %s: %s", res.Status, kind, body)
		}
		f = atom{}
		must.OK(t, xml.Unmarshal(body, &f))
	}
	ids := map[string]bool{}
	id := func(all []string) {
		t.Helper()
		if len(all) != 1 || ids[all[0]] {
			t.Errorf("ids %q: want one that nothing else has", all)
			return
		}
		ids[all[0]] = true
		if u, err := url.Parse(all[0]); err != nil || !u.IsAbs() {
			t.Errorf("the id %q is no IRI", all[0])
		}
	}
	updated := func(all []string) {
		t.Helper()
		if _, err := time.Parse(time.RFC3339, strings.Join(all, " ")); err != nil {
			t.Error(err)
		}
	}
	id(f.ID)
	if len(f.Title) != 1 || f.Title[0] == "" || len(f.Authors) != 1 || f.Authors[0] == "" {
		t.Errorf("titles %q, authors %q: want one of each", f.Title, f.Authors)
	}
	if len(f.Links) != 2 || f.Links[0] != (atomLink{"self", base + "/changes.atom"}) {
		t.Errorf("links %q", f.Links)
	}
	for _, e := range f.Entries {
		id(e.ID)
		updated(e.Updated)
		if len(e.Title) != 1 || e.Title[0] == "" {
			t.Errorf("titles %q of an entry", e.Title)
		}
		// An entry without content needs an alternate link.
		if len(e.Links) != 1 || e.Links[0].Rel != "alternate" {
			t.Errorf("links %q of an entry", e.Links)
		}
	}
	return f
}
