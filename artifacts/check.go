package artifacts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// CheckReport is the result of Check.
type CheckReport struct {
	// Snapshot is the time of the published snapshot, or empty if nothing is published yet.
	Snapshot  string `json:"snapshot"`
	Sequence  uint64 `json:"sequence"`
	Snapshots int    `json:"snapshots"`
	Objects   int    `json:"objects"`
	Bytes     int64  `json:"bytes"`
	Rows      int64  `json:"rows"`
	// Problems describes the faults that Check found, at most maxProblems of them.
	Problems []string `json:"problems"`
}

// OnlyFiles reports whether Check found no faults, or only faults in files.
func (r *CheckReport) OnlyFiles() bool {
	return !slices.ContainsFunc(r.Problems, func(p string) bool { return !strings.HasPrefix(p, "files") })
}

const maxProblems = 100

// Progress is called after each object with the number of objects read and the number known so far.
type Progress func(done, total int)

// Check verifies everything that is reachable from the pointer: the published snapshot, the
// retained snapshots, their ledgers and their files. It reads each object once and checks what the
// package documentation promises:
//
//   - the length and the digest of each object
//   - the index, fences, shards, row counts, run counts and order of each view
//   - that rows are JSON, are equal in all views of a collection, and carry the run numbers of the
//     other views
//   - that the numbers of rows match the feed's counts
//   - that each row of history has one point for each time of its block, and that each window lists
//     exactly the assets that have a point in it
//   - that the view of words has the words of the assets' names, and the view of contracts has the
//     contracts on the coins' platforms
//   - the lists, chunks and digests of files
//
// The format of a ledger is private to the builder, so Check verifies only the length and the
// digest of its objects: of the root and, if refs is not nil, of the objects that refs finds in the
// root.
//
// Faults in the stored data are listed in the report. The error is non-nil only if the store could
// not be read. A store without a snapshot has no problems.
func Check(ctx context.Context, r ObjectReader, refs func(root []byte) ([]Ref, error), progress Progress,
) (*CheckReport, error) {
	c := &checker{
		r: r, refs: refs, report: &CheckReport{Problems: []string{}}, progress: progress,
		summaries: map[Ref]*summary{}, ledgers: map[Ref]bool{}, known: map[Ref]bool{},
	}
	err := c.run(ctx)
	return c.report, err
}

type checker struct {
	r        ObjectReader
	refs     func(root []byte) ([]Ref, error)
	report   *CheckReport
	progress Progress
	// summaries has the summary of each view object read so far. The summary of a damaged object,
	// which has already been reported, is nil.
	summaries map[Ref]*summary
	// ledgers has the ledger objects, sets of files, file lists and files checked so far.
	ledgers map[Ref]bool
	// asked counts the objects requested so far; known has all objects found so far.
	asked int
	known map[Ref]bool
}

func (c *checker) problem(format string, args ...any) {
	if len(c.report.Problems) < maxProblems {
		c.report.Problems = append(c.report.Problems, fmt.Sprintf(format, args...))
	}
}

func (c *checker) run(ctx context.Context) error {
	b, _, err := c.r.Get(ctx, CurrentKey, MaxPointerSize)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	var p *Pointer
	if err == nil {
		p, err = ParsePointer(b)
	}
	if err != nil {
		return c.refuse("pointer", err)
	}
	c.report.Snapshot, c.report.Sequence = p.Time.Format("2006-01-02T15:04:05Z"), p.Sequence
	m, err := c.manifest(ctx, Retained{Time: p.Time, Manifest: p.Manifest})
	if err != nil || m == nil {
		return err
	}
	all := []*Manifest{m}
	for i, ret := range m.Retained {
		if last := m.Time; !ret.Time.Before(last) || i > 0 && !ret.Time.Before(m.Retained[i-1].Time) {
			c.problem("manifest of %v: retained snapshot %v is out of order", m.Time, ret.Time)
		}
		old, err := c.manifest(ctx, ret)
		if err != nil {
			return err
		}
		if old != nil {
			all = append(all, old)
		}
	}
	for _, m := range all {
		for i := range m.Views {
			for _, o := range m.Views[i].Objects {
				c.known[o.Ref] = true
			}
		}
	}
	for _, m := range all {
		if err := c.snapshot(ctx, m); err != nil {
			return err
		}
	}
	for _, m := range all {
		if err := c.files(ctx, m); err != nil {
			return err
		}
	}
	return c.small(ctx, p.Store)
}

