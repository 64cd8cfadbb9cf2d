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

// The numbers of builders that TestKill kills on each store, by default and with TEST_LONG. With
// TEST_LONG, MinIO is one of the stores.
const (
	defaultKills = 20
	manyKills    = 400
)

// stages are the stages in which a builder can be killed: before its first step, in each step, and
// after the last one.
var stages = []string{
	"start", builder.StepOpen, builder.StepRead, builder.StepCompute, builder.StepObjects, builder.StepHistory,
	publish.StepSync, publish.StepManifest, publish.StepSwap, publish.StepLog, builder.StepDone,
	"exited",
}

// TestKill kills builders with SIGKILL, two at a time on one store, at moments spread evenly over
// the measured duration of a build. Then it kills builders in each step that was too short to be
// hit. After each pair, everything published must be intact and in the log exactly once, the
// sequence must have no gap, and the next build must succeed. An edge that serves the store in the
// meantime must respond with rows of one snapshot, or with 503. A final table shows how often each
// step was hit, which must not be zero.
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
	stdout  io.Writer // standard output of the builders that start next, or nil

	key    string    // the file with the signing key
	log    []string  // the leaves of all published snapshots
	at     time.Time // the time of the last snapshot that was built
	length time.Duration
	hits   map[string]int
}

// killedMarket is large enough for every step to take a while.
const killedMarket = "sim:?assets=400&seed=%d"

// start starts a build of the snapshot at the given time. Builds with different seeds have
// different feeds.
func (k *killer) start(t *testing.T, at time.Time, seed int) *builderRun {
	t.Helper()
	source := fmt.Sprintf(killedMarket, seed)
	cmd := builderProcess(context.Background(), "build", "--files", "build", "--source", source, "--store", k.address,
		"--time", at.Format(time.RFC3339), "--force", "--sign-key", k.key)
	cmd.Env, cmd.Stdout = append(cmd.Env, k.env...), k.stdout
	return &builderRun{startProcess(t, cmd), time.Now()}
}

// builderRun is a running build.
type builderRun struct {
	*runProcess
	began time.Time
}

// kill kills the builder, unless it has already exited.
func (b *builderRun) kill() { _ = b.cmd.Process.Kill() }

// killAt kills the builder when it has run for d, and returns the stage in which it died.
func (b *builderRun) killAt(d time.Duration) string {
	timer := time.AfterFunc(d-time.Since(b.began), b.kill)
	defer timer.Stop()
	return b.stage()
}

// killIn kills the builder as soon as it logs that a step begins, and returns the stage in which it
// died.
func (b *builderRun) killIn(step string) string {
	if step != "start" {
		b.reach("msg=build step=" + step)
	}
	b.kill()
	return b.stage()
}

var stepLine = regexp.MustCompile(`msg=build step=(\w+)`)

// stage waits until the builder exits, and returns the stage in which it was killed.
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
		// Each pair is killed at other moments than the pair before.
		moment := func(i int) time.Duration { return k.length * time.Duration(2*i+1) / time.Duration(2*kills) }
		k.pair(t, moment(i), moment((i*7+kills/2)%kills))
	}
	_, full := fullPipe(t) // blocks a builder that prints its report until it is killed
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

// build runs a build that is not killed and must succeed.
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

// signKeyFile writes a signing key to a new file and returns its name.
func signKeyFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sign.key")
	ok(t, os.WriteFile(file, []byte(buildtest.SignKey.Text()), 0o600))
	return file
}

// logged fails the test unless the log has each published snapshot exactly once. If whole is not
// set, the last one may be missing, since its builder may have died.
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

// behind is the name of the count of builders that died after they moved the pointer and before
// they wrote the checkpoint.
const behind = "before the checkpoint"

// measure measures the duration of a build under the conditions of the test: two builds run at the
// same time, there is an earlier snapshot, and an edge serves the store.
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
		k.length = took // use the minimum, since after a longer time the builders may have exited
	}
	k.check(t)
}

// pair kills two builders that build the same time, from the same feed or from different ones.
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

// check checks the store after builders have died.
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

// table logs how often each stage was hit, and fails the test for a stage that was not hit.
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
