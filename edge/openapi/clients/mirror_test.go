package clients

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

var mirrored = []string{"assets", "categories", "chains", "exchanges"}

// TestMirrors follows a market for a month, and then for longer than changes are kept, with mirrors of each
// client. After every update, a mirror must equal the whole listing of a snapshot, even after a rollback or
// a restore. After a failed update, it must be unchanged. Mirrors may read whole listings only when they
// must. All other updates together may transfer at most 1 % of the bytes of whole listings.
func TestMirrors(t *testing.T) {
	have(t, python())
	compile(t)
	m := newMonth(t)
	clients := map[string]*follower{}
	for name, command := range map[string][]string{
		"go":           {"go", "run", "./internal/mirrors"},
		"python":       {python(), "-m", "tests.mirrors"},
		"python async": {python(), "-m", "tests.mirrors", "async"},
		"typescript":   {"node", "out/test/mirrors.js"},
	} {
		dir, _, _ := strings.Cut(name, " ")
		clients[name] = m.follow(dir, command)
	}
	m.build(first)
	for _, f := range clients {
		f.fail.Store(5) // a request in the middle of the first listing
	}
	m.check(clients, true)
	m.check(clients, false)
	for step := 1; step <= 30*24/hours; step++ {
		switch step {
		case 50: // a rollback that the mirrors notice
			m.check(clients, false)
			m.rollback()
			m.check(clients, false)
		case 75: // a rollback that they do not notice, because the next snapshot is later
			m.check(clients, false)
			m.rollback()
		case 100: // a rollback after which the next snapshot is earlier than the withdrawn one
			m.check(clients, false)
			m.build(m.rollback().Add(10 * time.Minute))
			m.check(clients, false)
		case 125: // a restore that takes back four snapshots, the last of which the mirrors have
			copied := memstore.New()
			teststore.Backup(t, m.store, copied)
			for range 4 {
				m.edit()
				m.build(m.at.Add(hours * time.Hour))
			}
			m.check(clients, false)
			teststore.Restore(t, m.store, copied, m.at)
			m.await()
			m.check(clients, false)
		}
		m.edit()
		m.build(m.at.Add(hours * time.Hour))
		switch {
		case m.rand.IntN(8) == 0: // no update, so the next one follows several snapshots
		case m.rand.IntN(16) == 0:
			for _, f := range clients {
				f.fail.Store(2)
			}
			m.check(clients, true)
		default:
			m.check(clients, false)
		}
	}
	m.build(m.at.Add(32 * 24 * time.Hour))
	for _, f := range clients {
		f.gone.Store(0)
	}
	m.check(clients, false)
	for name, f := range clients {
		share := 100 * float64(f.bytes.Load()) / float64(m.bytes)
		listings := float64(f.whole.Load()) / float64(m.bytes/m.checks)
		t.Logf("%s: %d requests and %d bytes for %d checks of %d bytes: %.2f %%, and %.1f whole listings", name,
			f.requests.Load(), f.bytes.Load(), m.checks, m.bytes/m.checks, share, listings)
		// They must read whole listings at first, after the rollbacks that they notice, at the restore and
		// after it, and at the end.
		if share > 1 || listings > 6.5 {
			t.Errorf("%s: more than 1 %%, or more than six whole listings", name)
		}
		if n := f.gone.Load(); n != int64(len(mirrored)) {
			t.Errorf("%s: %d of %d mirrors were told that their changes are gone", name, n, len(mirrored))
		}
	}
}

// hours is the number of hours between two snapshots.
const hours = 4

// month is a changing market, its service, and the cost of whole listings.
type month struct {
	t             *testing.T
	rand          *rand.Rand
	store         artifacts.Store
	edge          string
	at            time.Time // the time of the latest snapshot that was ever built
	rows          teststore.Rows
	gone          []map[string]any // delisted assets
	next          int              // the id of the next asset
	bytes, checks int
}

func newMonth(t *testing.T) *month {
	m := &month{t: t, rand: rand.New(rand.NewPCG(1, 2)), store: memstore.New(), at: first, rows: teststore.Rows{}}
	for range 2000 {
		m.list()
	}
	for i := range 30 {
		name := fmt.Sprint("exchange-", i)
		m.rows["exchanges"] = append(m.rows["exchanges"], map[string]any{"key": name, "name": name, "slug": name,
			"links": map[string]string{"website": "https://" + name + ".example"}})
	}
	for i := range 40 {
		name := fmt.Sprint("group-", i)
		var members []any
		for j := i; j < 2000; j += 40 {
			members = append(members, m.rows["assets"][j]["key"])
		}
		group := map[string]any{"key": name, "name": name, "slug": name, "members": members, "native": members[0]}
		m.rows["categories"] = append(m.rows["categories"], group)
		m.rows["chains"] = append(m.rows["chains"], maps.Clone(group))
	}
	m.edge = openapitest.Start(t, edge.Config{Reader: m.store, AuthOff: true})
	return m
}

