package edge

import (
	"encoding/csv"
	"fmt"
	"log/slog"
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
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
)

// TestKeyInQuery sends keys in the query, with private and with public caches. INTERFACE.md, "CSV" says on
// which paths the edge accepts them, and that they leave no trace.
func TestKeyInQuery(t *testing.T) {
	for _, scope := range []string{"private", "public"} {
		t.Run(scope, func(t *testing.T) {
			s := newSheets(t, scope)
			pin := "/at/" + teststore.Start.UTC().Format("20060102T150405Z")
			for name, question := range map[string]string{"markets": "size=5", "history": "id=3", "candles": "id=3",
				"prices": "id=3&time=0"} {
				s.testPath("/openapi/v1/"+name, question)
				s.testPath(pin+"/openapi/v1/"+name, question)
				past := "/at/20200101T000000Z/openapi/v1/" + name + ".csv?" + question + "&key="
				s.ask(401, past+s.plain)
				s.ask(410, past+s.sheet)
			}
			s.testElsewhere()
			s.testShared()
			s.testLimit()
			s.testTraces()
		})
	}
}

// sheets is an edge with keys of all kinds.
type sheets struct {
	*Edge
	t                         *testing.T
	scope                     string
	log                       *lockedLog
	plain, sheet, other, slow string // keys in force; all but plain may be sent in the query
	bad                       []string
	all                       []string
}

func newSheets(t *testing.T, scope string) *sheets {
	mem := memstore.New()
	teststore.Publish(t, mem, teststore.NewFeed(300, 1).History(100), teststore.Start)
	registry := &teststore.Registry{Store: mem}
	create := func(rate, burst int, expires time.Time, inQuery bool) (id, key string) {
		made := must.Get(registry.Create(t.Context(), teststore.KeyRequest{
			Name: "sheet", Rate: rate, Burst: burst, Expires: expires, Query: inQuery}))(t)
		return made.ID, made.Key
	}
	s := &sheets{t: t, scope: scope, log: new(lockedLog)}
	_, s.plain = create(1000, 1000, time.Time{}, false)
	_, s.sheet = create(1000, 1000, time.Time{}, true)
	_, s.other = create(1000, 1000, time.Time{}, true)
	_, s.slow = create(1, 3, time.Time{}, true)
	revokedID, revoked := create(1000, 1000, time.Time{}, true)
	_, expired := create(1000, 1000, time.Now().Add(-time.Hour), true)
	must.Get(registry.Revoke(t.Context(), revokedID))(t)
	unknown := must.Get(artifacts.NewKey(strings.NewReader(strings.Repeat("0123456789", 20))))(t)
	last := map[bool]string{true: "1", false: "0"}[strings.HasSuffix(s.sheet, "0")]
	s.bad = []string{s.plain, revoked, expired, unknown, s.sheet[:len(s.sheet)-1] + last}
	s.all = append([]string{s.sheet, s.other, s.slow}, s.bad...)
	s.Edge, _ = start(t, mem, func(c *Config) {
		c.AuthOff, c.CacheScope, c.Server.LogAll, c.Coins = false, scope, true, true
		c.Log = slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Server.AddressRate, c.Server.AddressBurst = 100_000, 100_000
	})
	until(t, "a snapshot and keys", func() bool { return s.current() != nil && s.notReady() == "" })
	return s
}

// ask sends a request, and checks that the answer contains no key.
func (s *sheets) ask(want int, target string, headers ...string) (string, http.Header) {
	s.t.Helper()
	status, body, h := Get(s.t, s.Addr(), target, headers...)
	if status != want {
		s.t.Errorf("%s %v: %d, want %d: %s", target, headers, status, want, body)
	}
	s.without(body+fmt.Sprint(h), target)
	return body, h
}

// without checks that text contains no key.
func (s *sheets) without(text, what string) {
	s.t.Helper()
	for _, key := range s.all {
		if strings.Contains(text, key[len(artifacts.KeyPrefix):]) {
			s.t.Errorf("%s: the key %s is in %.2000s", what, key, text)
		}
	}
}

