// Package changes lists what changed in the directory since the previous snapshot, and adds these
// changes to those that the previous snapshot lists (go doc ./artifacts, "Changes"). The ledger
// holds the previous snapshot's directory in parts, so a build without changes reads and writes
// nothing.
package changes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/internal/walk"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/render"
)

// Builder makes the changes of one snapshot.
type Builder struct {
	Reader artifacts.ObjectReader
	// Head is the previous snapshot, or nil if there is none.
	Head *artifacts.Manifest
	// Ledger is the ledger before the snapshot, with the ids of its feed. Views sets the snapshot's
	// directory in it.
	Ledger *ledger.Ledger
	// Put renders a table, puts its objects and returns the table's only view.
	Put func(*render.Table) (artifacts.View, error)
	// PutObject puts an object.
	PutObject func([]byte) (artifacts.Ref, error)
	// Has reports whether the store holds an object.
	Has func(artifacts.Ref) bool
	// Max is the maximum number of changes that a snapshot has; 0 means artifacts.MaxChanges.
	Max int
	// Lost is called with the reason if Views cannot read the previous directory or changes. In
	// this case, the list of changes starts over.
	Lost func(err error)
}

// The kinds of changes.
const (
	added   = "added"
	back    = "back"
	changed = "changed"
	removed = "removed"
)

// change is a change to an item. Only the kind "changed" has values in fields, which lists the
// fields that changed, and in old, which holds the old values of these fields.
type change struct {
	kind string
	item
	fields []int
	old    [numTextFields]string
}

// Views makes and puts the snapshot's change views. They include those views of the previous
// snapshot that are still kept.
func (b *Builder) Views(ctx context.Context, feed *market.Feed, result *market.Result,
) ([]artifacts.View, *artifacts.Changes, error) {
	before := b.Ledger.Root().Directory
	if b.Head == nil || b.Head.Changes == nil {
		before = nil
	}
	after := directoryOf(feed, result)
	views, about, err := b.views(ctx, before, &after, result.T)
	if artifacts.IsDamage(err) {
		b.Lost(err)
		views, about, err = nil, &artifacts.Changes{Since: result.T}, nil
	}
	if err == nil {
		err = b.remember(before, &after, about, result.T)
	}
	return views, about, err
}

// views makes the views without setting the directory. oldDirectory is nil if the list of changes
// starts over.
func (b *Builder) views(ctx context.Context, oldDirectory *ledger.Directory, after *directory, t time.Time,
) ([]artifacts.View, *artifacts.Changes, error) {
	anew := &artifacts.Changes{Since: t}
	if oldDirectory == nil || oldDirectory.Parts == nil {
		return nil, anew, nil
	}
	about := &artifacts.Changes{Since: b.Head.Changes.Since}
	var touched [len(artifacts.ChangeCollections)]map[uint64]*touch
	if w := oldDirectory.Withdrawn; w != nil {
		if about.Since.After(w.After) {
			return nil, anew, nil
		}
		var err error
		if touched, err = b.touched(ctx, w); err != nil {
			return nil, nil, err
		}
	}
	var items [][]byte // in row order
	for k, collection := range slices.Backward(artifacts.ChangeCollections[:]) {
		all, err := b.compare(ctx, oldDirectory.Parts[collection], after[k], touched[k], collection)
		if err != nil {
			return nil, nil, err
		}
		for i := range slices.Backward(all) {
			items = append(items, all[i].append(nil, t, collection))
		}
	}
	about.Count = len(items)
	days := b.days(about, t)
	total := len(items)
	for i := range days {
		total += days[i].Rows
	}
	limit := cmp.Or(b.Max, artifacts.MaxChanges)
	for ; total > limit && len(days) > 0 && days[0].Collection != artifacts.ChangesOf(t); days = days[1:] {
		total -= days[0].Rows
		leave(about, &days[0])
	}
	if total > limit {
		return nil, anew, nil
	}
	if len(items) == 0 {
		return days, about, nil
	}
	days, err := b.add(ctx, days, items, t)
	return days, about, err
}

// days returns the head's day views that are still kept. For each day that it drops, it updates
// about.Since.
func (b *Builder) days(about *artifacts.Changes, t time.Time) (days []artifacts.View) {
	for _, v := range b.Head.ChangesDays() {
		if day, _ := v.ChangesDay(); t.Sub(day.Add(24*time.Hour)) > artifacts.ChangesKept {
			leave(about, v)
			continue
		}
		days = append(days, *v)
	}
	return days
}

// leave drops a day: it moves about.Since to the end of that day.
func leave(about *artifacts.Changes, v *artifacts.View) {
	day, _ := v.ChangesDay()
	if end := day.Add(24*time.Hour - artifacts.Step); end.After(about.Since) {
		about.Since = end
	}
}

