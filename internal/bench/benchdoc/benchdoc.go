// Package benchdoc writes the documents of measurements (BENCHMARKS.md): one
// table of the last whole run, with its date, machine, versions and command.
package benchdoc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// Document is one run. The first cell of a row is its unique name: other documents quote cells by
// row and column (TestFigures in internal/test/docs).
type Document struct {
	Title    string
	Command  string   // that makes it
	Versions []string // of the other programs that were measured
	Method   string   // Markdown: what the figures mean, and what they leave out
	Columns  []string
	Rows     [][]string // each as long as Columns
}

// Markdown returns the document, as measured now on this machine.
func (d *Document) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n    %s\n\nMeasured on %s: %s.\n\n%s\n\n", d.Title, d.Command,
		time.Now().UTC().Format(time.DateOnly), strings.Join(append(machine(), d.Versions...), ", "), d.Method)
	b.WriteString(d.table())
	return b.Bytes()
}

func (d *Document) table() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(d.Columns)
	line(append([]string{"---"}, strings.Split(strings.Repeat("---: ", len(d.Columns)-1), " ")[:len(d.Columns)-1]...))
	for _, r := range d.Rows {
		line(r)
	}
	return b.String()
}

// Print shows the table, and writes the document to a file unless its name is
// empty.
func (d *Document) Print(file string) error {
	fmt.Printf("\n%s", d.table())
	if file == "" {
		return nil
	}
	return os.WriteFile(file, d.Markdown(), 0o644)
}

var (
	cpuModel = regexp.MustCompile(`(?m)^model name\s*:\s*(.*)$`)
	version  = regexp.MustCompile(`\d+(\.\d+)+`)
)

// machine describes what the figures are from.
func machine() []string {
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := cpuModel.FindSubmatch(b); m != nil {
			model = string(m[1])
		}
	}
	kernel, err := exec.Command("uname", "-sr").Output()
	if err != nil {
		kernel = []byte(runtime.GOOS)
	}
	return []string{model, fmt.Sprintf("%d cores", runtime.NumCPU()), strings.TrimSpace(string(kernel)),
		"Go " + strings.TrimPrefix(runtime.Version(), "go")}
}

// Version returns a program's name and the version that it prints when it is
// called with arg.
func Version(program, arg string) string {
	out, _ := exec.Command(program, arg).CombinedOutput() // some fail when they are asked
	if v := version.Find(out); v != nil {
		return program + " " + string(v)
	}
	return program + " of an unknown version"
}
