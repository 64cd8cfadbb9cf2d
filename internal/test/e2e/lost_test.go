package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/testserver"
	"example.com/marketdata/internal/test/teststore"
)

// lossColumns are the columns after "object" and "fault" in the table that TestSmallObjects checks
// row by row. The summary for operators is in deploy/runbook.md, "When a small object is missing or
// wrong".
var lossColumns = []string{"running or restarted edge", "fresh edge", "commands that fail"}

// lossCommands lists the commands that the last column may name.
var lossCommands = []string{"build", "run", "verify", "status", "gc", "repair", "backup", "restore"}

const lossFile = "testdata/losses.txt"

// lossRow is one row of the table.
type lossRow struct {
	object, fault string
	cells         []string
}

func lossTable(t *testing.T) (rows []lossRow) {
	t.Helper()
	b := must.Get(os.ReadFile(lossFile))(t)
	_, text, ok := strings.Cut(string(b), "\n\n")
	if !ok {
		t.Fatalf("%s has no table", lossFile)
	}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) != len(lossColumns)+2:
			t.Fatalf("%q: want %d cells", line, len(lossColumns)+2)
		case i == 0 && !slices.Equal(cells[2:], lossColumns):
			t.Fatalf("columns %q, want %q", cells[2:], lossColumns)
		case i > 1:
			rows = append(rows, lossRow{strings.Trim(cells[0], "`"), cells[1], cells[2:]})
		}
	}
	return rows
}

// TestSmallObjects: whatever happens to a small object, the current manifest or the ledger, nobody
// gains or loses access, no id changes its asset, no time is published twice, no cached copy is
// lost, and no store is mistaken for another.
func TestSmallObjects(t *testing.T) {
	l := newLosses(t)
	rows := lossTable(t)
	t.Run("folder", func(t *testing.T) {
		l.walk(t, rows, func(name string) string { return "file:" + filepath.Join(t.TempDir(), name) })
	})
	t.Run("minio", func(t *testing.T) {
		if os.Getenv("TEST_LONG") != "1" {
			t.Skip("by night: TEST_LONG=1")
		}
		server := testserver.MinIO(t)
		for _, v := range server.Env() {
			name, value, _ := strings.Cut(v, "=")
			t.Setenv(name, value)
		}
		n := 0
		l.walk(t, rows, func(name string) string { n++; return server.URL(fmt.Sprintf("%s-%d", name, n)) })
	})
}

// losses holds a healthy store, an earlier state of it, another store, and a backup.
type losses struct {
	program              string
	dir                  string
	store, other, backup string
	older                map[artifacts.Key][]byte // small objects as of the preceding snapshot
	key                  string
	first, last          time.Time
	lastManifest         artifacts.Digest
	identity             string
	ids                  map[string]uint64        // by slug
	objects              map[string]artifacts.Key // keys of immutable objects, by their names in the table
}

