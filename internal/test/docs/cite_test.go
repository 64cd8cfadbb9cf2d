package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/must"
)

var (
	// citation matches a reference to a section in a comment or document: the file's name or path,
	// a comma, and the heading in quotes.
	citation = regexp.MustCompile(`([A-Za-z0-9_./-]*[A-Za-z0-9_-]+\.md),? "([^"]+)"`)
	// link matches a link in a document that stays within the repository.
	link = regexp.MustCompile(`\]\(([^():#]*)(?:#([^()]*))?\)`)
	// wrapped matches a line break in the middle of a comment.
	wrapped = regexp.MustCompile(`\s*\n\s*(?://|#|>)?[ \t]*`)
	// numbered matches a section number, which only RFCs have.
	numbered = regexp.MustCompile(`(RFC \d+,? )?\b[Ss]ections? \d`)
	// test matches the name of a test.
	test = regexp.MustCompile(`(?:^|[^.\w])((?:Test|Fuzz|Benchmark)[A-Z]\w+)`)
	// outside matches references to documents that are not in the repository.
	outside = regexp.MustCompile(`\b[Cc]ontract,? sections?\b|\b[Cc]ontract's section\b|\bsection \d+ of the (contract|interface)|\bcontract \d|\bfeed\.md\b|\binterface document\b`)
)

// files returns the paths, relative to the root, of all texts that people write.
func files(t *testing.T, extensions ...string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "node_modules", "testdata"}, d.Name()):
			return filepath.SkipDir
		case !d.IsDir() && (slices.Contains(extensions, filepath.Ext(path)) || d.Name() == "Makefile"):
			below, err := filepath.Rel(root, path)
			paths = append(paths, filepath.ToSlash(below))
			return err
		}
		return nil
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	return paths
}

// anchor returns the name that GitHub gives a heading in links.
func anchor(heading string) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || r > 127:
			return r
		}
		return -1
	}, strings.ToLower(heading))
	return kept
}

func TestCitations(t *testing.T) {
	documents := map[string]*document{}
	for _, path := range files(t, ".md") {
		if strings.HasSuffix(path, ".md") {
			documents[path] = read(t, path)
		}
	}
	// cited finds the documents to which a citation may refer.
	cited := func(name string) (found []*document) {
		name = strings.TrimLeft(name, "./")
		for path, d := range documents {
			if path == name || strings.HasSuffix(path, "/"+name) {
				found = append(found, d)
			}
		}
		return found
	}
	n := 0
	tests, namedTests := "", map[string]string{}
	for _, path := range files(
		t, ".go", ".md", ".yaml", ".yml", ".cfg", ".sh", ".html", ".js", ".ts", ".service", ".json") {
		b := must.Get(os.ReadFile(filepath.Join(root, path)))(t)
		text := wrapped.ReplaceAllString(string(b), " ")
		if strings.HasSuffix(path, ".go") {
			tests += text
		}
		if strings.HasPrefix(path, "internal/test/docs/") {
			continue
		}
		for _, m := range citation.FindAllStringSubmatch(text, -1) {
			n++
			if !slices.ContainsFunc(cited(m[1]), func(d *document) bool { return slices.Contains(d.headings, m[2]) }) {
				t.Errorf("%s: there is no section %q in %s", path, m[2], m[1])
			}
		}
		for _, m := range numbered.FindAllStringSubmatch(text, -1) {
			if m[1] == "" {
				t.Errorf("%s: %q: which section is that?", path, m[0])
			}
		}
		for _, m := range test.FindAllStringSubmatch(text, -1) {
			namedTests[m[1]] = path
		}
		if m := outside.FindString(text); m != "" {
			t.Errorf("%s: %q is in no file of the repository; cite a section: INTERFACE.md, \"Headers\"", path, m)
		}
	}
	for name, path := range namedTests {
		if !strings.Contains(tests, "func "+name+"(") {
			t.Errorf("%s: there is no %s", path, name)
		}
	}
	if n < 50 {
		t.Errorf("%d citations: are they still found?", n)
	}

	for path, d := range documents {
		for _, m := range link.FindAllStringSubmatch(d.prose, -1) {
			target := d
			if m[1] != "" {
				to := filepath.ToSlash(filepath.Join(filepath.Dir(path), m[1]))
				if _, err := os.Stat(filepath.Join(root, to)); err != nil {
					t.Errorf("%s: link to %s: %v", path, m[1], err)
					continue
				}
				target = documents[to]
			}
			if m[2] != "" && target != nil &&
				!slices.ContainsFunc(target.headings, func(h string) bool { return anchor(h) == m[2] }) {
				t.Errorf("%s: link to %s#%s: no such heading", path, m[1], m[2])
			}
		}
	}
}

// named matches a file or folder of the repository in a document.
var named = regexp.MustCompile("`((?:artifacts|builder|deploy|edge|internal|loadtest)/[a-zA-Z0-9_./-]+)`")

// TestNamedPaths: the files and folders that documents name exist.
func TestNamedPaths(t *testing.T) {
	for _, path := range files(t, ".md") {
		if !strings.HasSuffix(path, ".md") || path == "CHANGELOG.md" {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(read(t, path).prose, -1) {
			_, below := os.Stat(filepath.Join(root, m[1]))
			_, beside := os.Stat(filepath.Join(root, filepath.Dir(path), m[1]))
			if below != nil && beside != nil && !strings.Contains(m[1], "NAME") {
				t.Errorf("%s: there is no %s", path, m[1])
			}
		}
	}
}
