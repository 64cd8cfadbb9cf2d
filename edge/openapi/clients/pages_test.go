package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/edge"
	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/internal/lab/openapitest"
	"example.com/marketdata/internal/lab/teststore"
)

// program is a fenced block of a page, and what it prints, which stands in a
// block of text behind it.
var program = regexp.MustCompile("(?s)\n```(sh|python|typescript|go)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?")

// TestPages runs the programs of the documentation's pages, each from a folder of
// its own, against an edge whose key is good for one request a second: whoever asks
// more must obey Retry-After. It wants the output that the page shows, where …
// is any text.
func TestPages(t *testing.T) {
	pages := must.Get(openapi.Pages())(t)
	store := openapitest.Market(t)
	base := openapitest.Start(t, edge.Config{Reader: store})
	run := map[string]func(t *testing.T, dir, text string) []string{
		"sh":     func(_ *testing.T, _, text string) []string { return []string{"bash", "-euc", text} },
		"python": func(_ *testing.T, _, text string) []string { return []string{python(), "-c", text} },
		"go": func(_ *testing.T, dir, text string) []string {
			write(t, filepath.Join(dir, "quotes.go"), text)
			return []string{"go", "run", "quotes.go"}
		},
		"typescript": func(t *testing.T, dir, text string) []string {
			at, err := filepath.Abs("typescript/" + modulesDir)
			if err == nil {
				err = os.Symlink(at, filepath.Join(dir, modulesDir))
			}
			must.OK(t, err)
			present(t, filepath.Join(dir, modules+"tsc"))
			if strings.Contains(text, "./api.js") {
				write(t, filepath.Join(dir, "openapi.json"), document(t))
				execute(t, dir, nil, modules+"openapi-typescript", "openapi.json", "--output", "api.ts")
			}
			write(t, filepath.Join(dir, "quotes.mts"), text)
			execute(t, dir, nil, modules+"tsc", "--skipLibCheck", "--strict", "--target", "es2022", "--module",
				"nodenext", "--types", "node", "quotes.mts")
			return []string{"node", "quotes.mjs"}
		},
	}
	seen := map[string]int{}
	for name, text := range pages {
		shell := ""
		for _, m := range program.FindAllStringSubmatch(string(text), -1) {
			language, source, want := m[1], m[2], m[3]
			seen[language]++
			t.Run(fmt.Sprint(name, "/", language, seen[language]), func(t *testing.T) {
				burst := 10
				if name == "limits-and-retries.md" {
					burst = 1
				}
				key := teststore.Key(t, store, 1, burst).Key
				// An edge that has a later key has this one, of which no request is spent.
				openapitest.Await(t, base, teststore.Key(t, store, 100, 100).Key)
				if language == "sh" { // one session
					shell += strings.NewReplacer("https://host", base, "mdk_live_…", key).Replace(source)
					source = shell
				}
				dir := t.TempDir()
				command := run[language](t, dir, source)
				present(t, command[0])
				got := string(execute(t, dir, []string{"MARKETDATA_URL=" + base, "MARKETDATA_KEY=" + key}, command...))
				shown := strings.Split(strings.TrimSpace(want), "…")
				for i := range shown {
					shown[i] = regexp.QuoteMeta(shown[i])
				}
				if !regexp.MustCompile("^" + strings.Join(shown, "(?s:.*)") + "$").MatchString(strings.TrimSpace(got)) {
					t.Errorf("it prints\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
	if len(pages) != 4 || len(seen) != len(run) {
		t.Errorf("%d pages with %v", len(pages), seen)
	}
}

// present has a test run where its program is on the machine, required or not.
func present(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		have(t, program)
	}
}
