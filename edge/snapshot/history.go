package snapshot

import (
	"context"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/shards"
)

// History is a window of /history in a snapshot.
type History struct {
	// Listed contains the assets with at least one point of the chain in the window, by id. Some may be
	// missing from the directory.
	Listed *View
	// Own contains the snapshot's own points if the chain does not contain them. They are the window's last
	// points.
	Own *View
	// Blocks contains the blocks of points, oldest first.
	Blocks []Block
}

// Block contains the points of a part of a window.
type Block struct {
	*View
	// First is the index of the first point that is in the window.
	First int
	// Times contains the times of the points. Points contains the bytes that precede each point's price,
	// PointLength bytes per point.
	Times  []time.Time
	Points []byte
}

// point is the format of the bytes that precede a point's price in an answer (INTERFACE.md, "History"). The
// first point has no comma.
const point = `,["2006-01-02T15:04:05Z","`

// PointLength is the number of bytes that precede a point's price.
const PointLength = len(point)

// History returns a window by its index in artifacts.HistoryWindows, or nil if the snapshot does not contain
// it.
func (s *Snapshot) History(window int) *History { return s.history[window] }

// addHistory adds the windows of the manifest. The snapshot does not wait for their objects, so they are in a
// separate list: first the listings, then the blocks, newest first.
func (s *Snapshot) addHistory(m *artifacts.Manifest) {
	views := map[*artifacts.View]*View{}
	view := func(in *artifacts.View) *View {
		v := views[in]
		if v == nil {
			v = s.newView(m, in)
			views[in] = v
			for _, o := range v.objects {
				s.cache.Spare(o)
			}
		}
		return v
	}
	var blocks []*artifacts.View
	for i := range artifacts.HistoryWindows {
		w := &artifacts.HistoryWindows[i]
		listed, chain := m.History(w)
		if listed == nil {
			continue
		}
		h := &History{Listed: view(listed)}
		s.history[i] = h
		s.historyObjects = append(s.historyObjects, h.Listed.objects...)
		add := func(in *artifacts.View, first int) {
			if first == len(in.Times) {
				return
			}
			b := Block{View: view(in), First: first, Times: in.Times}
			for _, t := range in.Times {
				b.Points = t.AppendFormat(b.Points, point)
			}
			h.Blocks = append(h.Blocks, b)
			if !slices.Contains(blocks, in) {
				blocks = append(blocks, in)
			}
		}
		from := w.First(m.Time)
		own := true // whether the chain lacks the snapshot's own point
		for _, in := range chain {
			first, _ := slices.BinarySearchFunc(in.Times, from, time.Time.Compare)
			add(in, first)
			own = !last(in).Equal(m.Time)
		}
		if in, ok := m.Latest(); ok && own {
			add(in, len(in.Times)-1)
			h.Own = view(in)
		}
	}
	slices.SortStableFunc(blocks, func(a, b *artifacts.View) int { return last(b).Compare(last(a)) })
	for _, in := range blocks {
		s.historyObjects = append(s.historyObjects, view(in).objects...)
	}
}

// last returns the time of a block's newest point.
func last(block *artifacts.View) time.Time { return block.Times[len(block.Times)-1] }

// ahead returns the history objects to prefetch for a snapshot. It takes objects from the beginning of the
// list, as many as fit into HistoryBytes and into the disk copy. The disk copy must also hold the objects
// of all other snapshots, and the history of snapshots that become current before s. The caller must hold
// r.activating.
func (r *Refresher) ahead(s *Snapshot) []*shards.Object {
	bytes, disk, bounded := r.cfg.HistoryBytes, shards.Trimmed(r.cfg.DirBytes), r.cfg.DirBytes > 0
	needed := map[*shards.Object]bool{}
	need := func(objects []*shards.Object) {
		for _, o := range objects {
			if !needed[o] {
				needed[o] = true
				disk -= o.Ref.Size
			}
		}
	}
	r.mu.Lock()
	sooner := true
	for _, held := range r.timeline.Held() {
		need(held.objects)
		if sooner = sooner && held != s; sooner {
			need(held.ahead)
		}
	}
	r.mu.Unlock()
	for i, o := range s.historyObjects {
		bytes -= o.Ref.Size
		if need(s.historyObjects[i : i+1]); bytes < 0 || bounded && disk < 0 {
			return s.historyObjects[:i]
		}
	}
	return s.historyObjects
}

// notFetched returns the objects of s.ahead that were not fetched before s became current.
func (s *Snapshot) notFetched() []*shards.Object {
	return slices.DeleteFunc(slices.Clone(s.ahead), func(o *shards.Object) bool { return s.early[o] })
}

// fetchEarly starts to fetch the history of a snapshot that waits for its activation time. So answers
// stay complete even if the store becomes unreachable at that time. The remaining history is fetched
// once that snapshot is current.
func (r *Refresher) fetchEarly(ctx context.Context, next *Snapshot) {
	next.ahead = r.ahead(next)
	next.end = r.inBackground(ctx, func(ctx context.Context) {
		missing := r.fetchHistory(ctx, next, next.ahead, func([]*shards.Object, error) {})
		next.early = make(map[*shards.Object]bool, len(next.ahead))
		for _, o := range next.ahead {
			next.early[o] = true
		}
		for _, o := range missing {
			delete(next.early, o)
		}
	})
}

// fetchHistory fetches objects of a snapshot's history until none is missing or ctx is done. It returns the
// objects that are still missing.
func (r *Refresher) fetchHistory(
	ctx context.Context, s *Snapshot, objects []*shards.Object, report func(missing []*shards.Object, err error),
) []*shards.Object {
	for _, o := range slices.Backward(s.ahead) {
		r.cfg.Cache.Touch(o) // new objects evict older ones, and the last objects in the list are evicted first
	}
	return r.untilFetched(ctx, r.historySlots, objects, nil, func(missing []*shards.Object, err error) {
		if report(missing, err); len(missing) > 0 {
			r.cfg.Log.Warn("history is not complete on this machine",
				"snapshot", string(s.TimeText), "missing", len(missing), "err", err)
		} else if len(objects) > 0 {
			r.cfg.Log.Info("history is on this machine", "snapshot", string(s.TimeText), "objects", len(objects))
		}
	})
}
