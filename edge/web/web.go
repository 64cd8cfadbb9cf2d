// Package web contains the pages of the public listener (edge/README.md, "Listeners"): the market board at /,
// and the API reference with a console at /docs. It also contains the OpenAPI document that the reference shows
// and, for programs, /llms.txt and the pages of the reference in Markdown.
//
// All files are embedded. A page contacts only the host that served it, and the origins from which the operator
// lets it load logos. A Content-Security-Policy prevents everything else. The files need no key. The pages use
// the same API as all other clients, with a key that the reader enters. If the edge admits everyone, the board
// asks for no key.
package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"example.com/marketdata/edge/coingecko"
	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/edge/server"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
)

//go:embed static scalar/standalone.js.br scalar/LICENSE uplot
var files embed.FS

// The versions of @scalar/api-reference in scalar/ and of uplot in uplot/. They must equal those in
// update.sh.
const (
	scalarVersion = "1.72.1"
	uplotVersion  = "1.6.32"
)

const (
	scalarPath = "/static/scalar-" + scalarVersion + ".js"
	uplotPath  = "/static/uplot-" + uplotVersion // followed by .js or .css
)

// Options contains the settings in which the pages of different edges differ.
type Options struct {
	// KeyRequestURL is where people request keys. If it is empty, the pages do not mention it.
	KeyRequestURL string
	// AuthOff means that the edge admits everyone, so the board asks for no key.
	AuthOff bool
	// Logos lists the origins, such as https://img.example, from which the board may load logos. For all
	// other logos it shows monograms.
	Logos []string
	// Coins means that the CoinGecko-compatible endpoints are enabled.
	Coins bool
}

// The content security policies of the pages. Scalar creates style elements at run time, which needs
// 'unsafe-inline'. Scripts always come from this host.
const (
	boardPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'%s; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; font-src 'self' data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	filePolicy = "default-src 'none'; frame-ancestors 'none'"
)

// The caching of files. Browsers revalidate most files with their ETag each time, so that a new version of
// the edge takes effect immediately. The exceptions are third-party packages, whose file names contain the
// version.
const (
	revalidate = "no-cache"
	immutable  = "public, max-age=31536000, immutable"
)

// origin matches an origin in the form that browsers use. It excludes characters that could end a policy.
var origin = regexp.MustCompile(`^https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]+)?$`)

// Files returns the files of the public listener, by path. It returns an error if one of o.Logos is not an
// origin.
func Files(o Options) (map[string]server.StaticFile, error) {
	var sources string
	for _, logos := range o.Logos {
		if !origin.MatchString(logos) {
			return nil, fmt.Errorf("%q: want an origin such as https://img.example, in lower case", logos)
		}
		sources += " " + logos
	}
	document, err := openapi.Document(openapi.Options{KeyRequestURL: o.KeyRequestURL})
	if err != nil {
		return nil, err
	}
	same, err := unchanging()
	if err != nil {
		return nil, err
	}
	all := maps.Clone(same)
	described := file(document, "application/json", filePolicy)
	described.Origin, described.Brotli = openapi.Server, nil
	all["/openapi.json"] = described
	for _, page := range []struct{ path, name, policy string }{
		{"/", "board.html", fmt.Sprintf(boardPolicy, sources)},
		{"/docs", "docs.html", docsPolicy},
	} {
		t, err := template.ParseFS(files, "static/"+page.name)
		if err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		var out bytes.Buffer
		if err := t.Execute(&out, map[string]any{"AuthOff": o.AuthOff, "KeyRequestURL": o.KeyRequestURL,
			"Logos": strings.TrimSpace(sources), "Scalar": scalarPath, "UPlot": uplotPath,
			"Coins": o.Coins}); err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		all[page.path] = file(out.Bytes(), "text/html; charset=utf-8", page.policy)
	}
	if o.Coins {
		maps.Copy(all, coins())
		const more = "- [CoinGecko-compatible API](/api/v3/openapi.json): OpenAPI 3.0; [for people](/docs?coingecko)\n"
		text := append(slices.Clone(same["/llms.txt"].Body), more...)
		all["/llms.txt"] = file(text, "text/plain; charset=utf-8", filePolicy)
	}
	return all, nil
}