// add adds the items of the snapshot at time t to the view of t's day.
func (b *Builder) add(ctx context.Context, days []artifacts.View, items [][]byte, t time.Time,
) ([]artifacts.View, error) {
	table := &render.Table{Collection: artifacts.ChangesOf(t)}
	var keys [][]byte
	add := func(item []byte) {
		id := uint64(len(keys) + 1)
		at, _, _ := artifacts.ChangeOf(item)
		keys = append(keys, bytes.Clone(at))
		table.Add(id, append(append(artifacts.AppendCoin(nil, id), item...), '}'))
	}
	if n := len(days); n > 0 && days[n-1].Collection == table.Collection {
		err := walk.Rows(ctx, b.Reader, days[n-1].Objects, func(_ uint64, row []byte) error {
			add(artifacts.CoinItem(row))
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", table.Collection, err)
		}
		days = days[:n-1]
	}
	for _, item := range items {
		add(item)
	}
	table.Orders = []render.Order{{Sort: artifacts.ChangesSort, Index: true, Keys: keys}}
	v, err := b.Put(table)
	return append(days, v), err
}

// remember puts the directory parts that changed, and sets the directory in the ledger.
func (b *Builder) remember(before *ledger.Directory, after *directory, about *artifacts.Changes, t time.Time) error {
	var way *ledger.Withdrawn // the withdrawn changes that later snapshots must repeat
	if before != nil && before.Withdrawn != nil && !t.After(before.Withdrawn.Through) {
		way = before.Withdrawn
	}
	if way != nil && about.Since.Equal(t) {
		// A client with a later snapshot would miss these changes. So the list starts over with
		// each snapshot until a snapshot is later than all withdrawn ones.
		b.Ledger.SetDirectory(&ledger.Directory{Withdrawn: &ledger.Withdrawn{After: way.After, Through: way.Through}})
		return nil
	}
	next := &ledger.Directory{Parts: map[string][]ledger.Part{}, Withdrawn: way}
	for k, collection := range artifacts.ChangeCollections {
		var old []ledger.Part
		if before != nil {
			old = before.Parts[collection]
		}
		all := make([]ledger.Part, len(after[k]))
		for i, part := range after[k] {
			if all[i].Sum = sumOf(part); len(old) == len(all) && old[i].Sum == all[i].Sum &&
				(len(part) == 0 || b.Has(old[i].Ref)) {
				all[i] = old[i]
				continue
			}
			if len(part) == 0 {
				continue
			}
			var err error
			if all[i].Ref, err = b.PutObject(artifacts.Compress(nil, part)); err != nil {
				return err
			}
		}
		next.Parts[collection] = all
	}
	b.Ledger.SetDirectory(next)
	return nil
}

// compare returns the changes to a collection in ascending order of id. For an item in touches, it
// also reports the values that a withdrawn snapshot changed, even if they are now the same as
// before.
func (b *Builder) compare(ctx context.Context, before []ledger.Part, after parts, touches map[uint64]*touch,
	collection string) (all []change, err error) {
	var was, is []item
	for i := range max(len(before), len(after)) {
		same := len(before) == len(after) && before[i].Sum == sumOf(after[i])
		if same && len(touches) == 0 {
			continue
		}
		if i < len(before) && before[i].Size > 0 {
			stored, err := artifacts.ReadObject(ctx, b.Reader, before[i].Ref)
			if err == nil {
				was, err = open(was, stored, before[i].Sum)
			}
			if err != nil {
				return nil, fmt.Errorf("previous directory, %s: %w", collection, err)
			}
		}
		if i < len(after) {
			if is, err = decode(is, after[i]); err != nil {
				return nil, err
			}
		}
	}
	byID := func(a, b item) int { return cmp.Compare(a.id, b.id) }
	slices.SortFunc(was, byID)
	slices.SortFunc(is, byID)
	rest := slices.Sorted(maps.Keys(touches))
	for len(was)+len(is)+len(rest) > 0 {
		var id uint64 = market.MaxID + 1
		if len(was) > 0 {
			id = was[0].id
		}
		if len(is) > 0 {
			id = min(id, is[0].id)
		}
		if len(rest) > 0 {
			id = min(id, rest[0])
		}
		var old, now *item
		if len(was) > 0 && was[0].id == id {
			old, was = &was[0], was[1:]
		}
		if len(is) > 0 && is[0].id == id {
			now, is = &is[0], is[1:]
		}
		if len(rest) > 0 && rest[0] == id {
			rest = rest[1:]
		}
		if c := compareItem(old, now, touches[id]); c != nil {
			if c.kind == back && b.Ledger.IsNew(collection, id) {
				c.kind = added
			}
			all = append(all, *c)
		}
	}
	return all, nil
}

// compareItem returns the change from oldItem to newItem, or nil if nothing changed. oldItem is nil
// if the item was not listed before; newItem is nil if the item is no longer listed. withdrawn is
// nil unless withdrawn snapshots changed the item. For an item that was not listed, the kind is
// "back"; the caller changes it to "added" if the item is new.
func compareItem(oldItem, newItem *item, withdrawn *touch) *change {
	switch {
	case newItem == nil && withdrawn != nil:
		return &change{kind: removed, item: withdrawn.item}
	case newItem == nil:
		return &change{kind: removed, item: *oldItem}
	case oldItem == nil || withdrawn != nil && withdrawn.came:
		return &change{kind: back, item: *newItem}
	}
	c := &change{kind: changed, item: *newItem}
	for f := range fields {
		var value string
		ok := oldItem.values[f] != newItem.values[f]
		if f < numTextFields {
			value = oldItem.values[f]
		}
		if withdrawn != nil && withdrawn.fields[f] {
			ok = true
			if f < numTextFields {
				// Use the newest value that a client may have.
				i := slices.IndexFunc(withdrawn.values[f], func(v string) bool { return v != newItem.values[f] })
				value = withdrawn.values[f][max(i, 0)]
			}
		}
		if !ok {
			continue
		}
		if c.fields = append(c.fields, f); f < numTextFields {
			c.old[f] = value
		}
	}
	if len(c.fields) == 0 {
		return nil
	}
	return c
}

// append appends the change in the form that clients receive.
func (c *change) append(dst []byte, t time.Time, collection string) []byte {
	dst = artifacts.AppendChange(dst, t, collection, c.kind)
	dst = strconv.AppendUint(append(dst, `,"id":`...), c.id, 10)
	dst = artifacts.AppendString(append(dst, `,"name":`...), c.values[name])
	if collection == artifacts.ChangeCollections[0] {
		dst = artifacts.AppendString(append(dst, `,"symbol":`...), c.values[symbol])
	}
	dst = artifacts.AppendString(append(dst, `,"slug":`...), c.values[slug])
	if c.kind != changed {
		return append(dst, '}')
	}
	dst = append(dst, `,"fields":{`...)
	for i, f := range c.fields {
		dst = append(artifacts.AppendString(append(dst, ","[:min(i, 1)]...), fields[f]), ":{"...)
		if f < numTextFields {
			dst = artifacts.AppendString(append(dst, `"old":`...), c.old[f])
			dst = artifacts.AppendString(append(dst, `,"new":`...), c.values[f])
		}
		dst = append(dst, '}')
	}
	return append(dst, "}}"...)
}

// touch says how withdrawn snapshots changed an item.
type touch struct {
	item        // the item after the newest change
	came   bool // the item was added or removed
	fields [len(fields)]bool
	values [numTextFields][]string // old and new values, newest first
}

// touched reads the changes from the withdrawn snapshots, and the repetitions of these changes in
// later snapshots.
func (b *Builder) touched(ctx context.Context, w *ledger.Withdrawn,
) (all [len(artifacts.ChangeCollections)]map[uint64]*touch, err error) {
	type row struct {
		Time       time.Time `json:"time"`
		Collection string    `json:"collection"`
		Kind       string    `json:"kind"`
		ID         uint64    `json:"id"`
		Name       string    `json:"name"`
		Symbol     string    `json:"symbol"`
		Slug       string    `json:"slug"`
		Fields     map[string]struct {
			Old *string `json:"old"`
			New *string `json:"new"`
		} `json:"fields"`
	}
	var rows []row
	days := slices.Clone(w.Days)
	for _, v := range b.Head.ChangesDays() {
		days = append(days, *v)
	}
	for i := range days {
		v := &days[i]
		if day, _ := v.ChangesDay(); !day.Add(24 * time.Hour).After(w.After) {
			continue
		}
		err := walk.Rows(ctx, b.Reader, v.Objects, func(_ uint64, text []byte) error {
			var r row
			if err := json.Unmarshal(artifacts.CoinItem(text), &r); err != nil {
				return fmt.Errorf("%w: %w", artifacts.ErrCorrupt, err)
			}
			if r.Time.After(w.After) {
				rows = append(rows, r)
			}
			return nil
		})
		if err != nil {
			return all, fmt.Errorf("withdrawn changes, %s: %w", v.Collection, err)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return b.Time.Compare(a.Time) })
	for i := range rows {
		r := &rows[i]
		k := slices.Index(artifacts.ChangeCollections[:], r.Collection)
		if k < 0 {
			return all, fmt.Errorf("%w: a change of %.20q", artifacts.ErrCorrupt, r.Collection)
		}
		if all[k] == nil {
			all[k] = map[uint64]*touch{}
		}
		t := all[k][r.ID]
		if t == nil {
			t = &touch{item: item{id: r.ID}}
			t.item.values[name], t.item.values[symbol], t.item.values[slug] = r.Name, r.Symbol, r.Slug
			all[k][r.ID] = t
		}
		t.came = t.came || r.Kind != changed
		for f, field := range fields {
			values, ok := r.Fields[field]
			if !ok {
				continue
			}
			t.fields[f] = true
			if f >= numTextFields {
				continue
			}
			if values.Old == nil || values.New == nil {
				return all, fmt.Errorf("%w: a change of %s has no values", artifacts.ErrCorrupt, field)
			}
			t.values[f] = append(t.values[f], *values.New, *values.Old)
		}
	}
	return all, nil
}
