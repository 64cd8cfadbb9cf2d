package oracle

import (
	"context"
	"fmt"
	"slices"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
)

// changes adds the changes of the directory to s.
func (s *Snapshot) changes(ctx context.Context, store artifacts.Reader, m *artifacts.Manifest) error {
	if m.Changes == nil {
		return nil
	}
	s.Changes = &model.Changes{Since: m.Changes.Since}
	own := 0
	for _, v := range m.ChangesDays() {
		shards, err := read(ctx, store, v)
		if err != nil {
			return err
		}
		for _, shard := range shards {
			for i := range shard.Len() {
				c, err := model.ReadChanged(artifacts.CoinItem(shard.Row(i)))
				if err == nil && artifacts.ChangesOf(c.Time) != v.Collection {
					err = fmt.Errorf("%s stands in %s", c.JSON(), v.Collection)
				}
				if err == nil && c.Time.Equal(m.Time) {
					own++
				}
				s.fault("changes", err)
				s.Changes.Items = append(s.Changes.Items, c)
			}
		}
	}
	slices.Reverse(s.Changes.Items)
	s.fault("changes", model.CheckOrder(s.Changes.Items))
	if own != m.Changes.Count {
		s.fault("changes", fmt.Errorf("%d changes of the snapshot, its manifest says %d", own, m.Changes.Count))
	}
	return nil
}
