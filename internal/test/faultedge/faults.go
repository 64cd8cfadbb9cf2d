package faultedge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
)

// Fault returns a wrong answer to a request. It may send requests to the edge, and may modify r.
type Fault func(e *Edge, r *http.Request) *Answer

// Faults are ways in which answers can be wrong, by name.
var Faults = map[string]Fault{
	// Parsing, matching, keys.
	"zero-is-refused":   query(`\bsize=0`, "size=x"),
	"size-is-clamped":   query(`\bsize=[1-9][0-9]{2,}`, "size=100"),
	"long-s-is-no-s":    query(`%C5%BF|ſ`, "%3F"), // matches case-insensitively instead of by folded text
	"filter-is-ignored": query(`&id=[^&]*`, ""),
	"takes-any-key": func(e *Edge, r *http.Request) *Answer {
		r.Header.Set("X-Api-Key", e.Key)
		return e.Ask(r)
	},

	// Headers.
	"no-request-id": header(func(r *http.Request, h http.Header) { h.Del("X-Request-Id") }),
	"other-request-id": header(func(r *http.Request, h http.Header) {
		h.Set("X-Request-Id", h.Get("X-Request-Id")+"0")
	}),
	"same-request-id": header(func(r *http.Request, h http.Header) {
		h.Set("X-Request-Id", cmp.Or(r.Header.Get("X-Request-Id"), "01234567890123456789"))
	}),
	"no-not-found":   header(func(r *http.Request, h http.Header) { h.Del("X-Not-Found") }),
	"no-ignored":     header(func(r *http.Request, h http.Header) { h.Del("X-Ignored") }),
	"unasked-coding": header(func(r *http.Request, h http.Header) { h.Set("Content-Encoding", "br") }),
	"stale-tag": header(func(r *http.Request, h http.Header) {
		h.Set("ETag", strconv.Quote(strings.ReplaceAll(r.URL.Path, "/", "-")))
	}),
	"tag-without-coding": header(func(r *http.Request, h http.Header) {
		h.Set("ETag", strings.Replace(h.Get("ETag"), `-gzip"`, `"`, 1))
	}),
	"other-modified": header(func(r *http.Request, h http.Header) {
		h.Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
	}),
	"other-length-of-head": header(func(r *http.Request, h http.Header) {
		if r.Method == http.MethodHead {
			h.Set("Content-Length", "1"+h.Get("Content-Length"))
		}
	}),
	"errors-are-cached": header(func(r *http.Request, h http.Header) { h.Del("Cache-Control") }),
	// Answer 304 to any condition, with the tag that was sent.
	"always-not-modified": func(e *Edge, r *http.Request) *Answer {
		a := e.Ask(r)
		if tag := r.Header.Get("If-None-Match"); tag != "" && a.Status == http.StatusOK {
			a.Status, a.Body = http.StatusNotModified, nil
			a.Header.Set("ETag", tag)
			a.Header.Del("Content-Encoding")
		}
		return a
	},

	// Return the answer of the preceding snapshot as if it came from the newest one.
	"stale-snapshot": func(e *Edge, r *http.Request) *Answer {
		now := e.Ask(r)
		at, err := time.Parse(time.RFC3339, now.Header.Get("X-Snapshot-Time"))
		if err != nil || now.Status != http.StatusOK {
			return now
		}
		r.Header.Set("X-Snapshot-Time", at.Add(-10*time.Minute).Format(time.RFC3339))
		before := e.Ask(r)
		before.Header.Set("X-Snapshot-Time", at.Format(time.RFC3339))
		return before
	},

	// Order.
	"two-swapped": reorder(func(_ url.Values, items []item) {
		if len(items) > 1 {
			items[0], items[1] = items[1], items[0]
		}
	}),
	"ties-are-reversed": reorder(func(q url.Values, items []item) {
		if q.Get("sort") == "name:desc" {
			slices.Reverse(items)
			slices.SortStableFunc(items, func(a, b item) int {
				return strings.Compare(artifacts.Fold(b.Name), artifacts.Fold(a.Name))
			})
		}
	}),
	"unranked-first": reorder(func(q url.Values, items []item) {
		if q.Get("sort") == "rank" {
			slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.Rank, b.Rank) })
		}
	}),
	"case-matters": reorder(func(q url.Values, items []item) {
		if q.Get("sort") == "name:desc" {
			slices.SortStableFunc(items, func(a, b item) int { return strings.Compare(b.Name, a.Name) })
		}
	}),

	// Pages.
	"row-is-missing": replace(`,\{[^{]*\}\],"page"`, func([]string) string { return `],"page"` }),
	"row-is-repeated": func(e *Edge, r *http.Request) *Answer { // The last row of a page is also on the next page.
		q := r.URL.Query()
		page, _ := strconv.Atoi(q.Get("page"))
		size, _ := strconv.Atoi(q.Get("size"))
		if page < 2 || size < 2 {
			return e.Ask(r)
		}
		q.Del("page")
		q.Del("size")
		q.Set("limit", strconv.Itoa(size))
		q.Set("offset", strconv.Itoa((page-1)*size-1))
		r.URL.RawQuery = q.Encode()
		return body(func(_ *http.Request, b string) string {
			return strings.Replace(b, `"page":`+strconv.Itoa(page-1)+`,`, `"page":`+strconv.Itoa(page)+`,`, 1)
		})(e, r)
	},
	"wrong-total": replace(`"total":([0-9]+)`, func(m []string) string {
		n, _ := strconv.Atoi(m[1])
		return `"total":` + strconv.Itoa(n+1)
	}),
	"wrong-total-page": replace(`"total_page":`, func([]string) string { return `"total_page":1` }),

	// Values and their formatting.
	"wrong-price":   replace(`("price":"[0-9.]*)5"`, func(m []string) string { return m[1] + `4"` }),
	"escapes-html":  replace(`&`, func([]string) string { return `\u0026` }),
	"trailing-zero": replace(`"0.25"`, func([]string) string { return `"0.250"` }),
	"page-first":    replace(`("items":\[.*\]),("page":[0-9]+)`, func(m []string) string { return m[2] + "," + m[1] }),
	"point-twice":   replace(`(,\["[^"]*","[^"]*"\])\]\}`, func(m []string) string { return m[1] + m[1] + "]}" }),
	"point-missing": replace(`(,\["[^"]*","[^"]*"\])\]\}`, func(m []string) string { return "]}" }),
	"cut":           body(func(_ *http.Request, b string) string { return b[:len(b)/2] }),
	"other-error": func(e *Edge, r *http.Request) *Answer {
		a := e.Ask(r)
		a.Body = bytes.Replace(a.Body, []byte(`"BAD_REQUEST"`), []byte(`"NOT_FOUND"`), 1)
		return a
	},
}

