package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/loadtest/oracle"
)

// watched are the requests that a watcher sends: listings by row number and by value, in views of
// every collection, and other endpoints. Each answer is made from different objects of the
// snapshot, so a mixture of snapshots would be noticed.
var watched = []string{
	"/openapi/v1/quotes?size=100&page=2",
	"/openapi/v1/quotes?sort=symbol:desc&symbol=btc,eth,usdt",
	"/openapi/v1/assets?sort=name&size=50&offset=137",
	"/openapi/v1/assets?sort=rank&size=100",
	"/openapi/v1/exchanges?sort=volume:desc",
	"/openapi/v1/categories?sort=market_cap:desc",
	"/openapi/v1/chains",
	"/openapi/v1/trending",
	"/openapi/v1/history?symbol=btc,eth,usdt",
	"/openapi/v1/history?window=1y&id=1,2,3,4,5",
	"/openapi/v1/global",
}

// watcher is an edge that serves a store, and a client that sends it requests continuously. The
// client compares every response with what the load tester's oracle computes from the snapshot that
// the response names.
type watcher struct {
	store artifacts.Reader
	addr  string
	http  *http.Client

	ask  chan string // the time of the snapshot that the edge must reach
	seen chan error  // nil when all requests were answered from this snapshot, or what was wrong

	name          string // time of the snapshot from which the last response came
	want          map[string]string
	right, absent int // numbers of correct responses and of 503s
}

// watchFor limits how long an edge may take to reach a snapshot.
const watchFor = time.Minute

// watch starts an edge on the store, and sends it requests until the test ends.
func watch(t *testing.T, store artifacts.Reader) *watcher {
	t.Helper()
	e := testedge.Start(t, testedge.Config{Reader: store, AuthOff: true, CacheDir: t.TempDir(),
		Poll: 5 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	w := &watcher{store: store, addr: e.URL, http: &http.Client{
		Timeout: watchFor, Transport: &http.Transport{},
	},
		ask: make(chan string), seen: make(chan error)}
	go func() {
		defer close(ended)
		w.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		w.http.CloseIdleConnections()
		t.Logf("an edge answered all the while: %d right answers, %d times 503", w.right, w.absent)
	})
	return w
}

// until waits until the edge has answered all requests from the snapshot at the given time. It
// fails the test if a response was wrong.
func (w *watcher) until(t *testing.T, at time.Time) {
	t.Helper()
	w.ask <- at.Format(model.TimeFormat)
	ok(t, <-w.seen)
}

// run sends requests until ctx is done. The next call of until reports what was wrong.
func (w *watcher) run(ctx context.Context) {
	var (
		wrong    error
		awaited  string // "" if no snapshot is awaited
		deadline time.Time
		round    int // number of successive answers from the awaited snapshot
	)
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case awaited = <-w.ask:
			deadline, round = time.Now().Add(watchFor), 0
		default:
		}
		if wrong == nil {
			if wrong = w.check(ctx, watched[i%len(watched)]); ctx.Err() != nil {
				return
			}
		}
		switch {
		case awaited == "":
			if wrong != nil { // stop sending requests
				select {
				case <-ctx.Done():
					return
				case awaited = <-w.ask:
				}
			}
			continue
		case w.name == awaited:
			round++
		case wrong == nil && time.Now().After(deadline):
			wrong = fmt.Errorf("the edge is at %q, %v after %s was published", w.name, watchFor, awaited)
		}
		if wrong != nil || round == len(watched) {
			awaited = ""
			w.seen <- wrong
		}
	}
}

// check sends one request. A response that is neither correct nor a 503 is an error.
func (w *watcher) check(ctx context.Context, target string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.addr+target, nil)
	if err != nil {
		return err
	}
	res, err := w.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		w.absent++
		return nil
	default:
		return fmt.Errorf("%s: status %d: %s", target, res.StatusCode, body)
	}
	name := res.Header.Get("X-Snapshot-Time")
	if name != w.name {
		if name < w.name { // times in this format sort as text
			return fmt.Errorf("%s: answered from %q after %q", target, name, w.name)
		}
		if err := w.load(ctx, name); err != nil {
			return err
		}
	}
	if want := w.want[target]; string(body) != want {
		return fmt.Errorf("%s: not the answer of snapshot %s: %d bytes, want %d:\n%.300s\nwant\n%.300s", target, name,
			len(body), len(want), body, want)
	}
	w.right++
	return nil
}

// load computes the correct answers from a snapshot that the edge has reached.
func (w *watcher) load(ctx context.Context, name string) error {
	at, err := time.Parse(model.TimeFormat, name)
	if err != nil {
		return err
	}
	m, err := oracle.FindManifest(ctx, w.store, at)
	if err != nil {
		return err
	}
	s, err := oracle.Load(ctx, w.store, m)
	if err != nil {
		return err
	}
	if faults := s.Faults(); len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	w.name, w.want = name, map[string]string{}
	for _, target := range watched {
		q, refusal := model.Parse(target)
		if refusal != nil {
			return fmt.Errorf("the test asks %s, which is refused: %+v", target, refusal)
		}
		w.want[target] = s.Answer(q, nil).Body
	}
	return nil
}
