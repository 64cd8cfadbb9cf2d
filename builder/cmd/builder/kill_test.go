package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
)

// How many builders TestKill kills on each store: by day, and with TEST_LONG, when a MinIO is among the stores.
const (
	defaultKills = 20
	manyKills    = 400
)

// stages are what a builder can be killed in: before its first step, in each
// step, and after its last one.
var stages = []string{
	"start", builder.StepOpen, builder.StepRead, builder.StepCompute, builder.StepObjects, builder.StepHistory,
	publish.StepSync, publish.StepManifest, publish.StepSwap, publish.StepLog, builder.StepDone,
	"exited",
}

// TestKill kills builders with SIGKILL, two at a time on one store, at moments spread evenly over
// the measured length of a build, and then at each step that was too short to be met. After every
// pair all that is published is whole and in the log once, the sequence has no gap, and the next build
// succeeds; an
// edge that serves the store all the while answers nothing but whole snapshots, or 503; a closing
// table says how often each step was hit, none at zero.
func TestKill(t *testing.T) {
	kills := killsOf()
	t.Run("folder", func(t *testing.T) {
		root := filepath.Join(t.TempDir(), "store")
		store := must.Get(dirstore.Open(root, dirstore.Options{Create: true}))(t)
		(&killer{store: store, address: "file:" + root}).kill(t, kills)
	})
	if kills < manyKills {
		return
	}
	t.Run("MinIO", func(t *testing.T) {
		server := testserver.MinIO(t)
		address := server.URL("kill")
		store := must.Get(s3store.Open(address, server.Options()))(t)
		t.Cleanup(func() { store.Close() })
		(&killer{store: store, address: address, env: server.Env()}).kill(t, kills)
	})
}

func killsOf() int {
	if os.Getenv("TEST_LONG") == "1" {
		return manyKills
	}
	if testing.Short() {
		return 8
	}
	return defaultKills
}

// killer kills builders that publish to one store.
type killer struct {
	store   artifacts.Store
	address string
	env     []string
	edge    *watcher
	stdout  io.Writer // of builders that start now; nil: nowhere

	key    string    // the file of the key that they sign with
	log    []string  // of all that is published
	at     time.Time // of the last snapshot that was built
	length time.Duration
	hits   map[string]int
}

// killedMarket is large enough for every step to take a while.
const killedMarket = "sim:?assets=400&seed=%d"

// start starts a build of time at; seed tells two builders' feeds apart.
func (k *killer) start(t *testing.T, at time.Time, seed int) *builderRun {
	t.Helper()
	source := fmt.Sprintf(killedMarket, seed)
	cmd := builderProcess(context.Background(), "build", "--files", "build", "--source", source, "--store", k.address,
		"--time", at.Format(time.RFC3339), "--force", "--sign-key", k.key)
	cmd.Env, cmd.Stdout = append(cmd.Env, k.env...), k.stdout
	return &builderRun{startProcess(t, cmd), time.Now()}
}

// builderRun is one builder at work.
type builderRun struct {
	*runProcess
	began time.Time
}

// kill kills the builder; one that has exited needs none.
func (b *builderRun) kill() { _ = b.cmd.Process.Kill() }

// killAt kills the builder when it has run for d, and returns the stage that it was in.
func (b *builderRun) killAt(d time.Duration) string {
	timer := time.AfterFunc(d-time.Since(b.began), b.kill)
	defer timer.Stop()
	return b.stage()
}

// killIn kills the builder as soon as it says that a step begins.
func (b *builderRun) killIn(step string) string {
	if step != "start" {
		b.reach("msg=build step=" + step)
	}
	b.kill()
	return b.stage()
}

var stepLine = regexp.MustCompile(`msg=build step=(\w+)`)

// stage waits for the builder's end and names the stage that it was killed in.
func (b *builderRun) stage() string {
	err := b.wait()
	switch begun := stepLine.FindAllStringSubmatch(b.log.String(), -1); {
	case err == nil:
		return "exited"
	case begun == nil:
		return "start"
	default:
		return begun[len(begun)-1][1]
	}
}

func (k *killer) kill(t *testing.T, kills int) {
	k.at, k.hits = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), map[string]int{}
	k.key = signKeyFile(t)
	k.build(t)
	k.edge = watch(t, k.store)
	for range 3 {
		k.measure(t)
	}
	for i := 0; i < kills; i += 2 {
		// Each pair is at other places of the build than the one before.
		moment := func(i int) time.Duration { return k.length * time.Duration(2*i+1) / time.Duration(2*kills) }
		k.pair(t, moment(i), moment((i*7+kills/2)%kills))
	}
	_, full := fullPipe(t) // holds who is done at its report, until it is killed
	for _, stage := range stages[:len(stages)-1] {
		for try := 0; k.hits[stage] == 0 && try < 20; try++ {
			k.at, k.stdout = k.at.Add(artifacts.Step), full
			b := k.start(t, k.at, 1)
			k.stdout = nil
			k.hits[b.killIn(stage)]++
			k.check(t)
		}
	}
	k.table(t)
}