// testPath requests a table, and the same data as JSON.
func (s *sheets) testPath(path, question string) {
	t, table := s.t, path+".csv?"+question
	body, h := s.ask(200, table+"&key="+s.sheet)
	if cache := h.Get("Cache-Control"); !strings.HasPrefix(cache, "private, ") || h.Get("X-Ignored") != "" {
		t.Errorf("%s: Cache-Control %q, X-Ignored %q", path, cache, h.Get("X-Ignored"))
	}
	inHeader, h := s.ask(200, table, "X-Api-Key", s.sheet)
	if cache := h.Get("Cache-Control"); inHeader != body || !strings.HasPrefix(cache, s.scope+", ") {
		t.Errorf("%s: the key in a header gives another answer, %q", path, cache)
	}
	s.ask(200, table, "X-Api-Key", s.plain)
	if asJSON, _ := s.ask(200, path+"?"+question, "X-Api-Key", s.plain); !strings.HasPrefix(asJSON, `{"code":0,`) {
		t.Errorf("%s: %.200s", path, asJSON) // perhaps a cached table
	}
	s.ask(200, table+"&k%65y="+strings.ReplaceAll(s.sheet, "_", "%5F"))
	s.ask(200, table+"&key=", "X-Api-Key", s.plain) // an empty key counts as absent
	s.ask(401, path+"?"+question+"&key="+s.sheet)   // not a table
	s.ask(401, table)
	// A key that must not be in the query, and a key that is sent twice.
	for _, bad := range append([]string{"x", s.sheet + "&key=" + s.sheet}, s.bad...) {
		body, _ := s.ask(401, table+"&key="+bad)
		if !strings.Contains(body, "X-Api-Key") || !strings.Contains(body, "--query") {
			t.Errorf("%s: %s", path, body)
		}
	}
	for _, header := range []string{s.sheet, s.plain, s.other} {
		s.ask(401, table+"&key="+s.sheet, "X-Api-Key", header)
	}
	// The key is checked before the parameters.
	s.ask(401, table+"&size=x&key="+s.plain)
	if body, _ := s.ask(400, table+"&page=x&key="+s.sheet); !strings.Contains(body, `"message":"page: `) {
		t.Errorf("%s: %s", path, body)
	}
}

// testElsewhere checks that a key in the query is not accepted on other paths, and that an unknown path is
// reported before the key is checked.
func (s *sheets) testElsewhere() {
	for _, path := range []string{"quotes.csv", "markets.csv/", "markets.CSV", "markets.csv.csv", ".csv"} {
		s.ask(404, "/openapi/v1/"+path+"?key="+s.sheet)
	}
	for _, path := range []string{"quotes", "global", "search?q=a", "events", "files", "assets"} {
		mark := map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
		s.ask(401, "/openapi/v1/"+path+mark+"key="+s.sheet)
	}
	s.ask(401, "/api/v3/coins/list?key="+s.sheet)
}

// testShared checks that two keys get the same tag and share a cached answer.
func (s *sheets) testShared() {
	const question = "/openapi/v1/markets.csv?size=7&sort=price&key="
	first, h := s.ask(200, question+s.sheet)
	s.ask(200, question+s.sheet)
	second, again := s.ask(200, question+s.other)
	if first != second || h.Get("ETag") != again.Get("ETag") ||
		!strings.HasPrefix(again.Get("Cache-Status"), "edge; hit") {
		s.t.Errorf("another key: tags %s and %s, %s", h.Get("ETag"), again.Get("ETag"), again.Get("Cache-Status"))
	}
	total := h.Get("X-Total")
	_, unchanged := s.ask(304, question+s.other, "If-None-Match", h.Get("ETag"))
	if total == "" || again.Get("X-Total") != total || unchanged.Get("X-Total") != total ||
		!strings.HasPrefix(unchanged.Get("Cache-Control"), "private, ") {
		s.t.Errorf("X-Total %q, then %v, 304 with %v", total, again, unchanged)
	}
	for _, coding := range []string{"gzip", "br", "zstd"} {
		for range 3 {
			_, h := s.ask(200, "/openapi/v1/markets.csv?size=100&key="+s.sheet, "Accept-Encoding", coding)
			if h.Get("Content-Encoding") != coding || h.Get("X-Total") != total ||
				h.Get("Content-Type") != "text/csv; charset=utf-8; header=present" {
				s.t.Errorf("%s: %v", coding, h)
			}
		}
	}
}

