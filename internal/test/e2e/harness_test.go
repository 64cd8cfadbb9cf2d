// Package e2e runs the real builder and a real edge, reached over HTTP, next to the independent
// model of the interface (internal/model), and compares every answer to the last byte.
//
// The package rapid draws the markets and the requests. The flag -rapid.checks, or RAPID_CHECKS,
// makes runs longer, and -rapid.seed repeats one.
package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing/fstest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/builder/files"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/upkeep"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/gen"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/loadtest/check"
	"example.com/marketdata/loadtest/client"
)

// failer is the common part of a test and a rapid check.
type failer interface {
	testedge.T
	Context() context.Context
	Fatalf(format string, args ...any)
}

// A pair is the model and the real service, which go through the same moments.
type pair struct {
	t     failer
	world *model.World

	store   artifacts.Store
	source  *folder
	builder *builder.Builder
	poll    time.Duration
	edge    *testedge.Edge
	conn    *client.Conn

	tags   map[string]string // bodies by ETag
	bodies map[string]string // ETags by body
	asked  int               // number of questions
	turn   int               // counts the requests of askHistory, which vary by turn
	leaves []string          // leaves that the log must have
}

// folder is a source whose files the test replaces.
type folder struct{ files model.Files }

func (f *folder) String() string { return "test" }

func (f *folder) Files(context.Context, time.Time) (source.Files, error) {
	return sourceFiles(f.files), nil
}

func sourceFiles(files model.Files) source.Files {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return source.FS(fsys)
}

// newPair starts a service without a snapshot.
func newPair(t failer, settings model.Settings, poll time.Duration) *pair {
	t.Helper()
	settings.Clock = time.Now()
	p := &pair{
		t: t, world: model.New(settings), store: buildtest.Signed(memstore.New()), source: &folder{}, poll: poll,
		tags: map[string]string{}, bodies: map[string]string{},
	}
	guards := builder.DefaultGuards
	guards.Force = true
	p.builder = must.Get(builder.New(builder.Config{
		Store: p.store, Source: p.source, Retain: settings.Retain, Guards: guards, Log: buildtest.Discard,
		Settings: floors(t, settings),
		Files:    files.Settings{Cadence: files.Hourly, Keep: time.Hour, Sign: []artifacts.SignKey{buildtest.SignKey}},
	}))(t)
	p.start()
	return p
}

// floors returns the builder's settings that correspond to the model's.
func floors(t failer, settings model.Settings) market.Settings {
	t.Helper()
	minimum := func(text string) market.U128 { return must.Get(market.ParseDecimal([]byte(text), 8, 28))(t) }
	return market.Settings{TrendingMinMarketCap: minimum(settings.MinMarketCap),
		TrendingMinVolume: minimum(settings.MinVolume), HistoryAssets: settings.History}
}

// start starts an edge that has nothing except the store.
func (p *pair) start() {
	p.t.Helper()
	p.edge = testedge.Start(p.t, testedge.Config{Reader: p.store, AuthOff: true, Poll: p.poll, CacheSize: 8 << 20,
		Coins: true, Trust: artifacts.Trust{buildtest.SignKey.Trust()}})
	conn := client.New(must.Get(client.ParseEndpoint(p.edge.URL, false))(p.t))
	conn.Timeout = 30 * time.Second
	p.conn = conn
	p.t.Cleanup(conn.Close)
	p.await()
}

// restart replaces the edge. The new one must give equal bodies equal tags.
func (p *pair) restart() {
	p.t.Helper()
	p.conn.Close()
	p.edge.Stop()
	p.start()
}

// build builds a feed on both sides, at its own time if at is zero, and waits until the edge has
// it. It reports whether there is a new snapshot.
func (p *pair) build(files model.Files, at time.Time) bool {
	p.t.Helper()
	published := p.publish(files, at)
	if published {
		p.await()
	}
	return published
}

