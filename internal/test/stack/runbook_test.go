package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
)

// section is a section of the runbook with its blocks of commands. The test does not run blocks
// whose opening line is longer than ```sh.
type section struct {
	title  string
	blocks []string
}

func sections(t *testing.T, text string) (all []section) {
	for _, m := range regexp.MustCompile("(?ms)^#+ (.+?)$|^```(.*?)\n(.*?)^```$|^    (.+?)$").
		FindAllStringSubmatch(text, -1) {
		switch title, language, block, indented := m[1], m[2], m[3], m[4]; {
		case title != "":
			all = append(all, section{title: title})
		case indented != "":
			t.Errorf("%q: commands stand in a block that begins with ```sh", indented)
		case language == "sh":
			last := &all[len(all)-1]
			last.blocks = append(last.blocks, block)
		}
	}
	return slices.DeleteFunc(all, func(s section) bool { return s.blocks == nil })
}

// page says how the test tries a section of the runbook.
type page struct {
	before func() // creates the situation that the section is for
	// after checks what the runbook promises after a block that has printed out.
	after func(block int, out string)
}

// operator provides the stack as an operator sees it: with units, files in /etc/marketdata, and a
// shell.
type operator struct {
	*stack
	t       *testing.T
	etc     string // stands for /etc/marketdata
	dir     string // where commands are run
	bin     string // programs for the shell
	units   local.Machine
	builder *local.Program    // nil if the unit is stopped
	words   map[string]string // replacements for the words in capitals
	clients *http.Client
	leaves  []string // of the log, at the end of the last section
}

// TestRunbook runs every command of the runbook, in order, on a running stack, and checks the
// results that the runbook promises. No client request may fail.
func TestRunbook(t *testing.T) {
	for _, name := range []string{"haproxy", "bash", "curl"} {
		program(t, name)
	}
	testserver.MinIO(t).Stop() // skips the test where it cannot start
	text := must.Get(os.ReadFile("../../../deploy/runbook.md"))(t)
	o := startOperator(t)
	pages := o.pages()
	for _, s := range sections(t, string(text)) {
		p, ok := pages[s.title]
		if !ok {
			t.Errorf("%q has commands, and nothing here says how to try them", s.title)
			continue
		}
		delete(pages, s.title)
		if !t.Run(s.title, func(t *testing.T) { o.t = t; o.try(s, p); o.logged() }) {
			break // each section continues with the state that the one before left
		}
	}
	if !t.Failed() && len(pages) > 0 {
		t.Errorf("no commands in %q", slices.Collect(maps.Keys(pages)))
	}
}

// try runs the blocks of a section while clients send requests.
func (o *operator) try(s section, p page) {
	if p.before != nil {
		p.before()
	}
	ctx, cancel := context.WithCancel(o.t.Context())
	defer cancel()
	asked := o.second(o.t, ctx, 1) // a rollback withdraws pinned snapshots
	for i, block := range s.blocks {
		for word, text := range o.words {
			block = regexp.MustCompile(`\b`+regexp.QuoteMeta(word)+`\b`).ReplaceAllLiteralString(block, text)
		}
		if out := o.shell(block); p.after != nil {
			p.after(i, out)
		}
	}
	cancel()
	if failed, wrong, n, _ := asked(); failed > 0 || wrong > 0 || n == 0 {
		o.t.Errorf("of %d requests %d failed, %d answers were wrong", n, failed, wrong)
	}
}

// logged checks the log of the builder's store, which must continue the log that the last section
// left.
func (o *operator) logged() {
	o.t.Helper()
	address := strings.TrimSpace(o.shell(`echo "$BUILDER_STORE"`))
	leaves := o.stack.logged(o.t, address)
	if len(o.leaves) > len(leaves) || !slices.Equal(o.leaves, leaves[:len(o.leaves)]) {
		o.t.Errorf("the log is %q, and was %q", leaves, o.leaves)
	}
	o.leaves = leaves
}

