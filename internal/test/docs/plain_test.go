package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/must"
)

// plain lists constructions that reviewers rewrite, each with a better form. Most come from
// sentences that leave out their noun.
var plain = []struct {
	pattern *regexp.Regexp
	better  string
}{
	{regexp.MustCompile(`(?i)\bthat of\b`), `repeat the noun: "the processor time of nginx"`},
	{regexp.MustCompile(`(?i)\b(of|by|with|in|from) whom\b`), `begin a new sentence`},
	{regexp.MustCompile(`(?i)\bof which\b`), `"whose", or a new sentence`},
	{regexp.MustCompile(`(?i)\bwho has\b(?: [^ah]|$)`), `"whoever has", or name the person`},
	{regexp.MustCompile(`(?i)\b(is|was|be|been) had\b`), `"the edge has", "the edge gets"`},
	{regexp.MustCompile(`(?i)\bmay be had\b`), `say who gets it`},
	{regexp.MustCompile(`(?i)\bstands? (last|first|in|at|there|with|behind|by|before)\b`), `"comes last", "is in", "has"`},
	{regexp.MustCompile(`(?i)\bas (it|they) stands?\b`), `"unchanged"`},
	{regexp.MustCompile(`(?i), beside\b`), `"compared with", "next to", "besides"`},
	{regexp.MustCompile(`(?i)\bat once\b`), `"immediately", or "together"`},
	{regexp.MustCompile(`(?i)\bin (the )?place of\b`), `"instead of"`},
	{regexp.MustCompile(`(?i)\btakes? the place of\b`), `"replaces"`},
	{regexp.MustCompile(`(?i)\bany more\b`), `"any longer", or leave it out`},
	{regexp.MustCompile(`(?i)\bbut for\b`), `"except for"`},
	{regexp.MustCompile(`(?i)\b(is|are) to be\b`), `"must be"`},
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), `"repair", "correct"`},
	{regexp.MustCompile(`(?i)\bof before(?:[.,;:)]|$)`), `"earlier", "older"`},
	{regexp.MustCompile(`(?i)\bhand(ed|s)? on\b`), `"pass on", "give"`},
	{regexp.MustCompile(`(?i)\bso as it\b`), `leave it out`},
	{regexp.MustCompile(`(?i)\bdear(er|est)?\b`), `"expensive"`},
	{regexp.MustCompile(`(?i)\bthat which\b`), `name the noun`},
	{regexp.MustCompile(`(?i)\bwhat it is of\b`), `name the noun`},
	{regexp.MustCompile(`(?i)\bfor which there is no\b`), `"that has no"`},
	{regexp.MustCompile(`(?i)\b(there|here|where)(of|in|by|upon)\b`), `"of it", "in it"`},
	{regexp.MustCompile(`(?i)\bis of (the|its) (future|past)\b`), `"is in the future"`},
	{regexp.MustCompile(`(?i)\bto say nothing of\b`), `leave it out`},
	{regexp.MustCompile(`(?i)\bnot (so|as) much as\b`), `"less than"`},
	{regexp.MustCompile(`(?i)\bdoes without\b`), `"does not need"`},
	{regexp.MustCompile(`(?i)\bis none of\b`), `"is not a"`},
	{regexp.MustCompile(`(?i)\b(of|with|for|to|in|on|from|by) one's\b`), `"your", or name the person`},
	{regexp.MustCompile(`(?i)\b(goes|go|gone) (on|off) with\b`), `"continues with"`},
	{regexp.MustCompile(`(?i)\bis (not )?believed\b`), `"is trusted"`},
}

// written matches the paths of texts that nobody wrote for this repository, or that quote others.
var written = regexp.MustCompile(`(^|/)(testdata|outside)/|TRANSCRIPT\.md$`)

// TestPlain: neither documents nor the comments of Go files other than tests contain these
// constructions outside of code and quoted text.
func TestPlain(t *testing.T) {
	if len(plain) > 40 {
		t.Errorf("%d patterns: at most 40 are worth their reading", len(plain))
	}
	for _, path := range files(t, ".md") {
		if filepath.Ext(path) != ".md" || written.MatchString(path) {
			continue
		}
		text := string(must.Get(os.ReadFile(filepath.Join(root, path)))(t))
		text = fence.ReplaceAllStringFunc(text, func(block string) string {
			return strings.Repeat("\n", strings.Count(block, "\n"))
		})
		for i, line := range strings.Split(text, "\n") {
			for _, problem := range unplain(codeSpan.ReplaceAllString(line, "`x`"), nil) {
				t.Errorf("%s:%d: %s", path, i+1, problem)
			}
		}
	}
	n := 0
	for _, path := range files(t, ".go") {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed := must.Get(parser.ParseFile(set, filepath.Join(root, path), nil,
			parser.ParseComments|parser.SkipObjectResolution))(t)
		if ast.IsGenerated(parsed) {
			continue
		}
		names := map[string]bool{}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if name, ok := node.(*ast.Ident); ok {
				names[name.Name] = true
			}
			return true
		})
		for _, group := range parsed.Comments {
			n++
			for _, problem := range unplain(quoted.ReplaceAllString(prose(group), `"x"`), names) {
				t.Errorf("%s:%d: %s", path, set.Position(group.Pos()).Line, problem)
			}
		}
	}
	if n < 1000 {
		t.Errorf("%d comments: are they still found?", n)
	}
}

var (
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	fence    = regexp.MustCompile("(?ms)^```.*?^```$")
	// quoted matches code, a message or a heading in a comment.
	quoted = regexp.MustCompile("`[^`]*`|\"[^\"]*\"")
)

// unplain describes the constructions in a text, except for words that are names in the code.
func unplain(text string, names map[string]bool) (problems []string) {
	for _, p := range plain {
		for _, m := range p.pattern.FindAllString(text, -1) {
			if !names[m] {
				problems = append(problems, fmt.Sprintf("%q: better %s", m, p.better))
			}
		}
	}
	return problems
}

// prose returns a comment as one line, because a construction may begin on one line and end on the
// next. It leaves out indented blocks, which are code.
func prose(group *ast.CommentGroup) string {
	var lines []string
	for line := range strings.Lines(group.Text()) {
		if !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "    ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, " ")
}