// publish is build without waiting for the edge.
func (p *pair) publish(files model.Files, at time.Time) bool {
	p.t.Helper()
	p.source.files = files
	report, realErr := p.builder.Build(context.Background(), at)
	want, err := p.world.Build(files, at)
	if (err == nil) != (realErr == nil) {
		p.t.Fatalf("build: %v, want %v", realErr, err)
	}
	if err != nil {
		if errors.Is(err, model.ErrOlder) && !errors.Is(realErr, builder.ErrOlder) &&
			!errors.Is(realErr, builder.ErrOther) {
			p.t.Fatalf("build: %v, want %v", realErr, err)
		}
		return false
	}
	byCollection := func(counts map[string]int) map[string]int {
		named := map[string]int{}
		for name, n := range counts {
			if n > 0 {
				named[strings.TrimSuffix(name, ".ndjson")] = n
			}
		}
		return named
	}
	if got, want := byCollection(report.Rejected), byCollection(want.Rejected); !maps.Equal(got, want) {
		p.t.Fatalf("rows set aside: %v, want %v\n%s", got, want, strings.Join(report.Rejections, "\n"))
	}
	if got, want := byCollection(report.Counts), byCollection(want.Counts); !maps.Equal(got, want) {
		p.t.Fatalf("rows accepted: %v, want %v", got, want)
	}
	p.record()
	if got := want.Time.Format(time.RFC3339); report.SnapshotTime != got || report.Published != want.Published {
		p.t.Fatalf("report: snapshot %s, published %t, want %s, %t", report.SnapshotTime, report.Published, got,
			want.Published)
	}
	return want.Published
}

// change runs the change job on both sides. The job's clock is a little ahead of the newest
// snapshot's time.
func (p *pair) change(after time.Duration) {
	p.t.Helper()
	now := p.world.Newest().Time.Add(after)
	if _, err := change.Record(context.Background(), p.store, func() time.Time { return now }); err != nil {
		p.t.Fatalf("change: %v", err)
	}
	p.world.Change(now)
	p.await()
}

// rollback rolls both sides back to a retained snapshot.
func (p *pair) rollback(to time.Time) {
	p.t.Helper()
	now := to.Add(artifacts.Step)
	if _, err := upkeep.Rollback(context.Background(), p.store, to, func() time.Time { return now }); err != nil {
		p.t.Fatalf("rollback to %s: %v", to, err)
	}
	p.record()
	if err := p.world.Rollback(to, now); err != nil {
		p.t.Fatalf("rollback to %s: %v", to, err)
	}
	p.await()
}

// importPast imports rows of the past on both sides, from a file of the given kind.
func (p *pair) importPast(rows []model.PastRow, kind string) {
	p.t.Helper()
	dir := must.Get(os.MkdirTemp("", "import-*"))(p.t)
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "rows."+kind)
	must.OK(p.t, os.WriteFile(file, gen.PastFile(rows, kind), 0o600))
	report, err := p.builder.Import(context.Background(), []string{file}, false)
	if errors.Is(err, builder.ErrNoRow) && report.Unknown == len(rows) {
		return // nothing is imported
	}
	if err != nil {
		p.t.Fatalf("import: %v", err)
	}
	p.record()
	again, err := p.builder.Import(context.Background(), []string{file}, false)
	if err != nil || again.Published || report.Rows != len(rows) {
		p.t.Fatalf("import of the same %d rows: %+v, after %+v, %v", len(rows), again, report, err)
	}
	p.world.Import(rows, nil)
	p.await()
}

// backfill publishes feeds that are newer than the published snapshot on both sides.
func (p *pair) backfill(moments []gen.Moment) {
	p.t.Helper()
	var past []builder.PastFeed
	var texts []model.Files
	for _, m := range moments {
		past = append(past, builder.PastFeed{Name: m.At.Format(time.RFC3339), Time: m.At, Files: sourceFiles(m.Files)})
		texts = append(texts, m.Files)
	}
	if _, err := p.builder.Backfill(context.Background(), past); err != nil {
		p.t.Fatalf("backfill: %v", err)
	}
	p.record()
	if err := p.world.Backfill(texts); err != nil {
		p.t.Fatalf("backfill: %v", err)
	}
	p.await()
}