// startOperator starts a stack whose programs read their flags from environment
// files, and puts what the runbook's commands need into a folder for the shell.
func startOperator(t *testing.T) *operator {
	o := &operator{t: t, etc: t.TempDir(), dir: t.TempDir(), bin: t.TempDir(), words: map[string]string{}}
	programs := buildPrograms(t, root)
	var err error
	// Clients may send requests from the beginning.
	o.stack, err = start(t.Context(), config{bin: programs, data: t.TempDir(), source: "sim:?assets=400&seed=7",
		newest: time.Now().Add(-4 * time.Hour), ages: []time.Duration{24 * time.Hour, 0}, balanced: true, signed: true})
	o.must(err)
	t.Cleanup(o.stop)
	o.logs(t)
	t.Cleanup(func() { _ = o.systemctl("stop", "marketdata-builder") }) // it cannot fail
	systemd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verb, unit, _ := strings.Cut(r.URL.Path[1:], "/")
		if err := o.systemctl(verb, unit); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(systemd.Close)
	o.units = local.Machine{Bin: filepath.Join(o.bin, "units"), Data: o.Data}
	for name, text := range map[string]string{
		"systemctl":     `exec curl --no-progress-meter --fail-with-body -X POST "` + systemd.URL + `/$1/$2"`,
		"units/builder": `set -a; . ` + o.etc + `/builder.env; exec ` + programs + `/builder "$@"`,
		"units/edge":    `set -a; . ` + o.etc + `/edge.env; exec ` + programs + `/edge "$@"`,
		"builder":       `exec ` + programs + `/builder "$@"`,
		// This machine may be too slow or too busy.
		"loadtest": programs + `/loadtest "$@" || (( $? == 3 || $? == 4 ))`,
	} {
		file := filepath.Join(o.bin, name)
		o.must(os.MkdirAll(filepath.Dir(file), 0o755))
		o.must(os.WriteFile(file, []byte("#!/bin/bash\n"+text+"\n"), 0o755))
	}
	o.configure("builder.env",
		append(slices.Clone(o.Env), "BUILDER_STORE="+o.Store, "BUILDER_SOURCE=feed:"+filepath.Join(o.dir, "feed"))...)
	o.configure("edge.env", append(slices.Clone(o.reader.Env), "EDGE_STORE="+o.Store)...)
	for _, e := range o.edges {
		e.machine, e.args = &o.units, e.args[2:] // without --store
	}
	o.clients = o.client(t, "")
	o.next("")
	o.must(o.systemctl("start", "marketdata-builder"))
	o.swapped()
	return o
}

func (o *operator) must(err error) {
	if err != nil {
		o.t.Helper()
		o.t.Fatal(err)
	}
}

// configure writes an environment file.
func (o *operator) configure(file string, lines ...string) {
	quoted := regexp.MustCompile(`(?m)=(.*)$`).ReplaceAllString(strings.Join(lines, "\n"), "='$1'\n")
	o.must(os.WriteFile(filepath.Join(o.etc, file), []byte(quoted), 0o600))
}

// systemctl does what the command systemctl would do. The edge unit represents the edge units of
// all machines. They restart one after another, each when HAProxy considers all edges ready again.
func (o *operator) systemctl(verb, unit string) (err error) {
	stop, start := verb != "start", verb != "stop"
	switch unit {
	case "marketdata-builder":
		if stop && o.builder != nil {
			o.builder.Stop()
			o.builder = nil
		}
		if start && o.builder == nil {
			o.builder, err = o.units.Start("builder", "builder", "run")
		}
	case "marketdata-edge":
		for _, e := range o.edges {
			if stop {
				e.Stop()
			}
			if start && err == nil {
				err = errors.Join(
					e.start(o.t.Context()), poll(o.t.Context(), "HAProxy to take both edges", func() (bool, error) {
						c, err := o.counters(o.t.Context())
						return c.up == len(o.edges), err
					}))
			}
		}
	default:
		err = fmt.Errorf("no unit %q", unit)
	}
	return err
}

