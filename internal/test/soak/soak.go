package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/builder/transparency"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/network"
	"example.com/marketdata/internal/test/testserver"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/oracle"
)

const (
	buildEvery = 3 * time.Second
	// activateAfter is longer than buildEvery, so that sometimes two snapshots wait.
	activateAfter  = 4 * time.Second
	clientsPerEdge = 3
	cacheSize      = 32 << 20
	// recoverWithin limits the time from the end of all faults until the edges have the newest
	// snapshot. After long faults, an edge polls only every half minute.
	recoverWithin = time.Minute
	// calmFor is the time without faults after the edges have recovered.
	calmFor = 1500 * time.Millisecond
)

// soak runs a MinIO server behind a fault-injecting proxy, as well as a builder, two edges and
// clients, and controls the faults.
type soak struct {
	cfg     *cli
	machine *local.Machine // accesses the MinIO server without the proxy
	server  *testserver.Server
	direct  *s3store.Store
	key     artifacts.SignKey
	vault   *vault
	proxy   *network.Proxy
	edges   []*node
	report  *report

	// buildMutex is locked during builds, and during faults that no builder may see.
	buildMutex sync.Mutex
	at         time.Time // time of the newest snapshot whose build has begun; guarded by buildMutex
	leaves     []string  // leaves of the log, by sequence; guarded by buildMutex

	checkers  []*check.Checker     // check the edges' answers
	mu        sync.Mutex           // guards the following fields, except quiet
	due       map[string]time.Time // when each snapshot becomes current
	withdrawn map[string]int       // number of the rollback that withdrew each snapshot, from 1
	rollbacks int

	quiet atomic.Int64 // when the edges had recovered, as Unix time in nanoseconds; 0 while there may be faults
}

// node is an edge.
type node struct {
	name, addr, admin string
	cache             string // its --cache-dir, or ""
	args              []string
	program           *local.Program
	life              atomic.Int64 // odd while the edge is down
	told                           // what answers have told clients
}

func (n *node) down() bool { return n.life.Load()%2 == 1 }

func newSoak(ctx context.Context, c *cli, data string) (s *soak, err error) {
	s = &soak{cfg: c, report: newReport(), machine: &local.Machine{Bin: c.Bin, Data: data},
		at: time.Now().UTC().Truncate(artifacts.Step), due: map[string]time.Time{}, withdrawn: map[string]int{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.server, err = testserver.Start(ctx, testserver.KindMinIO, testserver.Options{}); err != nil {
		return s, err
	}
	s.machine.Store, s.machine.Env = s.server.URL("soak"), s.server.Env()
	if s.direct, err = s3store.Open(s.machine.Store, s.server.Options()); err != nil {
		return s, err
	}
	if s.proxy, err = network.Start(strings.TrimPrefix(s.server.Endpoint, "http://")); err != nil {
		return s, err
	}
	if s.key, err = s.machine.Sign(); err != nil {
		return s, err
	}
	s.machine.Env = append(s.machine.Env, "BUILDER_FILES=build")
	s.vault = &vault{Store: s.direct, right: map[artifacts.Key][]byte{}}
	first := s.at
	for _, ago := range local.Year {
		s.at = first.Add(-ago)
		if err = s.build(ctx, 0); err != nil {
			return s, err
		}
	}
	through := strings.Replace(s.machine.Store, s.server.Endpoint, "http://"+s.proxy.Addr(), 1)
	// A killed edge needs the same port again. The ports are therefore outside the range for
	// outgoing connections, and random, so that another soak is unlikely to use them.
	free := func() string { return local.Free(fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))) }
	for _, name := range []string{"edge with a cache folder", "edge without one"} {
		n := &node{name: name, addr: free(), admin: free()}
		n.args = []string{"--store", through, "--listen", n.addr, "--admin", n.admin, "--auth", "off", "--poll",
			"500ms", "--drain-wait", "0s", "--cache-size", strconv.Itoa(cacheSize) + "B"}
		if len(s.edges) == 0 {
			n.cache = filepath.Join(data, "cache")
			n.args = append(n.args, "--cache-dir", n.cache)
		}
		n.life.Store(1)
		if err = s.start(ctx, n); err != nil {
			return s, err
		}
		s.edges = append(s.edges, n)
	}
	return s, nil
}