// list adds a new asset.
func (m *month) list() {
	m.next++
	name := fmt.Sprintf("Asset %d & <Söhne>", m.next)
	key := fmt.Sprint("asset-", m.next)
	m.rows["assets"] = append(m.rows["assets"], map[string]any{"key": key, "name": name,
		"symbol": fmt.Sprintf("A%X", m.rand.IntN(4096)), "slug": key, "logo": fmt.Sprintf("https://img.example/%x.png",
			m.rand.Uint64()), "website": fmt.Sprintf("https://%x.example/", m.rand.Uint64()),
		"explorers": []string{fmt.Sprintf("https://explorer.example/token/%016x%016x", m.rand.Uint64(),
			m.rand.Uint64())}})
	m.rows["quotes"] = append(m.rows["quotes"], map[string]any{"key": key, "price": m.next, "market_cap": m.next * 1e6,
		"volume": 5})
}

// edit makes a random change in the directory, or none.
func (m *month) edit() {
	assets := m.rows["assets"]
	i := m.rand.IntN(len(assets))
	asset := maps.Clone(assets[i])
	of := m.rows[mirrored[1+m.rand.IntN(3)]]
	item := of[m.rand.IntN(len(of))]
	text := fmt.Sprintf("%x", m.rand.Uint64())
	switch m.rand.IntN(20) {
	case 0:
		m.list()
	case 1:
		asset["name"], asset["slug"] = "Renamed "+text, "renamed-"+text
	case 2:
		m.gone = append(m.gone, asset)
		m.rows["assets"] = slices.Delete(assets, i, i+1)
		m.rows["quotes"] = slices.DeleteFunc(m.rows["quotes"], func(r map[string]any) bool {
			return r["key"] == asset["key"]
		})
		return
	case 3:
		asset["platforms"] = map[string]string{"chain": "0x" + text}
	case 4:
		asset["explorers"] = []string{"https://explorer.example/" + text}
	case 5:
		item["name"] = "Renamed " + text
	case 6:
		if members, ok := item["members"].([]any); ok && len(members) > 2 {
			item["members"] = members[1:]
		}
	case 7:
		if len(m.gone) > 0 {
			m.rows["assets"] = append(assets, m.gone[0])
			m.gone = m.gone[1:]
		}
		return
	case 8:
		asset["active"] = false
	}
	m.rows["assets"][i] = asset
}

// build builds a snapshot, and waits until the edge has it.
func (m *month) build(at time.Time) {
	m.t.Helper()
	teststore.Publish(m.t, m.store, m.rows, at)
	if at.After(m.at) {
		m.at = at
	}
	m.await()
}

// await waits until the edge has the newest snapshot.
func (m *month) await() {
	m.t.Helper()
	want := teststore.Read(m.t, m.store).Manifest.Time.Format(time.RFC3339)
	for end := time.Now().Add(20 * time.Second); ask(m.t, m.edge, "/openapi/v1/global", "").
		Header.Get("X-Snapshot-Time") != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("the edge does not get the snapshot of %s", want)
		}
	}
}

// rollback withdraws the newest snapshot, and returns the time of the previous one.
func (m *month) rollback() time.Time {
	retained := teststore.Read(m.t, m.store).Manifest.Retained
	before := retained[len(retained)-1].Time
	teststore.Rollback(m.t, m.store, before)
	m.await()
	return before
}

// check reads the whole listings and updates all mirrors. Then the mirrors must equal the listings or, if
// their update failed, be unchanged.
func (m *month) check(clients map[string]*follower, fails bool) {
	m.t.Helper()
	want := map[string]state{}
	for _, collection := range mirrored {
		want[collection] = m.read(collection)
	}
	m.checks++
	var wg sync.WaitGroup
	for name, f := range clients {
		wg.Go(func() {
			got := f.update(m.t)
			failed := 0
			for _, collection := range mirrored {
				if got[collection].Failed {
					failed++
				}
				wanted := want[collection]
				if got[collection].Failed {
					wanted = f.last[collection]
					wanted.Failed = true
				}
				if got[collection] != wanted {
					m.t.Errorf("%s: %s are %v, want %v", name, collection, got[collection], wanted)
				}
				last := got[collection]
				last.Failed = false
				f.last[collection] = last
			}
			if fails != (failed == 1) || !fails && failed > 0 {
				m.t.Errorf("%s: %d mirrors failed", name, failed)
			}
		})
	}
	wg.Wait()
	if m.t.Failed() {
		m.t.FailNow()
	}
}

