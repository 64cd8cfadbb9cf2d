package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/gen"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

// asked contains the query with which the programs in generated/ call an operation and its counterpart
// below /at/.
var asked = map[string]string{
	"listAssets":     "slug=bitcoin,petal&fields=links",
	"listQuotes":     "id=1,9,12&sort=name:desc",
	"listMarkets":    "category=layer-1&sort=percent_change.24h:desc&page=2&size=2&fields=groups",
	"listTrending":   "by=gainers",
	"listExchanges":  "limit=2&offset=1&sort=volume:desc",
	"getGlobal":      "",
	"listCategories": "page=2&size=2&sort=name",
	"listChains":     "slug=ethereum-chain,palm-chain",
	"listHistory":    "symbol=BTC,PTL&window=1y&page=2&size=2",
	"listCandles":    "symbol=BTC,PTL&interval=1d&from=2025-12-01T00:00:00Z&to=1795219200&page=2&size=2",
	"listPrices":     "id=1,9&time=2026-11-21T12:05:00Z,1577836800",
	"listChanges":    "collection=assets,chains&limit=3",
	"searchAssets":   "q=petal+cl",
}

const (
	// earlier is the time in the programs' requests below /at/.
	earlier = "20261121T115000Z"
	// pin is the time in the header of a pinned request, in JavaScript's format.
	pin = "2026-11-21T11:00:00.000Z"
	// day is the name of a file of prices.
	day = "2026-11-20.parquet"
)

// npmPackages lists the generators, and the packages that their clients need.
var npmPackages = []string{"@hey-api/openapi-ts@0.95.0", "@kubb/cli@4.39.3", "@kubb/core@4.39.3",
	"@kubb/plugin-client@4.39.3", "@kubb/plugin-oas@4.39.3", "@kubb/plugin-ts@4.39.3", "axios@1.21.1",
	"esbuild@0.25.12", "openapi-client-axios@7.9.1", "orval@7.13.2", "swagger-client@3.37.3",
	"swagger-typescript-api@13.13.0", "typescript@5.9.3"}

// generators contains the commands of the generators from npm. Two have no command, because they read the
// document at run time.
var generators = map[string][]string{
	"hey-api": {"openapi-ts", "-i", "openapi.json", "-o", "hey", "-c", "@hey-api/client-fetch"},
	"orval": {"orval", "--input", "openapi.json", "--output", "orval/api.ts", "--client",
		"axios-functions"},
	"kubb": {"kubb", "generate", "--config", "kubb.config.mjs"},
	"swagger-typescript-api": {"swagger-typescript-api", "generate", "-p", "openapi.json", "-o", "sta", "--name",
		"api.ts"},
	"openapi-client-axios": nil,
	"swagger-js":           nil,
}

// startGenerated starts an edge for the programs, and returns its URL, a key, and the environment variables
// of the programs.
func startGenerated(t *testing.T) (base, key string, env []string) {
	store := openapitest.Market(t)
	key, base = teststore.Key(t, store, 1000, 1000).Key, openapitest.Start(t, edge.Config{Reader: store})
	openapitest.Await(t, base, key)
	return base, key, []string{"MARKETDATA_URL=" + base, "MARKETDATA_KEY=" + key, "MARKETDATA_TIME=" + earlier,
		"MARKETDATA_PIN=" + pin, "MARKETDATA_DAY=" + day}
}

// tasks returns the correct results for the requests of every program: two ids, a page, a pin, a group, the
// large id of a chain, and the digests of files.
func tasks(t *testing.T, base, key string) map[string]any {
	result := func(target string, more ...any) any {
		_, _, v := request(t, base+target, key)
		for _, name := range append([]any{"items"}, more...) {
			if i, ok := name.(int); ok {
				v = v.([]any)[i]
			} else {
				v = v.(map[string]any)[name.(string)]
			}
		}
		return v
	}
	ids := func(target string) (all []any) {
		for _, item := range result(target).([]any) {
			all = append(all, item.(map[string]any)["id"])
		}
		return all
	}
	want := map[string]any{
		"ids": ids("/openapi/v1/quotes?id=1,9"), "page": ids("/openapi/v1/assets?page=2&size=3"),
		"pinned": result("/at/20261121T110000Z/openapi/v1/quotes?slug=bitcoin", 0, "price"),
		"group":  ids("/openapi/v1/markets?category=layer-1&sort=id"),
		"chain":  11297108109.,
	}
	for _, file := range result("/openapi/v1/files").([]any) {
		switch file := file.(map[string]any); file["name"] {
		case "quotes.parquet":
			want["file"] = file["sha256"]
		case "prices/" + day:
			want["day"] = file["sha256"]
		}
	}
	return want
}

