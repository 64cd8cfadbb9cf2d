package openapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/edge/openapi"
	"example.com/marketdata/internal/test/must"
)

var freeze = flag.Bool("freeze", false, "write what was added to the document into its frozen copy")

const frozenFile = "frozen.json"

// current returns the document without its prose, which may change.
func current(t *testing.T) string {
	t.Helper()
	text, err := openapi.Document(openapi.Options{})
	must.OK(t, err)
	var d map[string]any
	must.OK(t, json.Unmarshal(text, &d))
	for _, key := range []string{"info", "servers", "tags"} {
		delete(d, key)
	}
	strip(d)
	text = must.Get(json.MarshalIndent(d, "", " "))(t)
	return string(text)
}

func strip(node any) {
	switch node := node.(type) {
	case map[string]any:
		for _, key := range []string{"description", "summary", "examples", "example", "tags"} {
			delete(node, key)
		}
		for _, value := range node {
			strip(value)
		}
	case []any:
		for _, value := range node {
			strip(value)
		}
	}
}

// TestFrozen compares the document with the copy that was frozen with v1 (COMPATIBILITY.md, "What is
// promised across versions": nothing is removed or changes its type). With -freeze, it also freezes
// additions.
func TestFrozen(t *testing.T) {
	now := current(t)
	text, err := os.ReadFile(frozenFile)
	if err != nil && !*freeze {
		t.Fatal(err)
	}
	if err == nil {
		for _, problem := range breaks(t, string(text), now) {
			t.Error(problem)
		}
	}
	if *freeze && !t.Failed() {
		must.OK(t, os.WriteFile(frozenFile, []byte(now+"\n"), 0o644))
	}
}

// TestFrozenNotices checks that breaks detects changes that break a client, and accepts changes that do
// not.
func TestFrozenNotices(t *testing.T) {
	frozen := current(t)
	// edit finds all arguments but the last, one after another, and replaces the text found last with the
	// last argument.
	edit := func(find ...string) string {
		t.Helper()
		at := 0
		for _, text := range find[:len(find)-1] {
			next := strings.Index(frozen[at:], text)
			if next < 0 {
				t.Fatalf("the document has no %s behind %q", text, find)
			}
			at += next
		}
		last := find[len(find)-2]
		return frozen[:at] + find[len(find)-1] + frozen[at+len(last):]
	}
	const parameter = `"name": "size"`
	for kind, now := range map[string]string{
		"path":                edit(`"/openapi/v1/chains":`, `"/openapi/v1/x":`),
		"method":              edit(`"/openapi/v1/chains":`, `"get":`, `"put":`),
		"parameter":           edit(parameter, `"name": "length"`),
		"parameter required":  edit(parameter, `"name": "size", "required": true`),
		"parameter narrower":  edit(parameter, `"maximum": 100`, `"maximum": 99`),
		"parameter bounded":   edit(parameter, `"maximum": 100`, `"maximum": 100, "maxLength": 3`),
		"parameter's default": edit(parameter, `"default": 20`, `"default": 21`),
		"explode":             edit(`"explode": false`, `"explode": true`),
		"status":              edit(`"410":`, `"411":`),
		"header":              edit(`"headers": {`, `"X-Request-Id":`, `"X-Id":`),
		"media type":          edit(`"content": {`, `"application/json":`, `"text/json":`),
		"property":            edit(`"slug": {`, `"slugs": {`),
		"property optional":   edit(`"required": [`, `"id"`, `"idx"`),
		"type":                edit(`"schemas": {`, `"type": "integer"`, `"type": "string"`),
		"type is null, too":   edit(`"schemas": {`, `"type": "integer"`, `"type": ["integer", "null"]`),
		"const":               edit(`"const": 40000`, `"const": 40002`),
		"value of an enum":    edit(`"name": "sort"`, `"enum": [`, `"id:asc"`, `"id:up"`),
		"alternative": edit(
			`"oneOf": [`, `"$ref": "#/components/schemas/`, `"$ref": "#/components/schemas/Asset", "x": "`),
		"authentication": edit(`"securitySchemes": {`, `"X-Api-Key"`, `"X-Key"`),
		"parameter, new, must": edit(`"/openapi/v1/assets": {`, `"parameters": [`,
			`"parameters": [{"name": "more", "in": "query", "required": true},`),
	} {
		if len(breaks(t, frozen, now)) == 0 {
			t.Errorf("not noticed: %s", kind)
		}
	}
	for kind, now := range map[string]string{
		"nothing": frozen,
		"path":    edit(`"paths": {`, `"paths": {"/openapi/v1/more": {},`),
		"parameter": edit(
			`"/openapi/v1/assets": {`, `"parameters": [`, `"parameters": [{"name": "more", "in": "query"},`),
		"parameter, wider": edit(parameter, `"maximum": 100`, `"maximum": 1000`),
		"status":           edit(`"410":`, `"418": {}, "410":`),
		"property":         edit(`"properties": {`, `"properties": {"more": {"type": "string"},`),
		"required":         edit(`"required": [`, `"required": ["more",`),
		"value of an enum": edit(`"name": "sort"`, `"enum": [`, `"enum": ["more",`),
		"alternative":      edit(`"oneOf": [`, `"oneOf": [{"type": "object"},`),
	} {
		if problems := breaks(t, frozen, now); len(problems) > 0 {
			t.Errorf("%s: %q", kind, problems)
		}
	}
}