// unchanging returns the files that do not depend on the options. They are compressed once per process.
var unchanging = sync.OnceValues(func() (map[string]server.StaticFile, error) {
	all := map[string]server.StaticFile{}
	pages, err := openapi.Pages()
	if err != nil {
		return nil, err
	}
	for name, text := range pages {
		all["/docs/"+name] = file(text, "text/markdown; charset=utf-8", filePolicy)
	}
	for _, f := range []struct{ path, name, contentType string }{
		{"/llms.txt", "static/llms.txt", "text/plain; charset=utf-8"},
		{"/static/board.css", "static/board.css", "text/css; charset=utf-8"},
		{"/static/board.js", "static/board.js", "text/javascript; charset=utf-8"},
		{"/static/charts.js", "static/charts.js", "text/javascript; charset=utf-8"},
		{"/static/detail.js", "static/detail.js", "text/javascript; charset=utf-8"},
		{"/static/favourites.js", "static/favourites.js", "text/javascript; charset=utf-8"},
		{"/static/key.js", "static/key.js", "text/javascript; charset=utf-8"},
		{"/static/notice.js", "static/notice.js", "text/javascript; charset=utf-8"},
		{"/static/numbers.js", "static/numbers.js", "text/javascript; charset=utf-8"},
		{"/static/past.js", "static/past.js", "text/javascript; charset=utf-8"},
		{"/static/search.js", "static/search.js", "text/javascript; charset=utf-8"},
		{"/static/theme.js", "static/theme.js", "text/javascript; charset=utf-8"},
		{"/static/docs.js", "static/docs.js", "text/javascript; charset=utf-8"},
		{"/static/icon.svg", "static/icon.svg", "image/svg+xml"},
		{"/static/scalar-LICENSE.txt", "scalar/LICENSE", "text/plain; charset=utf-8"},
		{"/static/uplot-LICENSE.txt", "uplot/LICENSE", "text/plain; charset=utf-8"},
		{uplotPath + ".css", "uplot/uPlot.min.css", "text/css; charset=utf-8"},
		{uplotPath + ".js", "uplot/uPlot.iife.min.js", "text/javascript; charset=utf-8"},
	} {
		body, err := files.ReadFile(f.name)
		if err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		made := file(body, f.contentType, filePolicy)
		if strings.HasPrefix(f.path, uplotPath) {
			made.CacheControl = immutable
		}
		all[f.path] = made
	}
	b, err := bundle()
	if err != nil {
		return nil, err
	}
	all[scalarPath] = b
	return all, nil
})

// coins returns the files of the CoinGecko-compatible API. They are compressed once per process.
var coins = sync.OnceValue(func() map[string]server.StaticFile {
	all := map[string]server.StaticFile{}
	// People who open the base URL in a browser should see that it is right.
	about := file([]byte(`{"about":"CoinGecko-compatible API: use this URL as the base URL of your program",`+
		`"paths":"/api/v3/openapi.json","reference":"/docs?coingecko"}`), "application/json", filePolicy)
	all[coingecko.Prefix], all[strings.TrimSuffix(coingecko.Prefix, "/")] = about, about
	for name, body := range map[string][]byte{"ping": []byte(coingecko.Ping), "openapi.json": coingecko.Document} {
		f := file(body, "application/json", filePolicy)
		all[coingecko.Prefix+name], all[coingecko.Prefix+name+"/"] = f, f
	}
	return all
})

// file returns a file with its headers. It compresses the file if that makes it smaller.
func file(body []byte, contentType, policy string) server.StaticFile {
	f := server.StaticFile{
		Body: body, ContentType: contentType, CacheControl: revalidate,
		Header: map[string]string{
			"Content-Security-Policy": policy,
			"X-Content-Type-Options":  "nosniff",
			"Referrer-Policy":         "no-referrer",
		},
	}
	if coded := gzipped(body); len(coded) < len(body) {
		f.Gzip = coded
	}
	var out bytes.Buffer
	w := brotli.NewWriterLevel(&out, brotli.DefaultCompression)
	mustWrite(w, body)
	if out.Len() < len(body) {
		f.Brotli = out.Bytes()
	}
	return f
}

func gzipped(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	mustWrite(w, body)
	return out.Bytes()
}

func mustWrite(w io.WriteCloser, body []byte) {
	if _, err := w.Write(body); err != nil {
		panic("BUG: coding into memory: " + err.Error())
	}
	if err := w.Close(); err != nil {
		panic("BUG: coding into memory: " + err.Error())
	}
}

// bundle returns the script of Scalar. It is embedded with brotli compression, and decompressed for clients
// that do not accept brotli. Browsers accept brotli only over secure connections.
func bundle() (server.StaticFile, error) {
	packed, err := files.ReadFile("scalar/standalone.js.br")
	if err != nil {
		return server.StaticFile{}, fmt.Errorf("web: %w", err)
	}
	body, err := io.ReadAll(brotli.NewReader(bytes.NewReader(packed)))
	if err != nil {
		return server.StaticFile{}, fmt.Errorf("web: Scalar's bundle: %w", err)
	}
	return server.StaticFile{
		Body: body, ContentType: "text/javascript; charset=utf-8", Brotli: packed, Gzip: gzipped(body),
		CacheControl: immutable,
		Header: map[string]string{"Content-Security-Policy": filePolicy, "X-Content-Type-Options": "nosniff",
			"Referrer-Policy": "no-referrer"},
	}, nil
}
