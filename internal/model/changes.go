package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// changes is the endpoint that lists the changes of the directory.
const changes = "changes"

const (
	changesKept = 30 * 24 * time.Hour // counted from the end of the day of the change
	maxChanges  = 100_000
)

// changedFields lists the fields of a change, in the order in which answers show them. The values
// of "active" and the fields after it are not strings.
var changedFields = []string{"name", "symbol", "slug", "logo", "active", "links", "platforms", "members"}

// isText reports whether answers show the old and the new value of a field.
func isText(field string) bool { return slices.Index(changedFields, field) < 4 }

// A Listed is an item of the directory: its fields by name. Fields that are not strings are in a
// form that can be compared.
type Listed map[string]string

// Changes contains the changes that a snapshot lists.
type Changes struct {
	// Since is the oldest time from which the list is complete.
	Since time.Time
	Items []Changed // newest first, then by collection and id
}

// A Changed is one change of an item.
type Changed struct {
	Time               time.Time
	Collection, Kind   string
	ID                 int64
	Name, Symbol, Slug string
	Fields             []ChangedField // the fields that changed, in the order of changedFields
}

// A ChangedField is a field that changed. Old and New are "" if the field is not a string.
type ChangedField struct{ Name, Old, New string }

// JSON returns the change as an item of /changes.
func (c *Changed) JSON() string {
	b := fmt.Sprintf(`{"time":"%s","collection":"%s","kind":"%s","id":%d,"name":%s`, timestamp(c.Time), c.Collection,
		c.Kind, c.ID, Quote(c.Name))
	if c.Collection == assets {
		b += `,"symbol":` + Quote(c.Symbol)
	}
	b += `,"slug":` + Quote(c.Slug)
	if c.Kind != "changed" {
		return b + "}"
	}
	var fields []string
	for _, f := range c.Fields {
		values := ""
		if isText(f.Name) {
			values = `"old":` + Quote(f.Old) + `,"new":` + Quote(f.New)
		}
		fields = append(fields, `"`+f.Name+`":{`+values+"}")
	}
	return b + `,"fields":{` + strings.Join(fields, ",") + "}}"
}

// of returns the change with the item's name, symbol and slug filled in.
func (c Changed) of(l Listed) Changed {
	c.Name, c.Symbol, c.Slug = l["name"], l["symbol"], l["slug"]
	return c
}

// A listedKey identifies an item of the directory.
type listedKey struct {
	collection string
	id         int64
}

// listed returns all items in the listings of a feed.
func listed(f *feed, st state) map[listedKey]Listed {
	all := map[listedKey]Listed{}
	directory := map[string]*asset{}
	for _, a := range f.assets {
		directory[a.key] = a
		var on []string
		for _, p := range a.platforms {
			on = append(on, p.id+" "+p.address)
		}
		all[listedKey{assets, a.id}] = Listed{"name": a.name, "symbol": a.symbol, "slug": a.slug, "logo": a.logo,
			"active": fmt.Sprint(a.active), "platforms": fmt.Sprintf("%q", on),
			"links": fmt.Sprintf("%q", append([]string{a.website, a.whitepaper}, a.explorers...))}
	}
	for _, e := range f.exchanges {
		all[listedKey{exchanges, e.id}] = Listed{"name": e.name, "slug": e.slug, "logo": e.logo,
			"links": fmt.Sprintf("%q", e.links)}
	}
	for _, collection := range []string{categories, chains} {
		for _, g := range visibleGroups(f, st, collection) {
			coins := map[int64]bool{}
			for _, key := range g.members {
				if a := directory[key]; a != nil && a.active {
					coins[a.id] = true
				}
			}
			l := Listed{"name": g.name, "slug": g.slug, "members": fmt.Sprint(slices.Sorted(maps.Keys(coins)))}
			if native := directory[g.native]; collection == chains && native != nil {
				l["logo"] = native.logo
			}
			all[listedKey{collection, g.id}] = l
		}
	}
	return all
}

// Directory returns the items in a collection's listing, by id, with the fields whose changes are
// recorded.
func (s *Snapshot) Directory(collection string) map[int64]Listed {
	all := map[int64]Listed{}
	for k, l := range s.items {
		if k.collection == collection {
			all[k.id] = l
		}
	}
	return all
}

// A way describes the changes from withdrawn snapshots back to the snapshot that was published
// again. Clients that read withdrawn snapshots need them.
type way struct {
	after, through time.Time // the times of the snapshot published again, and of the newest withdrawn one
	items          []Changed // changes in withdrawn snapshots
	lost           bool      // whether some of these changes are not known
}

