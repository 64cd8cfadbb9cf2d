package edge

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/faultstore"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

const filesPath = "/openapi/v1/files"

// fileList is the result in an answer to filesPath.
type fileList struct {
	Time  string
	Items []struct {
		Name, SHA256, URL string
		MediaType         string `json:"media_type"`
		Bytes, Rows       int64
	}
}

func listFiles(t *testing.T, e *Edge, headers ...string) (l fileList) {
	t.Helper()
	status, body, h := Get(t, e.Addr(), filesPath, headers...)
	if status == http.StatusServiceUnavailable {
		return l // the edge has no snapshot yet
	}
	var answer struct{ Result fileList }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || h.Get("ETag") == "" {
		t.Fatalf("the list: %d, %q, %v", status, body, h)
	}
	return answer.Result
}

// TestFiles checks that every file of a set can be downloaded, whole and in parts, with the right headers.
func TestFiles(t *testing.T) {
	mem := memstore.New()
	feed := teststore.NewFeed(20_000, 1)
	e, _ := start(t, mem, nil)
	until(t, "the list of an empty store", func() bool {
		_, body, _ := Get(t, e.Addr(), filesPath)
		return strings.Contains(body, `"result":{"time":null,"items":[]}`)
	})
	teststore.Publish(t, mem, feed, teststore.Start, teststore.Files())
	until(t, "files", func() bool { return listFiles(t, e).Time != "" })
	l := listFiles(t, e)
	if len(l.Items) != 12 || l.Time != teststore.Start.Format(time.RFC3339) {
		t.Fatalf("%+v", l)
	}
	for _, it := range l.Items {
		status, body, h := Get(t, e.Addr(), it.URL)
		if sum := artifacts.Sum([]byte(body)).String(); status != http.StatusOK || sum != it.SHA256 ||
			int64(len(body)) != it.Bytes || h.Get("ETag") != `"`+sum+`"` || h.Get("Content-Type") != it.MediaType ||
			h.Get("Cache-Control") != "private, max-age=86400, immutable" || h.Get("X-Snapshot-Time") != l.Time ||
			h.Get("Accept-Ranges") != "bytes" {
			t.Errorf("%s: %d, %d bytes, %v", it.URL, status, len(body), h)
		}
		status, _, h = Get(t, e.Addr(), it.URL, "If-None-Match", `"x", "`+it.SHA256+`"`)
		if status != http.StatusNotModified || h.Get("ETag") == "" {
			t.Errorf("%s that the client has: %d", it.Name, status)
		}
		// A path without a time refers to the newest set.
		if _, again, h := Get(t, e.Addr(), filesPath+"/"+it.Name); again != body ||
			strings.Contains(h.Get("Cache-Control"), "immutable") {
			t.Errorf("%s of the newest set differs, or is immutable: %v", it.Name, h)
		}
		checkRanges(t, e, it.URL, body)
	}
	status, list, _ := Get(t, e.Addr(), filesPath+"/"+artifacts.FilesJSON)
	if parsed := must.Get(artifacts.ParseFileList([]byte(list)))(t); status != 200 ||
		len(parsed.Items) != len(l.Items) {
		t.Errorf("%s: %d, %q", artifacts.FilesJSON, status, list)
	}
}