// record notes the published snapshot, which the log must contain exactly once.
func (p *pair) record() {
	p.t.Helper()
	b, _, err := p.store.Get(context.Background(), artifacts.CurrentKey, artifacts.MaxPointerSize)
	must.OK(p.t, err)
	pointer := must.Get(artifacts.ParsePointer(b))(p.t)
	if pointer.Sequence > uint64(len(p.leaves)) {
		p.leaves = append(p.leaves, buildtest.Leaf(pointer))
	}
}

// verify checks the whole store, as "builder verify" does, and its log.
func (p *pair) verify() {
	p.t.Helper()
	report, err := upkeep.Verify(context.Background(), p.store, nil)
	if err != nil || len(report.Problems) > 0 {
		p.t.Fatalf("verify: %v, %q", err, report.Problems)
	}
	buildtest.SameLog(p.t, p.store, p.leaves, false)
}

// await waits until the edge has seen the latest write: until /global shows the model's snapshot
// and change record.
func (p *pair) await() {
	p.t.Helper()
	question := model.Question{Method: "GET", Target: "/openapi/v1/global"}
	want := p.world.Answer(question)
	var got *response
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		got = p.ask(question)
		if got.status == want.Status && got.header.Get("X-Snapshot-Time") == want.SnapshotTime &&
			got.header.Get("Last-Modified") == httpTime(want.Modified) {
			return
		}
		time.Sleep(poll) // until the edge polls again
	}
	p.t.Fatalf("the edge does not follow: it has %s, %s, want %s, %s\n%s", got.header.Get("X-Snapshot-Time"),
		got.header.Get("Last-Modified"),
		want.SnapshotTime, httpTime(want.Modified), got.body)
}

// httpTime formats a time as headers do. It returns "" for the zero time.
func httpTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(http.TimeFormat)
}

// in returns the same pair, which reports its failures to another test.
func (p *pair) in(t failer) *pair {
	other := *p
	other.t = t
	return &other
}

// askWhole requests every nth page of every listing in every order.
func (p *pair) askWhole(nth int) {
	p.t.Helper()
	for _, endpoint := range model.Lists {
		ids, _, _ := p.world.Newest().Known(endpoint)
		for _, sort := range model.SortKeys(endpoint) {
			for _, direction := range []string{"", ":desc"} {
				for page := 1; page <= len(ids)/100+2; page += nth {
					p.check(model.Question{Method: "GET", Target: fmt.Sprintf(
						"/openapi/v1/%s?size=100&page=%d&sort=%s%s", endpoint, page, sort, direction)})
				}
			}
		}
	}
	p.check(model.Question{Method: "GET", Target: "/openapi/v1/trending"})
	p.check(model.Question{Method: "GET", Target: "/openapi/v1/global"})
	p.askHistory(nth)
}

// pastAges lists the ages of times for which prices are requested. They are near the limits for
// keeping prices.
var pastAges = []time.Duration{-time.Hour, 0, 10 * time.Minute, time.Hour, 25 * time.Hour, 48 * time.Hour,
	48*time.Hour - 10*time.Minute, 49 * time.Hour, 10 * 24 * time.Hour, 90 * 24 * time.Hour,
	90*24*time.Hour + time.Hour, 91 * 24 * time.Hour, 300 * 24 * time.Hour, 366 * 24 * time.Hour, 400 * 24 * time.Hour}

// longCandles requests the maximum number of hourly candles, starting before the oldest kept hour.
func (p *pair) longCandles() string {
	from := p.world.Newest().Time.Add(-91 * 24 * time.Hour)
	return fmt.Sprintf("candles?from=%d&to=%d", from.Unix(), from.Add(999*time.Hour).Unix())
}

