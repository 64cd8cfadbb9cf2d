package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

// program matches a fenced block of a page and the text block with its output, if one follows it.
var program = regexp.MustCompile("(?s)\n```(sh|python|typescript|go)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?")

// aMarket is a market for programs, and the rate limit of their keys.
type aMarket struct {
	name        string
	store       artifacts.Store
	rate, burst int
	base        string
}

const exampleMarket = "example"

// theMarkets returns the example market, whose output the documents show, with keys for one request per
// second; the market of make run with keys like those of make run; and the same market with keys for five
// requests per second.
func theMarkets(t *testing.T) []aMarket {
	t.Helper()
	markets := []aMarket{
		{name: exampleMarket, store: openapitest.Market(t), rate: 1, burst: 10},
		{name: "make run", store: simulation(t), rate: teststore.DefaultRate, burst: teststore.DefaultBurst},
		{name: "narrow", store: simulation(t), rate: 5, burst: 5},
	}
	for i := range markets {
		markets[i].base = openapitest.Start(t, edge.Config{Reader: markets[i].store})
	}
	return markets
}

// simulation returns the market of make run with a year of history. It builds the market only once.
func simulation(t *testing.T) artifacts.Store {
	t.Helper()
	simulateOnce.Do(func() {
		simulated = memstore.New()
		teststore.SimulateYear(t, simulated, "?assets=2000&seed=1", first)
		teststore.Change(t, simulated, first.Add(90*time.Second))
	})
	return simulated
}

var (
	simulated    artifacts.Store
	simulateOnce sync.Once
)

// environment returns the environment variables that programs need for m, with a new key.
func (m aMarket) environment(t *testing.T) []string {
	t.Helper()
	key := teststore.Key(t, m.store, m.rate, m.burst).Key
	// An edge that knows a later key also knows this one. So this key need not be used to wait for it.
	openapitest.Await(t, m.base, teststore.Key(t, m.store, 100, 100).Key)
	return []string{"MARKETDATA_URL=" + m.base, "MARKETDATA_KEY=" + key}
}

// compiled maps a language to a function that prepares a program in a folder and returns the command that
// runs it.
var compiled = map[string]func(t *testing.T, dir, text string) []string{
	"sh":     func(_ *testing.T, _, text string) []string { return []string{"bash", "-euc", text} },
	"python": func(_ *testing.T, _, text string) []string { return []string{python(), "-c", text} },
	"go": func(t *testing.T, dir, text string) []string {
		write(t, filepath.Join(dir, "markets.go"), text)
		execute(t, dir, nil, "go", "build", "-o", "markets", "markets.go")
		return []string{filepath.Join(dir, "markets")}
	},
	"typescript": func(t *testing.T, dir, text string) []string {
		at := must.Get(filepath.Abs("typescript/" + modulesDir))(t)
		must.OK(t, os.Symlink(at, filepath.Join(dir, modulesDir)))
		present(t, filepath.Join(dir, modules+"tsc"))
		if strings.Contains(text, "./api.js") {
			write(t, filepath.Join(dir, "openapi.json"), document(t))
			execute(t, dir, nil, modules+"openapi-typescript", "openapi.json", "--output", "api.ts")
		}
		write(t, filepath.Join(dir, "markets.mts"), text)
		execute(t, dir, nil, modules+"tsc", "--skipLibCheck", "--strict", "--target", "es2022", "--module",
			"nodenext", "--types", "node", "markets.mts")
		return []string{"node", "markets.mjs"}
	},
}

// TestPages runs the programs in the documentation's pages, each in its own folder, on every market. On the
// example market, a program must print the output that the page shows, in which … stands for any text. On
// other markets, it must print the same number of lines. On the page about limits, the key allows a burst
// of one request, so programs must obey Retry-After.
func TestPages(t *testing.T) {
	pages, markets, seen := must.Get(openapi.Pages())(t), theMarkets(t), map[string]int{}
	for name, text := range pages {
		shell := ""
		for _, m := range program.FindAllStringSubmatch(string(text), -1) {
			language, source, want := m[1], m[2], strings.TrimSpace(m[3])
			seen[language]++
			t.Run(fmt.Sprint(name, "/", language, seen[language]), func(t *testing.T) {
				dir := t.TempDir()
				if language == "sh" { // all blocks of a page are one session
					shell += source
					source = shell
				}
				command := compiled[language](t, dir, source)
				present(t, command[0])
				for _, m := range markets {
					if name == "limits-and-retries.md" {
						m.burst = 1
					}
					env := m.environment(t)
					run := slices.Clone(command)
					if language == "sh" {
						run[2] = strings.NewReplacer("https://host", env[0][len("MARKETDATA_URL="):],
							"mdk_live_…", env[1][len("MARKETDATA_KEY="):]).Replace(source)
					}
					m.check(t, want, strings.TrimSpace(string(execute(t, dir, env, run...))))
				}
			})
		}
	}
	if len(pages) != 13 || len(seen) != len(compiled) {
		t.Errorf("%d pages with %v", len(pages), seen)
	}
}

// check compares the output of a program with the output that a page shows.
func (m aMarket) check(t *testing.T, want, got string) {
	t.Helper()
	shown := strings.Split(want, "…")
	for i := range shown {
		shown[i] = regexp.QuoteMeta(shown[i])
	}
	fits := regexp.MustCompile("^" + strings.Join(shown, "(?s:.*)") + "$").MatchString(got)
	if m.name != exampleMarket {
		fits = strings.Count(got, "\n") == strings.Count(want, "\n") && (got == "") == (want == "")
		if listed, total, ok := strings.Cut(got, " of "); ok {
			fits = fits && listed == total && len(listed) > 3 // the program has read all pages
		}
	}
	if !fits {
		t.Errorf("%s: it prints\n%s\nwant\n%s", m.name, got, want)
	}
}

// present calls have only if the program is not installed, so that a test also runs where it is not
// required.
func present(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		have(t, program)
	}
}
