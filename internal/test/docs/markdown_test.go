// Package docs checks the documents against the code: the examples of
// edge/INTERFACE.md and builder/FEED.md are run, and every section that a
// comment or a document refers to exists.
package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/marketdata/internal/test/must"
)

const root = "../../.."

// document is a Markdown file.
type document struct {
	path     string   // below the root
	headings []string // without their marks
	blocks   []block
	prose    string // the file without its fenced blocks
}

// block is a fenced block of code.
type block struct {
	info string // what stands behind the fence: "ndjson assets.ndjson"
	line int    // of the fence, from 1
	text string
}

// read parses the document at path, below the root.
func read(t *testing.T, path string) *document {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(root, path)))(t)
	d := &document{path: path}
	var prose strings.Builder
	open := false
	for i, line := range strings.Split(string(b), "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !open:
			d.blocks, open = append(d.blocks, block{info: info, line: i + 1}), true
		case fence:
			open = false
		case open:
			d.blocks[len(d.blocks)-1].text += line + "\n"
		default:
			if marks, heading, ok := strings.Cut(line, " "); ok && marks != "" && strings.Trim(marks, "#") == "" {
				d.headings = append(d.headings, heading)
			}
			prose.WriteString(line + "\n")
		}
	}
	d.prose = prose.String()
	return d
}

// blocksOf returns the blocks with the given information; it fails the test
// when there are none.
func (d *document) blocksOf(t *testing.T, info string) (blocks []block) {
	t.Helper()
	for _, b := range d.blocks {
		if b.info == info {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no block ```%s", d.path, info)
	}
	return blocks
}

// lines returns the text on both sides of sep in each line of the document's one block with the
// given information.
func (d *document) lines(t *testing.T, info, sep string) (pairs [][2]string) {
	t.Helper()
	for line := range strings.Lines(d.blocksOf(t, info)[0].text) {
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), sep)
		if !ok {
			t.Fatalf("%s: %q has no %q", d.path, line, sep)
		}
		pairs = append(pairs, [2]string{left, right})
	}
	return pairs
}