// askHistory requests every point of every window, for every nth hundred assets, from the pinned
// snapshot or the newest one. It also takes turns requesting candles, all days, and prices at given
// times.
func (p *pair) askHistory(nth int, pin ...string) {
	p.t.Helper()
	ids, _, _ := p.world.Newest().Known("assets")
	hundreds := slices.Collect(slices.Chunk(ids, 100))
	for i := 0; i < len(hundreds); i += nth {
		list := strings.ReplaceAll(strings.Trim(fmt.Sprint(hundreds[i]), "[]"), " ", ",")
		p.turn++
		past := []string{"history?window=max", "candles?interval=1h", "candles?interval=1d", p.longCandles()}
		asks := []string{past[p.turn%len(past)]}
		for _, w := range model.Windows {
			asks = append(asks, "history?window="+w.Name)
		}
		for _, ask := range asks {
			for page := 1; page <= (len(hundreds[i])+19)/20; page++ {
				p.check(model.Question{Method: "GET",
					Target: fmt.Sprintf("/openapi/v1/%s&page=%d&id=%s", ask, page, list), Pins: pin})
			}
		}
		for n := range 3 {
			age := pastAges[(3*p.turn+n)%len(pastAges)]
			t := p.world.Newest().Time.Add(-age)
			p.check(model.Question{Method: "GET", Pins: pin, Target: fmt.Sprintf(
				"/openapi/v1/prices?id=%s&time=%d,%d,%d", list, t.Unix(), t.Add(-7*time.Minute).Unix(),
				t.Add(time.Second).Unix())})
		}
	}
}

// response is the edge's response.
type response struct {
	status int
	header http.Header
	body   string
}

// send sends a request over one connection, byte for byte as given.
func (p *pair) send(method, target string, headers ...[2]string) (*response, error) {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, p.edge.Addr())
	for _, h := range headers {
		b = fmt.Appendf(b, "%s: %s\r\n", h[0], h[1])
	}
	r, err := p.conn.Do(context.Background(), append(b, "\r\n"...), method == "HEAD")
	if err != nil {
		return nil, err
	}
	got := &response{r.Status, http.Header{}, string(r.Body)}
	for _, f := range r.Fields {
		got.header.Add(string(f.Name), string(f.Value))
	}
	return got, nil
}

func (p *pair) ask(q model.Question, headers ...[2]string) *response {
	p.t.Helper()
	for _, pin := range q.Pins {
		headers = append(headers, [2]string{"X-Snapshot-Time", pin})
	}
	r, err := p.send(q.Method, q.Target, headers...)
	if err != nil {
		p.t.Fatalf("%#v: %v", q, err)
	}
	return r
}

// check sends a question and compares the answer with the model's.
func (p *pair) check(q model.Question) (model.Answer, *response) {
	p.t.Helper()
	want := p.world.Answer(q)
	got := p.compare(q, want, "", 0)
	if p.asked++; p.asked%5 == 0 {
		p.below(q, want, got)
	}
	return want, got
}

// below repeats a question that was answered with a 200, with the pin in the path.
func (p *pair) below(q model.Question, want model.Answer, got *response) {
	p.t.Helper()
	if got.status != 200 || want.SnapshotTime == "" || !strings.HasPrefix(q.Target, "/openapi/v1/") ||
		strings.HasPrefix(q.Target, "/openapi/v1/global") {
		return
	}
	target := "/at/" + strings.NewReplacer("-", "", ":", "").Replace(want.SnapshotTime) + q.Target
	r, err := p.send(q.Method, target)
	if err != nil {
		p.t.Fatalf("%s: %v", target, err)
	}
	h := r.header
	if r.status != 200 || r.body != got.body || h.Get("ETag") != got.header.Get("ETag") ||
		h.Get("Vary") != "Accept-Encoding" ||
		h.Get("Cache-Control") != "private, max-age=86400, immutable" {
		p.t.Fatalf("%s %s\n%d %v\n%s\nnot below /at/:\n%v\n%s", q.Method, strconv.Quote(target), r.status, h, r.body,
			got.header, got.body)
	}
}

