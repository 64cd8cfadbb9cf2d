package edge

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/lab/faultstore"
	"example.com/marketdata/internal/lab/memstore"
	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/internal/lab/teststore"
)

const filesPath = "/openapi/v1/files"

// fileList is the result of filesPath.
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
		return l // it has not started yet
	}
	var answer struct{ Result fileList }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || h.Get("ETag") == "" {
		t.Fatalf("the list: %d, %q, %v", status, body, h)
	}
	return answer.Result
}

// TestFiles: every file of a set is there, whole and in parts, with what HTTP says of it.
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
		// Without a time it is the newest one's.
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

// checkRanges asks for parts of a file.
func checkRanges(t *testing.T, e *Edge, url, body string) {
	t.Helper()
	n := len(body)
	tag := `"` + artifacts.Sum([]byte(body)).String() + `"`
	for _, c := range []struct {
		header   string
		from, to int // -1, -1: all
	}{
		{"bytes=0-0", 0, 1}, {"bytes=1-" + fmt.Sprint(n-2), 1, n - 1}, {"bytes=-8", n - 8, n},
		{fmt.Sprintf("bytes=%d-", n/2), n / 2, n}, {fmt.Sprintf("bytes=7-%d", 10*n), 7, n},
		{fmt.Sprintf("bytes=-%d", 2*n), 0, n}, {"bytes=0-1,4-5", -1, -1}, {"bytes=5-4", -1, -1}, {"items=0-4", -1, -1},
		{"bytes=-", -1, -1}, {"bytes=a-b", -1, -1},
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

// TestFilesByTime: sets outlive the snapshots that may be pinned, and what is not there is said.
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
	for _, c := range []struct {
		path   string
		status int
	}{
		{at(first) + filesPath + "/quotes.parquet", 200}, {at(later) + filesPath + day, 200},
		{at(first) + filesPath + day, 404},
		{at(first.Add(artifacts.Step)) + filesPath + "/quotes.parquet", 410},
		{at(later.Add(-artifacts.Step)) + filesPath + "/quotes.parquet", 404}, // retained, without files
		{at(later.Add(-artifacts.Step)) + filesPath, 200}, {at(first) + filesPath, 410},
		{at(first.Add(time.Minute)) + filesPath + "/quotes.parquet", 400},
		{filesPath + "/quotes.csv", 404}, {filesPath + "/", 404}, {filesPath + "x", 404},
		{filesPath + "/../files", 404},
	} {
		if status, body, _ := Get(t, e.Addr(), c.path); status != c.status {
			t.Errorf("%s: %d, want %d: %.200q", c.path, status, c.status, body)
		}
	}
}

// TestFilesFaults: what was sent once is sent without the store; what the store does not give, or
// gives with other bytes, is never sent.
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

// TestFilesCost: a file costs a token for each 256 KiB, a part of it as much as it has, and half of
// the key's tokens are left to other requests.
func TestFilesCost(t *testing.T) {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(20_000, 1), teststore.Start, teststore.Files())
	key := teststore.Key(t, mem, 1, 100).Key
	e, _ := start(t, mem, func(cfg *Config) { cfg.AuthOff = false })
	left := func(path string, headers ...string) (left int, size int64) {
		t.Helper()
		req := must.Get(http.NewRequest("GET", "http://"+e.Addr().String()+path, nil))(t)
		req.Header.Set("X-Api-Key", key)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res := must.Get(http.DefaultClient.Do(req))(t)
		defer res.Body.Close()
		size = must.Get(io.Copy(io.Discard, res.Body))(t)
		_, err := fmt.Sscanf(res.Header.Get("RateLimit"), `"default";r=%d;`, &left)
		if err != nil || res.StatusCode >= 300 {
			t.Fatalf("%s: %d, %v", path, res.StatusCode, res.Header)
		}
		return left, size
	}
	until(t, "the key in force", func() bool {
		status, _, _ := Get(t, e.Addr(), filesPath, "X-Api-Key", key)
		return status == 200
	})
	if status, _, _ := Get(t, e.Addr(), filesPath+"/quotes.parquet"); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", status)
	}
	_, _ = left(filesPath + "/quotes.ndjson.zst") // fetched
	before, _ := left(filesPath)
	_, size := left(filesPath + "/quotes.ndjson.zst")
	after, _ := left(filesPath)
	if want := int(size+1<<18-1)>>18 + 1; size < 3<<18 || before-after < want-2 || before-after > want {
		t.Errorf("%d bytes cost %d tokens, want %d", size, before-after-1, want-1)
	}
	before = after
	left(filesPath+"/quotes.ndjson.zst", "Range", "bytes=-100")
	if after, _ = left(filesPath); before-after > 2 {
		t.Errorf("100 bytes cost %d tokens", before-after-1)
	}
}

// TestFilesWait: downloads that wait for tokens hold no chunks, and leave half of the key's tokens.
func TestFilesWait(t *testing.T) {
	const conns, burst = 40, 200
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(20_000, 1), teststore.Start, teststore.Files())
	key := teststore.Key(t, mem, 1, burst).Key
	e, _ := start(t, mem, func(cfg *Config) { cfg.AuthOff = false })
	left := func() (left int) {
		_, _, h := Get(t, e.Addr(), filesPath, "X-Api-Key", key)
		_, _ = fmt.Sscanf(h.Get("RateLimit"), `"default";r=%d;`, &left)
		return left
	}
	until(t, "half of the key's tokens", func() bool {
		n := left()
		return n > 0 && n <= burst/2+conns/2
	})
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse)
	}
	before := heap()
	head := make([]byte, 1<<18)
	for range conns {
		c := must.Get(net.Dial("tcp", e.Addr().String()))(t)
		defer c.Close()
		must.Get(fmt.Fprintf(c, "GET %s/quotes.ndjson.zst HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n\r\n", filesPath, key))(t)
		must.Get(io.ReadFull(c, head))(t)
		go func() { _, _ = io.Copy(io.Discard, c) }()
	}
	until(t, "what waits holds little", func() bool { return heap()-before < conns<<18 })
	if n := left(); n < burst/2-conns-1 { // conns were admitted
		t.Errorf("%d of %d tokens are left to other requests", n, burst)
	}
}
