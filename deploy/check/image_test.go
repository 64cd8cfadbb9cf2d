package check

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// TestDockerfile: BuildKit takes it without a warning, it builds with the Go that
// go.mod asks for, and the image is empty but for programs, certificates and folders,
// and runs as a user without rights, by number.
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
	image := stages[len(stages)-1]
	var holds []string
	user := ""
	for _, c := range image.Commands {
		switch c := c.(type) {
		case *instructions.CopyCommand:
			holds = append(holds, c.DestPath)
		case *instructions.UserCommand:
			user = c.User
		}
	}
	if want := []string{"/etc/ssl/certs/", "/usr/local/bin/", "/var/"}; image.BaseName != "scratch" || !slices.Equal(holds, want) {
		t.Errorf("the image is from %s with %v, want scratch with %v", image.BaseName, holds, want)
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		t.Errorf("runs as %q", user)
	}
}