// read reads a whole listing.
func (m *month) read(collection string) state {
	sum := sha256.New()
	s := state{}
	for page, pages := 1, 1; page <= pages; page++ {
		target := fmt.Sprintf("/openapi/v1/%s?size=100&sort=id&page=%d", collection, page)
		if collection == "assets" {
			target += "&fields=links"
		}
		res, body := fetched(m.t, m.edge+target, http.Header{"Accept-Encoding": {"gzip"}})
		m.bytes += len(body)
		if res.Header.Get("Content-Encoding") == "gzip" {
			body = must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(body)))(m.t)))(m.t)
		}
		var answer struct {
			Result struct {
				TotalPage int `json:"total_page"`
				Items     []struct {
					ID                       int64
					Name, Symbol, Slug, Logo string
					Explorers                []string
					Links                    map[string]string
				}
			}
		}
		must.OK(m.t, json.Unmarshal(body, &answer))
		pages, s.Time = answer.Result.TotalPage, res.Header.Get("X-Snapshot-Time")
		for _, e := range answer.Result.Items {
			var links []string
			for _, name := range slices.Sorted(maps.Keys(e.Links)) {
				links = append(links, name+"="+e.Links[name])
			}
			fmt.Fprintln(sum, strings.Join([]string{fmt.Sprint(e.ID), e.Name, e.Symbol, e.Slug, e.Logo,
				strings.Join(e.Explorers, "\t"), strings.Join(links, "\t")}, "\n"))
		}
	}
	s.Digest = fmt.Sprintf("%x", sum.Sum(nil))
	return s
}

// fetched returns an answer and its body, not decompressed.
func fetched(t *testing.T, address string, header http.Header) (*http.Response, []byte) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Error(err)
		return new(http.Response), nil
	}
	req.Header = header.Clone()
	res, err := plain.Do(req)
	if err != nil {
		t.Error(err)
		return new(http.Response), nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res, body
}

// state is the state of a mirror as a runner prints it.
type state struct {
	Time, Digest string
	Failed       bool
}

// follower is a client whose mirrors follow the market.
type follower struct {
	in             io.Writer
	out            *bufio.Scanner
	last           map[string]state
	requests, gone atomic.Int64
	bytes, whole   atomic.Int64 // transferred for changes and the items they name, and for whole listings
	fail           atomic.Int64 // the number of the next request that fails
}

// follow starts a client whose requests go through a proxy that counts the bytes of answers and can let
// requests fail.
func (m *month) follow(dir string, command []string) *follower {
	nothing := state{Digest: fmt.Sprintf("%x", sha256.Sum256(nil))}
	f := &follower{last: map[string]state{}}
	for _, collection := range mirrored {
		f.last[collection] = nothing
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		if f.fail.Add(-1) == 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		res, body := fetched(m.t, m.edge+r.URL.RequestURI(), r.Header)
		if res.StatusCode == http.StatusGone {
			f.gone.Add(1)
		}
		maps.Copy(w.Header(), res.Header)
		w.WriteHeader(res.StatusCode)
		_, _ = w.Write(body)
		if strings.HasSuffix(r.URL.Path, "/changes") || r.URL.Query().Has("id") {
			f.bytes.Add(int64(len(body)))
		} else {
			f.whole.Add(int64(len(body)))
		}
	}))
	m.t.Cleanup(front.Close)
	cmd := exec.CommandContext(m.t.Context(), command[0], append(command[1:], front.URL)...)
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = dir, os.Stderr, time.Second
	in := must.Get(cmd.StdinPipe())(m.t)
	f.in, f.out = in, bufio.NewScanner(must.Get(cmd.StdoutPipe())(m.t))
	must.OK(m.t, cmd.Start())
	m.t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return f
}

func (f *follower) update(t *testing.T) (states map[string]state) {
	if _, err := fmt.Fprintln(f.in, "update"); err != nil {
		t.Error(err)
	}
	if !f.out.Scan() {
		t.Error(cmp.Or(f.out.Err(), io.EOF))
		return nil
	}
	if err := json.Unmarshal(f.out.Bytes(), &states); err != nil {
		t.Error(err)
	}
	return states
}
