package web_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

// clients is the folder of the TypeScript client, with the packages that "npm ci" installs there.
const clients = "../openapi/clients/typescript"

// ask is a JavaScript function that sends a request to an edge, and returns status, header names and body.
const ask = `const ask = async (path, headers, how) => {
	const r = await fetch(BASE + path, { headers: { "X-Api-Key": KEY, ...headers }, ...how });
	return { status: r.status, names: [...r.headers.keys()].join(" "), body: new Uint8Array(await r.arrayBuffer()),
		tag: r.headers.get("ETag") };
};`

// TestOtherOrigin checks in a browser that a page of another origin may send requests that need a
// preflight, and can read every header (sentry-javascript 6077, opencodex 1773).
func TestOtherOrigin(t *testing.T) {
	store := memstore.New()
	teststore.Publish(t, store, teststore.NewFeed(200, 1), time.Now().UTC().Truncate(10*time.Minute), teststore.Files())
	key := teststore.Key(t, store, 1000, 1000).Key
	base := openapitest.Start(t, edge.Config{Reader: store, Coins: true})
	openapitest.Await(t, base, key)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>another origin</title>")
	})
	modules := filepath.Join(clients, "node_modules")
	serveModule(mux, "/coingecko/", filepath.Join(modules, "@coingecko", "coingecko-typescript"))
	built := t.TempDir()
	serveModule(mux, "/client/", built)
	origin := httptest.NewServer(mux)
	defer origin.Close()
	p := startBrowser(t).open(t, desktop)
	p.goTo(origin.URL)
	eval := func(script string) string {
		t.Helper()
		script = strings.NewReplacer("BASE", quote(base), "KEY", quote(key)).Replace(ask + script)
		return fmt.Sprint(p.eval(`(async () => { try { ` + script + ` } catch (e) { return String(e) } })()`))
	}
	for _, headers := range []string{
		`"Content-Type": "application/json"`, `baggage: "sentry-trace_id=1", "sentry-trace": "1-2-1"`,
		`"x-stainless-lang": "js", "x-stainless-os": "Linux", "x-stainless-retry-count": "0"`,
		`"If-Match": "*", "If-Unmodified-Since": new Date().toUTCString()`, `"X-Requested-With": "XMLHttpRequest"`,
	} {
		got := eval(`return (await ask("/openapi/v1/quotes?id=1,9999&x=1", {` + headers + `})).status`)
		if got != "200" {
			t.Errorf("%s: %s", headers, got)
		}
	}
	for _, path := range []string{"/openapi/v1/quotes?id=1,9999&x=1", "/openapi/v1/files/quotes.parquet", "/none",
		"/openapi/v1/quotes?page=x", "/api/v3/simple/price?ids=asset-1&vs_currencies=usd"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		ok(t, err)
		req.Header.Set("X-Api-Key", key)
		res, err := http.DefaultClient.Do(req)
		ok(t, err)
		res.Body.Close()
		names := " " + eval(`return (await ask(`+quote(path)+`)).names`) + " "
		for name := range res.Header {
			switch {
			case name == "Connection", name == "Keep-Alive", name == "Access-Control-Expose-Headers": // of no use
			case !strings.Contains(names, " "+strings.ToLower(name)+" "):
				t.Errorf("%s: a page cannot read %s, only %s", path, name, names)
			}
		}
	}
	if got := eval(`
		const { items } = JSON.parse(new TextDecoder().decode((await ask("/openapi/v1/files")).body)).result;
		const file = items.find((i) => i.name === "quotes.parquet");
		const parts = [await ask(file.url, { Range: "bytes=0-999" })];
		parts.push(await ask(file.url, { Range: "bytes=1000-", "If-Match": parts[0].tag }));
		const whole = new Uint8Array(parts.flatMap((p) => [...p.body]));
		const sum = [...new Uint8Array(await crypto.subtle.digest("SHA-256", whole))]
			.map((b) => b.toString(16).padStart(2, "0"));
		const other = await ask(file.url, { Range: "bytes=1000-", "If-Match": '"x"' });
		return [parts.map((p) => p.status), sum.join("") === file.sha256, other.status,
			JSON.parse(new TextDecoder().decode(other.body)).code].join(" ")`); got != "206,206 true 412 41200" {
		t.Errorf("a download by ranges: %s", got)
	}
	checkClients(t, eval, filepath.Join(modules, ".bin", "tsc"), built)
}

// checkClients sends requests with the project's client and with CoinGecko's own.
func checkClients(t *testing.T, eval func(script string) string, tsc, built string) {
	t.Helper()
	if _, err := os.Stat(tsc); err != nil {
		t.Logf("the clients are left out: %v", err)
		return
	}
	if out, err := exec.Command(tsc, "--project", filepath.Join(clients, "tsconfig.dist.json"), "--outDir",
		built).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := eval(`
		const { Client } = await import("/client/index.js");
		const c = new Client(BASE, KEY, { userAgent: "page/1" });
		const a = await c.quotes({ size: 3 });
		const again = await c.refresh(a);
		const n = []; for await (const row of c.rows("assets", { size: 100 })) n.push(row.id);
		return [a.result.items.length, a.etag !== "", again.result === a.result, n.length].join(" ")`,
	); got != "3 true true 200" {
		t.Errorf("our client: %s", got)
	}
	if got := eval(`
		const { default: Coingecko } = await import("/coingecko/index.mjs");
		const c = new Coingecko({ baseURL: BASE + "/api/v3", demoAPIKey: KEY, maxRetries: 0,
			dangerouslyAllowBrowser: true });
		return Object.keys(await c.simple.price.get({ ids: "asset-1", vs_currencies: "usd" })).join(" ")`,
	); got != "asset-1" {
		t.Errorf("CoinGecko's client: %s", got)
	}
}

// serveModule serves the scripts in a folder as modules.
func serveModule(mux *http.ServeMux, prefix, dir string) {
	files := http.StripPrefix(prefix, http.FileServer(http.Dir(dir)))
	mux.HandleFunc(prefix, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		files.ServeHTTP(w, r)
	})
}
