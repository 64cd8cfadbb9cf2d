package openapi_test

import (
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/marketdata/edge/query"
	"example.com/marketdata/internal/test/must"
	"github.com/getkin/kin-openapi/openapi3"
)

// paramCase is a value of a parameter, and whether the document accepts it.
type paramCase struct {
	value string
	valid bool
	// The document lists the values in lower case, and its description says
	// that case does not matter.
	folded bool
}

var (
	maxInt64 = big.NewInt(1).Lsh(big.NewInt(1), 63) // larger by one than the largest int64
	minInt64 = new(big.Int).Neg(maxInt64)
)

// casesOf returns the cases for a schema: values at, below and above each bound, each enumerated value and
// an invalid one, a full list and a list that is too long.
func casesOf(t *testing.T, p *openapi3.Parameter) []paramCase {
	t.Helper()
	s := p.Schema.Value
	one := big.NewInt(1)
	switch {
	case s.Type.Is("integer"):
		cases := []paramCase{{value: "1.5"}, {value: "1e1"}, {value: "0x1"}, {value: "one"}, {value: "%201"}}
		low, high := minInt64, new(big.Int).Sub(maxInt64, one)
		if s.Min != nil {
			low = big.NewInt(int64(*s.Min))
		}
		if s.Max != nil {
			high = big.NewInt(int64(*s.Max))
		}
		for _, n := range []*big.Int{low, new(big.Int).Add(low, one), new(big.Int).Sub(high, one), high} {
			cases = append(cases, paramCase{value: n.String(), valid: true})
		}
		for _, n := range []*big.Int{new(big.Int).Sub(low, one), new(big.Int).Add(high, one)} {
			cases = append(cases, paramCase{value: n.String()})
		}
		return cases
	case s.Type.Is("string") && len(s.Enum) > 0:
		cases := []paramCase{{value: "none"}}
		for _, v := range s.Enum {
			text := v.(string)
			cases = append(cases, paramCase{value: text, valid: true},
				paramCase{value: strings.ToUpper(text), valid: true, folded: true}, paramCase{value: text + "x"})
		}
		return cases
	case s.Type.Is("array") && s.MaxItems != nil:
		n := int(*s.MaxItems)
		if enum := s.Items.Value.Enum; len(enum) > 0 {
			first, last := enum[0].(string), enum[len(enum)-1].(string)
			return []paramCase{{value: first + "," + last, valid: true}, {value: first + "x"},
				{value: strings.ToUpper(last), valid: true, folded: true},
				{value: strings.Repeat(first+",", n-1) + last, valid: true},
				{value: strings.Repeat(first+",", n) + last}}
		}
		item := "1"
		cases := []paramCase{{value: "1", valid: true}, {value: strings.Repeat("1,", n-1) + "1", valid: true},
			{value: strings.Repeat("1,", n) + "1"}}
		if s.Items.Value.Type.Is("integer") {
			for _, c := range []string{"one", "1,one", "1.5", "1,9223372036854775808"} {
				cases = append(cases, paramCase{value: c})
			}
			item = "9223372036854775807"
		}
		return append(cases, paramCase{value: item + ",-1", valid: true})
	case s.MaxLength != nil:
		n := int(*s.MaxLength)
		return []paramCase{{value: strings.Repeat("x", n), valid: true}, {value: strings.Repeat("x", n+1)},
			{value: "+"}, {value: "a+b++c+d+e+f+g+h+", valid: true}, {value: "a+b+c+d+e+f+g+h+i"}}
	case s.Pattern != "" && p.In == "query": // a time
		return []paramCase{{value: "1795255200", valid: true}, {value: "2026-11-20T10:00:00Z", valid: true},
			{value: "2026-11-20T10:00:00.5%2B02:00", valid: true}, {value: "one"}, {value: "1.5"},
			{value: "2026-11-20"}}
	}
	return nil
}

// freeText lists the parameters that accept any text. TestAnswers, and TestRequestID and TestPin in package
// server, test them.
var freeText = []string{"X-Request-Id", "X-Snapshot-Time"}