// testLimit checks that the limit of the key in the query applies.
func (s *sheets) testLimit() {
	const question = "/openapi/v1/markets.csv?size=7&key="
	_, h := s.ask(200, question+s.slow)
	if s.scope == "private" && h.Get("RateLimit-Policy") != `"default";q=3;w=3` {
		s.t.Errorf("RateLimit-Policy %q", h.Get("RateLimit-Policy"))
	}
	limited := 0
	for range 10 {
		status, body, _ := Get(s.t, s.Addr(), question+s.slow)
		if s.without(body, question); status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 5 {
		s.t.Errorf("%d of ten were over a limit of three", limited)
	}
	s.ask(200, question+s.other)
}

// testTraces checks that nothing that the edge writes contains a key.
func (s *sheets) testTraces() {
	text := s.log.String()
	if !strings.Contains(text, `"route":"csv"`) {
		s.t.Fatalf("no access log: %.300s", text)
	}
	for _, path := range []string{"/metrics", "/status"} {
		_, body, _ := Get(s.t, s.AdminAddr(), path)
		text += body
	}
	if !strings.Contains(text, `edge_http_requests_total{code="401",route="csv"}`) {
		s.t.Error("requests for CSV are not counted")
	}
	s.without(text, "log, metrics, status")
}

// hostileNames maps names that a spreadsheet may misinterpret to the cells that must represent them.
var hostileNames = map[string]string{
	"=1+1": "'=1+1", "+cmd|' /C calc'!A0": "'+cmd|' /C calc'!A0", "-2": "-2", "-2+3": "'-2+3", "@SUM(1)": "'@SUM(1)",
	"=HYPERLINK(\"http://x.example\",\"a\")": "'=HYPERLINK(\"http://x.example\",\"a\")", "a \"quote\"": "a \"quote\"",
	"one, two": "one, two", "+1": "'+1", "-": "'-", "-.5": "'-.5", "-1.": "'-1.", "-1e5": "'-1e5", "--1": "'--1",
	"a,=1+1": "a,=1+1",
	"'=1":    "'=1", "Ünïcode 東京": "Ünïcode 東京", "a;=1+1": "a;=1+1",
}

// TestLibreOffice opens each table with LibreOffice as a user would, and checks the result: it must have the
// same rows and the right numbers, and no formula.
func TestLibreOffice(t *testing.T) {
	soffice, err := exec.LookPath("soffice")
	if err != nil {
		t.Skip("there is no soffice on this machine (Debian: libreoffice-calc)")
	}
	tables, names := hostileTables(t)
	// Names in a feed cannot begin with these characters, but cells must be safe in any case.
	tables["cells"] = "name\r\n"
	for _, text := range []string{"\t=1+1", "\r=1+1", "a\n=1+1", " =1+1", "\u00a0=1+1", "\v=1+1", "\n=1+1", "\t+1"} {
		tables["cells"] += string(reply.AppendCell(nil, []byte(text))) + "\r\n"
	}
	tables["control"] = "formula\r\n=1+1\r\n" // must be a formula
	dir := t.TempDir()
	// The options mean: comma, quote, UTF-8, from line 1, English, detect all kinds of numbers, evaluate
	// formulas. The format fods is OpenDocument as a single XML file.
	open := []string{"-env:UserInstallation=file://" + filepath.Join(dir, "profile"), "--headless",
		"--infilter=CSV:44,34,76,1,,1033,false,true,false,false,false,,true", "--convert-to", "fods", "--outdir", dir}
	for name, text := range tables {
		file := filepath.Join(dir, name+".csv")
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
		open = append(open, file)
	}
	if out, err := exec.CommandContext(t.Context(), soffice, open...).CombinedOutput(); err != nil {
		t.Fatalf("soffice: %v\n%s", err, out)
	}
	if control := readSheet(t, filepath.Join(dir, "control.fods")); control[1][0].formula == "" {
		t.Fatalf("LibreOffice was to evaluate formulas: %v", control)
	}
	delete(tables, "control")
	for name, text := range tables {
		sheet := readSheet(t, filepath.Join(dir, name+".fods"))
		want := must.Get(csv.NewReader(strings.NewReader(text)).ReadAll())(t)
		if len(sheet) != len(want) {
			t.Fatalf("%s: %d rows, want %d", name, len(sheet), len(want))
		}
		for r, row := range want {
			for c, text := range row {
				got := cell{}
				if c < len(sheet[r]) {
					got = sheet[r][c]
				}
				if wrong := got.wrong(name, want[0][c], text, r == 0); wrong != "" {
					t.Errorf("%s, row %d, %s: %s from %q: %+v", name, r, want[0][c], wrong, text, got)
				}
			}
			if want, ok := names[row[0]]; ok && name == "markets" && row[2] != want {
				t.Errorf("the name of %s is %q, want %q", row[0], row[2], want)
			}
		}
	}
}

// hostileTables returns tables about a market with hostile names. names contains the expected cells by id.
func hostileTables(t *testing.T) (tables, names map[string]string) {
	mem := memstore.New()
	f := teststore.NewFeed(300, 1).History(100)
	tables, names = map[string]string{}, map[string]string{}
	i := 1
	for name, want := range hostileNames {
		f.Assets[i].Name = name
		names[fmt.Sprint(f.Assets[i].ID)] = want
		if i++; i%7 == 0 {
			i++ // this asset has no quote
		}
	}
	teststore.Publish(t, mem, f, teststore.Start)
	e, _ := start(t, mem, nil)
	until(t, "a snapshot", func() bool { return e.current() != nil && e.refresher.Status().Missing == 0 })
	moments := teststore.Start.Format(time.RFC3339) + ",2020-01-01T00:00:00Z"
	for name, question := range map[string]string{"markets": "sort=id&size=100&fields=groups",
		"history": "id=3,5,7&window=1y", "candles": "id=3,5&interval=1d", "prices": "id=3,5,7&time=" + moments} {
		status, body, _ := Get(t, e.Addr(), "/openapi/v1/"+name+".csv?"+question)
		if status != 200 || strings.Count(body, "\r\n") < 3 {
			t.Fatalf("%s: %d, %.200s", name, status, body)
		}
		tables[name] = body
	}
	return tables, names
}

// wrong describes how a cell differs from the text that the table contains for it, or returns "". head means
// that the text is the name of a column.
func (c cell) wrong(table, column, text string, head bool) string {
	texts := []string{"name", "symbol", "slug", "logo", "groups.categories", "groups.chains", "since", "time",
		"snapshot_time"}
	switch {
	case c.formula != "":
		return "a formula"
	case text == "", table == "cells": // LibreOffice changes some kinds of white space
	case !head && column == "name" && text == "-2": // LibreOffice takes this for a number
	case !head && !slices.Contains(texts, column):
		if c.kind != "float" || !sameNumber(text, c.value) {
			return "another number"
		}
	case c.text != text || c.kind != "string": // including times
		return "another text"
	}
	return ""
}

// sameNumber reports whether a 64-bit floating-point number equals a decimal to 15 digits.
func sameNumber(decimal, float string) bool {
	var a, b float64
	_, errA := fmt.Sscan(decimal, &a)
	_, errB := fmt.Sscan(float, &b)
	return errA == nil && errB == nil && (a == b || (a-b)/a < 1e-14 && (b-a)/a < 1e-14)
}

// cell is a cell of a sheet.
type cell struct{ kind, value, formula, text string }

var (
	fodsRow  = regexp.MustCompile(`(?s)<table:table-row([^>]*)>(.*?)</table:table-row>`)
	fodsCell = regexp.MustCompile(`(?s)<table:(?:covered-)?table-cell([^>]*?)(?:/>|>(.*?)</table:table-cell>)`)
	repeated = regexp.MustCompile(`number-columns-repeated="(\d+)"`)
	fodsText = regexp.MustCompile(`(?s)<text:p[^>]*>(.*?)</text:p>`)
	fodsTag  = regexp.MustCompile(`(?s)<[^>]*>`)
	unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&apos;", "'", "&amp;", "&")
)

// readSheet reads the rows of a flat OpenDocument file that are not empty.
func readSheet(t *testing.T, file string) (rows [][]cell) {
	t.Helper()
	text := string(must.Get(os.ReadFile(file))(t))
	attribute := func(of, name string) string {
		_, rest, _ := strings.Cut(of, name+`="`)
		value, _, _ := strings.Cut(rest, `"`)
		return unescape.Replace(value)
	}
	for _, r := range fodsRow.FindAllStringSubmatch(text, -1) {
		var row []cell
		for _, m := range fodsCell.FindAllStringSubmatch(r[2], -1) {
			c := cell{kind: attribute(m[1], "office:value-type"), formula: attribute(m[1], "table:formula"),
				value: attribute(m[1], "office:value")}
			for i, p := range fodsText.FindAllStringSubmatch(m[2], -1) {
				text := strings.ReplaceAll(strings.ReplaceAll(p[1], "<text:tab/>", "\t"), "<text:s/>", " ")
				c.text += strings.Repeat("\n", min(i, 1)) + unescape.Replace(fodsTag.ReplaceAllString(text, ""))
			}
			n := 1
			if times := repeated.FindStringSubmatch(m[1]); times != nil {
				fmt.Sscan(times[1], &n)
			}
			for range min(n, 100) {
				row = append(row, c)
			}
		}
		if slices.ContainsFunc(row, func(c cell) bool { return c.kind != "" }) {
			rows = append(rows, row)
		}
	}
	return rows
}