// checkRanges requests parts of a file.
func checkRanges(t *testing.T, e *Edge, url, body string) {
	t.Helper()
	n := len(body)
	tag := `"` + artifacts.Sum([]byte(body)).String() + `"`
	for _, c := range []struct {
		header   string
		from, to int // both are -1 if the whole file is expected
	}{
		{"bytes=0-0", 0, 1}, {"bytes=1-" + fmt.Sprint(n-2), 1, n - 1}, {"bytes=-8", n - 8, n},
		{fmt.Sprintf("bytes=%d-", n/2), n / 2, n}, {fmt.Sprintf("bytes=7-%d", 10*n), 7, n},
		{fmt.Sprintf("bytes=-%d", 2*n), 0, n}, {"bytes=0-1,4-5", -1, -1}, {"bytes=5-4", -1, -1}, {"items=0-4", -1, -1},
		{"bytes=-", -1, -1}, {"bytes=a-b", -1, -1}, {"bytes =0-3", -1, -1}, {"bytes=0-3,,5-6", -1, -1},
		// RFC 9110, 14.1 and 5.6.1.2; schemathesis 3674, aria2 1344.
		{"Bytes=0-3", 0, 4}, {"bytes=0-3,", 0, 4}, {"BYTES=-4", n - 4, n}, {"bytes= ,, 5-6 ,", 5, 7},
	} {
		status, got, h := Get(t, e.Addr(), url, "Range", c.header)
		want, wantStatus, span := body, http.StatusOK, ""
		if c.from >= 0 {
			want, wantStatus = body[c.from:c.to], http.StatusPartialContent
			span = fmt.Sprintf("bytes %d-%d/%d", c.from, c.to-1, n)
		}
		if status != wantStatus || got != want || h.Get("Content-Range") != span {
			t.Errorf("%s of %s: %d, %d bytes, %q", c.header, url, status, len(got), h.Get("Content-Range"))
		}
	}
	status, got, h := Get(t, e.Addr(), url, "Range", fmt.Sprintf("bytes=%d-", n))
	if status != http.StatusRequestedRangeNotSatisfiable || h.Get("Content-Range") != fmt.Sprintf("bytes */%d", n) ||
		!strings.Contains(got, `"code":41600`) {
		t.Errorf("behind the end of %s: %d, %q, %v", url, status, got, h)
	}
	if status, _, _ := Get(t, e.Addr(), url, "Range", "bytes=0-3", "If-Range", tag); status != 206 {
		t.Errorf("If-Range with the tag: %d", status)
	}
	if status, got, _ := Get(t, e.Addr(), url, "Range", "bytes=0-3", "If-Range", `"x"`); status != 200 || got != body {
		t.Errorf("If-Range with another tag: %d", status)
	}
	res := must.Get(http.Head("http://" + e.Addr().String() + url))(t)
	res.Body.Close()
	if res.StatusCode != 200 || res.ContentLength != int64(n) {
		t.Errorf("HEAD %s: %d, %d bytes", url, res.StatusCode, res.ContentLength)
	}
}

// TestFilesByTime checks that a file set stays available after its snapshot can no longer be pinned, and that
// an error says what is missing.
func TestFilesByTime(t *testing.T) {
	mem := memstore.New()
	feed := teststore.NewFeed(40, 1)
	first := teststore.Start
	later := first.Add(24 * time.Hour)
	teststore.Publish(t, mem, feed, first, teststore.Files(), teststore.Retain(0))
	teststore.Publish(t, mem, feed, first.Add(artifacts.Step), teststore.Retain(0))
	teststore.Publish(t, mem, feed, later.Add(-artifacts.Step), teststore.Retain(0))
	teststore.Publish(t, mem, feed, later, teststore.Files(), teststore.Retain(0))
	e, _ := start(t, mem, nil)
	until(t, "the newest files", func() bool { return listFiles(t, e).Time == later.Format(time.RFC3339) })
	at := func(t time.Time) string { return "/at/" + t.Format("20060102T150405Z") }
	day := "/prices/" + first.Format("2006-01-02") + ".parquet"
	escaped := func(slash string) string { return filesPath + "/prices" + slash + day[len("/prices/"):] }
	for _, c := range []struct {
		path   string
		status int
	}{
		{at(first) + filesPath + "/quotes.parquet", 200}, {at(later) + filesPath + day, 200},
		// Generated clients escape the slash in a path parameter (openapi-generator 13369).
		{escaped("%2F"), 200}, {escaped("%2f"), 200}, {at(later) + escaped("%2F"), 200},
		{escaped("%252F"), 404}, {escaped("%"), 404},
		{at(first) + filesPath + day, 404},
		{at(first.Add(artifacts.Step)) + filesPath + "/quotes.parquet", 410},
		{at(later.Add(-artifacts.Step)) + filesPath + "/quotes.parquet", 404}, // retained, but without files
		{at(later.Add(-artifacts.Step)) + filesPath, 200}, {at(first) + filesPath, 410},
		{at(first.Add(time.Minute)) + filesPath + "/quotes.parquet", 400},
		{filesPath + "/quotes.csv", 404}, {filesPath + "/", 404}, {filesPath + "x", 404},
		{filesPath + "/../files", 404},
	} {
		status, body, _ := Get(t, e.Addr(), c.path)
		if status != c.status {
			t.Errorf("%s: %d, want %d: %.200q", c.path, status, c.status, body)
		}
		_, name, _ := strings.Cut(c.path, filesPath+"/")
		if noFile := strings.Contains(body, `"code":40402,`); noFile != (status == 404 && name != "") {
			t.Errorf("%s: %q", c.path, body)
		}
	}
}

