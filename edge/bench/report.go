package main

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

// report prints the table, and writes it as Markdown when asked to.
func (b *bench) report() error {
	var md bytes.Buffer
	fmt.Fprintf(&md, "Measured on %s: %s.\n\n", time.Now().UTC().Format("2006-01-02"), machine())
	fmt.Fprintf(&md, "| what | server | CPU per request | requests a second | p50 | p99 | ratio | target | |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range b.rows {
		met := "met"
		switch {
		case !r.met:
			met = "**missed**"
		case r.target == toKnow:
			met = ""
		}
		if len(r.loads) == 0 {
			fmt.Fprintf(&md, "| %s | | | | | | %.0f | %s | %s |\n", r.what, r.ratio, r.target, met)
			continue
		}
		for i, l := range r.loads {
			m := r.median[i]
			what, ratio, target, state := "", "", "", ""
			if i == 0 {
				what, ratio, target, state = r.what, fmt.Sprintf("%.2f", r.ratio), r.target, met
			}
			fmt.Fprintf(&md, "| %s | %s | %.2f µs | %.0f | %v | %v | %s | %s | %s |\n", what, l.name, us(m.cpu), m.rate, m.p50, m.p99, ratio, target, state)
		}
	}
	fmt.Printf("\n%s", md.String())
	if b.Out != "" {
		return os.WriteFile(b.Out, md.Bytes(), 0o644)
	}
	return nil
}

var cpuModel = regexp.MustCompile(`(?m)^model name\s*:\s*(.*)$`)

// machine describes what the figures are from.
func machine() string {
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
	return fmt.Sprintf("%s, %d cores, %s, %s; one core for the server, one for the load, which never sleeps, %d connections, loopback",
		model, runtime.NumCPU(), strings.TrimSpace(string(kernel)), runtime.Version(), connections)
}
