// Package e2e sets the real builder and a real edge, asked over HTTP, beside
// the independent model of the interface (internal/model) and compares every
// answer to the last byte.
//
// The markets and the questions are drawn by rapid: -rapid.checks (or
// RAPID_CHECKS) makes the runs longer, -rapid.seed repeats one.
package e2e

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing/fstest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/memstore"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/model/gen"
	"example.com/marketdata/loadtest/client"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// failer is what a test and a rapid check have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// A pair is the model and the real service, brought through the same moments.
type pair struct {
	t     failer
	world *model.World

	store   artifacts.Store
	source  *folder
	builder *builder.Builder
	host    string
	conn    *client.Conn
	stop    func()

	tags   map[string]string // bodies by ETag
	bodies map[string]string // ETags by body
}

// folder is a source whose files the test exchanges.
type folder struct{ files model.Files }

func (f *folder) String() string { return "test" }

func (f *folder) Files(context.Context, time.Time) (source.Files, error) {
	fsys := fstest.MapFS{}
	for name, text := range f.files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return source.FS(fsys), nil
}

// newPair starts a service without a snapshot. Call close at the end.
func newPair(t failer, settings model.Settings, poll time.Duration) *pair {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	settings.Clock = time.Now()
	p := &pair{
		t: t, world: model.New(settings), store: memstore.New(), source: &folder{},
		tags: map[string]string{}, bodies: map[string]string{},
	}
	guards := builder.DefaultGuards
	guards.Force = true
	floor := func(text string) market.U128 {
		u, err := market.ParseDecimal([]byte(text), 8, 28)
		if err != nil {
			t.Fatalf("floor %s: %v", text, err)
		}
		return u
	}
	var err error
	p.builder, err = builder.New(builder.Config{
		Store: p.store, Source: p.source, Retain: settings.Retain, Guards: guards, Log: quiet,
		Settings: market.Settings{TrendingMinMarketCap: floor(settings.MinMarketCap), TrendingMinVolume: floor(settings.MinVolume)},
	})
	if err != nil {
		t.Fatalf("builder: %v", err)
	}
	e, err := edge.New(context.Background(), edge.Config{
		Reader: p.store, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", AuthOff: true, Poll: poll, CacheSize: 8 << 20, Log: quiet,
	})
	if err != nil {
		t.Fatalf("edge: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	p.host = e.Addr().String()
	endpoint, err := client.ParseEndpoint("http://"+p.host, false)
	if err != nil {
		t.Fatalf("edge: %v", err)
	}
	p.conn = client.New(endpoint)
	p.conn.Timeout = 30 * time.Second
	p.stop = func() {
		p.conn.Close()
		cancel()
		if err := <-done; err != nil {
			t.Logf("edge: %v", err)
		}
	}
	p.await()
	return p
}

func (p *pair) close() { p.stop() }

// build builds a feed on both sides, at its own time when at is zero, and waits
// for the edge to have it. It reports whether there is a new snapshot.
func (p *pair) build(files model.Files, at time.Time) bool {
	p.t.Helper()
	published := p.publish(files, at)
	if published {
		p.await()
	}
	return published
}

// publish is build without the waiting.
func (p *pair) publish(files model.Files, at time.Time) bool {
	p.t.Helper()
	p.source.files = files
	report, realErr := p.builder.Build(context.Background(), at)
	want, err := p.world.Build(files, at)
	if (err == nil) != (realErr == nil) {
		p.t.Fatalf("build: %v, want %v", realErr, err)
	}
	if err != nil {
		if errors.Is(err, model.ErrOlder) && !errors.Is(realErr, builder.ErrOlder) && !errors.Is(realErr, builder.ErrOther) {
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
	if got := want.Time.Format(time.RFC3339); report.SnapshotTime != got || report.Published != want.Published {
		p.t.Fatalf("report: snapshot %s, published %t, want %s, %t", report.SnapshotTime, report.Published, got, want.Published)
	}
	return want.Published
}

// change runs the change job on both sides. Its clock says a little after the
// newest snapshot's time.
func (p *pair) change(after time.Duration) {
	p.t.Helper()
	now := p.world.Newest().Time.Add(after)
	if _, err := builder.Change(context.Background(), p.store, func() time.Time { return now }); err != nil {
		p.t.Fatalf("change: %v", err)
	}
	p.world.Change(now)
	p.await()
}

// rollback goes back to a retained snapshot on both sides.
func (p *pair) rollback(to time.Time) {
	p.t.Helper()
	if _, err := builder.Rollback(context.Background(), p.store, to, time.Now); err != nil {
		p.t.Fatalf("rollback to %s: %v", to, err)
	}
	if err := p.world.Rollback(to); err != nil {
		p.t.Fatalf("rollback to %s: %v", to, err)
	}
	p.await()
}

// await waits until the edge has seen what was written last: until /global
// tells of the snapshot and of the change record that the model has.
func (p *pair) await() {
	p.t.Helper()
	question := model.Question{Method: "GET", Target: "/openapi/v1/global"}
	want := p.world.Answer(question)
	var got *response
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		got = p.ask(question)
		if got.status == want.Status && got.header.Get("X-Snapshot-Time") == want.SnapshotTime && got.header.Get("Last-Modified") == httpTime(want.Modified) {
			return
		}
	}
	p.t.Fatalf("the edge does not follow: it has %s, %s, want %s, %s\n%s", got.header.Get("X-Snapshot-Time"), got.header.Get("Last-Modified"),
		want.SnapshotTime, httpTime(want.Modified), got.body)
}

// httpTime writes a time as headers do; "" for none.
func httpTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(http.TimeFormat)
}

// in is the same pair, its faults told to another test.
func (p *pair) in(t failer) *pair {
	other := *p
	other.t = t
	return &other
}

// askWhole asks for the whole of every listing, in every order, every nth page.
func (p *pair) askWhole(nth int) {
	p.t.Helper()
	for endpoint, sorts := range map[string][]string{
		"assets": {"id", "name", "symbol", "slug", "rank"}, "quotes": {"id", "name", "symbol", "slug"}, "exchanges": {"id", "name", "slug", "volume"},
		"categories": {"id", "name", "slug", "market_cap", "volume_24h"}, "chains": {"id", "name", "slug", "market_cap", "volume_24h"},
	} {
		ids, _, _ := p.world.Newest().Known(endpoint)
		for _, sort := range sorts {
			for _, direction := range []string{"", ":desc"} {
				for page := 1; page <= len(ids)/100+2; page += nth {
					p.check(model.Question{Method: "GET", Target: fmt.Sprintf("/openapi/v1/%s?size=100&page=%d&sort=%s%s", endpoint, page, sort, direction)})
				}
			}
		}
	}
	p.check(model.Question{Method: "GET", Target: "/openapi/v1/trending"})
	p.check(model.Question{Method: "GET", Target: "/openapi/v1/global"})
}

// response is an answer of the edge.
type response struct {
	status int
	header http.Header
	body   string
}

// send asks over one connection, byte for byte what it is told to.
func (p *pair) send(method, target string, headers ...[2]string) (*response, error) {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, target, p.host)
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

// check asks a question and compares the answer with the model's.
func (p *pair) check(q model.Question) (model.Answer, *response) {
	p.t.Helper()
	want, got := p.world.Answer(q), p.ask(q)
	if diff := p.differs(q, want, got); diff != "" {
		p.t.Fatalf("%s %s\nX-Snapshot-Time: %q\n%s", q.Method, strconv.Quote(q.Target), q.Pins, diff)
	}
	return want, got
}

// recheck asks a question again that was answered with a 200, for any coding
// and under conditions.
func (p *pair) recheck(q model.Question, want model.Answer, plain *response, accept []string, c gen.Conditions) {
	p.t.Helper()
	var headers [][2]string
	for _, line := range accept {
		headers = append(headers, [2]string{"Accept-Encoding", line})
	}
	for _, line := range c.IfNoneMatch {
		headers = append(headers, [2]string{"If-None-Match", line})
	}
	if c.IfModifiedSince != "" {
		headers = append(headers, [2]string{"If-Modified-Since", c.IfModifiedSince})
	}
	got := p.ask(q, headers...)
	if diff := p.codedDiffers(q, want, plain, got, model.Coding(accept, len(want.Body)), c.NotModified); diff != "" {
		p.t.Fatalf("%s %s\nX-Snapshot-Time: %q\n%q\n%s", q.Method, strconv.Quote(q.Target), q.Pins, headers, diff)
	}
}

// codedDiffers tells what is wrong with an answer to a question that had the
// plain answer without coding and condition; "" for nothing.
func (p *pair) codedDiffers(q model.Question, want model.Answer, plain, got *response, coding string, notModified bool) string {
	tag := plain.header.Get("ETag")
	if coding != "" {
		tag = strings.TrimSuffix(tag, `"`) + "-" + coding + `"`
	}
	expected := map[string]string{"ETag": tag, "Content-Type": "application/json", "Content-Encoding": coding}
	for _, name := range []string{"X-Snapshot-Time", "X-Not-Found", "X-Ignored", "Last-Modified", "Vary", "Access-Control-Allow-Origin"} {
		expected[name] = plain.header.Get(name)
	}
	status := 200
	if notModified {
		status = 304
		expected["Content-Type"], expected["Content-Encoding"], expected["Content-Length"] = "", "", ""
	}
	if got.status != status {
		return fmt.Sprintf("status %d, want %d", got.status, status)
	}
	for name, value := range expected {
		if values := got.header.Values(name); value == "" && len(values) > 0 || value != "" && (len(values) != 1 || values[0] != value) {
			return fmt.Sprintf("%s: %q, want %q", name, values, value)
		}
	}
	if !cacheControl.MatchString(got.header.Get("Cache-Control")) || len(got.header.Values("X-Request-Id")) != 1 {
		return fmt.Sprintf("headers %v", got.header)
	}
	if q.Method == "HEAD" || notModified {
		if got.body != "" {
			return fmt.Sprintf("%d bytes of a body", len(got.body))
		}
		return ""
	}
	if got.header.Get("Content-Length") != strconv.Itoa(len(got.body)) {
		return fmt.Sprintf("Content-Length %s of %d bytes", got.header.Get("Content-Length"), len(got.body))
	}
	body, err := decode(coding, got.body)
	if err != nil {
		return fmt.Sprintf("%s: %v", coding, err)
	}
	if body != want.Body {
		return coding + " body " + model.Difference(body, want.Body)
	}
	if other, ok := p.tags[tag]; ok && other != got.body {
		return fmt.Sprintf("the %s body of ETag %s had other bytes before", coding, tag)
	}
	p.tags[tag] = got.body
	return ""
}

func decode(coding, body string) (string, error) {
	var r io.Reader = strings.NewReader(body)
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "br":
		r = brotli.NewReader(r)
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1)); err == nil {
			defer z.Close()
			r = z
		}
	}
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	return string(b), err
}