func newLosses(t *testing.T) *losses {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("BUILDER_STATE_DIR", filepath.Join(dir, "cache"))
	l := &losses{
		dir: dir, program: filepath.Join(dir, "builder"),
		first: time.Now().UTC().Truncate(artifacts.Step).Add(-3 * artifacts.Step),
		store: "file:" + filepath.Join(dir, "store"), other: "file:" + filepath.Join(dir, "other"),
		backup: "file:" + filepath.Join(dir, "backup"),
	}
	l.last = l.first.Add(artifacts.Step)
	out, err := exec.Command("go", "build", "-o", l.program, "../../../builder/cmd/builder").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l.must(t, "build", "--source", l.feed(t, "other"), "--store", l.other, "--time", stampOf(l.last))
	l.must(t, "keys", "create", "--store", l.other, "--name", "theirs")
	l.must(t, "change", "--store", l.other)
	l.key = strings.TrimSpace(l.must(t, "keys", "create", "--store", l.store, "--name", "ours"))
	l.must(t, "build", "--source", l.feed(t, "beta", "alpha"), "--store", l.store, "--time", stampOf(l.first))
	l.must(t, "change", "--store", l.store)
	open(t, l.backup) // because backup does not create the folder
	l.must(t, "backup", "--store", l.store, "--to", l.backup)
	l.older = map[artifacts.Key][]byte{}
	for _, key := range []artifacts.Key{
		artifacts.IdentityKey, artifacts.CurrentKey, artifacts.ChangeKey, artifacts.KeysKey} {
		l.older[key] = read(t, open(t, l.store), key)
	}
	l.must(t, "build", "--source", l.feed(t, "beta", "alpha", "aaa"), "--store", l.store, "--time", stampOf(l.last))
	l.must(t, "keys", "create", "--store", l.store, "--name", "later")
	l.must(t, "change", "--store", l.store)
	p := must.Get(artifacts.ParsePointer(read(t, open(t, l.store), artifacts.CurrentKey)))(t)
	m := must.Get(artifacts.ReadManifest(t.Context(), open(t, l.store), p.Manifest))(t)
	l.lastManifest, l.identity = p.Manifest.Digest, p.Store
	l.objects = map[string]artifacts.Key{
		"manifest": artifacts.ManifestKey(p.Manifest.Digest), "ledger root": artifacts.ObjectKey(m.Ledger.Digest)}
	l.ids = l.served(t, l.store)
	return l
}

func stampOf(t time.Time) string { return t.Format(time.RFC3339) }

// feed writes a feed with the given assets and returns its URL.
func (l *losses) feed(t *testing.T, slugs ...string) string {
	t.Helper()
	at := l.last
	if len(slugs) > 3 { // the feed of the next snapshot
		at = at.Add(artifacts.Step)
	}
	dir := filepath.Join(l.dir, "feed-"+strings.Join(slugs, "-"))
	var assets, quotes bytes.Buffer
	for _, slug := range slugs {
		fmt.Fprintf(&assets, `{"key":%q,"name":%q,"symbol":%q,"slug":%q}`+"\n", slug, slug, slug, slug)
		fmt.Fprintf(&quotes, `{"key":%q,"price":5,"market_cap":1000000}`+"\n", slug)
	}
	for name, body := range map[string]string{
		"feed.json":     `{"format":1,"database":"d","time":"` + stampOf(at) + `"}`,
		"assets.ndjson": assets.String(), "quotes.ndjson": quotes.String(),
	} {
		must.OK(t, os.MkdirAll(dir, 0o755))
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644))
	}
	return "feed:" + dir
}

// command runs the builder and returns its exit status and everything that it printed.
func (l *losses) command(t *testing.T, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.program, args...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (l *losses) must(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(l.program, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, stderr.String())
	}
	return string(out)
}

func open(t *testing.T, address string) artifacts.Store {
	t.Helper()
	return must.Get(stores.Open(t.Context(), address, stores.Options{Create: true}))(t)
}

func read(t *testing.T, s artifacts.Reader, key artifacts.Key) []byte {
	t.Helper()
	b, _, err := s.Get(t.Context(), key, artifacts.MaxObjectSize)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return b
}

// copyStore copies all objects of a store.
func copyStore(t *testing.T, from, to string) artifacts.Store {
	t.Helper()
	source, target := open(t, from), open(t, to)
	var keys []artifacts.Key
	must.OK(t, source.List(
		t.Context(), "", func(i artifacts.Info) error { keys = append(keys, i.Key); return nil }))
	for _, key := range keys {
		put(t, target, key, read(t, source, key))
	}
	return target
}

// put replaces the object at a key with arbitrary bytes, or removes it if b is nil.
func put(t *testing.T, s artifacts.Store, key artifacts.Key, b []byte) {
	t.Helper()
	err := s.Delete(t.Context(), key)
	if err == nil && b != nil && key.Immutable() {
		err = s.Put(t.Context(), key, b)
	} else if err == nil && b != nil {
		_, err = s.Swap(t.Context(), key, "", b)
	}
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
}