// breaks returns the differences that break a client of the frozen document.
func breaks(t *testing.T, frozen, now string) []string {
	t.Helper()
	was, is := expand(t, frozen), expand(t, now)
	b := comparison{problems: map[string]bool{}}
	b.compare("", was, is, false)
	return slices.Sorted(maps.Keys(b.problems))
}

// expand replaces references with what they refer to, and leaves out all components except the security
// schemes.
func expand(t *testing.T, text string) any {
	t.Helper()
	var root map[string]any
	must.OK(t, json.Unmarshal([]byte(text), &root))
	var put func(node any) any
	put = func(node any) any {
		switch node := node.(type) {
		case map[string]any:
			if ref, ok := node["$ref"].(string); ok { // the keys beside it are prose
				at := any(root)
				for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
					m, _ := at.(map[string]any)
					at = m[name]
				}
				return put(at)
			}
			whole := map[string]any{}
			for key, value := range node {
				whole[key] = put(value)
			}
			return whole
		case []any:
			whole := make([]any, len(node))
			for i, value := range node {
				whole[i] = put(value)
			}
			return whole
		}
		return node
	}
	components, _ := root["components"].(map[string]any)
	return put(map[string]any{
		"paths": root["paths"], "security": root["security"], "securitySchemes": components["securitySchemes"]})
}

type comparison struct{ problems map[string]bool }

func (b *comparison) say(format string, args ...any) { b.problems[fmt.Sprintf(format, args...)] = true }

// compare checks that everything in frozen is still present and unchanged in now. There may be additions,
// except in the parts that a client sends (input).
func (b *comparison) compare(at string, frozen, now any, input bool) {
	switch frozen := frozen.(type) {
	case map[string]any:
		now, _ := now.(map[string]any)
		for key, was := range frozen {
			is, ok := now[key]
			x, _ := was.(float64)
			y, _ := is.(float64)
			switch {
			case !ok:
				b.say("%s has no %s any more", at, key)
			case key == "type" && !reflect.DeepEqual(was, is):
				b.say("%s: the type is %v, not %v", at, is, was)
			case !input && key == "pattern": // describes only what the service sends now
			// wider
			case input && strings.HasPrefix(key, "max") && y > x, input && strings.HasPrefix(key, "min") && y < x:
			default:
				b.compare(at+"/"+key, was, is, input || key == "parameters")
			}
		}
		for key := range now {
			if _, ok := frozen[key]; input && !ok {
				b.say("%s: %s is new", at, key)
			}
		}
	case []any:
		now, _ := now.([]any)
		for _, was := range frozen {
			if !slices.ContainsFunc(now, func(is any) bool { return same(was, is, input) }) {
				b.say("%s has no %.200v any more", at, was)
			}
		}
		for _, is := range now {
			if p, _ := is.(map[string]any); p["required"] == true &&
				!slices.ContainsFunc(frozen, func(was any) bool { return same(was, is, input) }) {
				b.say("%s: %v must be sent", at, p["name"])
			}
		}
	default:
		if frozen != now {
			b.say("%s is %v, not %v", at, now, frozen)
		}
	}
}

// same reports whether compare finds no problem.
func same(was, is any, input bool) bool {
	b := comparison{problems: map[string]bool{}}
	b.compare("", was, is, input)
	return len(b.problems) == 0
}