var (
	requestID    = regexp.MustCompile(`^[A-Za-z0-9._:=+/-]{20,36}$`)
	entityTag    = regexp.MustCompile(`^"([^"]{16,})"$`)
	cacheControl = regexp.MustCompile(`^private, max-age=([0-9]+), stale-while-revalidate=60, stale-if-error=86400$`)
	cacheStatus  = regexp.MustCompile(`^edge; (hit|fwd=miss)(; detail=stale)?$`)
)

// differs tells what is wrong with an answer; "" for nothing.
func (p *pair) differs(q model.Question, want model.Answer, got *response) string {
	if got.status != want.Status {
		return fmt.Sprintf("status %d, want %d %s\n%s", got.status, want.Status, want.Blame, got.body)
	}
	one := func(name, value string) string { // exactly one line of the header; "": none
		values := got.header.Values(name)
		if value == "" && len(values) == 0 || len(values) == 1 && values[0] == value {
			return ""
		}
		return fmt.Sprintf("%s: %q, want %q", name, values, value)
	}
	if ids := got.header.Values("X-Request-Id"); len(ids) != 1 || !requestID.MatchString(ids[0]) {
		return fmt.Sprintf("X-Request-Id: %q", ids)
	}
	if diff := one("Access-Control-Allow-Origin", "*"); diff != "" {
		return diff
	}
	switch {
	case want.Status == 200:
		return p.differs200(q, want, got, one)
	case want.Status == 204:
		if got.body != "" {
			return "a 204 with a body"
		}
		return ""
	}

	for _, diff := range []string{
		one("Content-Type", "application/json"), one("Cache-Control", "no-store"), one("ETag", ""), one("Last-Modified", ""), one("X-Snapshot-Time", ""),
		one("X-Not-Found", ""), one("X-Ignored", ""), one("Cache-Status", ""), one("Content-Encoding", ""),
		one("Allow", map[int]string{405: "GET, HEAD, OPTIONS"}[want.Status]), one("Retry-After", map[int]string{503: "1"}[want.Status]),
	} {
		if diff != "" {
			return diff
		}
	}
	if q.Method == "HEAD" {
		if got.body != "" {
			return "an answer to HEAD with a body"
		}
		return ""
	}
	var envelope struct {
		Code       int    `json:"code"`
		Message    string `json:"message"`
		MessageKey string `json:"message_key"`
	}
	if err := json.Unmarshal([]byte(got.body), &envelope); err != nil {
		return fmt.Sprintf("%v: %s", err, got.body)
	}
	message, _ := json.Marshal(envelope.Message)
	shape := regexp.MustCompile(`^\{"code":[0-9]+,"message":".*","message_key":"[A-Z_]+","result":\{\}\}$`)
	if envelope.Code != want.Code || envelope.MessageKey != want.MessageKey || len(message) <= 2 || !shape.MatchString(got.body) {
		return fmt.Sprintf("envelope %s, want %d %s", got.body, want.Code, want.MessageKey)
	}
	if len(want.Blame) > 0 && !slices.ContainsFunc(want.Blame, func(name string) bool { return strings.Contains(envelope.Message, name) }) {
		return fmt.Sprintf("message %q, want it to name one of %q", envelope.Message, want.Blame)
	}
	return ""
}