// spoil applies a row's fault to a store.
func (l *losses) spoil(t *testing.T, address string, row lossRow) {
	t.Helper()
	if row.fault == "not mounted" {
		must.OK(t, os.RemoveAll(strings.TrimPrefix(address, "file:")))
		return
	}
	s := open(t, address)
	if row.fault == "emptied" {
		var keys []artifacts.Key
		must.OK(t, s.List(
			t.Context(), "", func(i artifacts.Info) error { keys = append(keys, i.Key); return nil }))
		for _, key := range keys {
			put(t, s, key, nil)
		}
		return
	}
	key, ok := l.objects[row.object]
	if !ok {
		key = artifacts.MustKey(row.object)
	}
	var b []byte
	switch row.fault {
	case "missing":
	case "damaged":
		b = []byte("{\"format\":1,\"damaged\":true}\n")
	case "oversized":
		b = bytes.Repeat([]byte(" "), artifacts.MaxKeySetSize+1)
	case "older, with its record":
		put(t, s, artifacts.ChangeKey, l.older[artifacts.ChangeKey])
		fallthrough
	case "older":
		b = l.older[key]
	case "another store's":
		b = read(t, open(t, l.other), key)
	default:
		t.Fatalf("fault %q", row.fault)
	}
	put(t, s, key, b)
}

// startEdge runs an edge that requires API keys.
func startEdge(t *testing.T, address, dir string) *testedge.Edge {
	t.Helper()
	c := edge.Config{Store: address, CacheDir: dir, CacheSize: 8 << 20}
	c.Server.AddressRate, c.Server.AddressBurst = 100_000, 100_000
	return testedge.Start(t, c)
}

func fetch(t *testing.T, addr net.Addr, path, key string) (int, http.Header, string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr.String()+path, nil))(t)
	if key != "" {
		req.Header.Set("X-Api-Key", key)
	}
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, resp.Header, string(b)
}

var polls = regexp.MustCompile(`(?m)^edge_polls_total (\S+)$`)

// settled waits until the edge has polled the store at least twice and is degraded or not, as
// expected, but no longer than 20 seconds. It returns the edge's reasons for being degraded.
func settled(t *testing.T, r *testedge.Edge, degraded bool) (reasons []string) {
	t.Helper()
	count := func() (n float64) {
		_, _, body := fetch(t, r.AdminAddr(), "/metrics", "")
		if m := polls.FindStringSubmatch(body); m != nil {
			fmt.Sscan(m[1], &n)
		}
		return n
	}
	var s struct {
		Reasons []string
		Keys    struct {
			State     string
			LastError string `json:"last_error"`
		}
	}
	polled := false
	for begin, end := count(),
		time.Now().Add(20*time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		_, _, body := fetch(t, r.AdminAddr(), "/status", "")
		must.OK(t, json.Unmarshal([]byte(body), &s))
		if count() < begin+2 || s.Keys.State != "VALID" && s.Keys.LastError == "" {
			continue
		}
		// The snapshots are old, so that "builder run" has one to build.
		reasons = slices.DeleteFunc(s.Reasons, func(r string) bool { return strings.HasSuffix(r, " old") })
		if polled = true; degraded == (len(reasons) > 0) {
			return reasons
		}
	}
	if !polled {
		t.Fatal("the edge does not poll")
	}
	t.Logf("the edge says %q", reasons)
	return reasons
}