// TestParameters sends every parameter of the document with values at its bounds.
func TestParameters(t *testing.T) {
	w, c := newWorld(t), newChecker(t)
	var paths []string
	for _, endpoint := range endpoints {
		paths = append(paths, "/openapi/v1/"+endpoint, pinned+"/openapi/v1/"+endpoint)
	}
	for _, path := range paths {
		least := asked(path)
		join := "?"
		if least != path {
			join = "&"
		}
		plain := w.open.ask(t, question{method: "GET", target: least})
		operation, _ := c.Operation(path)
		for _, ref := range operation.Parameters {
			p := ref.Value
			if p.In == "path" {
				continue // TestAnswers tests it
			}
			cases := casesOf(t, p)
			if len(cases) == 0 && !slices.Contains(freeText, p.Name) {
				t.Errorf("%s: no rule of %s can be tested", path, p.Name)
			}
			for _, each := range cases {
				q, header := question{method: "GET", target: least}, http.Header{}
				if p.In == "header" {
					q.header = []string{p.Name + ": " + each.value}
					header.Set(p.Name, each.value)
				} else if name, ok := sent(least, p.Name); ok {
					q.target = strings.Replace(least, name, name[:1]+p.Name+"="+each.value, 1)
				} else {
					q.target += join + p.Name + "=" + each.value
				}
				if err := c.Valid(q.target, header); (err == nil) != each.valid && !each.folded {
					t.Errorf("%s with %s: the document says %v, want valid %t", path, p.Name+"="+each.value, err,
						each.valid)
				}
				a := w.open.ask(t, q)
				must.OK(t, c.Check(q.method, q.target, a))
				want := 400
				if each.valid {
					want = 200
				}
				if a.Status != want || !each.valid && !strings.Contains(string(a.Body), `"message":"`+p.Name+":") {
					t.Errorf("%s with %s: %d, want %d: %.200s", path, p.Name+"="+each.value, a.Status, want, a.Body)
				}
			}
			if p.Schema.Value.Default != nil {
				with := w.open.ask(t, question{method: "GET",
					target: least + join + p.Name + "=" + url.QueryEscape(fmt.Sprint(p.Schema.Value.Default))})
				if string(with.Body) != string(plain.Body) {
					t.Errorf("%s: %s=%v, the default, gives another answer than none", path, p.Name,
						p.Schema.Value.Default)
				}
			}
		}
	}
}

// sent returns a parameter of a target, with the ? or & before it. ok is false if the target does not have
// the parameter.
func sent(target, name string) (text string, ok bool) {
	text = regexp.MustCompile(`[?&]` + name + `=[^&]*`).FindString(target)
	return text, text != ""
}

// TestOtherParameters sends each endpoint the parameters that only other endpoints read, which must have no
// effect.
func TestOtherParameters(t *testing.T) {
	w, c := newWorld(t), newChecker(t)
	has := map[string]map[string]bool{}
	names := map[string]bool{}
	for _, endpoint := range endpoints {
		path := "/openapi/v1/" + endpoint
		has[path] = map[string]bool{}
		for _, ref := range c.Doc.Paths.Value(path).Get.Parameters {
			if ref.Value.In == "query" {
				has[path][ref.Value.Name], names[ref.Value.Name] = true, true
			}
		}
	}
	for path := range has {
		plain := w.open.ask(t, question{method: "GET", target: asked(path)})
		for name := range names {
			for _, value := range []string{"-7", "500", "none", "links", strings.Repeat(",", 200)} {
				if has[path][name] {
					continue
				}
				a := w.open.ask(t, question{method: "GET", target: asked(path) +
					map[bool]string{true: "?", false: "&"}[asked(path) == path] + name + "=" + value})
				if a.Status != 200 || string(a.Body) != string(plain.Body) {
					t.Errorf("%s reads %s=%s, which the document does not have: %d %s", path, name, value, a.Status,
						a.Body)
				}
			}
		}
	}
}

// TestSortKeys compares the document's sort keys with the parser's.
func TestSortKeys(t *testing.T) {
	c := newChecker(t)
	for e := range query.Endpoint(query.Endpoints) {
		var want []string
		for _, key := range e.SortKeys() {
			want = append(want, key.Name(), key.Name()+":asc", key.Name()+":desc")
		}
		var got []string
		for _, ref := range c.Doc.Paths.Value("/openapi/v1/" + e.Name()).Get.Parameters {
			if ref.Value.Name == "sort" {
				for _, v := range ref.Value.Schema.Value.Enum {
					got = append(got, v.(string))
				}
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the document sorts by %v, the service by %v", e, got, want)
		}
	}
}

// TestErrorTable compares the table of errors in the description with the schemas.
func TestErrorTable(t *testing.T) {
	c := newChecker(t)
	row := regexp.MustCompile("(?m)^\\| ([0-9]{3}) \\| ([0-9]{5}) \\| `([A-Z_]+)` \\|")
	var got []string
	for _, m := range row.FindAllStringSubmatch(c.Doc.Info.Description, -1) {
		got = append(got, m[2]+" "+m[3])
		if !strings.HasPrefix(m[2], m[1]) {
			t.Errorf("%s has the status %s", m[2], m[1])
		}
	}
	var want []string
	for _, ref := range c.Doc.Components.Schemas["Error"].Value.OneOf {
		p := ref.Value.Properties
		want = append(want, fmt.Sprint(p["code"].Value.Const)+" "+fmt.Sprint(p["message_key"].Value.Const))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the description's errors are %v, the schemas' %v", got, want)
	}
}
