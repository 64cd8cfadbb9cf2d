package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/must"
)

// plain are constructions that reviewers rewrite, each with a better form. Most come from sentences that leave
// their noun out.
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
	{regexp.MustCompile(`(?i)\bof before\b`), `"earlier", "older"`},
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
	{regexp.MustCompile(`(?i)\bone's\b`), `"your", or name the person`},
	{regexp.MustCompile(`(?i)\b(goes|go|gone) (on|off) with\b`), `"continues with"`},
	{regexp.MustCompile(`(?i)\bis (not )?believed\b`), `"is trusted"`},
}

// written are texts that people did not write for this repository, or that quote others.
var written = regexp.MustCompile(`(^|/)(testdata|outside)/|TRANSCRIPT\.md$`)

// TestPlain: documents have none of these constructions outside of code.
func TestPlain(t *testing.T) {
	if len(plain) > 40 {
		t.Errorf("%d patterns: at most 40 are worth their reading", len(plain))
	}
	span := regexp.MustCompile("`[^`\n]*`")
	fence := regexp.MustCompile("(?ms)^```.*?^```$")
	for _, path := range files(t, ".md") {
		if filepath.Ext(path) != ".md" || written.MatchString(path) {
			continue
		}
		text := string(must.Get(os.ReadFile(filepath.Join(root, path)))(t))
		text = fence.ReplaceAllStringFunc(text, func(block string) string {
			return strings.Repeat("\n", strings.Count(block, "\n"))
		})
		for i, line := range strings.Split(text, "\n") {
			line = span.ReplaceAllString(line, "`x`")
			for _, p := range plain {
				if m := p.pattern.FindString(line); m != "" {
					t.Errorf("%s:%d: %q: better %s", path, i+1, m, p.better)
				}
			}
		}
	}
}