// TestFilesFaults checks that the edge sends a file that it has sent before even if the store fails, and that
// it never sends a chunk that the store refuses or damages.
func TestFilesFaults(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(3000, 1), teststore.Start, teststore.Files())
	var decision faultstore.Decision
	store := faultstore.New(mem, func(op faultstore.Op) faultstore.Decision {
		if op.Key.Kind() == artifacts.FileKind {
			return decision
		}
		return faultstore.Pass
	})
	e, _ := start(t, store, nil)
	until(t, "files", func() bool { return listFiles(t, e).Time != "" })
	_, quotes, _ := Get(t, e.Addr(), filesPath+"/quotes.parquet")
	for _, decision = range []faultstore.Decision{faultstore.Corrupt, faultstore.Refuse} {
		if status, body, _ := Get(t, e.Addr(), filesPath+"/assets.parquet"); status != http.StatusServiceUnavailable {
			t.Errorf("a chunk that is %v: %d, %d bytes", decision, status, len(body))
		}
		if status, again, _ := Get(t, e.Addr(), filesPath+"/quotes.parquet"); status != 200 || again != quotes {
			t.Errorf("what is in the cache folder, while the store says %v: %d", decision, status)
		}
	}
	decision = faultstore.Pass
	if status, _, _ := Get(t, e.Addr(), filesPath+"/assets.parquet"); status != 200 {
		t.Errorf("after the faults: %d", status)
	}

	sets := must.Get(artifacts.ReadFileSets(t.Context(), mem, teststore.Read(t, mem).Manifest))(t)
	list, _, err := artifacts.ReadFileList(t.Context(), mem, &sets.Sets[0])
	must.OK(t, err)
	must.OK(t, mem.Delete(t.Context(), artifacts.FileKey(list.Find("members.parquet").Chunks[0])))
	for name, want := range map[string]int{"members.parquet": http.StatusServiceUnavailable, "chains.parquet": 200} {
		if status, body, _ := Get(t, e.Addr(), filesPath+"/"+name); status != want {
			t.Errorf("a chunk of the members is lost: %s is %d, %d bytes", name, status, len(body))
		}
	}
}

// asker requests files with one key.
type asker struct {
	t   *testing.T
	e   *Edge
	key string
}

// newAsker waits until the key is in force.
func newAsker(t *testing.T, e *Edge, key string) asker {
	t.Helper()
	until(t, "the key in force", func() bool {
		status, _, _ := Get(t, e.Addr(), filesPath, "X-Api-Key", key)
		return status == 200
	})
	return asker{t, e, key}
}

