package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
)

// client sends requests with API keys to an edge.
type client struct {
	t          *testing.T
	addr, stat string
	http       *http.Client
}

func (c *client) get(url, key string) (int, []byte) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		c.t.Error(err)
		return 0, nil
	}
	req.Header.Set("X-Api-Key", key)
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(res.Body)
	return res.StatusCode, b.Bytes()
}

func (c *client) status(key string) int {
	status, _ := c.get(c.addr+"/openapi/v1/global", key)
	return status
}

func (c *client) sequence() uint64 {
	var s struct{ Sequence uint64 }
	_, b := c.get(c.stat+"/status", "")
	_ = json.Unmarshal(b, &s)
	return s.Sequence
}

// until waits until ok returns true. It fails the test after watchFor.
func (c *client) until(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(watchFor); !ok(); {
		if time.Now().After(end) {
			c.t.Fatalf("%s: not within %v; the edge is at sequence %d", what, watchFor, c.sequence())
		}
	}
}

// TestMend damages and loses a store while an edge runs on it, and repairs the store from the
// edge's cache folder and from a backup. The edge must accept the restored snapshots, and must
// never again accept a revoked key.
func TestMend(t *testing.T) {
	dir := t.TempDir()
	folder, copied, cache := filepath.Join(dir, "store"), filepath.Join(dir, "backup"), filepath.Join(dir, "cache")
	store := "file:" + folder
	build := func(at string) {
		t.Helper()
		done(t, "build", "--source", simulated, "--store", store, "--time", "2026-11-21T"+at+":00Z")
	}
	create := func(name string) (id, key string) {
		made := object(t, done(t, "keys", "create", "--store", store, "--name", name, "--json"))
		return made["id"].(string), made["key"].(string)
	}
	build("07:10")
	build("07:20")
	revoked, bad := create("one")
	_, good := create("two")

	reader := must.Get(dirstore.NewReader(folder))(t)
	cfg := testedge.Config{Reader: reader, CacheDir: cache, Poll: 5 * time.Millisecond}
	cfg.Server.AddressRate, cfg.Server.AddressBurst = 1_000_000, 1_000_000
	e := testedge.Start(t, cfg)
	c := &client{
		t, e.URL, e.Admin,
		&http.Client{Timeout: watchFor, Transport: &http.Transport{}},
	}
	t.Cleanup(c.http.CloseIdleConnections)
	c.until("the keys", func() bool {
		return c.status(bad) == http.StatusOK && c.status(good) == http.StatusOK && c.sequence() == 2
	})

	m := &mending{c, folder, copied, cache, good, bad}
	m.repair(t)
	done(t, "keys", "revoke", "--store", store, revoked)
	m.restore(t)
}

// mending is a store with its backup and its edge.
type mending struct {
	*client
	folder, copied, cache string
	good, bad             string // keys; the bad one gets revoked
}

// repair damages and repairs a view and the ledger.
func (m *mending) repair(t *testing.T) {
	store, backup := "file:"+m.folder, "file:"+m.copied
	// A missing folder may be an unmounted disk, so backup must not make it.
	if r := command(t, "backup", "--store", store, "--to", backup); r.status != cmdline.Failed {
		t.Errorf("backup to a folder that is missing: %+v", r)
	}
	ok(t, os.Mkdir(m.copied, 0o755))
	if r := object(t, done(t, "backup", "--store", store, "--to", backup, "--json")); r["copied"] != r["objects"] ||
		r["sequence"] != 2.0 {
		t.Errorf("backup %v", r)
	}

	// The edge's folder contains the view, but not the ledger.
	manifest := headOf(t, m.folder).Manifest
	view := artifacts.ObjectKey(manifest.View("assets", "rank").Objects[0].Digest)
	root := artifacts.ObjectKey(manifest.Ledger.Digest)
	for _, key := range []artifacts.Key{view, root} {
		ok(t, os.Truncate(filepath.Join(m.folder, key.String()), 20))
	}
	r := command(t, "repair", "--store", store, "--from", m.cache)
	if r.status != cmdline.Failed || !strings.Contains(r.stdout, "mended: "+view.String()+" from "+m.cache) ||
		!strings.Contains(r.stdout, root.String()) || !strings.Contains(r.stdout,
		"restore a backup with builder restore") {
		t.Errorf("repair from the edge's folder: %+v", r)
	}
	wants(t, cmdline.Done, "mended: "+root.String()+" from "+backup, "repair", "--store", store, "--from", m.cache,
		"--from", backup)
	done(t, "verify", "--store", store)
	if r := object(t, done(t, "repair", "--store", store, "--json")); len(r["mended"].([]any)) != 0 {
		t.Errorf("repair of what is whole: %v", r)
	}
}

