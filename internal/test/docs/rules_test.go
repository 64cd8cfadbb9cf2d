package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/must"
)

// rulesFile maps rules to the sections that state them. Each line has three parts, separated by
// bars: the section in the form in which comments cite it, words with which the section states a
// rule, and a pattern. Comments that cite the section for this rule match the pattern.
const rulesFile = "testdata/rules.txt"

// rule is a line of rulesFile.
type rule struct {
	line          int
	cite          string // such as INTERFACE.md, "Paging"
	says          string
	mentions      *regexp.Regexp
	path, heading string
}

// documentOf maps the documents' names in the table to their paths.
var documentOf = map[string]string{
	"INTERFACE.md": interfaceDocument, "FEED.md": feedDocument, "COMMANDS.md": commandsDocument,
	"STORE.md": storeDocument, "runbook.md": "deploy/runbook.md"}

func readRules(t *testing.T) (rules []*rule) {
	t.Helper()
	b, err := os.ReadFile(rulesFile)
	must.OK(t, err)
	for i, line := range strings.Split(string(b), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, " | ")
		var m []string
		if len(cells) == 3 {
			m = citation.FindStringSubmatch(cells[0])
		}
		if m == nil {
			t.Fatalf("%s:%d: %q: want a section, its words and a pattern", rulesFile, i+1, line)
		}
		r := &rule{line: i + 1, cite: cells[0], says: cells[1], path: documentOf[m[1]], heading: m[2]}
		if r.mentions, err = regexp.Compile("(?i)" + cells[2]); err != nil {
			t.Fatalf("%s:%d: %v", rulesFile, i+1, err)
		}
		rules = append(rules, r)
	}
	return rules
}

// sectionOf returns the text from a heading to the next one, on one line.
func (d *document) sectionOf(heading string) (text string, ok bool) {
	within := false
	var out strings.Builder
	for line := range strings.Lines(d.prose) {
		if marks, title, is := strings.Cut(strings.TrimSuffix(line, "\n"), " "); is && marks != "" &&
			strings.Trim(marks, "#") == "" {
			within = title == heading
			ok = ok || within
		} else if within {
			out.WriteString(line)
		}
	}
	return strings.Join(strings.Fields(out.String()), " "), ok
}

// TestRules: every section states the rules that the table lists for it, and every comment that
// cites one of these documents refers to one of these rules.
func TestRules(t *testing.T) {
	rules := readRules(t)
	for _, r := range rules {
		text, ok := read(t, r.path).sectionOf(r.heading)
		if !ok {
			t.Errorf("%s:%d: %s has no section %q", rulesFile, r.line, r.path, r.heading)
		} else if !strings.Contains(text, r.says) {
			t.Errorf("%s:%d: %s does not say %q", rulesFile, r.line, r.cite, r.says)
		}
	}
	for _, path := range files(t, ".go") {
		if !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "internal/test/docs/") {
			continue
		}
		b := must.Get(os.ReadFile(filepath.Join(root, path)))(t)
		for _, c := range citations(string(b)) {
			known, fits := false, false
			for _, r := range rules {
				if r.cite == c.cite {
					known = true
					if r.mentions.MatchString(c.around) {
						fits = true
					}
				}
			}
			switch {
			case !known:
				t.Errorf("%s:%d: %s: %s has no rule of that section", path, c.line, c.cite, rulesFile)
			case !fits:
				t.Errorf("%s:%d: this section states no rule of %q: %s", path, c.line, c.around, c.cite)
			}
		}
	}
}

// cited is a comment that cites a section.
type cited struct {
	line   int
	cite   string
	around string // the comment and the lines after it, on one line
}

// behind is the number of lines after a comment that tell what the comment is about.
const behind = 3

// citations returns the citations of these documents in the comments of a Go file.
func citations(text string) (all []cited) {
	lines := strings.Split(text, "\n")
	comment := func(i int) bool { return i < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i]), "//") }
	for i := 0; i < len(lines); i++ {
		from := i
		for comment(i) {
			i++
		}
		if i == from && !strings.Contains(lines[i], "//") {
			continue
		}
		block := strings.Join(lines[from:max(i, from+1)], "\n")
		around := strings.Join(lines[from:min(len(lines), max(i, from+1)+behind)], "\n")
		for _, m := range citation.FindAllStringSubmatch(wrapped.ReplaceAllString(block, " "), -1) {
			if _, ok := documentOf[m[1]]; ok {
				all = append(all, cited{
					from + 1, m[1] + `, "` + m[2] + `"`, strings.TrimSpace(wrapped.ReplaceAllString(around, " "))})
			}
		}
	}
	return all
}
