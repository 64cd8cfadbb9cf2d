package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/testserver"
	"example.com/marketdata/loadtest/result"
)

// If the load tester was late in a run, or the machine was too slow for the rate, the run says nothing about
// the edge. Such a run is repeated, with at most openAttempts attempts in total.
const (
	maxLagMS       = 1 // bound on the p99 of the send lag
	openAttempts   = 3
	swapRounds     = 5               // at most, because each is long
	swapLoad       = 8 * time.Second // in each of the two states of a round
	capacityRounds = 15
	startRounds    = 7 // starts of the edge; the median is reported
)

// swaps compares an edge's latency at half its capacity in steady state and with a new snapshot
// every two seconds. The snapshots are built before the measurement, in which only the pointer changes.
func (b *bench) swaps(ctx context.Context) error {
	const what, target = "p99 at half capacity with a new snapshot every 2 s, compared with none", "≤ 1.50, or + 0.5 ms"
	const far, farTarget = "p99.9 at half capacity with a new snapshot every 2 s, compared with none", "≤ 2.00"
	if b.skipped(what, far) {
		return nil
	}
	dir := filepath.Join(b.work, "store-swap")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	store, err := dirstore.Open(dir, dirstore.Options{})
	if err != nil {
		return err
	}
	at := time.Now().UTC().Truncate(artifacts.Step).Add(-time.Hour)
	var pointers []*artifacts.Pointer
	for i := range 4 {
		if err := b.build(ctx, nil, b.store("swap"), b.Assets, "--time",
			at.Add(time.Duration(i)*artifacts.Step).Format(time.RFC3339)); err != nil {
			return err
		}
		p, _, err := current(ctx, store)
		if err != nil {
			return err
		}
		pointers = append(pointers, p)
	}
	edge, err := b.market(ctx, "swap", b.Assets)
	if err != nil {
		return err
	}
	rate, err := b.capacity(ctx, edge, b.Assets)
	if err != nil {
		return err
	}
	var steady, swapping [2][]float64 // p99 and p99.9 in ms
	for range min(b.Rounds, swapRounds) {
		before, calm, err := b.open(ctx, edge, rate/2, openAttempts)
		if err != nil {
			return err
		}
		print(before, what, "steady")
		moving, stop := context.WithCancel(ctx)
		moved := make(chan error, 1)
		go func() { moved <- move(moving, store, pointers) }()
		during, calmStill, err := b.open(ctx, edge, rate/2, openAttempts)
		stop()
		if err := cmp.Or(err, <-moved); err != nil {
			return err
		}
		print(during, what, "swapping")
		if !calm || !calmStill {
			fmt.Printf("%-58s left out: the machine was busy\n", what)
			continue
		}
		steady[0], swapping[0] = append(steady[0], before.Due.P99MS), append(swapping[0], during.Due.P99MS)
		steady[1], swapping[1] = append(steady[1], before.Due.P999MS), append(swapping[1], during.Due.P999MS)
	}
	b.latency(row{what: what, target: target}, swapping[0], steady[0], 1,
		func(swapping, steady float64) bool { return swapping <= 1.5*steady || swapping-steady <= 0.5 })
	b.latency(row{what: far, target: farTarget}, swapping[1], steady[1], 1,
		func(swapping, steady float64) bool { return swapping <= 2*steady })
	return nil
}

// capacity returns a rate that the edge usually reaches, in requests a second: the lower quartile of several
// measurements. On a shared machine the speed of a core may change by half within a second.
func (b *bench) capacity(ctx context.Context, s *server, assets int) (float64, error) {
	var rates []float64
	for i := range capacityRounds {
		f, err := b.measure(ctx, b.Duration, i, load{"capacity", s, somePages(assets * 9 / 10), b.auth()})
		if err != nil {
			return 0, err
		}
		rates = append(rates, f[0].rate)
	}
	slices.Sort(rates)
	return rates[len(rates)/4], nil
}

// scenario is the load during swaps: pages of quotes, the first pages most often.
const scenario = `
zipf: 1.1
mix:
  - {endpoint: quotes, weight: 1, sorts: ["", "name:desc"]}
`

