package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/gen"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write testdata/check.txt anew")

// sound is a feed without problems.
var sound = map[string]string{
	"feed.json": `{"format":1,"database":"mine","time":"2026-11-21T10:10:00Z"}` + "\n",
	"assets.ndjson": `{"key":"apple","name":"Apple Coin","symbol":"APL","slug":"apple-coin"}
{"key":"pear","name":"Pear Coin","symbol":"PER","slug":"pear-coin"}
`,
	"quotes.ndjson": `{"key":"apple","price":"12.5"}` + "\n",
}

// writeFeed writes files into dir. It omits files whose text is empty.
func writeFeed(t interface{ Fatalf(string, ...any) }, dir string, files map[string]string) {
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// TestCheck runs check on the invalid feeds in testdata/check.txt, and compares each result with a
// build's.
func TestCheck(t *testing.T) {
	t.Parallel()
	const file = "testdata/check.txt"
	text := string(must.Get(os.ReadFile(file))(t))
	cases := strings.Split(text, "\n\n# ")
	for i, c := range cases[1:] {
		head, _, _ := strings.Cut(c, "> output\n")
		parts := strings.Split(head, "\n> ")
		files := maps.Clone(sound)
		for _, p := range parts[1:] {
			name, rows, _ := strings.Cut(p, "\n")
			if strings.HasSuffix(name, ".csv") {
				delete(files, "assets.ndjson")
				delete(files, "quotes.ndjson")
			}
			files[name] = strings.TrimSuffix(rows, "\n") + "\n"
			if rows == "" {
				delete(files, name)
			}
		}
		dir := t.TempDir()
		writeFeed(t, dir, files)
		src := "feed:" + dir
		if files["assets.csv"] != "" {
			src = "csv:" + dir
		}
		r := command(t, "check", "--source", src)
		cases[i+1] = fmt.Sprintf("%s> output\n%s%s[%d]", head, strings.ReplaceAll(r.stdout, dir, "DIR"), r.stderr,
			r.status)
		checkLikeBuild(t, src, t.TempDir())
	}
	got := strings.Join(cases, "\n\n# ") + "\n"
	switch {
	case *update:
		must.OK(t, os.WriteFile(file, []byte(got), 0o644))
	case got != text:
		t.Errorf("it says now (-update writes it):\n%s", got)
	}
}

// checkLikeBuild runs check and a build on a feed. check must find no problem if and only if the
// build sets no row aside and ignores nothing. Both must report the same counts, unless a file
// stops the build.
func checkLikeBuild(t interface{ Fatalf(string, ...any) }, src, dir string) {
	run := func(args ...string) (report struct {
		Ready            bool
		Error            string
		Counts, Rejected map[string]int
		Warned           int
		Problems         []map[string]any
	}, status int) {
		var out, errs strings.Builder
		status = program().Do(context.Background(), args, &out, &errs)
		if err := json.Unmarshal([]byte(out.String()), &report); err != nil {
			t.Fatalf("builder %q: status %d: %v: %s %s", args, status, err, &out, &errs)
		}
		return report, status
	}
	check, status := run("check", "--source", src, "--json")
	build, _ := run("build", "--source", src, "--store", "file:"+filepath.Join(dir, "store"), "--json",
		"--max-bad-rows", "100%")
	rejected := 0
	for _, n := range build.Rejected {
		rejected += n
	}
	clean, read := build.Error == "" && rejected+build.Warned == 0, len(build.Rejected) > 0
	if found := check.Error != "" || len(check.Problems) > 0; found == clean || read && check.Warned != build.Warned ||
		(check.Error == "") != (build.Error == "") || read && !reflect.DeepEqual(check.Rejected, build.Rejected) ||
		check.Error == "" && !reflect.DeepEqual(check.Counts, build.Counts) {
		t.Fatalf("check %+v\nbuild %+v", check, build)
	}
	if check.Ready != (status == cmdline.Done) || check.Ready != (build.Error == "" && rejected == 0) {
		t.Fatalf("status %d: %+v, of a build with %d rows set aside, %q", status, check, rejected, build.Error)
	}
}

// TestCheckLikeBuild compares check with a build on generated feeds.
func TestCheckLikeBuild(t *testing.T) {
	t.Parallel()
	base, clean := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatalf("%v", err)
		}
		files := map[string]string(gen.Histories(1, 5, 0).Draw(t, "history")[0].Files)
		if rapid.Bool().Draw(t, "sound") {
			files = maps.Clone(sound)
			if rapid.Bool().Draw(t, "unknown") {
				files["quotes.ndjson"] = `{"key":"apple","price":1,"x":2}`
			} else {
				clean++
			}
		}
		writeFeed(t, dir, files)
		checkLikeBuild(t, "feed:"+dir, dir)
	})
	if clean == 0 {
		t.Error("no feed without problems")
	}
}

// TestCheckAhead checks that check reports, and a first build refuses, a feed whose time is more
// than ten minutes ahead: just over ten minutes, a year or a millennium. The same feed with the
// current time must be ready.
func TestCheckAhead(t *testing.T) {
	const stop = "guard rail: ahead: the snapshot's time, "
	now := time.Now().Truncate(artifacts.Step)
	for _, at := range []time.Time{
		now.AddDate(1, 0, 0), now.Add(2*artifacts.Step + time.Second), now.AddDate(1000, 0, 0),
	} {
		dir := t.TempDir()
		files := maps.Clone(sound)
		files["feed.json"] = fmt.Sprintf(`{"format":1,"database":"mine","time":%q}`, at.Format(time.RFC3339))
		writeFeed(t, dir, files)
		snapshot := at.Truncate(artifacts.Step).UTC().Format(time.RFC3339)
		wants(t, cmdline.Failed, stop+snapshot, "check", "--source", "feed:"+dir)
		checkLikeBuild(t, "feed:"+dir, dir)
		wants(t, cmdline.Failed, stop, "build", "--source", "feed:"+dir, "--store", "file:"+dir+"/store")
		done(t, "build", "--source", "feed:"+dir, "--store", "file:"+dir+"/store", "--allow", "ahead")
		files["feed.json"] = strings.Replace(files["feed.json"], at.Format(time.RFC3339), now.Format(time.RFC3339), 1)
		writeFeed(t, dir, files)
		wants(t, cmdline.Done, "ready: 2 assets, 1 quote", "check", "--source", "feed:"+dir)
	}
}

// TestCheckIsBounded checks that check lists a thousand rows of a file and only counts the rest.
func TestCheckIsBounded(t *testing.T) {
	dir := t.TempDir()
	files := maps.Clone(sound)
	files["categories.ndjson"] = strings.Repeat("{}\n", maxListed+5)
	writeFeed(t, dir, files)
	r := command(t, "check", "--source", "feed:"+dir)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if len(lines) != maxListed+2 || lines[maxListed] != "and 5 more problems" ||
		lines[maxListed+1] != "not ready: 2 assets, 1 quote, 1,005 rows set aside" {
		t.Errorf("%d lines, at the end %q", len(lines), lines[len(lines)-2:])
	}
}