// left requests a path, and returns the number of tokens left after that and the size of the body.
func (a asker) left(path string, headers ...string) (left int, size int64) {
	a.t.Helper()
	status, body, h := Get(a.t, a.e.Addr(), path, append(headers, "X-Api-Key", a.key)...)
	if _, err := fmt.Sscanf(h.Get("RateLimit"), `"default";r=%d;`, &left); err != nil || status >= 300 {
		a.t.Fatalf("%s: %d, %v", path, status, h)
	}
	return left, int64(len(body))
}

// open requests a path on a new connection from the given local address.
func (a asker) open(from, path string, headers ...string) net.Conn {
	a.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c := must.Get(d.Dial("tcp", a.e.Addr().String()))(a.t)
	a.t.Cleanup(func() { c.Close() })
	must.Get(fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n%s\r\n", path, a.key,
		strings.Join(append(headers, ""), "\r\n")))(a.t)
	return c
}

// large is a file of two chunks in largeStore.
const large = filesPath + "/quotes.ndjson.zst"

var largeStore = sync.OnceValue(memstore.New)

// newLarge returns an edge that reads largeStore. Tests share that store because it takes long to fill.
func newLarge(t *testing.T, change func(*Config)) *Edge {
	t.Helper()
	mem := largeStore()
	if _, _, err := mem.Get(t.Context(), artifacts.CurrentKey, 1<<20); err != nil {
		teststore.Publish(t, mem, teststore.NewFeed(30_000, 1), teststore.Start, teststore.Files())
	}
	e, _ := start(t, mem, func(cfg *Config) {
		cfg.AuthOff = false
		change(cfg)
	})
	return e
}

// TestFilesCost checks that a file costs one token for each 256 KiB that the edge reads, in whole chunks
// (INTERFACE.md, "Rate limits"). So one byte of a chunk of 1 MiB costs four tokens.
func TestFilesCost(t *testing.T) {
	const chunk, piece = artifacts.FileChunk, 256 << 10
	e := newLarge(t, func(*Config) {})
	a := newAsker(t, e, teststore.Key(t, largeStore(), 1, 1000).Key)
	if status, _, _ := Get(t, e.Addr(), large); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", status)
	}
	_, size := a.left(large)
	if size <= chunk || size > 2*chunk {
		t.Fatalf("%d bytes are not two chunks", size)
	}
	pieces := func(n int64) int { return int((n + piece - 1) / piece) }
	for header, want := range map[string]int{
		"bytes=0-0": pieces(chunk), "bytes=1000000-1000000": pieces(chunk), "bytes=-1": pieces(size - chunk),
		"bytes=1048575-1048576": pieces(size), "bytes=0-": pieces(size), "bytes=9999999-": 1,
	} {
		before, _ := a.left(filesPath)
		began := time.Now()
		if header == "bytes=9999999-" {
			_, _, _ = Get(t, e.Addr(), large, "Range", header, "X-Api-Key", a.key)
		} else {
			a.left(large, "Range", header)
		}
		after, _ := a.left(filesPath)
		back := 1 + int(time.Since(began)/time.Second) // the key gains a token each second
		if cost := before - after - 1; cost > want || cost < want-back {
			t.Errorf("%s costs %d tokens, want %d", header, cost, want)
		}
	}
}

