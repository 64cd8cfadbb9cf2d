package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/must"
)

const commandsDocument = "builder/COMMANDS.md"

var (
	// printed is the part of the page that the program prints.
	printed = regexp.MustCompile(`(?s)<!-- help -->\n.*<!-- /help -->`)
	// common matches the title of the first flag group that several commands share.
	common = regexp.MustCompile(`(?m)^(Snapshots|Guard rails|Signing|Of every command):$`)
)

// helpOf returns a program's help for one of its commands, with all flags.
func helpOf(t *testing.T, bin, program string, words ...string) string {
	t.Helper()
	out, err := exec.CommandContext(
		t.Context(), filepath.Join(bin, program), append([]string{"help", "all"}, words...)...).Output()
	if err != nil {
		t.Fatalf("%s help all %q: %v", program, words, err)
	}
	return string(out)
}

// commandsOf returns the names of a program's commands, in the order of its help.
func commandsOf(t *testing.T, bin, program string) (names []string) {
	t.Helper()
	_, list, _ := strings.Cut(helpOf(t, bin, program), "Commands:")
	for _, m := range listed.FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	return names
}

// testCommandsPage compares the page of commands with the output of builder, or with -update
// rewrites it.
func testCommandsPage(t *testing.T, bin string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("<!-- help -->\n")
	section := func(title, text string) {
		b.WriteString("### " + title + "\n\n```text\n" + strings.TrimSpace(text) + "\n```\n\n")
	}
	for _, name := range commandsOf(t, bin, "builder") {
		help := helpOf(t, bin, "builder", strings.Fields(name)...)
		if at := common.FindStringIndex(help); at != nil {
			help = help[:at[0]]
		}
		section("builder "+name, help)
	}
	help := helpOf(t, bin, "builder", "build")
	section("Flags of several commands", help[common.FindStringIndex(help)[0]:])
	b.WriteString("<!-- /help -->")
	path := filepath.Join(root, commandsDocument)
	text := string(must.Get(os.ReadFile(path))(t))
	now := printed.ReplaceAllLiteralString(text, b.String())
	if now == text {
		return
	}
	if !*update {
		t.Errorf("%s differs from the help of builder: "+
			"go test ./internal/test/docs -run TestPrograms/page -update", commandsDocument)
		return
	}
	must.OK(t, os.WriteFile(path, []byte(now), 0o644))
}

// TestReports: all report fields that the page of commands names exist in the code.
func TestReports(t *testing.T) {
	tag := regexp.MustCompile(`"([a-z_]+)[",]`)
	known := map[string]bool{}
	for _, path := range files(t, ".go") {
		if strings.HasPrefix(path, "builder/") && !strings.HasSuffix(path, "_test.go") {
			text := string(must.Get(os.ReadFile(filepath.Join(root, path)))(t))
			for _, m := range tag.FindAllStringSubmatch(text, -1) {
				known[m[1]] = true
			}
		}
	}
	_, section, _ := strings.Cut(read(t, commandsDocument).prose, "## Reports\n")
	section, _, _ = strings.Cut(section, "\n## ")
	section = regexp.MustCompile(`\*\*.*?\*\*`).ReplaceAllString(section, "") // remove the names of the commands
	_, section, _ = strings.Cut(section, "at least these fields")
	n := 0
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(section, -1) {
		n++
		if !known[m[1]] && m[1] != "gc" {
			t.Errorf("%s: no report has a field %s", commandsDocument, m[1])
		}
	}
	if n < 80 {
		t.Errorf("%d fields: are they still found?", n)
	}
}