// shell runs a script as if an operator typed it, and returns what it prints.
func (o *operator) shell(script string) string {
	o.t.Helper()
	script = strings.NewReplacer(
		"/etc/marketdata", o.etc, "/var/cache/marketdata-edge", filepath.Join(o.Data, "edge1")).Replace(script)
	cmd := exec.CommandContext(o.t.Context(), "bash", "-c", "set -eu; set -a; . "+o.etc+"/builder.env; set +a\n"+script)
	cmd.Dir = o.dir
	// The loads are as short as possible, because their figures do not matter here.
	cmd.Env = append(os.Environ(), "PATH="+o.bin+":"+os.Getenv("PATH"), "LOADTEST_STEP=1s", "LOADTEST_CONFIRM=1s",
		"LOADTEST_START=4", "LOADTEST_MAX=4",
		"BUILDER_ALLOW=ahead") // the feed is ahead of the clock when every time up to now has been withdrawn
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// next advances the feed by ten minutes and runs a script on it.
func (o *operator) next(change string) {
	o.t.Helper()
	o.newest = o.newest.Add(10 * time.Minute)
	o.shell(fmt.Sprintf("rm -rf new; builder feed --source '%s' --time %s --out new; cd new; %s\ncd ..; rm -rf feed; mv new feed", o.source,
		stamp(o.newest), change))
}

// stamp formats a snapshot's time.
func stamp(t time.Time) string {
	return t.UTC().Truncate(10 * time.Minute).Format(time.RFC3339)
}

// publish publishes the feed's next state, and returns when the edges serve it.
func (o *operator) publish() {
	o.t.Helper()
	o.next("")
	o.shell("builder build")
	o.swapped()
}

// swapped returns when both edges serve the newest snapshot.
func (o *operator) swapped() {
	o.t.Helper()
	if o.newest.After(time.Now()) { // after a restore, "builder run" waits for that mark
		o.shell("builder build")
	}
	o.must(o.whole(o.t.Context()))
}

// answers waits until so many requests in a row receive the given status that both edges must have
// sent it. The requests have a key, and a pin unless pin is empty.
func (o *operator) answers(status int, key, pin string) {
	o.t.Helper()
	row := 0
	o.must(poll(o.t.Context(), fmt.Sprintf("status %d, pinned to %q", status, pin), func() (bool, error) {
		req, err := http.NewRequestWithContext(
			o.t.Context(), http.MethodGet, "https://"+o.listen+"/openapi/v1/assets", nil)
		o.must(err)
		req.Header = http.Header{"X-Api-Key": {key}, "X-Snapshot-Time": {pin}} // an empty pin counts as none
		res, err := o.clients.Do(req)
		o.must(err)
		switch {
		case res.StatusCode == status:
			row++
		case status == http.StatusUnauthorized && res.StatusCode == http.StatusTooManyRequests:
			// The address has no token left for a 401 answer.
		default:
			row = 0
		}
		return row == 20, res.Body.Close()
	}))
}

// createKey creates an API key, returns it, and fills in its id.
func (o *operator) createKey() string {
	o.t.Helper()
	out := o.shell("builder keys create --name client")
	o.words["ID"] = regexp.MustCompile(`\bid=(\w+)`).FindStringSubmatch(out)[1]
	return apiKey.FindString(out)
}

// prints reports an error if want does not match what a block has printed.
func (o *operator) prints(out, want string) {
	o.t.Helper()
	if !regexp.MustCompile(want).MatchString(out) {
		o.t.Errorf("no %s in the output:\n%s", want, out)
	}
}

var apiKey = regexp.MustCompile(`mdk_live_\w+`)

// store opens another store on the same server, and lets word stand for its URL.
func (o *operator) store(word, prefix string) artifacts.Store {
	o.t.Helper()
	o.words[word] = o.minio.URL(prefix)
	store, err := s3store.Open(o.words[word], o.minio.Options())
	o.must(err)
	return store
}

// backup creates such a store as a backup of the live one.
func (o *operator) backup(word, prefix string) {
	o.store(word, prefix)
	o.shell("builder backup --to '" + o.words[word] + "'")
}

// remove removes the first n objects below prefix.
func (o *operator) remove(store artifacts.Store, prefix string, n int) {
	o.t.Helper()
	o.must(store.List(o.t.Context(), prefix, func(i artifacts.Info) error {
		if n--; n < 0 {
			return nil
		}
		return store.Delete(o.t.Context(), i.Key)
	}))
}

// sequence fills in the sequence that the /status page of an edge shows.
func (o *operator) sequence() {
	o.words["N"] = strings.TrimSpace(
		o.shell("curl -s http://" + o.edges[0].admin + "/status | grep -m1 -oP '\"sequence\": \\K\\d+'"))
}

// pages returns how to try each section that has commands.
func (o *operator) pages() map[string]page {
	var key, taken string // an API key; a withdrawn time
	moves := func(block int, _ string) {
		if block == 1 { // the edges have the new store
			o.swapped()
		}
	}
	moveEdges := func(store string) {
		o.shell(`echo "EDGE_STORE='` + o.words[store] + `'" >> /etc/marketdata/edge.env
systemctl restart marketdata-edge`)
		o.swapped()
	}
	return map[string]page{
		"The first five minutes": {after: func(_ int, out string) { o.prints(out, "^snapshot .* objects") }},
		"BuilderGuarded": {
			before: func() {
				o.next("sed -i 100q quotes.ndjson")
				o.shell("! builder build")
				o.words["MARK"] = stamp(o.newest)
				o.words["RULES"] = "shrink,caps-lost,moves,caps,volumes"
			},
			after: func(int, string) { o.swapped() },
		},
		"BuilderRowsRejected": {
			before: func() { o.next(`echo '{"id":' >> assets.ndjson`) },
			after:  func(_ int, out string) { o.prints(out, `"rejected": *{\s*"assets.ndjson": *1`); o.swapped() },
		},
		"BuilderJobFailing": {},
		"EdgesAllOld": {
			after: func(_ int, out string) { o.prints(out, `published`); o.answers(http.StatusOK, o.key, "") }},
		"Roll back": {
			before: func() {
				o.words["T"] = stamp(o.newest)
				o.publish()
				taken = stamp(o.newest)
			},
			after: func(block int, _ string) {
				if block == 0 {
					o.newest = o.newest.Add(-10 * time.Minute)
					defer func() {
						o.newest = o.newest.Add(10 * time.Minute) // because no time is published twice
						o.next("")
					}()
				}
				o.swapped()
				o.answers(http.StatusGone, o.key, taken)
			},
		},
		"An API key": {
			before: func() { key = o.createKey() },
			after: func(block int, out string) {
				if block == 0 {
					o.answers(http.StatusOK, key, "")
					o.answers(http.StatusOK, apiKey.FindString(out), "")
				} else {
					o.answers(http.StatusUnauthorized, key, "")
				}
			},
		},
		"Lose the store": {
			before: func() {
				o.backup("BACKUP", "copy")
				o.remove(o.store("LIVE", "live"), artifacts.ObjectPrefix, 3)
				o.remove(o.store("LIVE", "live"), "log/", 1<<20)
				o.shell("! builder verify")
			},
		},
		"Back up": {before: func() {
			o.store("BACKUP", "backup")
			key = o.createKey()
		}},
		"Restore": {
			before: func() {
				o.answers(http.StatusOK, key, "") // otherwise an edge that does not know the key yet may answer 401
				o.shell("builder keys revoke " + o.words["ID"])
				o.answers(http.StatusUnauthorized, key, "") // the edges have the newer key set
				o.publish()
				o.newest = time.Now() // because every time up to now is withdrawn
				o.next("")
				o.sequence()
				for _, prefix := range []string{artifacts.CurrentKey.String(), artifacts.KeysKey.String(),
					artifacts.ObjectPrefix} {
					o.remove(o.store("LIVE", "live"), prefix, 1<<20)
				}
			},
			after: func(int, string) {
				o.swapped()
				o.answers(http.StatusUnauthorized, key, "")
			},
		},
		"Restore from nothing": {
			before: func() {
				o.store("NEW", "new")
				o.next("")
				o.sequence()
				o.leaves = nil // the log starts from the beginning
			},
			after: func(int, string) { moveEdges("NEW") },
		},
		"Move to another store": {before: func() { o.store("NEW", "moved"); o.next("") }, after: moves},
		"A second region": {
			before: func() {
				o.backup("REPLICA", "replica")
				o.publish() // this snapshot is not replicated
				o.next("")
				o.sequence()
			},
			after: func(block int, _ string) {
				if block == 1 {
					moveEdges("REPLICA")
				}
			},
		},
		"A stolen bucket key": {
			before: func() {
				v, err := temporary(o.minio, "")
				o.must(err)
				// Temporary credentials have a third part, the session token.
				o.words["ACCESS"], o.words["SECRET"] = v.AccessKeyID,
					v.SecretAccessKey+"'\nAWS_SESSION_TOKEN='"+v.SessionToken
			},
			after: func(int, string) { o.publish() },
		},
		"A builder's machine lost": {
			before: func() {
				o.builder.Kill()
				o.builder = nil
				o.next("")
			},
			after: func(int, string) { o.swapped() },
		},
		"Disk full": {before: o.publish, after: func(int, string) { o.swapped() }},
		"Capacity": {
			before: func() { o.words["http://EDGE:8080"] = "https://" + o.listen + " --insecure" },
			after: func(block int, out string) {
				if block == 0 {
					o.words["KEY"] = apiKey.FindString(out)
					o.answers(http.StatusOK, o.words["KEY"], "")
				} else {
					o.prints(out, "p99")
				}
			},
		},
	}
}