// answer describes an edge's answer in the form of a table cell: the status, and whether the edge
// reports faults. cell is the expected description.
func (l *losses) answer(t *testing.T, r *testedge.Edge, cell string, asWas bool) string {
	t.Helper()
	reasons := settled(t, r, strings.HasSuffix(cell, "degraded"))
	status, header, _ := fetch(t, r.Addr(), "/openapi/v1/quotes", l.key)
	if none, _, _ := fetch(t, r.Addr(), "/openapi/v1/quotes",
		strings.Replace(l.key, "live_", "live_0", 1)[:len(l.key)]); none == http.StatusOK {
		t.Error("an unknown key gained access")
	}
	if status == http.StatusOK && header.Get("X-Snapshot-Time") != l.last.Format("2006-01-02T15:04:05Z") && asWas {
		t.Errorf("the edge went from snapshot %s to %q", stampOf(l.last), header.Get("X-Snapshot-Time"))
	}
	if asWas && status != http.StatusOK {
		t.Errorf("the key got %d: %q", status, reasons)
	}
	if len(reasons) > 0 {
		return fmt.Sprintf("%d, degraded", status)
	}
	return fmt.Sprint(status)
}

// served returns the ids in a store's newest snapshot.
func (l *losses) served(t *testing.T, address string) map[string]uint64 {
	t.Helper()
	s := open(t, address)
	published := teststore.Read(t, s)
	p, m := published.Pointer, published.Manifest
	if p.Time.Equal(l.last) && l.lastManifest != (artifacts.Digest{}) && p.Manifest.Digest != l.lastManifest {
		t.Errorf("%s was published twice", stampOf(l.last))
	}
	ids := map[string]uint64{}
	for _, o := range m.View("assets", "id").Objects {
		body := must.Get(artifacts.ReadObject(t.Context(), s, o.Ref))(t)
		shards := must.Get(artifacts.ParseObject(body))(t)
		for _, shard := range shards {
			for i := range shard.Len() {
				var row struct{ Slug string }
				must.OK(t, json.Unmarshal(shard.Row(i), &row))
				ids[row.Slug] = shard.ID(i)
			}
		}
	}
	return ids
}

// kept checks what must hold whatever a command did: each id still has its asset, and the store has
// its identity.
func (l *losses) kept(t *testing.T, address string) {
	t.Helper()
	s := open(t, address)
	if b, _, err := s.Get(t.Context(), artifacts.CurrentKey, artifacts.MaxPointerSize); err != nil {
		return // nothing is published
	} else if p, err := artifacts.ParsePointer(b); err != nil || p.Store != l.identity {
		return // the row's own fault, which edges refuse
	} else if _, err := artifacts.ReadManifest(t.Context(), s, p.Manifest); err != nil {
		return // this is the row's own fault, too
	}
	if t.Failed() {
		return
	}
	owner := map[uint64]string{}
	for slug, id := range l.ids {
		owner[id] = slug
	}
	for slug, id := range l.served(t, address) {
		if other := owner[id]; other != "" && other != slug {
			t.Errorf("id %d of %s was given to %s", id, other, slug)
		}
	}
}

// commands tries each command on a spoilt copy of the store, and returns the last cell.
func (l *losses) commands(t *testing.T, row lossRow, fresh func(string) string) string {
	t.Helper()
	next := []string{
		"--source", l.feed(t, "aaa", "alpha", "beta", "moon"), "--time", stampOf(l.last.Add(artifacts.Step))}
	var shared string
	var failed []string
	for _, name := range lossCommands {
		address := shared
		if reads := slices.Contains([]string{"verify", "status", "gc", "backup"}, name); address == "" || !reads {
			address = fresh(name)
			copyStore(t, l.store, address)
			// This builder's folder remembers the store.
			if row.object == "everything" || row.fault == "older, with its record" {
				l.must(t, "build", "--source", l.feed(t, "beta", "alpha", "aaa"), "--store", address, "--time",
					stampOf(l.last))
			}
			l.spoil(t, address, row)
			if reads {
				shared = address
			}
		}
		args := []string{name, "--store", address}
		switch name {
		case "build":
			args = append(args, next...)
		case "run":
			// If build fails, run retries.
			switch outcome, retries := l.run(t, address), slices.Contains(failed, "build"); {
			case outcome == "1":
				failed = append(failed, "run")
			case (outcome == "retries") != retries:
				t.Errorf("run: outcome %s, and build failed: %v", outcome, retries)
			}
			l.kept(t, address)
			continue
		case "backup":
			args = append(args, "--to", "file:"+t.TempDir())
		case "repair", "restore":
			args = append(args, "--from", l.backup)
		}
		status, out := l.command(t, args...)
		if status != 0 && !strings.Contains(out, "builder") {
			t.Errorf("%s: status %d without a word: %q", name, status, out)
		}
		if status == 1 {
			failed = append(failed, name)
		} else if status != 0 {
			t.Errorf("%s: status %d: %s", name, status, out)
		}
		if os.Getenv("SHOW_OUTPUT") != "" && status != 0 {
			t.Logf("%s %s: %s: %s", row.object, row.fault, name, out)
		}
		if row.fault != "not mounted" && row.fault != "emptied" {
			l.kept(t, address)
		}
		if name == "restore" && status == 0 {
			if status, out := l.command(t, "verify", "--store", address); status != 0 {
				t.Errorf("verify after restore: %s", out)
			}
		}
	}
	return cmp.Or(strings.Join(failed, ", "), "none")
}

