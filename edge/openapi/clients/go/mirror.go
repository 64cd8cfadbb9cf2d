package marketdata

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Entry is a directory item with the fields that Changes covers. It has no figures, since those change with every
// snapshot.
type Entry struct {
	ID        int64             `json:"id"`
	Name      string            `json:"name"`
	Symbol    string            `json:"symbol"` // of assets only
	Slug      string            `json:"slug"`
	Logo      string            `json:"logo"`      // except for categories
	Explorers []string          `json:"explorers"` // of assets only
	Links     map[string]string `json:"links"`     // of assets and exchanges only
}

// Mirror is a copy of the directory of a collection. It is not safe for concurrent use.
type Mirror struct {
	Collection string
	Time       time.Time       // of the snapshot that Items reflects; zero before the first Update
	Items      map[int64]Entry // by id
	client     *Client
}

// Mirror returns an empty copy of a collection: "assets", "categories", "chains" or "exchanges". Its first Update
// reads the collection.
func (c *Client) Mirror(collection string) *Mirror { return &Mirror{Collection: collection, client: c} }

// Update brings the mirror up to date with the current snapshot. Items then equals the whole listing of that
// snapshot. Update requests the changes since Time, and reads the changed items again. It reads the whole
// listing if the service no longer has the changes, has withdrawn the snapshot of Time, or has more changes
// than the mirror has items. After an error, the mirror is unchanged.
func (m *Mirror) Update(ctx context.Context) error {
	if !slices.Contains([]string{"assets", "categories", "chains", "exchanges"}, m.Collection) {
		return fmt.Errorf("marketdata: no mirror of %q: of assets, categories, chains or exchanges", m.Collection)
	}
	if !m.Time.IsZero() {
		if ok, err := m.follow(ctx); ok || err != nil && !errors.Is(err, ErrSnapshotGone) {
			return err
		}
	}
	var at time.Time
	items := map[int64]Entry{}
	for page, err := range Pages(ctx, m.list, AssetsQuery{Size: 100}) {
		if err != nil {
			return err
		}
		at = page.SnapshotTime
		for _, entry := range page.Result.Items {
			items[entry.ID] = entry
		}
	}
	m.Time, m.Items = at, items
	return nil
}

// follow updates the mirror by applying changes. It returns false if the changes do not lead from the mirror to the
// current snapshot.
func (m *Mirror) follow(ctx context.Context) (bool, error) {
	var at time.Time
	changed := map[int64]bool{}
	query := ChangesQuery{Since: m.Time, Collection: []string{m.Collection}, Size: 100}
	for page, err := range Pages(ctx, m.client.Changes, query) {
		if err != nil {
			return false, err
		}
		at = page.SnapshotTime
		if at.Before(m.Time) || page.Result.Total > int64(len(m.Items)) {
			return false, nil
		}
		for _, change := range page.Result.Items {
			changed[change.ID] = true
		}
	}
	var entries []Entry // the changed items that are still listed
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(changed)), 100) {
		answer, err := m.list(ctx, AssetsQuery{ID: ids, Size: 100, At: at})
		if err != nil {
			return false, err
		}
		entries = append(entries, answer.Result.Items...)
	}
	for id := range changed {
		delete(m.Items, id)
	}
	for _, entry := range entries {
		m.Items[entry.ID] = entry
	}
	m.Time = at
	return true, nil
}

func (m *Mirror) list(ctx context.Context, q AssetsQuery) (*Answer[Page[Entry]], error) {
	if m.Collection == "assets" {
		q.Fields = []string{"links"}
	}
	return get[Page[Entry]](ctx, m.client, m.Collection, q)
}
