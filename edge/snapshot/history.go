package snapshot

import (
	"context"
	"slices"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/shards"
)

// History is a window of /history as a snapshot has it.
type History struct {
	// Listed are the assets that have a point of the chain in it, by id, whether they are
	// in the directory or not.
	Listed *View
	// Own has the snapshot's own points where the chain does not: its last ones.
	Own *View
	// Blocks are its points, oldest first.
	Blocks []Block
}

// Block holds the points of a part of a window.
type Block struct {
	*View
	// First is the number of the first point that is in the window.
	First int
	// Points is what stands before the price of each, PointLength bytes long.
	Points []byte
}

// point is what stands before the price of a point in an answer
// (INTERFACE.md, "History"), behind the comma that the first one has not.
const point = `,["2006-01-02T15:04:05Z","`

// PointLength is the length of what stands before a point's price.
const PointLength = len(point)

// History returns a window, by its number in artifacts.HistoryWindows; nil where
// the snapshot has none.
func (s *Snapshot) History(window int) *History { return s.history[window] }

// addHistory adds the windows of the snapshot's manifest. Their objects stand apart
// from the others, since the snapshot does not wait for them: the listings first,
// then the blocks, the newest before older ones.
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
			b := Block{View: view(in), First: first}
			for _, t := range in.Times {
				b.Points = t.AppendFormat(b.Points, point)
			}
			h.Blocks = append(h.Blocks, b)
			if !slices.Contains(blocks, in) {
				blocks = append(blocks, in)
			}
		}
		from := w.First(m.Time)
		own := true // T's own point is still to come
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

// ahead returns which objects of a snapshot's history are fetched before they are asked
// for: the first ones, up to so many bytes as are set, and as the disk copy has room
// for beside the snapshot itself and those that may be pinned, which history must
// not drive out.
func (r *Refresher) ahead(s *Snapshot) []*shards.Object {
	most, disk := r.cfg.HistoryBytes, shards.Trimmed(r.cfg.DirBytes)
	if disk > 0 {
		needed := map[*shards.Object]bool{}
		r.mu.Lock()
		for _, p := range r.pinnable {
			for _, o := range p.objects {
				needed[o] = true
			}
		}
		r.mu.Unlock()
		for o := range needed {
			disk -= o.Ref.Size
		}
		most = min(most, disk)
	}
	for i, o := range s.historyObjects {
		if most -= o.Ref.Size; most < 0 {
			return s.historyObjects[:i]
		}
	}
	return s.historyObjects
}

// fetchHistory fetches what of history is fetched ahead, until ctx is done.
func (r *Refresher) fetchHistory(ctx context.Context, s *Snapshot) {
	objects := r.ahead(s)
	for _, o := range slices.Backward(objects) {
		r.cfg.Cache.Touch(o) // what comes drives out others, and of these the last
	}
	r.untilFetched(ctx, historyFetchers, objects, nil, func(missing int64, err error) {
		r.missingHistory.Store(missing)
		r.mu.Lock()
		r.historyLack = err
		r.mu.Unlock()
		if missing > 0 {
			r.cfg.Log.Warn("history is not complete on this machine", "snapshot", string(s.TimeText), "missing", missing, "err", err)
		} else if len(objects) > 0 {
			r.cfg.Log.Info("history is on this machine", "snapshot", string(s.TimeText), "objects", len(objects))
		}
	})
}