// query returns a fault that forwards a modified request to the edge.
func query(old, with string) Fault {
	pattern := regexp.MustCompile(old)
	return func(e *Edge, r *http.Request) *Answer {
		r.URL.RawQuery = pattern.ReplaceAllString(r.URL.RawQuery, with)
		return e.Ask(r)
	}
}

// header returns a fault that changes the headers of each answer.
func header(change func(r *http.Request, h http.Header)) Fault {
	return func(e *Edge, r *http.Request) *Answer {
		a := e.Ask(r)
		change(r, a.Header)
		return a
	}
}

// body returns a fault that changes the body of each successful answer. It requests answers
// without a content coding.
func body(change func(r *http.Request, b string) string) Fault {
	return func(e *Edge, r *http.Request) *Answer {
		r.Header.Del("Accept-Encoding")
		a := e.Ask(r)
		if a.Status == http.StatusOK && len(a.Body) > 0 {
			a.Body = []byte(change(r, string(a.Body)))
		}
		return a
	}
}

// replace returns a fault that replaces each match of a pattern with the result of replacement,
// which receives the match and its groups.
func replace(pattern string, replacement func(match []string) string) Fault {
	p := regexp.MustCompile(pattern)
	return body(func(_ *http.Request, b string) string {
		return p.ReplaceAllStringFunc(b, func(s string) string { return replacement(p.FindStringSubmatch(s)) })
	})
}

type item struct {
	Name string
	Rank int // 0 if it has none
	text string
}

// UnmarshalJSON implements json.Unmarshaler. It also keeps the original text.
func (i *item) UnmarshalJSON(b []byte) error {
	type fields item
	i.text = string(b)
	return json.Unmarshal(b, (*fields)(i))
}

var itemList = regexp.MustCompile(`"items":(\[.*\]),"page"`)

// reorder returns a fault that changes the order of the items on a page.
func reorder(change func(q url.Values, items []item)) Fault {
	return body(func(r *http.Request, b string) string {
		at := itemList.FindStringSubmatchIndex(b)
		if at == nil {
			return b
		}
		var items []item
		if err := json.Unmarshal([]byte(b[at[2]:at[3]]), &items); err != nil {
			panic(err)
		}
		change(r.URL.Query(), items)
		var texts []string
		for _, i := range items {
			texts = append(texts, i.text)
		}
		return b[:at[2]] + "[" + strings.Join(texts, ",") + "]" + b[at[3]:]
	})
}