// close ends all programs.
func (s *soak) close() {
	for _, n := range s.edges {
		n.program.Stop()
	}
	if s.proxy != nil {
		_ = s.proxy.Close() // the proxy ends with this process anyway
	}
	if s.direct != nil {
		_ = s.direct.Close()
	}
	if s.server != nil {
		_ = s.server.Close() // what Close leaves behind is in a temporary folder
	}
}

// start starts an edge that is down and returns when its admin listener answers /livez.
func (s *soak) start(ctx context.Context, n *node) (err error) {
	if n.program, err = s.machine.Start(
		strings.ReplaceAll(n.name, " ", "-")+"-"+strconv.Itoa(int(n.life.Load()/2)), "edge", n.args...); err != nil {
		return err
	}
	if err := local.Await(ctx, "http://"+n.admin+"/livez", n.program); err != nil {
		return err
	}
	n.life.Add(1)
	return nil
}

// kill kills an edge with SIGKILL.
func (s *soak) kill(n *node) {
	n.life.Add(1)
	if n.program.Ended() {
		s.report.breaks(died, "%v", n.program.Failure())
	}
	n.program.Kill()
	s.report.count(kills + "edge")
}

// build runs a builder that publishes the next snapshot. If killAfter is not zero, build kills the
// builder after that time. The caller must hold buildMutex unless nothing else runs yet.
func (s *soak) build(ctx context.Context, killAfter time.Duration) (err error) {
	s.at = s.at.Add(artifacts.Step)
	p, err := s.machine.Start("builder", "builder", "build", "--source",
		fmt.Sprintf("sim:?assets=%d&seed=1", s.cfg.Assets), "--store", s.machine.Store,
		"--time", s.at.Format(time.RFC3339), "--retain", "48h", "--force", "--activate-after", activateAfter.String())
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, s.unlessDone(ctx, s.published(ctx))) }()
	if killAfter > 0 {
		timer := time.NewTimer(killAfter)
		defer timer.Stop()
		select {
		case <-p.Exited():
		case <-timer.C:
			p.Kill()
			s.report.count(kills + "builder")
			return nil
		}
	}
	<-p.Exited()
	p.Kill() // closes its log
	if err := p.Err(); err != nil && ctx.Err() == nil {
		return p.Failure()
	}
	s.report.count(published)
	return nil
}