// build is a build that is not killed. It must succeed.
func (k *killer) build(t *testing.T) {
	t.Helper()
	k.at = k.at.Add(artifacts.Step)
	b := k.start(t, k.at, 1)
	if err := b.wait(); err != nil {
		t.Fatalf("%v\n%s", err, b.log.String())
	}
	head, err := publish.ReadHead(t.Context(), k.store)
	if err != nil || head.Pointer == nil || !head.Pointer.Time.Equal(k.at) {
		t.Fatalf("built %v, published is %+v, %v", k.at, head, err)
	}
	for i := range artifacts.HistoryWindows {
		if listed, blocks := head.Manifest.History(&artifacts.HistoryWindows[i]); listed == nil ||
			len(blocks) == 0 && i == 0 {
			t.Fatalf("no history of %s", artifacts.HistoryWindows[i].Name)
		}
	}
	k.logged(t, true)
	if k.edge != nil {
		k.edge.until(t, k.at)
	}
}

// signKeyFile writes the key of signed stores.
func signKeyFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sign.key")
	ok(t, os.WriteFile(file, []byte(buildtest.SignKey.Text()), 0o600))
	return file
}

// logged fails the test unless the log has each published snapshot once; the last may be missing if
// its builder may have died.
func (k *killer) logged(t *testing.T, whole bool) {
	t.Helper()
	head := must.Get(publish.ReadHead(t.Context(), k.store))(t)
	if head.Pointer.Sequence == uint64(len(k.log)+1) {
		k.log = append(k.log, buildtest.Leaf(head.Pointer))
	}
	if head.Pointer.Sequence != uint64(len(k.log)) {
		t.Fatalf("sequence %d after %d snapshots", head.Pointer.Sequence, len(k.log))
	}
	buildtest.SameLog(t, k.store, k.log, !whole)
	if leaves := buildtest.CheckLog(t, k.store); len(leaves) < len(k.log) {
		k.hits[behind]++
	}
}

// behind counts the deaths between the pointer's move and the checkpoint's.
const behind = "before the checkpoint"

// measure takes the length of a build as it will be: two at once, with a
// snapshot before them and an edge beside them.
func (k *killer) measure(t *testing.T) {
	t.Helper()
	k.at = k.at.Add(artifacts.Step)
	a, b := k.start(t, k.at, 1), k.start(t, k.at, 2)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.stage()
	}()
	b.stage() // one of the two may have lost to the other
	<-ended
	if took := time.Since(b.began); k.length == 0 || took < k.length {
		k.length = took // the least: a longer one kills builders that have ended
	}
	k.check(t)
}

// pair kills two builders of the same time, of the same feed or of two.
func (k *killer) pair(t *testing.T, first, second time.Duration) {
	t.Helper()
	k.at = k.at.Add(artifacts.Step)
	a, b := k.start(t, k.at, 1), k.start(t, k.at, 1+int(first)%2)
	stage := make(chan string)
	go func() { stage <- a.killAt(first) }()
	k.hits[b.killAt(second)]++
	k.hits[<-stage]++
	k.check(t)
}

// check looks at the store after builders have died.
func (k *killer) check(t *testing.T) {
	t.Helper()
	before := must.Get(publish.ReadHead(t.Context(), k.store))(t)
	k.logged(t, false)
	report, err := artifacts.Check(t.Context(), k.store, ledger.Refs, nil)
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("after a kill: %v, %q", err, report.Problems)
	}
	k.build(t)
	after := must.Get(publish.ReadHead(t.Context(), k.store))(t)
	if after.Pointer.Sequence != before.Pointer.Sequence+1 || after.Pointer.Store != before.Pointer.Store {
		t.Fatalf("pointer %+v, was %+v", after.Pointer, before.Pointer)
	}
}

// table reports the hits, and fails the test for a stage without any.
func (k *killer) table(t *testing.T) {
	t.Helper()
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "stage\tkilled in\t")
	for _, stage := range stages {
		fmt.Fprintf(w, "%s\t%d\t\n", stage, k.hits[stage])
		if k.hits[stage] == 0 && stage != "exited" {
			t.Errorf("no builder was killed in %q", stage)
		}
	}
	ok(t, w.Flush())
	t.Logf("%d builders died %s; two builds at once take %v\n%s", k.hits[behind], behind,
		k.length.Round(time.Millisecond), strings.TrimRight(b.String(), "\n"))
}
