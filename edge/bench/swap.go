package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/internal/testserver"
	"example.com/marketdata/loadtest/result"
)

// A load that was late itself, or during which the hypervisor gave the machine's
// cores to others, says nothing about the edge: it is repeated, up to so many
// attempts.
const (
	maxLagMS       = 1    // p99
	maxStolen      = 0.03 // of the time of all cores
	openAttempts   = 3
	swapRounds     = 5               // at most: each is long
	swapLoad       = 8 * time.Second // in each of its two states
	capacityRounds = 15
	startRounds    = 7 // of the edge, of which the median counts
)

// swaps compares the latency of an edge at half its capacity in steady state
// with that while the snapshot changes every two seconds. The snapshots are
// built beforehand; only the pointer moves.
func (b *bench) swaps(ctx context.Context) error {
	const what, target = "p99 at half capacity with a new snapshot every 2 s, beside none", "≤ 1.50, or + 0.5 ms"
	if b.skipped(what) {
		return nil
	}
	dir := filepath.Join(b.work, "store-swap")
	at := time.Now().UTC().Truncate(artifacts.Step).Add(-time.Hour)
	var pointers []*artifacts.Pointer
	fmt.Printf("building four snapshots of %d assets\n", b.Assets)
	for i := range 4 {
		cmd := exec.CommandContext(ctx, filepath.Join(b.Bin, "builder"), "build", "--source", fmt.Sprintf("sim:?assets=%d&seed=1", b.Assets),
			"--store", "file:"+dir, "--time", at.Add(time.Duration(i)*artifacts.Step).Format(time.RFC3339))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("builder build: %w\n%s", err, out)
		}
		store, err := dirstore.Open(dir, dirstore.Options{})
		if err != nil {
			return err
		}
		raw, _, err := store.Get(ctx, artifacts.CurrentKey, artifacts.MaxPointerSize)
		if err != nil {
			return err
		}
		p, err := artifacts.ParsePointer(raw)
		if err != nil {
			return err
		}
		pointers = append(pointers, p)
	}
	edge, _, err := b.market(ctx, "swap", b.Assets)
	if err != nil {
		return err
	}
	rate := b.Rate
	if rate == 0 {
		if rate, err = b.capacity(ctx, edge); err != nil {
			return err
		}
		rate /= 2
	}
	var steady, swapping []time.Duration
	for range min(b.Rounds, swapRounds) {
		before, calm, err := b.open(ctx, edge, rate)
		if err != nil {
			return err
		}
		before.print(what, "steady")
		moving, stop := context.WithCancel(ctx)
		moved := make(chan error, 1)
		go func() { moved <- move(moving, dir, pointers) }()
		during, calmStill, err := b.open(ctx, edge, rate)
		stop()
		if err := cmp.Or(err, <-moved); err != nil {
			return err
		}
		during.print(what, "swapping")
		if !calm || !calmStill {
			fmt.Printf("%-58s left out: the machine was in the way\n", what)
			continue
		}
		steady, swapping = append(steady, before.p99()), append(swapping, during.p99())
	}
	if len(steady) == 0 {
		b.single(row{what: what, measured: "the machine was in the way", target: target})
		return nil
	}
	slices.Sort(steady)
	slices.Sort(swapping)
	s, w := steady[len(steady)/2], swapping[len(swapping)/2]
	b.single(row{what: what, measured: fmt.Sprintf("%.2f ms", us(w)/1000), beside: fmt.Sprintf("%.2f ms", us(s)/1000), ratio: float64(w) / float64(s),
		target: target, met: 2*w <= 3*s || w-s <= 500*time.Microsecond})
	return nil
}

// capacity returns how many requests a second an edge carries nearly always: the
// lower quartile of several measurements, since a core's own speed may change by
// half from second to second on a machine that others share.
func (b *bench) capacity(ctx context.Context, s *server) (float64, error) {
	held := question{Kind: "held", Path: "/openapi/v1/quotes", Max: b.Assets * 9 / 10}
	var rates []float64
	for i := range capacityRounds {
		f, err := b.measure(ctx, b.Duration, i, load{"capacity", s, held, b.auth()})
		if err != nil {
			return 0, err
		}
		rates = append(rates, f[0].rate)
	}
	slices.Sort(rates)
	return rates[len(rates)/4], nil
}

// pages is what the load tester asks for during swaps: pages of quotes, the first
// ones the most.
const pages = `
zipf: 1.1
mix:
  - {endpoint: quotes, weight: 1, sorts: ["", "name:desc"]}
`

// loaded is a run of the load tester.
type loaded struct {
	result.Run
	stolen float64 // of all cores' time, by the hypervisor
}

