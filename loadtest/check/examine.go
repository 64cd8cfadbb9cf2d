package check

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/molecule-man/go-brrr"

	"example.com/marketdata/loadtest/oracle"
)

// errorKeys are the code and message_key of each error status
// (INTERFACE.md, "Errors"), but for the two kinds of 404.
var errorKeys = map[int]string{
	400: `"code":40000,"message_key":"BAD_REQUEST"`, 401: `"code":40100,"message_key":"UNAUTHORIZED"`, 405: `"code":40500,"message_key":"METHOD_NOT_ALLOWED"`,
	410: `"code":41000,"message_key":"SNAPSHOT_GONE"`, 413: `"code":41300,"message_key":"PAYLOAD_TOO_LARGE"`, 429: `"code":42900,"message_key":"TOO_MANY_REQUESTS"`,
	431: `"code":43100,"message_key":"HEADERS_TOO_LARGE"`,
}

// examination looks at one distinct answer. An empty detail is a good one.
func (c *Checker) examination(an *answer) (Kind, string) {
	q, refusal := oracle.Parse(an.path, an.query)
	if refusal == nil && an.pin != "" && !isTime(an.pin) {
		refusal = &oracle.Refusal{Status: 400, Code: 40000, Key: "BAD_REQUEST", Why: "X-Snapshot-Time is " + an.pin}
	}
	switch {
	case an.status == 429, an.expect == Unauthorized && an.status == 401:
		return an.errorEnvelope(errorKeys[an.status])
	case refusal != nil:
		if an.status != refusal.Status {
			return Status, fmt.Sprintf("status %d, want %d: %s", an.status, refusal.Status, refusal.Why)
		}
		return an.errorEnvelope(fmt.Sprintf(`"code":%d,"message_key":%q`, refusal.Code, refusal.Key))
	case an.status == 410 && an.pin != "":
		return an.errorEnvelope(errorKeys[410])
	case an.status == 404 && q.Endpoint == "global" && an.snapshot == "":
		return an.errorEnvelope(`"code":40400,"message_key":"NOT_FOUND"`)
	case an.status != 200 && (an.status != 304 || an.tag == ""):
		return Status, fmt.Sprintf("status %d to a good request", an.status)
	case an.snapshot != "" && !isTime(an.snapshot):
		return Headers, fmt.Sprintf("X-Snapshot-Time %q", an.snapshot)
	case an.ignored != q.Ignored:
		return Headers, fmt.Sprintf("X-Ignored %q, want %q", an.ignored, q.Ignored)
	}
	var plain []byte
	if an.status == 200 && !an.head {
		var err error
		if plain, err = decode(an.coding, an.body); err != nil {
			return Envelope, fmt.Sprintf("Content-Encoding %s: %v", an.coding, err)
		}
		if detail := c.tags.check(an, plain); detail != "" {
			return Tag, detail
		}
	}
	if c.oracle != nil && an.snapshot != "" {
		if kind, detail, ok := c.compare(an, q, plain); ok {
			return kind, detail
		}
	}
	if plain == nil {
		return "", ""
	}
	return c.structure(an, q, plain)
}

var timeText = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)

// isTime reports whether s is a time as the service writes it.
func isTime(s string) bool {
	t, err := time.Parse(oracle.TimeFormat, s)
	return err == nil && timeText.MatchString(s) && t.Equal(t.Truncate(10*time.Minute))
}

// errorEnvelope checks an error's body; want are its code and message_key.
func (an *answer) errorEnvelope(want string) (Kind, string) {
	if an.head {
		return "", ""
	}
	var e struct {
		Code       json.Number     `json:"code"`
		Message    *string         `json:"message"`
		MessageKey string          `json:"message_key"`
		Result     json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(an.body, &e); err != nil {
		return Envelope, fmt.Sprintf("status %d without the envelope: %v: %.200s", an.status, err, an.body)
	}
	if got := fmt.Sprintf(`"code":%s,"message_key":%q`, e.Code, e.MessageKey); got != want || e.Message == nil || string(e.Result) != "{}" {
		return Envelope, fmt.Sprintf("status %d with %.200s, want %s and an empty result", an.status, an.body, want)
	}
	if an.cacheControl != "no-store" {
		return Headers, fmt.Sprintf("status %d with Cache-Control %q, want no-store", an.status, an.cacheControl)
	}
	return "", ""
}

// maxPlain bounds what an answer may expand to, in bytes.
const maxPlain = 64 << 20

// decode undoes a content coding.
func decode(coding string, b []byte) ([]byte, error) {
	var r io.Reader
	switch coding {
	case "":
		return b, nil
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		r = z
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPlain))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	case "br":
		r = brrr.NewReader(bytes.NewReader(b))
	default:
		return nil, fmt.Errorf("a coding that nobody asked for")
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxPlain+1))
	if err == nil && len(plain) > maxPlain {
		err = fmt.Errorf("more than %d bytes plain", maxPlain)
	}
	return plain, err
}

