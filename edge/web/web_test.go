package web_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/edge/web"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// get sends a request without a key. It accepts no coding unless a header names one.
func get(t *testing.T, method, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	ok(t, err)
	r.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	ok(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ok(t, err)
	return response, string(body)
}

// reference matches what a page loads and links to, in HTML or Markdown.
var reference = regexp.MustCompile(`(?:src|href)="([^"]*)"|\]\(([^)]*)\)`)

// versioned matches files whose name contains their version.
var versioned = regexp.MustCompile(`^/static/[a-z]+-[0-9.]+\.(?:js|css)$`)

// TestFiles requests every page of a running edge, and everything that the pages refer to, without a key
// (edge/README.md, "Listeners").
func TestFiles(t *testing.T) {
	base, _ := startEdge(t, false)
	contentTypes := map[string]string{
		"/": "text/html; charset=utf-8", "/docs": "text/html; charset=utf-8", "/openapi.json": "application/json",
		"/llms.txt": "text/plain; charset=utf-8", "/docs/quick-start.md": "text/markdown; charset=utf-8",
		"/static/scalar-LICENSE.txt": "text/plain; charset=utf-8",
		"/static/uplot-LICENSE.txt":  "text/plain; charset=utf-8",
	}
	paths := []string{
		"/", "/docs", "/openapi.json", "/llms.txt", "/static/scalar-LICENSE.txt", "/static/uplot-LICENSE.txt"}
	for i := 0; i < len(paths); i++ {
		path := paths[i]
		r, body := get(t, "GET", base+path)
		if r.StatusCode != http.StatusOK || body == "" || r.Header.Get("X-Request-Id") == "" ||
			r.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("GET %s: %s %v", path, r.Status, r.Header)
		}
		if want := contentTypes[path]; want != "" && r.Header.Get("Content-Type") != want {
			t.Errorf("%s: Content-Type %q, want %q", path, r.Header.Get("Content-Type"), want)
		}
		policy := r.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "http") ||
			strings.Contains(policy, "*") {
			t.Errorf("%s: Content-Security-Policy %q lets other hosts in", path, policy)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s: %q, want %q", path, name, got, want)
			}
		}
		want := "no-cache"
		if versioned.MatchString(path) {
			want = "public, max-age=31536000, immutable"
		}
		if got := r.Header.Get("Cache-Control"); got != want {
			t.Errorf("%s: Cache-Control %q, want %q", path, got, want)
		}
		if head, body := get(t, "HEAD", base+path); head.StatusCode != 200 || body != "" ||
			head.ContentLength != r.ContentLength || head.Header.Get("Etag") != r.Header.Get("Etag") {
			t.Errorf("HEAD %s: %s %d %q", path, head.Status, head.ContentLength, head.Header.Get("Etag"))
		}
		if again, body := get(t, "GET", base+path, "If-None-Match",
			r.Header.Get("Etag")); again.StatusCode != http.StatusNotModified || body != "" {
			t.Errorf("%s, known: %s", path, again.Status)
		}
		for _, coding := range []string{"br", "gzip"} {
			coded, bytes := get(t, "GET", base+path, "Accept-Encoding", coding)
			here := path == "/openapi.json" && coding == "br" // compressed for each request, only with gzip
			if !here && (coded.Header.Get("Content-Encoding") != coding || len(bytes) >= len(body)) {
				t.Errorf("%s as %s: %q, %d of %d bytes", path, coding, coded.Header.Get("Content-Encoding"), len(bytes),
					len(body))
			}
		}
		if r.Header.Get("Content-Type") != contentTypes["/"] && path != "/llms.txt" {
			continue
		}
		for _, match := range reference.FindAllStringSubmatch(body, -1) {
			switch to := match[1] + match[2]; {
			case strings.HasPrefix(to, "?"), to == keyRequestURL, to == "/changes.atom": // views, links, TestFeed's
			case !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//"):
				t.Errorf("%s names %s", path, to)
			case !slices.Contains(paths, to):
				paths = append(paths, to)
			}
		}
	}
	if len(paths) < 20 {
		t.Errorf("only %q were seen", paths)
	}
	_, document := get(t, "GET", base+"/openapi.json")
	_, summary := get(t, "GET", base+"/llms.txt")
	for _, endpoint := range regexp.MustCompile(`"/openapi/v1/([a-z]+)":`).FindAllStringSubmatch(document, -1) {
		if !strings.Contains(summary, " "+endpoint[1]) {
			t.Errorf("/llms.txt does not name %s", endpoint[1])
		}
	}
	for _, path := range []string{
		"/docs/", "/static", "/static/", "/static/web.go", "/static/board.html", "/index.html", "/openapi.yaml", "//"} {
		if r, body := get(t, "GET", base+path); r.StatusCode != http.StatusNotFound ||
			!strings.Contains(body, `"PATH_NOT_FOUND"`) {
			t.Errorf("%s: %s %s", path, r.Status, body)
		}
	}
	if r, _ := get(t, "POST", base+"/"); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /: %s", r.Status)
	}
}