// takeBack returns the way back from the newest snapshot to the one that is published again.
func takeBack(newest, to *Snapshot) *way {
	w := &way{after: to.Time, through: newest.Time}
	items := newest.Changes.Items
	for _, s := range []*Snapshot{newest, to} {
		if s.way == nil {
			continue
		}
		w.lost = w.lost || s.way.lost
		items = append(slices.Clone(items), s.way.items...)
		if s.way.after.Before(w.after) {
			w.after = s.way.after
		}
		if s.way.through.After(w.through) {
			w.through = s.way.through
		}
	}
	w.items = laterThan(items, w.after)
	w.lost = w.lost || newest.Changes.Since.After(w.after)
	return w
}

func laterThan(items []Changed, t time.Time) (later []Changed) {
	for _, c := range items {
		if c.Time.After(t) {
			later = append(later, c)
		}
	}
	return later
}

// record records the changes between the preceding snapshot and s. knownIDs contains the ids that
// were known at the preceding snapshot.
func (s *Snapshot) record(before *Snapshot, knownIDs map[string]map[string]int64) {
	s.Changes = &Changes{Since: s.Time}
	if before == nil {
		return
	}
	lost := false
	var touched []Changed // newest first
	if w := before.way; w != nil {
		lost = w.lost || before.Changes.Since.After(w.after)
		touched = append(laterThan(before.Changes.Items, w.after), w.items...)
		slices.SortStableFunc(touched, func(a, b Changed) int { return b.Time.Compare(a.Time) })
		if !s.Time.After(w.through) {
			s.way = &way{after: w.after, through: w.through, items: w.items, lost: lost}
		}
	}
	if lost {
		return
	}
	held := &Changes{Since: before.Changes.Since, Items: s.differ(before, touched, knownIDs)}
	days := map[time.Time]int{}
	for _, c := range before.Changes.Items {
		days[c.Time.Truncate(24*time.Hour)]++
	}
	left := slices.SortedFunc(maps.Keys(days), time.Time.Compare)
	total := len(held.Items) + len(before.Changes.Items)
	today := s.Time.Truncate(24 * time.Hour)
	for len(left) > 0 {
		end := left[0].Add(24 * time.Hour)
		if s.Time.Sub(end) <= changesKept && (total <= maxChanges || left[0].Equal(today)) {
			break
		}
		held.Since = end.Add(-10 * time.Minute)
		total -= days[left[0]]
		left = left[1:]
	}
	if total > maxChanges {
		if s.way != nil {
			s.way.lost = true
		}
		return
	}
	for _, c := range before.Changes.Items {
		if len(left) > 0 && !c.Time.Before(left[0]) {
			held.Items = append(held.Items, c)
		}
	}
	s.Changes = held
}