// TestDownloadsWait checks the downloads that wait for tokens. Their number per key is bounded. They hold no
// chunks in memory, and leave half of the key's tokens to other requests. Their connections end when the
// client closes them or the server cuts them off. Before these rules, one key with 40 addresses had 1,988
// connections where 1,000 were allowed, and connections that the client had closed counted for 18 s.
func TestDownloadsWait(t *testing.T) {
	const maxConns, ofKey, burst = 50, 16, 200
	e := newLarge(t, func(cfg *Config) {
		cfg.Server.MaxConns, cfg.Server.MaxConnsPerAddress = maxConns, maxConns
	})
	a := newAsker(t, e, teststore.Key(t, largeStore(), 1, burst).Key)
	until(t, "half of the key's tokens", func() bool {
		n, _ := a.left(filesPath)
		return n < burst/2
	})
	http.DefaultClient.CloseIdleConnections()
	open := func() int { return e.public.Stats().Open }
	until(t, "no connection", func() bool { return open() == 0 })
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse)
	}
	before := heap()
	var waiting []net.Conn
	refused := 0
	first := make([]byte, artifacts.FileChunk)
	for i := range ofKey + 8 {
		c := a.open(fmt.Sprintf("127.0.0.%d", 2+i%4), large)
		r := bufio.NewReader(c)
		res := must.Get(http.ReadResponse(r, nil))(t)
		switch res.StatusCode {
		case http.StatusOK:
			must.Get(io.ReadFull(res.Body, first))(t)
			waiting = append(waiting, c)
		case http.StatusTooManyRequests:
			refused++
			if after := res.Header.Get("Retry-After"); after != "15" {
				t.Errorf("Retry-After: %s", after)
			}
			c.Close()
		}
	}
	if len(waiting) != ofKey || refused != 8 {
		t.Fatalf("%d downloads wait, %d were refused", len(waiting), refused)
	}
	until(t, "the downloads alone", func() bool { return open() == ofKey })
	until(t, "what waits holds little", func() bool { return heap()-before < ofKey<<18 })

	// A connection that its client closes no longer counts, even if the client has sent more bytes or closes
	// only its side.
	must.Get(waiting[0].Write([]byte("GET / HTTP/1.1\r\n")))(t)
	must.OK(t, waiting[1].(*net.TCPConn).CloseWrite())
	for i, c := range waiting[:8] {
		if i != 1 {
			c.Close()
		}
	}
	until(t, "those that stay", func() bool { return open() == ofKey-8 })
	// So there is room for other downloads. They are cut off if their address has the most connections.
	for range 4 {
		c := a.open("127.0.0.2", large)
		res := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("a place that was freed: %d", res.StatusCode)
		}
		must.Get(io.ReadFull(res.Body, first))(t)
	}
	for i := range maxConns {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%10))}}
		defer must.Get(d.Dial("tcp", e.Addr().String()))(t).Close()
	}
	until(t, "connections are cut off", func() bool { return e.public.Stats().Refused > 0 })
	until(t, "as many connections as may be", func() bool { return open() <= maxConns })
}

// TestSlowChunks checks that, while the store does not return chunks, one key occupies only two fetches,
// another key gets one, and the next snapshot still arrives. (Requests for one byte of each of 132 chunks
// once delayed the snapshot from 1.4 to 47.8 s.) A wait ends when its client closes the connection.
func TestSlowChunks(t *testing.T) {
	mem := memstore.New()
	feed := teststore.NewFeed(3000, 1)
	teststore.Publish(t, mem, feed, teststore.Start, teststore.Files())
	var slow atomic.Bool
	var held atomic.Int32
	gate := make(chan struct{})
	defer close(gate)
	store := faultstore.New(mem, func(op faultstore.Op) faultstore.Decision {
		if slow.Load() && op.Key.Kind() == artifacts.FileKind {
			held.Add(1)
			<-gate
			return faultstore.Refuse
		}
		return faultstore.Pass
	})
	e, _ := start(t, store, func(cfg *Config) { cfg.AuthOff = false })
	a := newAsker(t, e, teststore.Key(t, mem, 1000, 1000).Key)
	b := newAsker(t, e, teststore.Key(t, mem, 1000, 1000).Key)
	var list struct{ Result fileList }
	until(t, "the list", func() bool {
		_, body, _ := Get(t, e.Addr(), filesPath, "X-Api-Key", a.key)
		return json.Unmarshal([]byte(body), &list) == nil && len(list.Result.Items) == 12
	})
	slow.Store(true)
	http.DefaultClient.CloseIdleConnections()
	until(t, "no connection", func() bool { return e.public.Stats().Open == 0 })
	var conns []net.Conn
	for i := range 24 {
		path := list.Result.Items[i%12].URL
		conns = append(conns, a.open(fmt.Sprintf("127.0.0.%d", 2+i%4), path, "Range: bytes=0-0"))
	}
	until(t, "fetches", func() bool { return held.Load() == 2 && e.public.Stats().Open == 24 })
	conns = append(conns, b.open("127.0.0.9", list.Result.Items[11].URL, "Range: bytes=0-0"))
	until(t, "a fetch of another key", func() bool { return held.Load() == 3 })

	teststore.Publish(t, mem, feed, teststore.Start.Add(artifacts.Step))
	until(t, "the next snapshot", func() bool {
		s := e.current()
		return s.Sequence == 2 && e.refresher.Status().Missing == 0
	})
	for _, c := range conns {
		c.Close()
	}
	until(t, "no client", func() bool { return e.public.Stats().Open == 0 })
	if n := held.Load(); n != 3 {
		t.Errorf("%d fetches while the clients went", n)
	}
}