// published records when the published snapshot becomes current, and tells the checkers to expect it.
func (s *soak) published(ctx context.Context) error {
	p, err := oracle.Published(ctx, s.vault)
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil // the first builder was killed
	}
	if err != nil {
		return err
	}
	s.record(p)
	name := p.Time.Format(model.TimeFormat)
	for _, c := range s.checkers {
		c.Expect(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due[name].IsZero() {
		s.due[name] = p.ActivateAt
	}
	return nil
}

// announce lets clients pin the published snapshot, which the edges may not have yet.
func (s *soak) announce(ctx context.Context) error {
	p, err := oracle.Published(ctx, s.vault)
	if err != nil {
		return err
	}
	for _, c := range s.checkers {
		c.Announce(p.Time.Format(model.TimeFormat))
	}
	s.report.count(announced)
	return nil
}

// change runs the job that writes the change record.
func (s *soak) change(ctx context.Context) error {
	_, err := s.machine.Output(ctx, "builder", "change", "--store", s.machine.Store)
	s.noteChange()
	return err
}

// noteChange makes the checkers read the change record before another one replaces it.
func (s *soak) noteChange() {
	for _, c := range s.checkers {
		c.NoteChange()
	}
}

// manifest reads the pointer and the manifest that it names.
func (s *soak) manifest(ctx context.Context) (*artifacts.Pointer, *artifacts.Manifest, error) {
	p, err := oracle.Published(ctx, s.vault)
	if err != nil {
		return nil, nil, err
	}
	m, err := artifacts.ReadManifest(ctx, s.vault, p.Manifest)
	return p, m, err
}

// rollback rolls the store back to one of the three snapshots before the published one.
func (s *soak) rollback(ctx context.Context, random *rand.Rand) error {
	_, m, err := s.manifest(ctx)
	if err != nil {
		return err
	}
	i := random.IntN(min(3, len(m.Retained)))
	s.mu.Lock()
	s.rollbacks++
	s.due[m.Retained[i].Time.Format(model.TimeFormat)] = time.Time{} // a rollback takes effect immediately
	gone := []time.Time{m.Time}
	for _, r := range m.Retained[:i] {
		gone = append(gone, r.Time)
	}
	for _, t := range gone {
		s.withdrawn[t.Format(model.TimeFormat)] = s.rollbacks
	}
	s.mu.Unlock()
	if _, err = s.machine.Output(ctx, "builder", "rollback", "--store", s.machine.Store, "--to",
		m.Retained[i].Time.Format(time.RFC3339)); err == nil {
		s.report.count("rollbacks")
		p, err := oracle.Published(ctx, s.vault)
		if err != nil {
			return err
		}
		s.record(p)
	}
	s.noteChange()
	return err
}

// record notes which leaf of the log the published snapshot must be.
func (s *soak) record(p *artifacts.Pointer) {
	for uint64(len(s.leaves)) < p.Sequence {
		s.leaves = append(s.leaves, "") // nobody read this pointer before the next build replaced it
	}
	s.leaves[p.Sequence-1] = transparency.LeafOf(p)
}

// logged checks that "builder verify" finds no fault and that the log contains each published
// snapshot exactly once. Otherwise it records a broken promise.
func (s *soak) logged(ctx context.Context) error {
	if out, err := s.machine.Output(ctx, "builder", "verify", "--store", s.machine.Store); err != nil {
		s.report.breaks(damagedStore, "%v: %s", err, out)
		return nil
	}
	log, err := transparency.Open(ctx, signed.Reader(s.direct, artifacts.Trust{s.key.Trust()}))
	if err != nil {
		return err
	}
	if n := int64(len(s.leaves)); log.N != n && log.N != n-1 { // the last builder may have been killed
		s.report.breaks(damagedStore, "the log has %d leaves, and %d snapshots were published", log.N, n)
		return nil
	}
	return log.Each(func(i int64, leaf string) bool {
		if want := s.leaves[i]; want != "" && want != leaf {
			s.report.breaks(damagedStore, "leaf %d of the log is %s, and %s was published", i, leaf, want)
		}
		return true
	})
}

// builds starts a build every few seconds until ctx is done. It kills some of the builders, runs the
// change job, announces snapshots, and rolls back.
func (s *soak) builds(ctx context.Context, random *rand.Rand) {
	for i := 1; ctx.Err() == nil; i++ {
		pause(ctx, buildEvery)
		s.buildMutex.Lock()
		var killAfter time.Duration
		if random.IntN(3) == 0 {
			killAfter = 1 + rand.N(time.Second/2)
		}
		err := s.build(ctx, killAfter)
		if err == nil && i%5 == 0 {
			err = s.change(ctx)
		}
		if err == nil && random.IntN(2) == 0 {
			err = s.announce(ctx)
		}
		if err == nil && random.IntN(6) == 0 {
			pause(ctx, rand.N(time.Second))
			err = s.rollback(ctx, random)
		}
		s.buildMutex.Unlock()
		if err != nil && ctx.Err() == nil {
			s.report.breaks(badBuilds, "%v", err)
		}
	}
}

// calm reports whether the edges had recovered before the given time and there have been no faults since.
func (s *soak) calm(from time.Time) bool {
	since := s.quiet.Load()
	return since > 0 && from.UnixNano() > since
}

// run causes faults for the configured duration. It returns an error if it cannot continue. Broken
// promises are not errors; the report lists them.
func (s *soak) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	// Each part has its own random number generator, so that its speed does not affect the other
	// parts.
	random := func(part uint64) *rand.Rand { return rand.New(rand.NewPCG(s.cfg.Seed, part)) }
	loaded, err := s.load(ctx)
	if err != nil {
		return err
	}
	group.Go(loaded)
	group.Go(func() { s.builds(ctx, random(1)) })
	if err := s.checkpoint(ctx, true); err != nil {
		return err
	}
	draw := random(2)
	// No edge is killed in the last quarter, so that the last measurements come from processes that
	// have experienced faults for a while.
	for end := time.Now().Add(s.cfg.Duration); time.Now().Before(end) && ctx.Err() == nil; {
		if err := s.round(ctx, draw, time.Until(end) > s.cfg.Duration/4); err != nil {
			return err
		}
		if err := s.checkpoint(ctx, false); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, n := range s.edges {
		select {
		case <-n.program.Exited():
			s.report.breaks(died, "%v", n.program.Failure())
		default:
		}
	}
	s.buildMutex.Lock()
	defer s.buildMutex.Unlock()
	if err := s.logged(ctx); err != nil {
		return err
	}
	// Faults may keep an edge from loading some of the announced snapshots in time, but not all of them.
	s.report.mu.Lock()
	asked, early := s.report.counts[announced], s.report.counts[pinsEarly]
	s.report.mu.Unlock()
	if asked >= 5 && early == 0 {
		s.report.breaks(calm503, "no pin on any of %d snapshots was answered before they were current", asked)
	}
	return s.compareUsage(ctx)
}

// round causes a few faults at the same time, and then ends them. mayKill says whether the round
// may kill edges.
func (s *soak) round(ctx context.Context, random *rand.Rand, mayKill bool) error {
	r := &round{soak: s, random: random}
	defer r.release()
	if random.IntN(2) == 0 {
		if err := r.damageStore(ctx); err != nil {
			return err
		}
	}
	if random.IntN(3) > 0 {
		f := network.Faults[random.IntN(len(network.Faults))]
		if err := s.proxy.Set(f); err != nil {
			return err
		}
		s.report.count(faults + "network: " + f.Name)
	}
	for range 1 + random.IntN(3) {
		pause(ctx, time.Duration(random.Int64N(int64(2*time.Second))))
		switch n := s.edges[random.IntN(len(s.edges))]; random.IntN(4) {
		case 0:
			if err := r.damageDisk(); err != nil {
				return err
			}
		case 1, 2:
			if !mayKill {
				break
			}
			s.kill(n)
			if random.IntN(2) == 0 {
				if err := r.damageDisk(); err != nil {
					return err
				}
			}
			pause(ctx, time.Duration(random.Int64N(int64(time.Second))))
			if err := s.start(ctx, n); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	pause(ctx, time.Duration(random.Int64N(int64(3*time.Second))))
	if err := s.vault.repair(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("repair: %w", err)
	}
	return s.proxy.Heal()
}

type round struct {
	*soak
	random *rand.Rand
	holds  bool // whether the round has locked buildMutex
}

func (r *round) release() {
	if r.holds {
		r.buildMutex.Unlock()
	}
}

// spoils contains the ways to damage bytes. A nil result removes the object.
var spoils = []struct {
	name  string
	spoil func(random *rand.Rand) func([]byte) []byte
}{
	{"wrong bit", func(random *rand.Rand) func([]byte) []byte {
		return func(b []byte) []byte {
			if len(b) > 0 {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			return b
		}
	}},
	{"cut short", func(random *rand.Rand) func([]byte) []byte {
		return func(b []byte) []byte { return b[:random.IntN(len(b)+1)] }
	}},
	{"removed", func(*rand.Rand) func([]byte) []byte { return func([]byte) []byte { return nil } }},
}

// damageStore publishes a snapshot and damages its pointer, its manifest, the change record or some
// objects before the edges can see it. Builders wait for the repair, because they would also read
// the damaged data.
func (r *round) damageStore(ctx context.Context) error {
	r.buildMutex.Lock()
	r.holds = true
	if err := r.proxy.Set(network.Down); err != nil {
		return err
	}
	if err := r.build(ctx, 0); err != nil {
		if ctx.Err() == nil {
			r.report.breaks(badBuilds, "%v", err)
		}
		return r.proxy.Heal()
	}
	p, m, err := r.manifest(ctx)
	if err != nil {
		return err
	}
	how := spoils[r.random.IntN(len(spoils))]
	var what string
	var keys []artifacts.Key
	switch r.random.IntN(8) {
	case 0:
		what, keys = "pointer", []artifacts.Key{artifacts.CurrentKey}
		if how.name == "removed" { // an edge that starts would believe that the store has no snapshot
			how = spoils[0]
		}
	case 1:
		what, keys = "manifest", []artifacts.Key{artifacts.ManifestKey(p.Manifest.Digest)}
	case 2, 3:
		// Write the record first, because it must exist.
		if err := r.change(ctx); err != nil {
			return r.unlessDone(ctx, err)
		}
		what, keys = "change record", []artifacts.Key{artifacts.ChangeKey}
	default:
		what = "objects"
		all := map[artifacts.Key]bool{}
		for _, v := range m.Views {
			for _, o := range v.Objects {
				all[artifacts.ObjectKey(o.Digest)] = true
			}
		}
		keys = slices.SortedFunc(maps.Keys(all), artifacts.Key.Compare)
		r.random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		keys = keys[:1+r.random.IntN(4)]
	}
	for _, key := range keys {
		if err := r.vault.damage(ctx, key, how.spoil(r.random)); err != nil {
			return fmt.Errorf("damage %s: %w", key, err)
		}
		r.report.count(faults + "store: " + what + " " + how.name)
	}
	return r.proxy.Heal()
}

// damageDisk damages some files of the cache folder.
func (r *round) damageDisk() error {
	var files []string
	for _, n := range r.edges {
		for _, pattern := range []string{
			artifacts.ObjectPrefix + "*/*", artifacts.ManifestPrefix + "*",
			artifacts.CurrentKey.String(), artifacts.ChangeKey.String()} {
			if n.cache == "" {
				continue
			}
			found, err := filepath.Glob(filepath.Join(n.cache, filepath.FromSlash(pattern)))
			if err != nil {
				return err
			}
			files = append(files, found...)
		}
	}
	if len(files) == 0 {
		return nil
	}
	for range 1 + r.random.IntN(10) {
		path, how := files[r.random.IntN(len(files))], spoils[r.random.IntN(len(spoils))]
		b, err := os.ReadFile(path)
		if err != nil {
			continue // the edge or an earlier fault has removed it
		}
		if b = how.spoil(r.random)(b); b == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, b, 0o644)
		}
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		r.report.count(faults + "disk: file " + how.name)
	}
	return nil
}

// checkpoint waits until both edges have recovered, pauses for calmFor without faults, and records the
// memory and other resources that the edges use.
func (s *soak) checkpoint(ctx context.Context, first bool) error {
	began := time.Now()
	p, err := oracle.Published(ctx, s.vault)
	if err != nil {
		return s.unlessDone(ctx, err)
	}
	for _, n := range s.edges {
		for {
			st, err := n.status(ctx)
			if err == nil && st.State == "VALID" && st.Sequence >= p.Sequence &&
				st.Caches.MissingObjects+st.Caches.MissingHistory == 0 {
				break
			}
			if ctx.Err() != nil {
				return nil
			}
			if time.Since(began) > recoverWithin {
				s.report.breaks(stuck, "%s, %v after all faults, at sequence %d: %+v, %v", n.name, recoverWithin,
					p.Sequence, st, err)
				break
			}
			pause(ctx, 20*time.Millisecond)
		}
	}
	if !first {
		s.report.mu.Lock()
		s.report.recoveries = append(s.report.recoveries, time.Since(began))
		s.report.mu.Unlock()
	}
	s.quiet.Store(time.Now().UnixNano())
	pause(ctx, calmFor)
	for i, n := range s.edges {
		now, err := n.usage(ctx)
		if err == nil && first {
			now[heapLive], err = n.live(ctx)
		}
		if err != nil {
			return s.unlessDone(ctx, err)
		}
		s.report.mu.Lock()
		if first {
			s.report.usage = append(s.report.usage, usage{edge: n.name, first: now})
		}
		u := &s.report.usage[i]
		u.last = now
		u.resident = append(u.resident, now[metricMemory])
		s.report.mu.Unlock()
	}
	s.quiet.Store(0)
	return nil
}

// unlessDone returns err, or nil if the soak has ended, which may have caused err.
func (s *soak) unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// compareUsage records a broken promise if the edges' use of memory, goroutines or files has grown too
// much. At the first measurement an edge had just started and had little in its caches.
//
// Garbage may grow to several times the live heap, but not beyond the collector's limit. The rest of
// the resident memory is the program itself.
func (s *soak) compareUsage(ctx context.Context) error {
	program, err := os.Stat(filepath.Join(s.cfg.Bin, "edge"))
	if err != nil {
		return err
	}
	for i, n := range s.edges {
		u := &s.report.usage[i]
		if u.last[heapLive], err = n.live(ctx); err != nil {
			return s.unlessDone(ctx, err)
		}
		if a, b := u.first[heapLive], u.last[heapLive]; b > a+cacheSize {
			s.report.breaks(grown, "%s: live heap from %.0f to %.0f bytes, by more than --cache-size", u.edge, a, b)
		}
		if limit := u.last[metricLimit] + float64(program.Size()); slices.Max(u.resident) > limit {
			s.report.breaks(grown, "%s: %.0f bytes of memory, more than the collector's limit and the program, %.0f",
				u.edge, slices.Max(u.resident), limit)
		}
		for _, m := range []string{metricGoroutines, metricFiles} {
			if a, b := u.first[m], u.last[m]; b > 2*a+50 {
				s.report.breaks(grown, "%s: %s from %.0f to %.0f", u.edge, m, a, b)
			}
		}
	}
	return nil
}

// status is the part of /status that the soak reads.
type status struct {
	State     string
	LastError string `json:"last_error"`
	Sequence  uint64
	Caches    struct {
		MissingObjects int64 `json:"missing_objects"`
		MissingHistory int64 `json:"missing_history_objects"`
	}
}

func (n *node) get(ctx context.Context, path string) ([]byte, error) {
	return local.Get(ctx, "http://"+n.admin+path)
}

func (n *node) status(ctx context.Context) (st status, err error) {
	text, err := n.get(ctx, "/status")
	if err == nil {
		err = json.Unmarshal(text, &st)
	}
	return st, err
}

// Names of the metrics that the soak reads.
const (
	metricMemory     = "process_resident_memory_bytes"
	metricGoroutines = "go_goroutines"
	metricFiles      = "process_open_fds"
	metricLimit      = "go_gc_gomemlimit_bytes"
	heapLive         = "HeapAlloc" // live bytes after a garbage collection, from pprof
)

// live returns the number of bytes in the heap after a garbage collection.
func (n *node) live(ctx context.Context) (float64, error) {
	text, err := n.get(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	_, value, _ := strings.Cut(string(text), "\n# "+heapLive+" = ")
	value, _, _ = strings.Cut(value, "\n")
	return strconv.ParseFloat(value, 64)
}

func (n *node) usage(ctx context.Context) (map[string]float64, error) {
	text, err := n.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case metricMemory, metricGoroutines, metricFiles, metricLimit:
			if values[name], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}