// restore restores the backup several times, while requests use the revoked key.
func (m *mending) restore(t *testing.T) {
	store, backup := "file:"+m.folder, "file:"+m.copied
	// From here on, requests use the revoked key.
	m.until("the revocation", func() bool { return m.status(m.bad) == http.StatusUnauthorized })
	var let atomic.Int64
	asking, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asking)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if m.status(m.bad) == http.StatusOK {
				let.Add(1)
			}
		}
	}()
	sequence := uint64(2)
	for i, flags := range [][]string{{}, {"--keys-from-backup"}, {"--above", "9000"}} {
		for _, name := range []string{"objects", "manifests", "current", "change"}[i:] {
			ok(t, os.RemoveAll(filepath.Join(m.folder, name)))
		}
		out := done(t, append([]string{"restore", "--store", store, "--from", backup}, flags...)...)
		if sequence = headOf(t, m.folder).Pointer.Sequence; !strings.Contains(out, "is published (sequence ") ||
			sequence < 1002 {
			t.Errorf("restore %v: %s", flags, out)
		}
		done(t, "verify", "--store", store)
		m.until("the restored snapshot",
			func() bool { return m.sequence() == sequence && m.status(m.good) == http.StatusOK })
	}
	// The store does not know what was lost, so the next snapshot must have a later time than the
	// present.
	done(t, "build", "--source", simulated, "--store", store, "--time",
		time.Now().Add(artifacts.Step).UTC().Format(time.RFC3339))
	m.until("the next snapshot", func() bool { return m.sequence() == sequence+1 })
	close(stop)
	<-asking
	if n := let.Load(); n > 0 {
		t.Errorf("a revoked key was let in %d times", n)
	}
}

// TestKillMend kills repairs, backups and restores with SIGKILL at moments spread over their
// duration. The published snapshot must be unchanged or complete, and running the same command
// again must complete the work. Tests of package upkeep stop each of them at every store call.
func TestKillMend(t *testing.T) {
	kills := 5
	if testing.Short() {
		kills = 3
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, at := range []string{"07:10", "07:20"} {
		done(t, "build", "--source", "sim:?assets=400&seed=1", "--store", "file:"+path("whole"), "--time",
			"2026-11-21T"+at+":00Z")
	}
	for _, c := range []struct {
		name string
		args []string
		// prepare brings the folder "target" into the state from which the command starts.
		prepare func() error
	}{
		{"repair", []string{"--store", "file:" + path("target"), "--from", path("whole")}, func() error {
			if err := os.CopyFS(path("target"), os.DirFS(path("whole"))); err != nil {
				return err
			}
			return filepath.WalkDir(path("target/objects"), func(p string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				return os.Truncate(p, 20)
			})
		}},
		{
			"backup", []string{"--store", "file:" + path("whole"), "--to", "file:" + path("target")},
			func() error { return os.Mkdir(path("target"), 0o755) },
		},
		{
			"restore", []string{"--store", "file:" + path("target"), "--from", "file:" + path("whole")},
			func() error { return nil },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			args, killed := append([]string{c.name}, c.args...), 0
			var length time.Duration
			for i := range kills + 1 { // the first one is not killed
				ok(t, os.RemoveAll(path("target")))
				ok(t, c.prepare())
				began := time.Now()
				cmd := builderProcess(t.Context(), args...)
				ok(t, cmd.Start())
				if i > 0 {
					// it may have exited by then
					time.AfterFunc(length*time.Duration(i)/time.Duration(kills), func() { _ = cmd.Process.Kill() })
				}
				if err := cmd.Wait(); err != nil && i == 0 {
					t.Fatal(err)
				} else if err != nil {
					killed++
				}
				if i == 0 {
					length = time.Since(began)
				}
				if _, err := os.Stat(path("target/current")); err == nil && c.name != "repair" {
					done(t, "verify", "--store", "file:"+path("target"))
				}
				done(t, args...)
				done(t, "verify", "--store", "file:"+path("target"))
			}
			t.Logf("of %d, %d were killed within %v", kills, killed, length)
			if killed == 0 {
				t.Error("none was killed")
			}
		})
	}
}