// item is what of an item is needed to check its place.
type item struct {
	ID      json.Number `json:"id"`
	Name    string      `json:"name"`
	Symbol  string      `json:"symbol"`
	Slug    string      `json:"slug"`
	Rank    *uint64     `json:"rank"`
	Changes struct {
		Day json.Number `json:"24h"`
	} `json:"percent_change"`
	Market *struct {
		Cap    *string `json:"market_cap"`
		Volume *string `json:"volume_24h"`
	} `json:"market"`
}

type result struct {
	Items     *[]item `json:"items"`
	Page      *int64  `json:"page"`
	Total     *int64  `json:"total"`
	TotalPage *int64  `json:"total_page"`
	// Of /global:
	TotalMarketCap *string `json:"total_market_cap"`
	DataTime       string  `json:"data_time"`
}

const success = `{"code":0,"message":"OK","message_key":"OK","result":{`

// structure checks what an answer says by itself.
func (c *Checker) structure(an *answer, q *oracle.Query, plain []byte) (Kind, string) {
	if !bytes.HasPrefix(plain, []byte(success)) {
		return Envelope, fmt.Sprintf("body begins with %.80q", plain)
	}
	var e struct{ Result result }
	d := json.NewDecoder(bytes.NewReader(plain))
	d.UseNumber()
	if err := d.Decode(&e); err != nil {
		return Envelope, err.Error()
	}
	if d.InputOffset() != int64(len(plain)) {
		return Envelope, "bytes behind the envelope"
	}
	r := &e.Result
	switch {
	case q.Endpoint == "global":
		if r.TotalMarketCap == nil || an.snapshot != "" && r.DataTime != an.snapshot {
			return Envelope, fmt.Sprintf("global of snapshot %s: %.300s", an.snapshot, plain)
		}
		return "", ""
	case r.Items == nil:
		return Envelope, fmt.Sprintf("no items: %.300s", plain)
	case q.Endpoint == "trending":
		if len(*r.Items) > 20 {
			return Paging, fmt.Sprintf("%d items on the board, 20 at most", len(*r.Items))
		}
		return inOrder(*r.Items, "24h", true)
	case r.Page == nil || r.Total == nil || r.TotalPage == nil:
		return Envelope, "page, total or total_page is missing"
	}
	if detail := paging(q, r); detail != "" {
		return Paging, detail
	}
	if detail := filtered(q, *r.Items); detail != "" {
		return Filter, detail
	}
	if kind, detail := inOrder(*r.Items, q.Sort, q.Desc); detail != "" {
		return kind, detail
	}
	if detail := c.places.check(an, q, r); detail != "" {
		return Repeat, detail
	}
	return "", ""
}

// paging checks page, total, total_page and the number of items against each
// other and against what was asked.
func paging(q *oracle.Query, r *result) string {
	total, n := *r.Total, int64(len(*r.Items))
	want := min(q.Size, max(0, total-q.Offset))
	switch {
	case total < 0:
		return fmt.Sprintf("total is %d", total)
	case *r.Page != q.Page:
		return fmt.Sprintf("page is %d, want %d", *r.Page, q.Page)
	case *r.TotalPage != oracle.TotalPages(total, q.Size):
		return fmt.Sprintf("total_page is %d, want %d for %d rows in pages of %d", *r.TotalPage, oracle.TotalPages(total, q.Size), total, q.Size)
	case n != want:
		return fmt.Sprintf("%d items at offset %d of %d in pages of %d, want %d", n, q.Offset, total, q.Size, want)
	}
	return ""
}

// filtered checks that each item passes the filters.
func filtered(q *oracle.Query, items []item) string {
	for name, values := range q.Filters {
		for i := range items {
			it := &items[i]
			got := it.ID.String()
			switch name {
			case "slug":
				got = oracle.Fold(it.Slug)
			case "symbol":
				got = oracle.Fold(it.Symbol)
			}
			found := false
			for _, v := range values {
				found = found || v == got
			}
			if !found {
				return fmt.Sprintf("item of id %s has %s %q, asked was %s", it.ID, name, got, strings.Join(values, ","))
			}
		}
	}
	return ""
}