// TestLostChunk checks that a chunk that the store has lost is logged as an ERROR with the object and the
// reason, even in the middle of a download. It has a counter of its own, and is a reason in /status until the
// chunk can be fetched. The same applies to a damaged chunk and to a failing store.
func TestLostChunk(t *testing.T) {
	var decision atomic.Int32
	var lost atomic.Value // artifacts.Key
	lost.Store(artifacts.Key{})
	store := faultstore.New(largeStore(), func(op faultstore.Op) faultstore.Decision {
		if op.Key == lost.Load() {
			return faultstore.Decision(decision.Load())
		}
		return faultstore.Pass
	})
	var logged lockedLog
	e := newLarge(t, func(cfg *Config) {
		cfg.Reader, cfg.Log = store, slog.New(slog.NewTextHandler(&logged, nil))
		cfg.CacheDirSize = 1 // no chunk fits on disk
	})
	a := newAsker(t, e, teststore.Key(t, largeStore(), 1000, 1000).Key)
	_, body, _ := Get(t, e.Addr(), filesPath+"/"+artifacts.FilesJSON, "X-Api-Key", a.key)
	second := must.Get(artifacts.ParseFileList([]byte(body)))(t).Find("quotes.ndjson.zst").Chunks[1]
	lost.Store(artifacts.FileKey(second))
	for i, c := range []struct {
		decision faultstore.Decision
		reason   string
	}{{faultstore.Hide, "not found"}, {faultstore.Corrupt, "corrupt"}, {faultstore.Refuse, "injected fault"}} {
		decision.Store(int32(c.decision))
		res := must.Get(http.ReadResponse(bufio.NewReader(a.open("127.0.0.1", large)), nil))(t)
		if n, err := io.Copy(io.Discard, res.Body); res.StatusCode != 200 || n > artifacts.FileChunk || err == nil {
			t.Errorf("%s: %d, %d bytes, %v", c.reason, res.StatusCode, n, err)
		}
		until(t, "the log line", func() bool {
			line := logged.String()
			return strings.Contains(line, "level=ERROR msg=request") && strings.Contains(line, "status=500") &&
				strings.Contains(line, second.String()) && strings.Contains(line, c.reason)
		})
		status := e.status()
		if text := strings.Join(status.Reasons, "; "); !strings.Contains(text, second.String()) ||
			!strings.Contains(text, c.reason) {
			t.Errorf("/status: %s", text)
		}
		if n := e.cache.Counters.ChunkErrors.Load(); n != int64(i+1) {
			t.Errorf("%d chunks counted, want %d", n, i+1)
		}
	}
	decision.Store(int32(faultstore.Pass))
	a.left(large)
	if text := strings.Join(e.status().Reasons, "; "); strings.Contains(text, "chunk") {
		t.Errorf("after the chunk came: %s", text)
	}
}