// recheck repeats a question that was answered with a 200, with content codings and conditions.
func (p *pair) recheck(q model.Question, want model.Answer, accept []string, c gen.Conditions) {
	p.t.Helper()
	var headers [][2]string
	for _, line := range accept {
		headers = append(headers, [2]string{"Accept-Encoding", line})
	}
	for name, lines := range map[string][]string{"If-Match": c.IfMatch, "If-None-Match": c.IfNoneMatch,
		"If-Modified-Since": {c.IfModifiedSince}, "If-Unmodified-Since": {c.IfUnmodifiedSince}} {
		for _, line := range lines {
			if line != "" {
				headers = append(headers, [2]string{name, line})
			}
		}
	}
	p.compare(q, want, model.Coding(accept, len(want.Body)), c.Status, headers...)
}

// compare sends a question and compares the answer with the expected one, in the given coding. If a
// precondition changes the expected answer, status is 304 or 412; otherwise it is 0.
func (p *pair) compare(
	q model.Question, want model.Answer, coding string, status int, headers ...[2]string,
) *response {
	p.t.Helper()
	got := p.ask(q, headers...)
	if status == 412 {
		want, status = model.Answer{Status: 412, Code: 41200, MessageKey: "PRECONDITION_FAILED"}, 0
	}
	diff := p.headersDiffer(q, want, got, coding, status == 304)
	if diff == "" {
		diff = p.bodyDiffers(q, want, got, coding)
	}
	if diff != "" {
		p.t.Fatalf("%s %s\nX-Snapshot-Time: %q\n%q\n%s", q.Method, strconv.Quote(q.Target), q.Pins, headers, diff)
	}
	return got
}

const (
	anyID       = `[A-Za-z0-9._:=+/-]{20,36}`
	anyAge      = `private, max-age=([0-9]+), stale-while-revalidate=60, stale-if-error=86400`
	anyTag      = `"[^"]{16,}"`
	anyCacheHit = `edge; (hit|fwd=miss)(; detail=stale)?`
	anyLength   = `[0-9]+`
	anySoon     = `[1-5]`
)

// forms has the pattern for each header value that is not known exactly.
var forms = map[string]*regexp.Regexp{}

func init() {
	for _, form := range []string{anyID, anyAge, anyTag, anyCacheHit, anyLength, anySoon} {
		forms[form] = regexp.MustCompile("^(?:" + form + ")$")
	}
}