func (l *loaded) p99() time.Duration { return time.Duration(l.Due.P99MS * float64(time.Millisecond)) }

// open runs the load tester at a rate, pinned to the load's core, and again where
// the machine was in the way; calm tells whether it was not, in the end.
func (b *bench) open(ctx context.Context, s *server, rate float64) (l loaded, calm bool, err error) {
	scenario := filepath.Join(b.work, "pages.yaml")
	if err := os.WriteFile(scenario, []byte(pages), 0o644); err != nil {
		return l, false, err
	}
	for range openAttempts {
		before, err := cpuTimes()
		if err != nil {
			return l, false, err
		}
		cmd := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(b.Client), filepath.Join(b.Bin, "loadtest"), "run", "--url", "http://"+s.addr, "--key", b.key,
			"--scenario", scenario, "--directory-rows", "1", "--rate", strconv.FormatFloat(rate, 'f', 0, 64), "--warmup", "2s", "--duration", swapLoad.String(),
			"--connections", "256", "--check", "0", "--quiet", "--out", "-")
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		out, failed := cmd.Output() // a run that it thinks invalid, too
		l = loaded{}
		if err := json.Unmarshal(out, &l.Run); err != nil {
			return l, false, fmt.Errorf("loadtest: %w", cmp.Or(failed, err))
		}
		if l.Requests.Failed > 0 {
			return l, false, fmt.Errorf("%d requests failed: %v", l.Requests.Failed, l.Requests.Failures)
		}
		after, err := cpuTimes()
		if err != nil {
			return l, false, err
		}
		if l.stolen = after.stolenSince(before); l.Lag.P99MS <= maxLagMS && l.stolen <= maxStolen {
			return l, true, nil
		}
	}
	return l, false, nil
}

func (l *loaded) print(what, state string) {
	fmt.Printf("%-58s %-24s %8.0f/s  p50 %.3f ms  p99 %.3f ms  p99.9 %.3f ms  (send lag p99 %.3f ms, %.1f %% of the cores stolen)\n",
		what, state, l.Rate.Achieved, l.Due.P50MS, l.Due.P99MS, l.Due.P999MS, l.Lag.P99MS, 100*l.stolen)
}

// move publishes the snapshots in turn, each under a new sequence.
func move(ctx context.Context, dir string, pointers []*artifacts.Pointer) error {
	store, err := dirstore.Open(dir, dirstore.Options{})
	if err != nil {
		return err
	}
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		raw, version, err := store.Get(context.WithoutCancel(ctx), artifacts.CurrentKey, artifacts.MaxPointerSize)
		if err != nil {
			return err
		}
		now, err := artifacts.ParsePointer(raw)
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

// starts measures the time from starting an edge over a MinIO on this machine,
// without a disk copy, to its readiness.
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
	env := append(os.Environ(), server.Env()...)
	build := exec.CommandContext(ctx, filepath.Join(b.Bin, "builder"), "build", "--source", fmt.Sprintf("sim:?assets=%d&seed=1", assets), "--store", store)
	build.Env = env
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("builder build: %w\n%s", err, out)
	}
	var times []time.Duration
	for range startRounds {
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		admin, err := freeAddr()
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, filepath.Join(b.Bin, "edge"), "--store", store, "--listen", addr, "--admin", admin, "--auth", "off", "--drain-wait", "0s")
		cmd.Env = env
		began := time.Now()
		if err := cmd.Start(); err != nil {
			return err
		}
		took, cold, err := readiness(ctx, addr, admin, began)
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()
		if err != nil {
			return err
		}
		fmt.Printf("%-58s ready after %v, first cold answer after %v\n", what, took, cold)
		times = append(times, took)
	}
	slices.Sort(times)
	m := times[len(times)/2]
	b.single(row{what: what, measured: fmt.Sprintf("%d ms", m.Milliseconds()), target: "≤ 300 ms", met: m <= 300*time.Millisecond})
	return nil
}

func readiness(ctx context.Context, addr, admin string, began time.Time) (ready, cold time.Duration, err error) {
	for {
		if ctx.Err() != nil || time.Since(began) > time.Minute {
			return 0, 0, errors.Join(ctx.Err(), errors.New("the edge was not ready within a minute"))
		}
		res, err := http.Get("http://" + admin + "/readyz")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				break
			}
		}
		time.Sleep(time.Millisecond)
	}
	ready = time.Since(began)
	if _, err := capture(addr, "/openapi/v1/quotes?sort=name:desc&page=17", nil); err != nil {
		return 0, 0, err
	}
	return ready, time.Since(began), nil
}
