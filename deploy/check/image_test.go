package check

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// TestDockerfile: BuildKit takes it without a warning, it builds with the Go
// that go.mod asks for, and what comes out is static and not root.
func TestDockerfile(t *testing.T) {
	text := read(t, deploy, "Dockerfile")
	parsed, err := parser.Parse(bytes.NewReader(text))
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
	gomod := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(read(t, root, "go.mod"))
	if want := "golang:" + string(gomod[1]) + "-"; !strings.HasPrefix(stages[0].BaseName, want) {
		t.Errorf("builds with %s, go.mod asks for %s", stages[0].BaseName, want)
	}
	last := stages[len(stages)-1]
	if last.BaseName != "scratch" {
		t.Errorf("the image is made from %s", last.BaseName)
	}
	var user string
	for _, c := range last.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.RunCommand:
			t.Errorf("nothing can run in an empty image: %v", c)
		}
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(user) {
		t.Errorf("runs as %q", user)
	}
	if !strings.Contains(string(text), "CGO_ENABLED=0") {
		t.Error("not static")
	}
	for _, p := range programs {
		if !strings.Contains(string(text), "./"+p+"/cmd/"+p) {
			t.Errorf("%s is not built", p)
		}
	}
}

// TestDockerignore: the build gets what is in git, and nothing that make leaves
// behind.
func TestDockerignore(t *testing.T) {
	patterns, err := ignorefile.ReadAll(bytes.NewReader(read(t, deploy, "Dockerfile.dockerignore")))
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("not a checkout of git: %v", err)
	}
	for _, file := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		if out, err := ignored.MatchesOrParentMatches(file); err != nil || out {
			t.Errorf("%s is left out, %v", file, err)
		}
	}
	for _, file := range []string{
		"bin/edge", ".run/key", "dist/SHA256SUMS", "edge/server/server.test", "edge/cpu.prof", "edge/openapi/clients/typescript/node_modules/x/y",
	} {
		if out, err := ignored.MatchesOrParentMatches(file); err != nil || !out {
			t.Errorf("%s is not left out, %v", file, err)
		}
		if err := exec.Command("git", "-C", root, "check-ignore", "--quiet", file).Run(); err != nil {
			t.Errorf("git does not ignore %s: %v", file, err)
		}
	}
}

// TestImages: every image that is pulled has a version.
func TestImages(t *testing.T) {
	var images []string
	for name, s := range project(t).Services {
		if s.Build == nil {
			images = append(images, s.Image)
		} else if s.Build.Context != root || s.Build.Dockerfile != filepath.Join("deploy", "Dockerfile") {
			t.Errorf("%s is built from %s in %s", name, s.Build.Dockerfile, s.Build.Context)
		}
	}
	for _, r := range objects(t, "example") {
		if d, ok := r.(*deployment); ok {
			for _, c := range d.Spec.Template.Spec.Containers {
				images = append(images, c.Image)
			}
		}
	}
	if len(images) < 8 {
		t.Errorf("only %v", images)
	}
	for _, image := range images {
		if !regexp.MustCompile(`:[vA-Z.]*\d+[.-]\d\S*$`).MatchString(image) {
			t.Errorf("image %s has no version", image)
		}
	}
}
