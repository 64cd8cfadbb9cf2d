package main

import (
	"bufio"
	"bytes"
	"io"
	"regexp"
)

var stepLine = regexp.MustCompile(`msg=build step=(\w+)`)

// stepReader follows a builder's log.
type stepReader struct {
	lines *bufio.Scanner
	text  bytes.Buffer
	last  string // the step that began last
}

func newStepReader(log io.Reader) *stepReader { return &stepReader{lines: bufio.NewScanner(log)} }

// next reads a line and reports whether there was one.
func (r *stepReader) next() bool {
	if !r.lines.Scan() {
		return false
	}
	r.text.Write(r.lines.Bytes())
	r.text.WriteByte('\n')
	if m := stepLine.FindSubmatch(r.lines.Bytes()); m != nil {
		r.last = string(m[1])
	}
	return true
}

// waitFor reads until a step begins, or the log ends.
func (r *stepReader) waitFor(step string) {
	for r.last != step && r.next() {
	}
}

// drain reads to the end.
func (r *stepReader) drain() {
	for r.next() {
	}
}
