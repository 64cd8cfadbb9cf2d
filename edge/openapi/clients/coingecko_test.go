package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"example.com/marketdata/edge"
	"example.com/marketdata/edge/coingecko"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
	"github.com/getkin/kin-openapi/openapi3"
)

// geckoFolder names the environment variable with a folder of clients that are not installed from a package
// registry. It contains copies of the repositories of pycoingecko and coingecko-python.
const geckoFolder = "MARKETDATA_COINGECKO_CLIENTS"

// geckoEdge is an edge with the market of make run and the CoinGecko-compatible API.
type geckoEdge struct{ base, key string }

// arguments returns the arguments of the programs: the base URL, the key, a coin's id, name and symbol, its
// category, a platform, and the coin's address there.
func (g *geckoEdge) arguments(base string) []string {
	return []string{base + "/api/v3", g.key, "tether", "Tether", "USDT", "stablecoins", "ethereum",
		"0xdac17f958d2ee523a2206206994597c13d831ec7"}
}

func startGecko(t *testing.T) *geckoEdge {
	t.Helper()
	store := simulation(t)
	g := &geckoEdge{openapitest.Start(t, edge.Config{Reader: store, Coins: true}),
		teststore.Key(t, store, 1000, 1000).Key}
	openapitest.Await(t, g.base, g.key)
	return g
}

// get returns the body of the edge's answer to a GET of a target below coingecko.Prefix. The status must be
// 200.
func (g *geckoEdge) get(t *testing.T, target string) []byte {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, g.base+coingecko.Prefix+target, nil))(t)
	req.Header.Set("X-Api-Key", g.key)
	answer := must.Get(plain.Do(req))(t)
	defer answer.Body.Close()
	body := must.Get(io.ReadAll(answer.Body))(t)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s\n%s", target, answer.Status, body)
	}
	return body
}

// TestCoinGeckoClients runs third-party clients for CoinGecko, which call all endpoints that COINGECKO.md
// lists. What they print must equal the edge's answers.
func TestCoinGeckoClients(t *testing.T) {
	g := startGecko(t)
	folder := os.Getenv(geckoFolder)
	modules := []string{"PYTHONPATH=" + strings.Join([]string{filepath.Join(folder, "coingecko-python/src"),
		filepath.Join(folder, "pycoingecko"), os.Getenv("PYTHONPATH")}, ":")}
	for _, c := range []struct {
		name, dir string
		command   []string
		known     func(got, want any) bool
		part      bool // the client does not support all paths
	}{
		{name: "coingecko-typescript", dir: "typescript", command: []string{"node", "out/test/coingecko.js"}},
		{name: "coingecko-python", dir: "coingecko", command: []string{python(), "official.py"}},
		{name: "pycoingecko", dir: "coingecko", command: []string{python(), "community.py"}},
		{name: "go-gecko", dir: "coingecko/go", command: []string{"go", "run", ".", "go-gecko"}, known: inStruct,
			part: true},
		{name: "goingecko", dir: "coingecko/go", command: []string{"go", "run", ".", "goingecko"}, known: inStruct,
			part: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			have(t, c.command[0])
			switch {
			case c.dir == "typescript":
				compile(t)
			case c.dir == "coingecko" && folder == "":
				t.Skipf("%s names no folder with clones of coingecko-python and pycoingecko", geckoFolder)
			case c.part && os.Getenv(required) == "":
				t.Skip("make test-clients downloads the client")
			}
			address, targets := g.record(t)
			lines := bytes.Split(bytes.TrimSpace(execute(t, c.dir, modules, append(c.command,
				g.arguments(address)...)...)), []byte("\n"))
			asked := targets()
			if len(lines) != len(asked) {
				t.Fatalf("%d answers to %d requests", len(lines), len(asked))
			}
			for i, line := range lines {
				var got, want any
				must.OK(t, json.Unmarshal(line, &got))
				must.OK(t, json.Unmarshal(g.get(t, asked[i]), &want))
				if same := c.known; same == nil && !reflect.DeepEqual(got, want) || same != nil && !same(got, want) {
					t.Errorf("%s: the client has\n%.2000v\nand the edge\n%.2000v", asked[i], got, want)
				}
			}
			if missing := unasked(t, asked); !c.part && len(missing) > 0 {
				t.Errorf("the client did not ask %v", missing)
			}
		})
	}
}

// record starts a server that forwards requests to the edge. targets returns the targets of the requests,
// relative to coingecko.Prefix and without keys.
func (g *geckoEdge) record(t *testing.T) (address string, targets func() []string) {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	proxy := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(g.base))(t))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target, _ := strings.CutPrefix(keyInQuery.ReplaceAllString(r.URL.RequestURI(), ""), coingecko.Prefix)
		mu.Lock()
		asked = append(asked, target)
		mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string { return asked }
}

