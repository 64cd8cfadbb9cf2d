package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/stores"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/source/sim"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/testserver"
	"example.com/marketdata/internal/test/teststore"
)

// complaints is a log whose lines are all errors of the test, except those about bad rows in the
// simulated feed.
type complaints struct{ t *testing.T }

func (c complaints) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("msg=feed ")) {
		c.t.Errorf("log: %s", b)
	}
	return len(b), nil
}

// rotation returns a function that gives both sides their n-th credentials and withdraws the
// preceding ones.
func rotation(t *testing.T, server *testserver.Server, file string) func(n int) error {
	sides := []string{"builder", "edge"}
	return func(n int) (err error) {
		var text strings.Builder
		for _, side := range sides {
			account := fmt.Sprint(side, n)
			err = errors.Join(err, server.AddAccount(t.Context(), account, "of-"+account))
			fmt.Fprintf(&text, "[%s]\naws_access_key_id = %s\naws_secret_access_key = of-%[2]s\n", side, account)
		}
		err = errors.Join(err, os.WriteFile(file+".new", []byte(text.String()), 0o600), os.Rename(file+".new", file))
		for _, side := range sides {
			if n > 0 {
				err = errors.Join(err, server.DeleteAccount(t.Context(), fmt.Sprint(side, n-1)))
			}
		}
		return err
	}
}

// TestRotation: the builder and the edge each get new credentials ten times, and the old ones are
// withdrawn as soon as the new ones are in the file. No build, poll, fetch or request fails, and no
// log contains a complaint.
func TestRotation(t *testing.T) {
	server := testserver.Versitygw(t)
	file := filepath.Join(t.TempDir(), "credentials")
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
		"AWS_SESSION_TOKEN": "", "AWS_SHARED_CREDENTIALS_FILE": file} {
		t.Setenv(name, value)
	}
	rotate := rotation(t, server, file)
	must.OK(t, rotate(0))

	log := slog.New(slog.NewTextHandler(complaints{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	store := must.Get(stores.Open(t.Context(), server.URL("live")+"&profile=builder", stores.Options{}))(t)
	at := teststore.Start
	b := must.Get(builder.New(builder.Config{Store: store,
		Source: must.Get(sim.Open(t.Context(), "?assets=200&seed=1"))(t),
		Retain: time.Hour, Settings: buildtest.Settings, Guards: builder.DefaultGuards, Log: log,
		Now: func() time.Time { return at }}))(t)
	build := func() {
		must.Get(b.Build(t.Context(), at))(t)
		at = at.Add(artifacts.Step)
	}
	build()
	key := teststore.Key(t, store, 1_000_000, 1_000_000).Key
	cfg := testedge.Config{Store: server.URL("live") + "&profile=edge", Log: log, HistoryFetch: 1 << 20}
	cfg.Server.MaxConns = 100 // few enough for the open-file limit of any machine
	edge := testedge.Start(t, cfg)

	done := make(chan struct{})
	var clients sync.WaitGroup
	ask := func(path string) string {
		req := must.Get(http.NewRequest(http.MethodGet, edge.URL+path, nil))(t)
		req.Header.Set("X-Api-Key", key)
		res := must.Get(http.DefaultClient.Do(req))(t)
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v", path, res.Status, err)
		}
		return res.Header.Get("X-Snapshot-Time")
	}
	await := func() {
		want := at.Add(-artifacts.Step).Format("2006-01-02T15:04:05")
		for end := time.Now().Add(time.Minute); !strings.HasPrefix(ask("/openapi/v1/assets"), want); {
			if time.Now().After(end) {
				t.Fatalf("the snapshot of %s is not current", want)
			}
		}
	}
	ready(t, edge.Admin)
	for range 2 {
		clients.Go(func() {
			for page := 1; ; page = page%4 + 1 {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
					ask(fmt.Sprintf("/openapi/v1/quotes?size=50&page=%d", page))
				}
			}
		})
	}
	for n := range 10 {
		rotated := make(chan error, 1)
		go func() { rotated <- rotate(n + 1) }()
		for waiting := true; waiting; { // builds and polls overlap every step of the rotation
			build()
			select {
			case err := <-rotated:
				must.OK(t, err)
				waiting = false
			default:
			}
		}
		build()
		await()
	}
	close(done)
	clients.Wait()
	allWell(t, edge.Admin)
}

// ready waits until an edge is ready.
func ready(t *testing.T, admin string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		res := must.Get(http.Get(admin + "/readyz"))(t)
		must.OK(t, res.Body.Close())
		if res.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the edge is not ready")
		}
	}
}

// allWell checks in an edge's metrics that it has never failed to read its store.
func allWell(t *testing.T, admin string) {
	t.Helper()
	metrics := must.Get(http.Get(admin + "/metrics"))(t)
	text := string(must.Get(io.ReadAll(metrics.Body))(t))
	must.OK(t, metrics.Body.Close())
	for _, want := range []string{"edge_poll_errors_total 0", "edge_store_fetch_errors_total 0",
		`edge_keys_state{state="VALID"} 1`, `edge_snapshot_state{state="VALID"} 1`} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("metrics lack %q", want)
		}
	}
}
