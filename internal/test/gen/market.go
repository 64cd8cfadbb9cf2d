package gen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/internal/model"
	"pgregory.net/rapid"
)

// A Moment is the feed at one time, together with everything else that happens before the next
// moment.
type Moment struct {
	At      time.Time
	Files   model.Files
	Changes bool          // whether the change job runs after the build
	After   time.Duration // how long after the build it runs, by its clock
	Again   bool          // whether the same feed is built a second time
}

// GoString formats a moment for the log of a failed test.
func (m Moment) GoString() string {
	var b strings.Builder
	fmt.Fprintf(&b, "moment %s", m.At.Format(time.RFC3339))
	for _, name := range []string{
		"feed.json", "assets.ndjson", "quotes.ndjson", "exchanges.ndjson", "categories.ndjson", "chains.ndjson",
		"rates.ndjson"} {
		text := m.Files[name]
		if len(text) > 4000 {
			text = text[:4000] + "…"
		}
		fmt.Fprintf(&b, "\n-- %s --\n%s", name, text)
	}
	if m.Changes {
		b.WriteString("\n(change job)")
	}
	return b.String()
}

// A History is a market at successive moments.
type History []Moment

// GoString formats a history for the log of a failed test.
func (h History) GoString() string {
	var b strings.Builder
	for _, m := range h {
		fmt.Fprintf(&b, "%#v\n", m)
	}
	return b.String()
}

// Histories generates markets with up to the given number of moments and at most size rows per
// collection. In addition they have a crowd of up to the given number of plain assets, with its own
// exchanges and groups.
func Histories(moments, size, crowd int) *rapid.Generator[History] {
	return rapid.Custom(func(t *rapid.T) History {
		d := draw{t}
		m := newMarket(d, size)
		m.crowd = newCrowd(d, crowd)
		at := time.Date(2025, time.Month(d.between(1, 12)), d.between(1, 28), d.upTo(23), 10*d.upTo(5), 0, 0, time.UTC)
		count := moments
		if moments > 1 {
			count = moments - d.upTo(moments-1)
		}
		var h History
		for i := range count {
			if i > 0 {
				at = at.Add(pick(d, steps))
				m.churn(d)
			}
			h = append(h, Moment{At: at, Files: m.feed(d, at), Changes: d.chance(60),
				After: time.Duration(d.between(1, 599)) * time.Second, Again: d.chance(5)})
		}
		return h
	})
}

// steps are the intervals between moments. They reach up to and beyond the limits of retention, of
// the windows, and of the age of groups.
var steps = []time.Duration{
	10 * time.Minute, 20 * time.Minute, time.Hour, 50 * time.Minute, 70 * time.Minute, 30 * time.Minute, 2 * time.Hour,
	6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 24*time.Hour - 10*time.Minute, 24*time.Hour + 10*time.Minute,
	48 * time.Hour, 48*time.Hour - 10*time.Minute, 47 * time.Hour, 7 * 24 * time.Hour, 7*24*time.Hour - time.Hour,
	30 * 24 * time.Hour, 30*24*time.Hour + 10*time.Minute, 45 * 24 * time.Hour, 89*24*time.Hour + 23*time.Hour,
	90 * 24 * time.Hour, 90*24*time.Hour - 30*time.Minute,
	180 * 24 * time.Hour, 275 * 24 * time.Hour, 365 * 24 * time.Hour, 365*24*time.Hour + 10*time.Minute,
	366 * 24 * time.Hour,
}

// collections are the files of a feed whose rows have ids.
var collections = []string{"assets", "exchanges", "categories", "chains"}

type market struct {
	database string
	here     map[string][]*thing // by collection
	gone     map[string][]*thing
	given    map[string]int // where the ids of a collection come from: 0 all assigned, 1 some given, 2 all given
	size     int
	bad      int // percentage of invalid rows
	next     int // number for the next key
	crowd    *crowd
}

// thing is a row of any collection.
type thing struct {
	key, name, slug string
	id              int64 // 0 if the builder is to assign it

	// The following fields are only for assets.
	symbol             string
	inactive           bool
	price, cap, volume string // JSON; an empty price means no quote
	supplies           [3]string
	platforms          []member

	// The following fields are only for categories and chains. The field native is only for chains.
	status, native string
	members        []string
}

func newMarket(d draw, size int) *market {
	m := &market{database: "db", size: size, here: map[string][]*thing{}, gone: map[string][]*thing{},
		given: map[string]int{}, bad: pick(d, []int{0, 5, 20})}
	for _, c := range collections {
		m.given[c] = d.upTo(2)
		for range d.upTo(
			min(size, map[string]int{"assets": size, "exchanges": 30, "categories": 15, "chains": 15}[c])) {
			m.here[c] = append(m.here[c], m.newThing(d, c))
		}
	}
	return m
}

func (m *market) newThing(d draw, collection string) *thing {
	m.next++
	// The byte order of keys differs from their order of creation.
	lead := pick(d, []string{"k", "K", "a", "", "é", "\uFFFF", "😀", "\x00", " ", "0", "~", "\"", "\\"})
	t := &thing{key: fmt.Sprintf("%s%d", lead, m.next), name: d.text(symbols), id: m.id(d, collection)}
	switch collection {
	case "assets":
		t.symbol, t.slug, t.inactive = d.text(symbols), m.slug(d), d.chance(15)
		t.platforms = m.platforms(d)
		m.requote(d, t)
	case "exchanges":
		t.slug = d.text(slugs) // Exchanges may share slugs.
	default:
		t.slug, t.native = m.slug(d), m.member(d)
		m.regroup(d, t)
	}
	return t
}