var keyInQuery = regexp.MustCompile(`[?&]x_cg_demo_api_key=[^&]*`)

// unasked returns the paths of the document, and their parameters, that occur in no request.
func unasked(t *testing.T, asked []string) (missing []string) {
	t.Helper()
	doc := must.Get(openapi3.NewLoader().LoadFromData(coingecko.Document))(t)
	for path, item := range doc.Paths.Map() {
		pattern := regexp.MustCompile("^" + braces.ReplaceAllString(path[1:], "[^/]+") + "/?$")
		sent, found := url.Values{}, false
		for _, target := range asked {
			path, raw, _ := strings.Cut(target, "?")
			if !pattern.MatchString(path) {
				continue
			}
			found = true
			for name, values := range must.Get(url.ParseQuery(raw))(t) {
				sent[name] = values
			}
		}
		if !found {
			missing = append(missing, path)
		}
		for _, p := range item.Get.Parameters {
			if p.Value.In == "query" && found && sent[p.Value.Name] == nil {
				missing = append(missing, path+": "+p.Value.Name)
			}
		}
	}
	return missing
}

var braces = regexp.MustCompile(`\{\w+\}`)

// inStruct reports whether got contains every value of want for which its structs have a field. The structs
// have 32-bit numbers. All other fields must be empty.
func inStruct(got, want any) bool {
	switch got := got.(type) {
	case map[string]any:
		m, _ := want.(map[string]any)
		for _, envelope := range []string{"data", "rates"} {
			if inner, ok := m[envelope].(map[string]any); ok && len(m) == 1 && got[envelope] == nil {
				m = inner // go-gecko removes the envelope
			}
		}
		for name, v := range got {
			if _, ok := m[name]; !ok { // structs accept names in any case
				name = strings.ToLower(name)
			}
			if !inStruct(v, m[name]) {
				return false
			}
		}
		return true
	case []any:
		list, _ := want.([]any)
		for i, v := range got {
			if len(got) != len(list) || !inStruct(v, list[i]) {
				return false
			}
		}
		return true
	case float64:
		x, _ := want.(float64)
		return float32(got) == float32(x)
	}
	return got == want || got == nil || got == "" && want == nil || got == false && want == nil
}

// TestCoinGeckoRequests sends the requests of other programs that COINGECKO.md lists, and checks that the
// answers contain the fields that these programs read.
func TestCoinGeckoRequests(t *testing.T) {
	g := startGecko(t)
	its := g.arguments("")[2:]
	var list []struct {
		ID        string
		Platforms map[string]string
	}
	must.OK(t, json.Unmarshal(g.get(t, "coins/list?include_platform=true"), &list))
	var ids, addresses []string
	for _, c := range list {
		if !strings.Contains(c.ID, ",") {
			ids = append(ids, c.ID)
		}
		if address := c.Platforms[its[4]]; strings.HasPrefix(address, "0x") {
			addresses = append(addresses, address)
		}
	}
	fill := strings.NewReplacer("{id}", its[0], "{platform}", its[4], "{address}", its[5],
		"{ids}", its[0]+url.QueryEscape(","+strings.Join(ids[:499], ",")),
		"{addresses}", its[5]+","+strings.Join(addresses[:99], ","))
	page := must.Get(os.ReadFile("../../COINGECKO.md"))(t)
	requests := requestRow.FindAllStringSubmatch(string(page), -1)
	for _, row := range requests {
		var answer any
		must.OK(t, json.Unmarshal(g.get(t, fill.Replace(row[1])), &answer))
		for _, field := range codeSpan.FindAllStringSubmatch(row[2], -1) {
			if err := hasField(answer, strings.Split(field[1], "."), fill); err != nil {
				t.Errorf("%s: %s: %v", row[1], field[1], err)
			}
		}
	}
	if len(requests) != 7 {
		t.Errorf("%d requests, want 7", len(requests))
	}
}

var (
	requestRow = regexp.MustCompile("(?m)^\\| [^|]*\\| `([^`]+)`[^|]* \\| ([^|]+) \\|[^|]*\\|$")
	codeSpan   = regexp.MustCompile("`([^`]+)`")
)

// hasField returns an error if an object does not have the field. For a list, it reports the first such
// object.
func hasField(v any, path []string, fill *strings.Replacer) error {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			if err := hasField(element, path, fill); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		field, ok := v[fill.Replace(path[0])]
		if ok && len(path) > 1 {
			return hasField(field, path[1:], fill)
		}
		if ok {
			return nil
		}
	}
	return fmt.Errorf("%.200v where %s belongs", v, strings.Join(path, "."))
}