// open runs the load tester at a rate, on the same core as this process. It repeats the run until it is on
// time, but makes at most the given number of attempts, and returns the last run. calm reports whether that run was
// on time.
func (b *bench) open(ctx context.Context, s *server, rate float64, attempts int) (r result.Run, calm bool, err error) {
	file := filepath.Join(b.work, "pages.yaml")
	if err := os.WriteFile(file, []byte(scenario), 0o644); err != nil {
		return r, false, err
	}
	for attempt := 0; attempt < attempts && !calm; attempt++ {
		// The load tester writes a result even if the run is invalid.
		out, failed := b.on([]string{"GOMAXPROCS=1"}, b.Client).Output(ctx, "loadtest", "run",
			"--url", "http://"+s.addr, "--key", b.key, "--scenario", file, "--directory-rows", "1",
			"--rate", strconv.FormatFloat(rate, 'f', 0, 64), "--warmup", "2s", "--duration", swapLoad.String(),
			"--connections", "256", "--check", "0", "--quiet", "--out", "-")
		r = result.Run{}
		if err := json.Unmarshal(out, &r); err != nil {
			return r, false, cmp.Or(failed, err)
		}
		if r.Requests.Failed > r.Requests.Unsent {
			return r, false, fmt.Errorf("%d requests failed: %v", r.Requests.Failed, r.Requests.Failures)
		}
		calm = r.Lag.P99MS <= maxLagMS && r.Requests.Unsent == 0
	}
	return r, calm, nil
}

// calmSeconds returns the p99 in ms of each second of a run, except for seconds in which the load tester was
// late.
func calmSeconds(r *result.Run) (p99 []float64) {
	for p := range r.Measured() {
		if p.LagP99MS <= maxLagMS {
			p99 = append(p99, p.Due.P99MS)
		}
	}
	return p99
}

func print(r result.Run, what, state string) {
	fmt.Printf("%-58s %-24s %8.0f/s  p50 %.3f ms  p99 %.3f ms  p99.9 %.3f ms  (send lag p99 %.3f ms)\n",
		what, state, r.Rate.Achieved, r.Due.P50MS, r.Due.P99MS, r.Due.P999MS, r.Lag.P99MS)
}

// current returns the pointer of a store.
func current(ctx context.Context, store artifacts.Store) (*artifacts.Pointer, artifacts.Version, error) {
	raw, version, err := store.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
	if err != nil {
		return nil, "", err
	}
	p, err := artifacts.ParsePointer(raw)
	return p, version, err
}

// move publishes the snapshots in turn, one every two seconds, each with a new sequence, until ctx is done.
func move(ctx context.Context, store artifacts.Store, pointers []*artifacts.Pointer) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, version, err := current(context.WithoutCancel(ctx), store)
		if err != nil {
			return err
		}
		next := *pointers[i%len(pointers)]
		next.Sequence, next.Published = now.Sequence+1, time.Now()
		if _, err := store.Swap(context.WithoutCancel(ctx), artifacts.CurrentKey, version, next.Encode()); err != nil {
			return err
		}
	}
}

// starts measures the time from the start of an edge until it is ready. The edge has no disk copy, and its
// store is a MinIO server on this machine.
func (b *bench) starts(ctx context.Context) error {
	const what, assets = "start to ready on a MinIO, 20,000 assets, no disk copy", 20_000
	if b.skipped(what) {
		return nil
	}
	server, err := testserver.Start(ctx, testserver.KindMinIO, testserver.Options{Dir: filepath.Join(b.work, "minio")})
	if err != nil {
		return err
	}
	defer server.Close()
	store := server.URL("start")
	if err := b.build(ctx, server.Env(), store, assets); err != nil {
		return err
	}
	var times []time.Duration
	for range startRounds {
		addr, admin := local.Free("127.0.0.1:0"), local.Free("127.0.0.1:0")
		began := time.Now()
		p, err := b.on(server.Env(), b.Server, b.Client).Start("edge-start", "edge", "--store", store,
			"--listen", addr, "--admin", admin, "--auth", "off", "--drain-wait", "0s")
		if err != nil {
			return err
		}
		took, cold, err := readiness(ctx, addr, admin, began)
		p.Stop()
		if err != nil {
			return err
		}
		fmt.Printf("%-58s ready after %v, first cold answer after %v\n", what, took, cold)
		times = append(times, took)
	}
	m := median(times, func(d time.Duration) time.Duration { return d })
	b.single(row{what: what, measured: fmt.Sprintf("%d ms", m.Milliseconds()), target: "≤ 300 ms",
		met: m <= 300*time.Millisecond})
	return nil
}

func readiness(ctx context.Context, addr, admin string, began time.Time) (ready, cold time.Duration, err error) {
	for {
		if ctx.Err() != nil || time.Since(began) > time.Minute {
			return 0, 0, errors.Join(ctx.Err(), errors.New("the edge was not ready within a minute"))
		}
		if _, err := local.Get(ctx, "http://"+admin+"/readyz"); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	ready = time.Since(began)
	if _, err := capture(addr, "/openapi/v1/quotes?sort=name:desc&page=17", nil); err != nil {
		return 0, 0, err
	}
	return ready, time.Since(began), nil
}