// expect runs a program and compares its output with want.
func expect(t *testing.T, dir string, env, command []string, want map[string]any) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(execute(t, dir, env, command...)))
	got := map[string]any{}
	for lines.Scan() {
		var line struct {
			Operation string
			Result    any
		}
		must.OK(t, json.Unmarshal(lines.Bytes(), &line))
		got[line.Operation] = line.Result
	}
	for operation := range want {
		if !reflect.DeepEqual(got[operation], want[operation]) {
			t.Errorf("%s:\n%v\nwant\n%v", operation, got[operation], want[operation])
		}
	}
}

// TestGenerators generates clients from the document with generators from npm, and compares their results
// with those of the edge.
func TestGenerators(t *testing.T) {
	have(t, "npm")
	base, key, env := startGenerated(t)
	want := tasks(t, base, key)
	dir := t.TempDir()
	must.OK(t, os.CopyFS(dir, os.DirFS("generated/npm")))
	write(t, filepath.Join(dir, "openapi.json"), document(t))
	write(t, filepath.Join(dir, "package.json"), `{"type":"module"}`)
	execute(t, dir, nil, append([]string{"npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"},
		npmPackages...)...)
	for _, command := range generators {
		if command != nil {
			execute(t, dir, nil, append([]string{modules + command[0]}, command[1:]...)...)
		}
	}
	execute(t, dir, nil, modules+"esbuild", "main.mts", "--bundle", "--platform=node", "--format=esm",
		"--packages=external", "--outfile=main.mjs")
	for name := range generators {
		t.Run(name, func(t *testing.T) { expect(t, dir, env, []string{"node", "main.mjs", name}, want) })
	}
}

// TestGenerated generates clients from the document and compiles, for each, a program that calls every
// operation. The program must decode the whole answer: the test compares its output with the edge's answer.
func TestGenerated(t *testing.T) {
	base, key, env := startGenerated(t)
	all := tasks(t, base, key)
	_, _, changes := request(t, base+"/openapi/v1/changes?since=2026-11-21T11:50:00Z", key)
	want := map[string]any{"pinned": all["pinned"], "file": all["file"], "day": all["day"], "gone": "SNAPSHOT_GONE",
		"followSnapshots": fmt.Sprintf(`data: {"snapshot_time":"2026-11-21T12:00:00Z","changes":%v}`,
			changes.(map[string]any)["total"])}
	for path, item := range must.Get(openapitest.New())(t).Doc.Paths.Map() {
		operation := item.Get.OperationID
		if _, ok := asked[strings.TrimSuffix(operation, "At")]; ok {
			target := strings.Replace(path, "{time}", earlier, 1) + "?" + asked[strings.TrimSuffix(operation, "At")]
			_, _, want[operation] = request(t, base+target, key)
		}
	}
	for _, c := range []struct {
		name     string
		generate func(t *testing.T, dir string)
		command  []string
		more     []string // environment variables
	}{
		{"oapi-codegen", func(t *testing.T, dir string) {
			must.OK(t, os.Mkdir(filepath.Join(dir, "oapi/api"), 0o755))
			execute(t, dir, nil, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "api",
				"-o", "oapi/api/api.go", "openapi.json")
		}, []string{"go", "run", "./oapi"}, []string{"GOARCH=386"}}, // on which int has 32 bits
		{"ogen", func(t *testing.T, dir string) {
			execute(t, dir, nil, "go", "tool", "ogen", "-config", "ogen/ogen.yml", "-package", "api",
				"-target", "ogen/api", "openapi.json")
		}, []string{"go", "run", "./ogen"}, nil},
		{"openapi-typescript", func(t *testing.T, dir string) {
			at := must.Get(filepath.Abs("typescript/" + modulesDir))(t)
			must.OK(t, os.Symlink(at, filepath.Join(dir, modulesDir)))
			execute(t, dir, nil, modules+"openapi-typescript", "openapi.json", "--output", "typescript/api.ts")
			execute(t, dir, nil, modules+"tsc", "--skipLibCheck", "--strict", "--target", "es2022", "--module",
				"nodenext", "--types", "node", "typescript/main.mts")
		}, []string{"node", "typescript/main.mjs"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if os.Getenv(required) == "" {
				t.Skip("make test-clients downloads the generators")
			}
			dir := t.TempDir()
			must.OK(t, os.CopyFS(dir, os.DirFS("generated")))
			write(t, filepath.Join(dir, "openapi.json"), document(t))
			c.generate(t, dir)
			expect(t, dir, append(env, c.more...), c.command, want)
		})
	}
}