// TestOrigin checks that the document names the origin that it was requested from, and no other.
func TestOrigin(t *testing.T) {
	base, _ := startEdge(t, true)
	_, document := get(t, "GET", base+"/openapi.json")
	if !strings.Contains(document, `"servers":[{"url":"`+base+`"`) || strings.Contains(document, openapi.Server) {
		t.Errorf("/openapi.json has another origin than %s", base)
	}
}

// TestBundle compares the reference's bundle with the digest that was recorded when it was packed.
func TestBundle(t *testing.T) {
	base, _ := startEdge(t, true)
	want, err := os.ReadFile("scalar/standalone.js.sha256")
	ok(t, err)
	_, page := get(t, "GET", base+"/docs")
	path := regexp.MustCompile(`/static/scalar-[0-9.]+\.js`).FindString(page)
	_, body := get(t, "GET", base+path)
	if sum := sha256.Sum256([]byte(body)); hex.EncodeToString(sum[:]) != strings.TrimSpace(string(want)) {
		t.Errorf("%s: %d bytes with another digest than %s", path, len(body), want)
	}
}

// TestWhoIsAsked checks what the pages say about keys. An edge that admits everyone asks for none. Every
// page says where people can request keys.
func TestWhoIsAsked(t *testing.T) {
	for authOff, want := range map[bool]string{true: `name="auth" content="off"`, false: `name="auth" content="keys"`} {
		base, _ := startEdge(t, authOff)
		if _, body := get(t, "GET", base+"/"); !strings.Contains(body, want) {
			t.Errorf("auth off %t: the board has no %s", authOff, want)
		}
		for _, path := range []string{"/", "/openapi.json"} {
			if _, body := get(t, "GET", base+path); !strings.Contains(body, keyRequestURL) {
				t.Errorf("%s does not say where keys are requested", path)
			}
		}
	}
}

// TestLogoOrigins checks that Files rejects strings that would add more than one origin to a policy.
func TestLogoOrigins(t *testing.T) {
	for _, origin := range []string{
		"", "*", "img.example", "https://", "https://*.example", "https://img.example/",
		"https://img.example; script-src *", "https://a.example https://b.example", "https://IMG.example", "data:",
		"https://a.example\n"} {
		if _, err := web.Files(web.Options{Logos: []string{origin}}); err == nil {
			t.Errorf("%q is an origin", origin)
		}
	}
	files, err := web.Files(web.Options{Logos: []string{"https://img.example", "http://[::1]:8080"}})
	ok(t, err)
	if policy := files["/"].Header["Content-Security-Policy"]; !strings.Contains(
		policy, "; img-src 'self' https://img.example http://[::1]:8080; ") {
		t.Errorf("the board's policy: %s", policy)
	}
}

// TestMarkup checks that the pages do not contain again what the Nu HTML checker has objected to.
func TestMarkup(t *testing.T) {
	for _, page := range []string{"static/board.html", "static/docs.html"} {
		b, err := os.ReadFile(page)
		ok(t, err)
		for what, wrong := range map[string]string{
			"an empty heading":                  `<h([1-6])[^>]*></h`,
			"a search field that is a combobox": `type="search"[^>]*role="combobox"|role="combobox"[^>]*type="search"`,
		} {
			if m := regexp.MustCompile(wrong).FindString(string(b)); m != "" {
				t.Errorf("%s: %s: %s", page, what, m)
			}
		}
		if !regexp.MustCompile(`<meta name="description" content="[^"]{50,160}">`).Match(b) {
			t.Errorf("%s: no description", page)
		}
	}
}

// TestMonograms checks that the letters of monograms have a contrast of at least 4.5 to 1 for every hue and
// theme (WCAG 2.2, 1.4.3).
func TestMonograms(t *testing.T) {
	b, err := os.ReadFile("static/board.css")
	ok(t, err)
	schemes := regexp.MustCompile(`--mark: (\d+)% (\d+)%; --mark-text: (\d+)% (\d+)%`).
		FindAllStringSubmatch(string(b), -1)
	if len(schemes) != 2 {
		t.Fatalf("%d schemes", len(schemes))
	}
	for _, m := range schemes {
		var v [5]float64
		for i, text := range m[1:] {
			if v[i], err = strconv.ParseFloat(text, 64); err != nil {
				t.Fatal(err)
			}
		}
		for hue := range 360 {
			back, text := luminance(float64(hue), v[0]/100, v[1]/100), luminance(float64(hue), v[2]/100, v[3]/100)
			if ratio := (max(back, text) + .05) / (min(back, text) + .05); ratio < 4.5 {
				t.Errorf("%s, hue %d: %.2f", m[0], hue, ratio)
			}
		}
	}
}

// luminance returns the relative luminance of a colour in CSS's hsl notation.
func luminance(hue, saturation, lightness float64) float64 {
	channel := func(n float64) float64 {
		k := math.Mod(n+hue/30, 12)
		c := lightness - saturation*min(lightness, 1-lightness)*max(-1, min(k-3, 9-k, 1))
		if c = math.Round(c*255) / 255; c <= .04045 {
			return c / 12.92
		}
		return math.Pow((c+.055)/1.055, 2.4)
	}
	return .2126*channel(0) + .7152*channel(8) + .0722*channel(4)
}

// ok ends the test if err is not nil.
func ok(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