// differ returns the changes since the earlier snapshot. It also repeats the items whose changes
// were withdrawn; undone lists these changes.
func (s *Snapshot) differ(before *Snapshot, undone []Changed, knownIDs map[string]map[string]int64) (all []Changed) {
	had := map[listedKey]bool{} // items that had an id in the preceding snapshot
	for collection, ids := range knownIDs {
		for _, id := range ids {
			had[listedKey{collection, id}] = true
		}
	}
	again := map[listedKey][]Changed{}
	keys := map[listedKey]bool{}
	for _, c := range undone {
		k := listedKey{c.Collection, c.ID}
		again[k], keys[k] = append(again[k], c), true
	}
	for _, of := range []map[listedKey]Listed{before.items, s.items} {
		for k := range of {
			keys[k] = true
		}
	}
	for k := range keys {
		c := Changed{Time: s.Time, Collection: k.collection, ID: k.id}
		old, was := before.items[k]
		now, is := s.items[k]
		moved := slices.ContainsFunc(again[k], func(c Changed) bool { return c.Kind != "changed" })
		switch {
		case !is && len(again[k]) > 0:
			last := again[k][0]
			c.Kind, c.Name, c.Symbol, c.Slug = "removed", last.Name, last.Symbol, last.Slug
		case !is:
			c.Kind = "removed"
			c = c.of(old)
		case was && !moved:
			if c.Fields = fieldsOf(old, now, again[k]); len(c.Fields) == 0 {
				continue
			}
			c.Kind = "changed"
			c = c.of(now)
		default:
			if c.Kind = "added"; had[k] {
				c.Kind = "back"
			}
			c = c.of(now)
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Changed) int {
		return cmp.Or(cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// fieldsOf returns the fields that differ, and the fields that changed in withdrawn snapshots.
// For the latter, the old value is the newest one that differs from the present value.
func fieldsOf(old, now Listed, again []Changed) (all []ChangedField) {
	for _, name := range changedFields {
		f, differs := ChangedField{Name: name}, old[name] != now[name]
		if isText(name) {
			f.Old, f.New = old[name], now[name]
		}
		var values []string
		for _, c := range again {
			for _, g := range c.Fields {
				if g.Name == name {
					differs, values = true, append(values, g.New, g.Old)
				}
			}
		}
		if i := slices.IndexFunc(values, func(v string) bool { return v != now[name] }); isText(name) && i >= 0 {
			f.Old = values[i]
		}
		if differs {
			all = append(all, f)
		}
	}
	return all
}

// parseChanges parses the parameters that only /changes reads.
func (q *Query) parseChanges(r *parser) {
	if r.sent("since") {
		t, ok := readMoment(r.parameters["since"])
		if q.Since, q.HasSince = t.Unix(), true; !ok {
			r.blame("since")
		}
	}
	for name, known := range map[string][]string{"collection": {assets, exchanges, categories, chains},
		"kind": {"added", "removed", "back", "changed"}} {
		if !r.sent(name) {
			continue
		}
		values := []string{}
		for _, e := range r.elements(name) {
			if e = Fold(e); slices.Contains(known, e) {
				values = append(values, e)
			} else if e != "" {
				r.blame(name)
			}
		}
		slices.Sort(values)
		values = slices.Compact(values)
		if name == "kind" {
			q.Kinds = values
		} else {
			q.Collections = values
		}
	}
}

// changes answers /changes.
func (s *Snapshot) changes(q *Query, a *Answer) {
	var items []Changed
	var total int64
	var since *time.Time
	if s != nil {
		switch {
		case s.Changes == nil:
			*a = failure(503, 50300, "SERVICE_UNAVAILABLE")
			return
		case q.HasSince && q.Since < s.Changes.Since.Unix():
			*a = failure(410, 41000, "SNAPSHOT_GONE")
			return
		}
		since = &s.Changes.Since
		for _, c := range s.Changes.Items {
			if !q.Changed(&c) {
				continue
			}
			if total >= q.Offset && total-q.Offset < q.Size {
				items = append(items, c)
			}
			total++
		}
	}
	a.Body = ChangesBody(q, items, total, since)
}

// Changed reports whether a change matches the query.
func (q *Query) Changed(c *Changed) bool {
	return (!q.HasSince || c.Time.Unix() > q.Since) &&
		(q.Collections == nil || slices.Contains(q.Collections, c.Collection)) &&
		(q.Kinds == nil || slices.Contains(q.Kinds, c.Kind))
}

// ChangesBody returns the whole body of a page of changes. since is nil before the first snapshot.
func ChangesBody(q *Query, items []Changed, total int64, since *time.Time) string {
	var texts []string
	for i := range items {
		texts = append(texts, items[i].JSON())
	}
	from := "null"
	if since != nil {
		from = `"` + timestamp(*since) + `"`
	}
	return envelope(fmt.Sprintf(`{"items":[%s],"page":%d,"total":%d,"total_page":%d,"since":%s}`,
		strings.Join(texts, ","), q.Page, total, max(1, (total+q.Size-1)/q.Size), from))
}

// ReadChanged parses an item of /changes. The item must be exactly what JSON returns for it.
func ReadChanged(text []byte) (c Changed, err error) {
	var i struct {
		Changed
		Fields map[string]ChangedField
	}
	if err := json.Unmarshal(text, &i); err != nil {
		return c, err
	}
	c = i.Changed
	for _, name := range changedFields {
		if f, ok := i.Fields[name]; ok {
			f.Name = name
			c.Fields = append(c.Fields, f)
		}
	}
	switch {
	case c.JSON() != string(text):
		return c, fmt.Errorf("%s, not %s", Difference(string(text), c.JSON()), text)
	case !slices.Contains([]string{assets, exchanges, categories, chains}, c.Collection),
		!slices.Contains([]string{"added", "removed", "back", "changed"}, c.Kind),
		c.Kind == "changed" && len(c.Fields) == 0, !c.Time.Equal(c.Time.Truncate(10 * time.Minute)):
		return c, fmt.Errorf("not a valid change: %s", text)
	}
	return c, nil
}

// CheckOrder returns an error for the first change that is out of order. The order is newest first,
// then by collection and id.
func CheckOrder(items []Changed) error {
	for i := 1; i < len(items); i++ {
		a, b := &items[i-1], &items[i]
		if cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.ID, b.ID)) >= 0 {
			return fmt.Errorf("%s comes before %s", a.JSON(), b.JSON())
		}
	}
	return nil
}