// run runs "builder run" until its first build has ended, and returns the outcome.
func (l *losses) run(t *testing.T, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(
		ctx, l.program, "run", "--store", address, "--source", l.feed(t, "aaa", "alpha", "beta", "moon"))
	stderr := must.Get(cmd.StderrPipe())(t)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	must.OK(t, cmd.Start())
	outcome := "1" // the process ended by itself
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.Contains(line, "msg=built"):
			outcome = "0"
			cancel()
		case strings.Contains(line, "level=ERROR"), strings.Contains(line, "build failed"):
			outcome = "retries"
			cancel()
		}
	}
	_ = cmd.Wait() // it was interrupted, or outcome already says how it ended
	return outcome
}

// walk compares each row of the table with what happens.
func (l *losses) walk(t *testing.T, rows []lossRow, fresh func(name string) string) {
	for _, row := range rows {
		if row.fault == "not mounted" && strings.HasPrefix(fresh("probe"), "s3:") {
			continue // a bucket cannot be unmounted; the fault "emptied" comes closest
		}
		t.Run(row.object+" "+row.fault, func(t *testing.T) {
			address, dir := fresh("edge"), t.TempDir()
			copyStore(t, l.store, address)
			r := startEdge(t, address, dir)
			l.whole(t, r)
			l.spoil(t, address, row)
			cells := []string{l.answer(t, r, row.cells[0], true)}
			for _, object := range []artifacts.Key{artifacts.KeysKey, artifacts.CurrentKey} {
				if _, err := os.Stat(filepath.Join(dir, object.String())); err != nil {
					t.Errorf("the copy of %s: %v", object, err)
				}
			}
			r.Stop()
			r = startEdge(t, address, dir)
			if again := l.answer(t, r, row.cells[0], true); again != cells[0] {
				t.Errorf("running, the edge answers %s, and restarted %s", cells[0], again)
			}
			r.Stop()
			r = startEdge(t, address, t.TempDir())
			cells = append(cells, l.answer(t, r, row.cells[1], false))
			r.Stop()
			cells = append(cells, l.commands(t, row, fresh))
			if !slices.Equal(cells, row.cells) {
				t.Errorf("the table has\n| `%s` | %s | %s |, and it is\n| `%s` | %s | %s |",
					row.object, row.fault, strings.Join(row.cells, " | "), row.object, row.fault,
					strings.Join(cells, " | "))
			}
		})
	}
}

// whole waits until the edge has loaded everything from the store and answers.
func (l *losses) whole(t *testing.T, r *testedge.Edge) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if status, _, _ := fetch(t, r.AdminAddr(), "/readyz", ""); status == http.StatusOK {
			if len(settled(t, r, false)) == 0 {
				return
			}
		}
	}
	t.Fatal("the edge does not get ready")
}
