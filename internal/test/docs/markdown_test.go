// Package docs checks the documents against the code. It runs the examples of edge/INTERFACE.md and
// builder/FEED.md, and checks that every section to which a comment or a document refers exists.
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
	path     string   // relative to the root
	headings []string // without the leading # marks
	blocks   []block
	prose    string // the file without its fenced blocks
}

// block is a fenced block of code.
type block struct {
	info string // the text after the fence, such as "ndjson assets.ndjson"
	line int    // line number of the fence, starting from 1
	text string
}

// read parses the document at path, which is relative to the root.
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

// blocksOf returns the blocks with the given info text. It fails the test if there are none.
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

// lines returns the text on both sides of sep in each line of the document's only block with the
// given info text.
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