func (p *pair) differs200(q model.Question, want model.Answer, got *response, one func(name, value string) string) string {
	body := want.Body
	if q.Method == "HEAD" {
		body = ""
	}
	if got.body != body {
		return "body " + model.Difference(got.body, body)
	}
	for _, diff := range []string{
		one("Content-Type", "application/json"), one("Content-Length", strconv.Itoa(len(want.Body))), one("Content-Encoding", ""),
		one("X-Snapshot-Time", want.SnapshotTime), one("X-Not-Found", want.NotFound), one("X-Ignored", want.Ignored), one("Last-Modified", httpTime(want.Modified)),
		one("Vary", "Accept-Encoding, X-Snapshot-Time"),
	} {
		if diff != "" {
			return diff
		}
	}
	if v := got.header.Values("Cache-Status"); len(v) != 1 || !cacheStatus.MatchString(v[0]) {
		return fmt.Sprintf("Cache-Status: %q", v)
	}
	v := got.header.Values("Cache-Control")
	if len(v) != 1 || !cacheControl.MatchString(v[0]) {
		return fmt.Sprintf("Cache-Control: %q", v)
	}
	age, _ := strconv.Atoi(cacheControl.FindStringSubmatch(v[0])[1])
	least := 5
	if s := want.SnapshotTime; s != "" {
		t, _ := time.Parse(time.RFC3339, s)
		left := time.Until(t.Add(10 * time.Minute)).Seconds()
		least = int(min(max(left, 5), 600))
	}
	if age < least-1 || age > least+2 {
		return fmt.Sprintf("Cache-Control: %q, want about %d seconds", v[0], least)
	}
	tags := got.header.Values("ETag")
	if len(tags) != 1 || !entityTag.MatchString(tags[0]) {
		return fmt.Sprintf("ETag: %q", tags)
	}
	if other, ok := p.tags[tags[0]]; ok && other != want.Body {
		return fmt.Sprintf("ETag %s was that of another body", tags[0])
	}
	if other, ok := p.bodies[want.Body]; ok && other != tags[0] {
		return fmt.Sprintf("ETag %s, but the same body had %s before", tags[0], other)
	}
	p.tags[tags[0]], p.bodies[want.Body] = want.Body, tags[0]
	return ""
}
