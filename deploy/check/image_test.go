package check

import (
	"regexp"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// TestDockerfile: BuildKit takes it without a warning, and it builds with the Go
// that go.mod asks for.
func TestDockerfile(t *testing.T) {
	parsed, err := parser.Parse(strings.NewReader(read(t, deploy, "Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range parsed.Warnings {
		t.Errorf("%v", w)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, at []parser.Range) { t.Errorf("%s at %v: %s", rule, at, message) }})
	stages, _, err := instructions.Parse(parsed.AST, lint)
	if err != nil {
		t.Fatal(err)
	}
	gomod := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, root, "go.mod"))
	if want := "golang:" + gomod[1] + "-"; !strings.HasPrefix(stages[0].BaseName, want) {
		t.Errorf("builds with %s, go.mod asks for %s", stages[0].BaseName, gomod[1])
	}
}
