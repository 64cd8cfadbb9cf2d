// Package openapi contains the OpenAPI 3.1 document of the API. The source is openapi.yaml, whose examples
// are answers of a running edge. Tests compare the document with the code in both directions, and with the
// copy that was frozen with v1 (frozen.json).
package openapi

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml examples pages
var files embed.FS

// Pages returns the documentation pages that are part of the document's description, as Markdown, by file
// name.
func Pages() (map[string][]byte, error) {
	pages := map[string][]byte{}
	err := fs.WalkDir(files, "pages", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			pages[path.Base(name)], err = files.ReadFile(name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return pages, nil
}

// Server is the placeholder for the server's origin in the document and in its examples.
const Server = "https://host"

// Options contains the settings in which the documents of different edges differ.
type Options struct {
	// KeyRequestURL is where people request keys. If it is empty, the document does not mention it.
	KeyRequestURL string
}

// Document returns the document as JSON. Members have the same order as in openapi.yaml. In the description,
// links between pages lead to /docs/.
func Document(o Options) ([]byte, error) {
	source, err := files.ReadFile("openapi.yaml")
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	pages, err := Pages()
	if err != nil {
		return nil, err
	}
	keys := ""
	if o.KeyRequestURL != "" {
		keys = " Request a key at <" + o.KeyRequestURL + ">."
	}
	var links []string
	for name := range pages {
		links = append(links, "]("+name+")", "](/docs/"+name+")")
	}
	absolute := strings.NewReplacer(links...)
	marks := []string{"$KEYS", keys}
	for name, text := range pages {
		mark := "${" + strings.TrimSuffix(name, ".md") + "}"
		marks = append(marks, mark, absolute.Replace(strings.TrimSpace(string(text))))
	}
	e := encoder{marks: strings.NewReplacer(marks...)}
	if err := e.node(root.Content[0]); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return e.out.Bytes(), nil
}

// encoder writes YAML nodes as JSON. It keeps the order of mappings, which encoding/json would lose.
type encoder struct {
	out   bytes.Buffer
	marks *strings.Replacer // replaces the placeholders in strings
}

func (e *encoder) node(n *yaml.Node) error {
	switch n.Kind {
	case yaml.AliasNode:
		return e.node(n.Alias)
	case yaml.MappingNode:
		return e.mapping(n)
	case yaml.SequenceNode:
		e.out.WriteByte('[')
		for i, item := range items(n) {
			if i > 0 {
				e.out.WriteByte(',')
			}
			if err := e.node(item); err != nil {
				return err
			}
		}
		e.out.WriteByte(']')
		return nil
	case yaml.ScalarNode:
		return e.scalar(n)
	}
	return fmt.Errorf("line %d: a node of kind %d", n.Line, n.Kind)
}

// items returns the items of a list. It replaces nested lists with their items.
func items(n *yaml.Node) (all []*yaml.Node) {
	for _, item := range n.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		if item.Kind == yaml.SequenceNode {
			all = append(all, items(item)...)
		} else {
			all = append(all, item)
		}
	}
	return all
}

func (e *encoder) mapping(n *yaml.Node) error {
	e.out.WriteByte('{')
	seen := map[string]bool{}
	if err := e.pairs(n, seen); err != nil {
		return err
	}
	e.out.WriteByte('}')
	return nil
}

// pairs writes the keys and values of a mapping. Pairs that "<<" merges into the mapping are written where
// the "<<" is.
func (e *encoder) pairs(n *yaml.Node, seen map[string]bool) error {
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			if value.Kind == yaml.AliasNode {
				value = value.Alias
			}
			if err := e.pairs(value, seen); err != nil {
				return err
			}
			continue
		}
		if seen[key.Value] {
			return fmt.Errorf("line %d: %s is there twice", key.Line, key.Value)
		}
		if len(seen) > 0 {
			e.out.WriteByte(',')
		}
		seen[key.Value] = true
		e.text(key.Value)
		e.out.WriteByte(':')
		if err := e.node(value); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) scalar(n *yaml.Node) error {
	switch n.Tag {
	case "!!str":
		e.text(e.marks.Replace(n.Value))
	case "!!int", "!!bool":
		e.out.WriteString(n.Value)
	case "!example":
		if strings.HasSuffix(n.Value, ".csv") {
			table, err := files.ReadFile("examples/" + n.Value)
			if err != nil {
				return fmt.Errorf("line %d: %w", n.Line, err)
			}
			e.text(string(table))
			return nil
		}
		body, err := files.ReadFile("examples/" + n.Value + ".json")
		if err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		if err := json.Compact(&e.out, body); err != nil {
			return fmt.Errorf("line %d: %s: %w", n.Line, n.Value, err)
		}
	default:
		return fmt.Errorf(
			"line %d: %q is %s; write it as a text, a whole number, a bool or an example", n.Line, n.Value, n.Tag)
	}
	return nil
}

func (e *encoder) text(s string) {
	encoder := json.NewEncoder(&e.out)
	encoder.SetEscapeHTML(false)
	// Encoding a string cannot fail. Encode appends a newline, which is removed.
	_ = encoder.Encode(s)
	e.out.Truncate(e.out.Len() - 1)
}