// id returns an id that the feed gives a row, or 0 if it gives none.
func (m *market) id(d draw, collection string) int64 {
	mode := m.given[collection]
	if mode == 0 || mode == 1 && !d.chance(50) {
		return 0
	}
	id := int64(d.between(1, 300))
	switch {
	case mode == 2 && d.chance(5):
		id = 1<<53 - 1 - int64(d.upTo(3))
	case d.chance(5):
		id = 1<<52 + int64(d.upTo(5))
	}
	return id
}

// slug returns a slug that is usually not in use yet.
func (m *market) slug(d draw) string {
	if d.chance(40) {
		return d.text(slugs)
	}
	return fmt.Sprintf("%s-%d", pick(d, []string{"coin", "Coin", "ſlug", "\u212A", "a&b", "(x)"}), m.next)
}

func (m *market) requote(d draw, a *thing) {
	a.price, a.cap, a.volume = "", "null", `"0"`
	if d.chance(15) {
		return
	}
	a.price = d.decimal(price)
	if !d.chance(20) {
		a.cap = d.decimal(amount)
	}
	if !d.chance(10) {
		a.volume = d.decimal(amount)
	}
	a.supplies = [3]string{}
	for i := range a.supplies {
		if d.chance(20) {
			a.supplies[i] = d.decimal(amount)
		}
	}
}

// member returns the key of an asset that exists, has existed or never exists.
func (m *market) member(d draw) string {
	switch here, gone := m.here["assets"], m.gone["assets"]; {
	case len(gone) > 0 && d.chance(10):
		return pick(d, gone).key
	case len(here) == 0 || d.chance(5):
		return "nobody"
	default:
		return pick(d, here).key
	}
}

func (m *market) regroup(d draw, g *thing) {
	g.status = "active"
	if d.chance(20) {
		g.status = pick(d, []string{"disabled", "deleted"})
	}
	g.members = nil
	for range d.upTo(6) {
		g.members = append(g.members, m.member(d))
	}
}

// churn advances the market to its next moment.
func (m *market) churn(d draw) {
	if d.chance(5) {
		m.database = pick(d, []string{"db", "other", "ß"})
	}
	m.bad = pick(d, []int{m.bad, 0, 5, 20})
	lazy := d.chance(30) // whether only prices and members change
	for _, c := range collections {
		m.move(d, c, lazy)
	}
	for _, a := range m.here["assets"] {
		switch {
		case d.chance(50):
			m.requote(d, a)
		case lazy:
		case d.chance(5):
			a.price = ""
		case d.chance(6):
			a.name, a.symbol = d.text(symbols), d.text(symbols)
		case d.chance(6):
			a.slug = m.slug(d)
		case d.chance(6):
			a.inactive = !a.inactive
		case d.chance(6):
			a.platforms = m.platforms(d)
		case d.chance(2):
			a.id = m.id(d, "assets") // usually a different id
		}
	}
	for _, c := range []string{"categories", "chains"} {
		asleep := d.chance(15) // whether no group of the collection has coins this time
		for _, g := range m.here[c] {
			if d.chance(40) {
				m.regroup(d, g)
			}
			if asleep || d.chance(15) {
				g.members = nil
			}
		}
	}
}

// move removes, adds and restores things of a collection.
func (m *market) move(d draw, collection string, lazy bool) {
	m.here[collection] = slices.DeleteFunc(m.here[collection], func(t *thing) bool {
		leaves := !lazy && d.chance(6)
		if leaves {
			m.gone[collection] = append(m.gone[collection], t)
		}
		return leaves
	})
	for range d.upTo(3) {
		if !lazy && len(m.here[collection]) < m.size {
			m.here[collection] = append(m.here[collection], m.newThing(d, collection))
		}
	}
	m.gone[collection] = slices.DeleteFunc(m.gone[collection], func(t *thing) bool {
		back := d.chance(30)
		if back {
			if d.chance(40) {
				t.id = 0 // The builder remembers the id, but the feed no longer gives it.
			}
			m.here[collection] = append(m.here[collection], t)
		}
		return back
	})
}

// Settings generates settings of the builder: the defaults, or others.
func Settings() *rapid.Generator[model.Settings] {
	return rapid.Custom(func(t *rapid.T) model.Settings {
		d := draw{t}
		s := model.Defaults()
		if d.chance(40) {
			s.MinMarketCap = pick(d, []string{"0", "0.00000001", "25000000.5", "10000000.00000001", "1e27"})
		}
		if d.chance(40) {
			s.MinVolume = pick(d, []string{"0", "0.00000001", "999999.99999999", "1.5"})
		}
		if d.chance(40) {
			s.Retain = pick(d, []time.Duration{
				0, 10 * time.Minute, 59 * time.Minute, 3 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour})
		}
		if d.chance(40) {
			s.History = pick(d, []int{3, 1, 7, 2, 0})
		}
		return s
	})
}
