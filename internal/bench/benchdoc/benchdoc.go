// Package benchdoc writes the documents that contain benchmark results (BENCHMARKS.md). Each document has one
// table with the results of the last complete run, and states the run's date, machine, versions and command.
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

// Document is the document about one run. The first cell of each row is a unique name, because other
// documents quote cells by row and column (TestFigures in internal/test/docs).
type Document struct {
	Title    string
	Command  string   // the command that makes the document
	Versions []string // versions of the other programs that were measured
	Method   string   // Markdown that explains what the figures include and what they leave out
	Columns  []string
	Rows     [][]string // each as long as Columns
}

// Markdown returns the document's text. It states that the figures were measured today on this machine.
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

// Print prints the table, and writes the document to file unless file is empty.
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

// machine describes the machine on which the figures were measured.
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

// Version returns the name of a program and the version that it prints when it is called with arg.
func Version(program, arg string) string {
	// Some programs exit with an error after printing their version.
	out, _ := exec.Command(program, arg).CombinedOutput()
	if v := version.Find(out); v != nil {
		return program + " " + string(v)
	}
	return program + " of an unknown version"
}