// request sends a request, and returns the status, the header and the result of the answer.
func request(t *testing.T, address, key string) (status int, header http.Header, result any) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
	request.Header.Set("X-Api-Key", key)
	response := must.Get(plain.Do(request))(t)
	defer response.Body.Close()
	var envelope struct{ Result any }
	if err := json.NewDecoder(response.Body).Decode(&envelope); err != nil {
		t.Fatalf("%s: %d: %v", address, response.StatusCode, err)
	}
	return response.StatusCode, response.Header, envelope.Result
}

// TestPrism sends 1,000 random requests that the document allows through Prism. This proxy has its own way
// to check requests and answers against the document, and sends "Accept-Encoding: *".
func TestPrism(t *testing.T) {
	have(t, "npm")
	store, checker := openapitest.Market(t), must.Get(openapitest.New())(t)
	key := teststore.Key(t, store, 100_000, 100_000).Key
	base := openapitest.Start(t, edge.Config{Reader: store})
	openapitest.Await(t, base, key)
	proxy := startPrism(t, base)
	paths := slices.DeleteFunc(slices.Sorted(maps.Keys(checker.Doc.Paths.Map())),
		func(path string) bool { return strings.HasSuffix(path, "/events") || strings.HasSuffix(path, ".csv") })
	for seed, count := 0, 0; count < 1000; seed++ {
		at := paths[seed%len(paths)]
		target := strings.Replace(at, "{time}", earlier, 1) + "?" + gen.Queries(path.Base(at)).Example(seed)
		if !forPrism(target) || checker.Valid(target, nil) != nil {
			continue
		}
		// The document says only in words that a history needs a filter, and that a number has no plus
		// sign.
		want, _, direct := request(t, base+target, key)
		if want != http.StatusOK {
			continue
		}
		count++
		status, header, result := request(t, proxy+target, key)
		if violations := header.Get("Sl-Violations"); status != want || violations != "" {
			t.Errorf("%s: %d %s", target, status, violations)
		}
		if !reflect.DeepEqual(result, direct) {
			t.Errorf("%s:\n%v\nwithout Prism\n%v", target, result, direct)
		}
	}
}

// wholeNumber matches the elements of a value that may be whole numbers.
var wholeNumber = regexp.MustCompile(`-?[0-9]+`)

// forPrism reports whether Prism parses a target as an edge does. Prism ignores the case of parameter
// names, takes a repeated parameter for a list, and parses numbers as doubles.
func forPrism(target string) bool {
	u, err := url.Parse(target)
	if err != nil || strings.ContainsFunc(target, func(r rune) bool { return r > '~' }) {
		return false
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return false
	}
	for name, values := range query {
		for _, text := range wholeNumber.FindAllString(strings.Join(values, ","), -1) {
			if n, err := strconv.ParseInt(text, 10, 64); err != nil || max(n, -n) >= 1<<53 || n == math.MinInt64 {
				return false
			}
		}
		if name != strings.ToLower(name) || len(values) > 1 {
			return false
		}
	}
	return true
}

// startPrism starts Prism as a proxy for an edge, and returns its URL.
func startPrism(t *testing.T, base string) string {
	t.Helper()
	m := &local.Machine{Data: t.TempDir()}
	file := filepath.Join(m.Data, "openapi.json")
	write(t, file, document(t))
	program := strings.TrimSpace(string(execute(t, m.Data, []string{"npm_config_ignore_scripts=true"}, "npm", "exec",
		"--yes", "--package=@stoplight/prism-cli@5.16.0", "--call=command -v prism")))
	addr := local.Free("127.0.0.1:0")
	host, port, _ := net.SplitHostPort(addr)
	prism := must.Get(m.StartCommand("prism", exec.CommandContext(context.Background(), program, "proxy", file, base,
		"--host", host, "--port", port)))(t)
	t.Cleanup(prism.Stop)
	must.OK(t, local.AwaitListener(t.Context(), addr, prism))
	return "http://" + addr
}
