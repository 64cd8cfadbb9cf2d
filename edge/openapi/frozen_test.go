package openapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/edge/openapi"
)

var freeze = flag.Bool("freeze", false, "write what was added to the document into its frozen copy")

const frozenFile = "frozen.json"

// document is an OpenAPI document as a tree.
type document map[string]any

// current returns the document without its prose, which may change.
func current(t *testing.T) document {
	t.Helper()
	text, err := openapi.Document(openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"info", "servers", "tags"} {
		delete(d, key)
	}
	strip(map[string]any(d))
	return d
}

func strip(node any) {
	switch node := node.(type) {
	case map[string]any:
		for _, key := range []string{"description", "summary", "examples", "tags"} {
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

// TestFrozen holds the document against the copy that was frozen with v1
// (COMPATIBILITY.md, "What is promised across versions": nothing is removed or
// changes its type). With -freeze, additions are frozen, too.
func TestFrozen(t *testing.T) {
	now := current(t)
	text, err := os.ReadFile(frozenFile)
	if err != nil && !*freeze {
		t.Fatal(err)
	}
	if err == nil {
		var frozen document
		if err := json.Unmarshal(text, &frozen); err != nil {
			t.Fatal(err)
		}
		for _, problem := range breaks(frozen, now) {
			t.Error(problem)
		}
	}
	if *freeze && !t.Failed() {
		text, err := json.MarshalIndent(now, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(frozenFile, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFrozenNotices damages the document in every way that would break a
// client, one at a time.
func TestFrozenNotices(t *testing.T) {
	frozen, now := current(t), current(t)
	kinds := map[string]int{}
	var all damages
	all.collect("", map[string]any(now))
	for _, d := range all {
		kinds[d.kind]++
		undo := d.do()
		if len(breaks(frozen, now)) == 0 {
			t.Errorf("not noticed: %s %s", d.kind, d.path)
		}
		undo()
	}
	for _, kind := range []string{"path", "parameter", "status", "header", "property", "required", "type", "const", "enum", "oneOf", "default", "bound"} {
		if kinds[kind] == 0 {
			t.Errorf("no damage of kind %s was tried: %v", kind, kinds)
		}
	}
	if problems := breaks(frozen, now); len(problems) > 0 {
		t.Fatalf("the document breaks itself: %v", problems)
	}
}

// TestFrozenAllows makes additions, which break nobody.
func TestFrozenAllows(t *testing.T) {
	frozen, grown := current(t), current(t)
	paths := grown["paths"].(map[string]any)
	paths["/openapi/v1/more"] = paths["/openapi/v1/global"]
	get := paths["/openapi/v1/assets"].(map[string]any)["get"].(map[string]any)
	get["parameters"] = append(get["parameters"].([]any), map[string]any{"name": "more", "in": "query", "schema": map[string]any{"type": "string"}})
	get["responses"].(map[string]any)["418"] = get["responses"].(map[string]any)["400"]
	sort := get["parameters"].([]any)[7].(map[string]any)["schema"].(map[string]any)
	sort["enum"] = append(sort["enum"].([]any), "more")
	schemas := grown["components"].(map[string]any)["schemas"].(map[string]any)
	asset := schemas["Asset"].(map[string]any)
	asset["properties"].(map[string]any)["more"] = map[string]any{"type": "string"}
	asset["required"] = append(asset["required"].([]any), "more")
	schemas["Error"].(map[string]any)["oneOf"] = append(schemas["Error"].(map[string]any)["oneOf"].([]any), map[string]any{"type": "object"})
	for _, problem := range breaks(frozen, grown) {
		t.Error(problem)
	}
}

// damage removes or changes one thing in a document.
type damage struct {
	kind, path string
	do         func() (undo func())
}

type damages []damage

// set is the damage that gives a key another value.
func (all *damages) set(kind, path string, node map[string]any, key string, value any) {
	*all = append(*all, damage{kind, path, func() func() {
		old := node[key]
		node[key] = value
		return func() { node[key] = old }
	}})
}

// members and elements are the damages that remove one member of an object and
// one element of an array.
func (all *damages) members(kind, path string, node any) {
	in := node.(map[string]any)
	for name, old := range in {
		*all = append(*all, damage{kind, path + "/" + name, func() func() {
			delete(in, name)
			return func() { in[name] = old }
		}})
	}
}

func (all *damages) elements(kind, path string, node map[string]any, key string) {
	list := node[key].([]any)
	for i, value := range list {
		all.set(kind, fmt.Sprint(path, " ", value), node, key, slices.Delete(slices.Clone(list), i, i+1))
	}
}

// collect finds what can be damaged in node.
func (all *damages) collect(path string, node any) {
	if list, ok := node.([]any); ok {
		for i, value := range list {
			all.collect(fmt.Sprintf("%s/%d", path, i), value)
		}
	}
	object, _ := node.(map[string]any)
	parameter := strings.Contains(path, "/parameters/")
	for key, value := range object {
		at := path + "/" + key
		all.collect(at, value)
		_, isList := value.([]any)
		switch {
		case path == "/components" && (key == "parameters" || key == "headers" || key == "responses"):
			// Nobody sees a component but through a reference.
		case key == "paths":
			all.members("path", at, value)
		case key == "properties":
			all.members("property", at, value)
		case key == "responses":
			all.members("status", at, value)
		case key == "headers":
			all.members("header", at, value)
		case key == "parameters":
			all.elements("parameter", at, object, key)
		case isList && (key == "enum" || key == "oneOf" || key == "required"):
			all.elements(key, at, object, key)
		case key == "const":
			all.set("const", at, object, key, "changed")
		case key == "type":
			all.set("type", at, object, key, "boolean")
		case key == "default" && parameter && !strings.Contains(path, "/responses"):
			all.set("default", at, object, key, "changed")
		case parameter && (key == "maximum" || key == "maxItems"):
			all.set("bound", at, object, key, value.(float64)-1)
		case parameter && key == "minimum":
			all.set("bound", at, object, key, value.(float64)+1)
		}
	}
}

// breaks names what a client of the frozen document would miss in now.
func breaks(frozen, now document) []string {
	b := &breaking{frozen: frozen, now: now, compared: map[string]bool{}}
	for path, item := range frozen["paths"].(map[string]any) {
		there, ok := now["paths"].(map[string]any)[path].(map[string]any)
		if !ok {
			b.say("%s is gone", path)
			continue
		}
		for method, operation := range item.(map[string]any) {
			other, ok := there[method].(map[string]any)
			if !ok {
				b.say("%s %s is gone", method, path)
				continue
			}
			b.operation(path, operation.(map[string]any), other)
		}
	}
	security := func(d document) any { return d["components"].(map[string]any)["securitySchemes"] }
	if !reflect.DeepEqual(security(frozen), security(now)) || !reflect.DeepEqual(frozen["security"], now["security"]) {
		b.say("authentication has changed")
	}
	slices.Sort(b.problems)
	return slices.Compact(b.problems)
}

type breaking struct {
	frozen, now document
	problems    []string
	compared    map[string]bool // components, which many refer to
}

// again reports that the component that both refer to was compared before.
func (b *breaking) again(frozen, now any) bool {
	was, _ := frozen.(map[string]any)
	is, _ := now.(map[string]any)
	ref, ok := was["$ref"].(string)
	if !ok || is["$ref"] != ref {
		return false
	}
	again := b.compared[ref]
	b.compared[ref] = true
	return again
}

func (b *breaking) say(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// resolve follows references. Keywords beside a reference are prose here.
func (d document) resolve(node any) map[string]any {
	m, _ := node.(map[string]any)
	for {
		ref, ok := m["$ref"].(string)
		if !ok {
			return m
		}
		at := map[string]any(d)
		for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			at, _ = at[name].(map[string]any)
		}
		m = at
	}
}

func (b *breaking) operation(path string, frozen, now map[string]any) {
	parameters := func(d document, operation map[string]any) map[string]map[string]any {
		all := map[string]map[string]any{}
		for _, p := range operation["parameters"].([]any) {
			p := d.resolve(p)
			all[fmt.Sprint(p["in"], " ", p["name"])] = p
		}
		return all
	}
	was, is := parameters(b.frozen, frozen), parameters(b.now, now)
	for name, p := range was {
		at := path + " parameter " + name
		if is[name] == nil {
			b.say("%s is gone", at)
			continue
		}
		for _, key := range []string{"style", "explode"} {
			if !reflect.DeepEqual(p[key], is[name][key]) {
				b.say("%s has another %s", at, key)
			}
		}
		b.bounds(at, b.frozen.resolve(p["schema"]), b.now.resolve(is[name]["schema"]))
		b.schema(at, p["schema"], is[name]["schema"])
	}
	for name, p := range is {
		if p["required"] == true && (was[name] == nil || was[name]["required"] != true) {
			b.say("%s parameter %s is required", path, name)
		}
	}
	for status, ref := range frozen["responses"].(map[string]any) {
		at := path + " " + status
		other := now["responses"].(map[string]any)[status]
		if b.again(ref, other) {
			continue
		}
		was, is := b.frozen.resolve(ref), b.now.resolve(other)
		if is == nil {
			b.say("%s is gone", at)
			continue
		}
		headers, _ := was["headers"].(map[string]any)
		for name, ref := range headers {
			others, _ := is["headers"].(map[string]any)
			header, other := b.frozen.resolve(ref), b.now.resolve(others[name])
			if other == nil {
				b.say("%s header %s is gone", at, name)
				continue
			}
			if header["required"] == true && other["required"] != true {
				b.say("%s header %s is optional", at, name)
			}
			b.schema(at+" header "+name, header["schema"], other["schema"])
		}
		content, _ := was["content"].(map[string]any)
		for kind, body := range content {
			others, _ := is["content"].(map[string]any)
			other, ok := others[kind].(map[string]any)
			if !ok {
				b.say("%s as %s is gone", at, kind)
				continue
			}
			b.schema(at, body.(map[string]any)["schema"], other["schema"])
		}
	}
}

// bounds: what a parameter took it must take, and nothing sent must mean the
// same.
func (b *breaking) bounds(at string, frozen, now map[string]any) {
	if !reflect.DeepEqual(frozen["default"], now["default"]) {
		b.say("%s has the default %v, not %v", at, now["default"], frozen["default"])
	}
	for key, sign := range map[string]float64{"minimum": -1, "maximum": 1, "maxItems": 1, "minItems": -1, "maxLength": 1, "minLength": -1} {
		if is, ok := now[key].(float64); ok {
			if was, had := frozen[key].(float64); !had || sign*is < sign*was {
				b.say("%s has the %s %v", at, key, is)
			}
		}
	}
}

func (b *breaking) schema(at string, frozen, now any) {
	if b.again(frozen, now) {
		return
	}
	was, is := b.frozen.resolve(frozen), b.now.resolve(now)
	if is == nil {
		b.say("%s is gone", at)
		return
	}
	for _, key := range []string{"type", "const", "format"} {
		if !reflect.DeepEqual(was[key], is[key]) {
			b.say("%s: %s is %v, not %v", at, key, is[key], was[key])
		}
	}
	enum, had := was["enum"].([]any)
	others, has := is["enum"].([]any)
	if has && !had {
		b.say("%s is an enumeration", at)
	}
	for _, value := range enum {
		if !slices.Contains(others, value) {
			b.say("%s: %v is gone", at, value)
		}
	}
	required, _ := was["required"].([]any)
	still, _ := is["required"].([]any)
	for _, name := range required {
		if !slices.Contains(still, name) {
			b.say("%s.%s is optional", at, name)
		}
	}
	properties, _ := was["properties"].(map[string]any)
	for name, schema := range properties {
		there, _ := is["properties"].(map[string]any)
		if there[name] == nil {
			b.say("%s.%s is gone", at, name)
			continue
		}
		b.schema(at+"."+name, schema, there[name])
	}
	if items := was["items"]; items != nil {
		b.schema(at+"[]", items, is["items"])
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		b.alternatives(at, was[key], is[key])
	}
}

// alternatives: each there was must still be there, in any place.
func (b *breaking) alternatives(at string, frozen, now any) {
	was, _ := frozen.([]any)
	is, _ := now.([]any)
	for i, each := range was {
		if !slices.ContainsFunc(is, func(other any) bool {
			try := &breaking{frozen: b.frozen, now: b.now, compared: map[string]bool{}}
			try.schema(at, each, other)
			return len(try.problems) == 0
		}) {
			b.say("%s: alternative %d is gone", at, i+1)
		}
	}
}