// headersDiffer describes what is wrong with an answer's status and headers, or returns "".
func (p *pair) headersDiffer(
	q model.Question, want model.Answer, got *response, coding string, notModified bool,
) string {
	status := want.Status
	if notModified {
		status = 304
	}
	if got.status != status {
		return fmt.Sprintf("status %d, want %d %s\n%s", got.status, status, want.Blame, got.body)
	}
	lines := map[string]string{"X-Request-Id": anyID, "Access-Control-Allow-Origin": "*"} // "" means absent
	switch status {
	case 200, 304:
		maps.Copy(lines, map[string]string{
			"X-Snapshot-Time": want.SnapshotTime, "X-Not-Found": want.NotFound, "X-Ignored": want.Ignored,
			"Last-Modified": httpTime(want.Modified),
			"Vary":          "Accept-Encoding, X-Snapshot-Time", "Cache-Status": anyCacheHit, "Cache-Control": anyAge,
			"ETag":         anyTag,
			"Content-Type": want.ContentType(), "X-Total": want.Total, "Content-Encoding": coding,
			"Content-Length": strconv.Itoa(len(want.Body)),
		})
		switch {
		case notModified:
			lines["Content-Type"], lines["Content-Encoding"], lines["Content-Length"], lines["Cache-Status"] = "", "",
				"", ""
		case coding != "" && q.Method == "HEAD":
			lines["Content-Length"] = anyLength
		case coding != "":
			lines["Content-Length"] = strconv.Itoa(len(got.body))
		}
		if tag, ok := p.bodies[want.Body]; ok { // an equal body had this tag earlier, except for the coding
			if coding != "" {
				tag = strings.TrimSuffix(tag, `"`) + "-" + coding + `"`
			}
			lines["ETag"] = tag
		}
	case 204:
	default:
		for _, name := range []string{"ETag", "Last-Modified", "X-Snapshot-Time", "X-Not-Found", "X-Ignored", "X-Total",
			"Cache-Status", "Content-Encoding"} {
			lines[name] = ""
		}
		lines["Content-Type"], lines["Cache-Control"] = "application/json", "no-store"
		lines["Allow"], lines["Retry-After"] = map[int]string{405: "GET, HEAD, OPTIONS"}[status],
			map[int]string{503: anySoon}[status]
	}
	for name, line := range lines {
		values, form := got.header.Values(name), forms[line]
		if line == "" && len(values) > 0 || line != "" && (len(values) != 1 ||
			form == nil && values[0] != line || form != nil && !form.MatchString(values[0])) {
			text := fmt.Sprintf("%s: %q, want %q", name, values, line)
			if coding == "" && got.body != want.Body {
				text += fmt.Sprintf("\n%s\nwant\n%s", got.body, want.Body)
			}
			return text
		}
	}
	if want.Status != 200 {
		return ""
	}
	age, _ := strconv.Atoi(forms[anyAge].FindStringSubmatch(got.header.Get("Cache-Control"))[1])
	least := 5
	if want.SnapshotTime != "" {
		t, _ := time.Parse(time.RFC3339, want.SnapshotTime)
		least = int(min(max(time.Until(t.Add(10*time.Minute)).Seconds(), 5), 600))
	}
	if age < least-1 || age > least+2 {
		return fmt.Sprintf("max-age=%d, want about %d seconds", age, least)
	}
	return ""
}

// envelope matches the body of an answer other than 200.
var envelope = regexp.MustCompile(`^\{"code":([0-9]+),"message":"(.+)","message_key":"([A-Z_]+)","result":\{\}\}$`)

// bodyDiffers describes what is wrong with an answer's body, or returns "".
func (p *pair) bodyDiffers(q model.Question, want model.Answer, got *response, coding string) string {
	if q.Method == "HEAD" || got.status == 204 || got.status == 304 {
		if got.body != "" {
			return fmt.Sprintf("%d bytes of a body", len(got.body))
		}
		return ""
	}
	if got.status != 200 {
		m := envelope.FindStringSubmatch(got.body)
		if m == nil || !json.Valid([]byte(got.body)) || m[1] != strconv.Itoa(want.Code) || m[3] != want.MessageKey {
			return fmt.Sprintf("envelope %s, want %d %s", got.body, want.Code, want.MessageKey)
		}
		if len(want.Blame) > 0 &&
			!slices.ContainsFunc(want.Blame, func(name string) bool { return strings.Contains(m[2], name) }) {
			return fmt.Sprintf("message %q, want it to name one of %q", m[2], want.Blame)
		}
		return ""
	}
	body, err := check.Decode(coding, []byte(got.body))
	if err != nil || string(body) != want.Body {
		return fmt.Sprintf("%s body: %v, %s", coding, err, model.Difference(string(body), want.Body))
	}
	tag := got.header.Get("ETag")
	if other, ok := p.tags[tag]; ok && other != got.body {
		return fmt.Sprintf("ETag %s was that of another body", tag)
	}
	p.tags[tag] = got.body
	if coding == "" {
		p.bodies[want.Body] = tag
	}
	return ""
}