// refuse records err as a problem if the store's answer is damaged. It returns any other error.
func (c *checker) refuse(what string, err error) error {
	if IsDamage(err) || errors.Is(err, ErrSignature) {
		c.problem("%s: %v", what, err)
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// small checks the identity, the change record and the key set. Each of them may be absent: stores
// written by the first releases have no identity.
func (c *checker) small(ctx context.Context, store string) error {
	for _, o := range []struct {
		what string
		key  Key
	}{{"identity", IdentityKey}, {"change record", ChangeKey}, {"key set", KeysKey}} {
		b, _, err := c.r.Get(ctx, o.key, o.key.Limit())
		if errors.Is(err, ErrNotFound) {
			continue
		}
		var of Numbered // Records written by the first releases name no store.
		if err == nil {
			of, err = ParseNumbered(o.key, b)
		}
		if err != nil {
			if err := c.refuse(o.what, err); err != nil {
				return err
			}
		} else if of.Store != "" && of.Store != store {
			c.problem("%s: it belongs to store %s, but the pointer to store %s", o.what, of.Store, store)
		}
	}
	return nil
}

func (c *checker) get(ctx context.Context, key Key, ref Ref) ([]byte, error) {
	b, err := get(ctx, c.r, key, ref)
	c.asked++
	c.known[ref] = true
	if c.progress != nil {
		c.progress(c.asked, len(c.known))
	}
	if err != nil {
		return nil, err
	}
	c.report.Objects++
	c.report.Bytes += int64(len(b))
	return b, nil
}

func (c *checker) manifest(ctx context.Context, ret Retained) (*Manifest, error) {
	key := ManifestKey(ret.Manifest.Digest)
	b, err := c.get(ctx, key, ret.Manifest)
	var m *Manifest
	if err == nil {
		m, err = ParseManifest(b)
	}
	if err != nil {
		return nil, c.refuse(key.String(), err)
	}
	if !m.Time.Equal(ret.Time) {
		c.problem("%s: its time is %v, want %v", key, m.Time, ret.Time)
	}
	c.report.Snapshots++
	return m, nil
}

func (c *checker) snapshot(ctx context.Context, m *Manifest) error {
	at := m.Time.Format(time.RFC3339)
	for i, t := range m.Withdrawn {
		if !t.After(m.Oldest()) || t.Equal(m.Time) || i > 0 && !t.After(m.Withdrawn[i-1]) {
			c.problem("snapshot %s: withdrawn time %v is out of order, or is the snapshot's own", at, t)
		}
	}
	if n := m.Notice; n != nil {
		if err := n.Check(); err != nil {
			c.problem("snapshot %s: %v", at, err)
		}
	}
	for _, total := range []string{m.Global.TotalMarketCap, m.Global.TotalVolume24h} {
		if !IsDecimal(total) {
			c.problem("snapshot %s: the total %.80q is not a decimal", at, total)
		}
	}
	summaries := map[string]*summary{} // by view name; only views without faults
	first := map[string]string{}       // by collection: the name of one view without faults
	for i := range m.Views {
		v := &m.Views[i]
		name := viewName(v.Collection, v.Sort)
		p, err := c.view(ctx, m, v)
		if err != nil {
			return err
		}
		c.count(m, v)
		if p == nil {
			continue
		}
		summaries[name] = p
		if v.IsMembers() {
			continue // The rows of such a view differ from those of the collection's other views.
		}
		if other, ok := first[v.Collection]; !ok {
			first[v.Collection] = name
		} else if q := summaries[other]; q.rows != p.rows || q.sum != p.sum {
			c.problem("snapshot %s: view %s has other rows than %s", at, name, other)
		}
	}
	for i := range m.Views {
		v := &m.Views[i]
		name := viewName(v.Collection, v.Sort)
		for i, column := range v.Columns {
			p, q := summaries[name], summaries[viewName(v.Collection, column)]
			if p != nil && q != nil && p.ords[i] != q.own {
				c.problem("snapshot %s: view %s: column %s does not have that view's run numbers", at, name, column)
			}
		}
	}
	words, assets := summaries[viewName(SearchCollection, SearchSort)], summaries[viewName("assets", "id")]
	if words != nil && assets != nil && words.words != assets.words {
		c.problem("snapshot %s: view %s does not have the words and ranks of the assets", at,
			viewName(SearchCollection, SearchSort))
	}
	c.markets(at, summaries)
	c.coins(at, summaries)
	for i := range HistoryWindows {
		if w := &HistoryWindows[i]; !listsPoints(m, w, summaries) {
			c.problem("snapshot %s: view %s does not list exactly the assets that have a point", at,
				viewName(w.Collection(), "id"))
		}
	}
	return c.ledger(ctx, m)
}

// markets checks that the views of markets agree with each other and with the quotes.
func (c *checker) markets(at string, summaries map[string]*summary) {
	byID, quotes := summaries[viewName(MarketsCollection, "id")], summaries[viewName("quotes", "id")]
	if byID == nil {
		return
	}
	if quotes != nil && quotes.own != byID.own {
		c.problem("snapshot %s: view %s has other assets than the quotes", at, viewName(MarketsCollection, "id"))
	}
	words := byID.words
	for _, of := range GroupSorts {
		p := summaries[viewName(MarketsCollection, of.Sort)]
		if p == nil {
			return
		}
		words -= p.words
	}
	if words != 0 {
		c.problem("snapshot %s: the views by group do not match the groups of the assets", at)
	}
}

// coins checks that the collections of the CoinGecko-compatible API agree with the other
// collections.
func (c *checker) coins(at string, summaries map[string]*summary) {
	for _, same := range [...][2]string{
		{CoinsCollection, "assets"}, {FiguresCollection, "quotes"}, {LeadersCollection, "categories"},
	} {
		p, q := summaries[viewName(same[0], "id")], summaries[viewName(same[1], "id")]
		if p != nil && q != nil && p.own != q.own {
			c.problem("snapshot %s: view %s has other ids than %s", at, viewName(same[0], "id"), same[1])
		}
	}
	coins := summaries[viewName(CoinsCollection, "id")]
	contracts := summaries[viewName(ContractsCollection, ContractsSort)]
	if coins != nil && contracts != nil && coins.words != contracts.words {
		c.problem("snapshot %s: view %s has other contracts than the coins' platforms say", at,
			viewName(ContractsCollection, ContractsSort))
	}
}

// uncounted lists the collections, apart from history and changes, whose rows have no counterpart
// in the feed.
var uncounted = []string{
	"trending", SearchCollection, ContractsCollection, PlatformsCollection, RatesCollection, LeadersCollection,
}

// listsPoints reports whether the listing of a window has exactly the assets with a point in the
// window. It also returns true if it cannot tell, because a view is missing or damaged.
func listsPoints(m *Manifest, w *HistoryWindow, summaries map[string]*summary) bool {
	listed, blocks := m.History(w)
	if listed == nil {
		return true
	}
	have := map[uint64]bool{}
	add := func(v *View, first int) bool {
		p := summaries[viewName(v.Collection, v.Sort)]
		if p == nil {
			return false
		}
		for _, n := range p.newest {
			if n.at >= first {
				have[n.id] = true
			}
		}
		return true
	}
	for _, v := range blocks {
		first, _ := slices.BinarySearchFunc(v.Times, w.First(m.Time), time.Time.Compare)
		if !add(v, first) {
			return true
		}
	}
	p := summaries[viewName(listed.Collection, listed.Sort)]
	return p == nil ||
		len(p.newest) == len(have) && !slices.ContainsFunc(p.newest, func(n newest) bool { return !have[n.id] })
}

func viewName(collection, sort string) string { return collection + "/" + sort }

// count compares the number of rows of a view with the number of accepted rows of the feed. A
// snapshot lists all assets, quotes and exchanges of the feed, but only some of its groups.
func (c *checker) count(m *Manifest, v *View) {
	accepted, counted := m.Counts[v.Collection],
		!slices.Contains(uncounted, v.Collection) && !IsHistory(v.Collection) && !IsChanges(v.Collection) &&
			!v.IsMembers()
	switch v.Collection {
	case MarketsCollection, FiguresCollection:
		accepted = m.Counts["quotes"]
	case CoinsCollection:
		accepted = m.Counts["assets"]
	}
	some := v.Collection == "categories" || v.Collection == "chains"
	if counted && (v.Rows > accepted || v.Rows < accepted && !some) {
		c.problem("snapshot %s: view %s has %d rows of %d accepted", m.Time.Format(time.RFC3339),
			viewName(v.Collection, v.Sort), v.Rows, accepted)
	}
}

// view reads the objects of a view and returns one summary of all rows. If it finds faults, it
// reports them as problems and returns nil.
func (c *checker) view(ctx context.Context, m *Manifest, v *View) (*summary, error) {
	whole := &summary{ords: make([]uint64, len(v.Columns)), lastRun: -1}
	problem := func(format string, args ...any) {
		c.problem("snapshot %s: view %s: %s", m.Time.Format(time.RFC3339), viewName(v.Collection, v.Sort),
			fmt.Sprintf(format, args...))
		whole = nil
	}
	for i := range v.Objects {
		o := &v.Objects[i]
		p, err := c.object(ctx, o.Ref)
		if err != nil {
			return nil, err
		}
		switch {
		case p == nil:
			whole = nil
			continue
		case i == 0 && (p.before > 0 || p.firstRun > 0):
			problem("begins with run %d, and %d earlier rows of that run are missing", p.firstRun, p.before)
		case i == len(v.Objects)-1 && p.after > 0:
			problem("%d rows of its last run are missing", p.after)
		}
		if err := p.check(m, v, o); err != nil {
			problem("object %d, %s: %v", i, o.Digest, err)
		}
		if whole == nil {
			continue // Without the preceding rows there is nothing to join p to.
		}
		if i == 0 {
			whole = p.clone()
		} else if err := whole.join(p); err != nil {
			problem("object %d, %s: %v", i, o.Digest, err)
		}
	}
	if whole == nil {
		return nil, nil
	}
	if whole.lastRun+1 != v.Runs {
		problem("%d runs, want %d", whole.lastRun+1, v.Runs)
		return nil, nil
	}
	last := 0
	switch {
	case v.Sort == "rank":
		last = whole.unranked
	case v.Collection == MarketsCollection: // The rows of markets do not show whether they are last.
		last = v.Last
	}
	if v.Last != last || last > 0 && whole.lastLen != last {
		problem("the manifest says that %d rows are last, want %d, in one run", v.Last, last)
	}
	return whole, nil
}

// object reads and summarizes one object of a view. If the object is damaged, it reports that and
// returns nil.
func (c *checker) object(ctx context.Context, ref Ref) (*summary, error) {
	if p, ok := c.summaries[ref]; ok {
		return p, nil
	}
	key := ObjectKey(ref.Digest)
	b, err := c.get(ctx, key, ref)
	if err != nil {
		c.summaries[ref] = nil
		return nil, c.refuse(key.String(), err)
	}
	p, err := summarizeObject(b)
	if err != nil {
		c.problem("%s: %v", key, err)
	} else {
		c.report.Rows += int64(p.rows)
	}
	c.summaries[ref] = p
	return p, nil
}

func (c *checker) ledger(ctx context.Context, m *Manifest) error {
	if c.ledgers[m.Ledger] {
		return nil
	}
	c.ledgers[m.Ledger] = true
	key := ObjectKey(m.Ledger.Digest)
	b, err := c.get(ctx, key, m.Ledger)
	var refs []Ref
	if err == nil && c.refs != nil {
		refs, err = c.refs(b)
	}
	if err != nil {
		return c.refuse("ledger "+key.String(), err)
	}
	for _, ref := range refs {
		c.known[ref] = true
	}
	for _, ref := range refs {
		if c.ledgers[ref] {
			continue
		}
		c.ledgers[ref] = true
		key := ObjectKey(ref.Digest)
		if _, err := c.get(ctx, key, ref); err != nil {
			if err := c.refuse("ledger "+key.String(), err); err != nil {
				return err
			}
		}
	}
	return nil
}

// files checks the files that a manifest names.
func (c *checker) files(ctx context.Context, m *Manifest) error {
	if m.Files.Digest.IsZero() || c.ledgers[m.Files] {
		return nil
	}
	c.ledgers[m.Files] = true
	sets := &FileSets{}
	b, err := c.file(ctx, m.Files)
	if err == nil {
		sets, err = ParseFileSets(b)
	}
	if err != nil {
		return c.refuse("files", err)
	}
	for i := range sets.Sets {
		set := &sets.Sets[i]
		if c.ledgers[set.Files] {
			continue
		}
		c.ledgers[set.Files] = true
		l := &FileList{}
		if b, err = c.file(ctx, set.Files); err == nil {
			l, err = ParseFileList(b)
		}
		if err == nil && !l.Time.Equal(set.Time) {
			err = fmt.Errorf("%w: its time is %v", ErrCorrupt, l.Time)
		}
		what := "files of " + set.Time.Format(time.RFC3339)
		if err != nil {
			if err := c.refuse(what, err); err != nil {
				return err
			}
			continue
		}
		for j := range l.Items {
			f := &l.Items[j]
			if whole := (Ref{f.SHA256, f.Bytes}); !c.ledgers[whole] {
				c.ledgers[whole] = true
				if err := c.chunks(ctx, f); err != nil {
					if err := c.refuse(what+": "+f.Name, err); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// chunks verifies a file. It reads every chunk even after a fault, so that a repair learns of all
// missing ones.
func (c *checker) chunks(ctx context.Context, f *File) (damage error) {
	whole := sha256.New()
	for i := range f.Chunks {
		b, err := c.file(ctx, f.Chunk(i))
		if err != nil && !IsDamage(err) {
			return err
		}
		damage = cmp.Or(damage, err)
		whole.Write(b)
	}
	if damage == nil && Digest(whole.Sum(nil)) != f.SHA256 {
		damage = fmt.Errorf("%w: the chunks do not add up to the file", ErrCorrupt)
	}
	return damage
}

func (c *checker) file(ctx context.Context, ref Ref) ([]byte, error) {
	key := FileKey(ref.Digest)
	b, err := c.get(ctx, key, ref)
	if err != nil {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return b, err
}
