package check

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/internal/model"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// errorKeys contains the code and message_key of each error status (INTERFACE.md, "Errors"). Status 404 is
// missing, because it has two message keys.
var errorKeys = map[int]string{
	400: `"code":40000,"message_key":"BAD_REQUEST"`, 401: `"code":40100,"message_key":"UNAUTHORIZED"`,
	405: `"code":40500,"message_key":"METHOD_NOT_ALLOWED"`,
	410: `"code":41000,"message_key":"SNAPSHOT_GONE"`, 413: `"code":41300,"message_key":"PAYLOAD_TOO_LARGE"`,
	429: `"code":42900,"message_key":"TOO_MANY_REQUESTS"`,
	431: `"code":43100,"message_key":"HEADERS_TOO_LARGE"`,
}

// examination examines one distinct answer. An empty detail means that the answer is correct.
func (c *Checker) examination(an *answer) (Kind, string) {
	q, refusal := model.Parse(an.ask)
	if refusal == nil && an.pin != "" && !model.IsSnapshotTime(an.pin) {
		refusal = &model.Answer{Status: 400, Code: 40000, MessageKey: "BAD_REQUEST", Blame: []string{"X-Snapshot-Time"}}
	}
	switch {
	case an.status == 429, an.expect == Unauthorized && an.status == 401:
		return an.errorEnvelope(errorKeys[an.status])
	case refusal != nil:
		if an.status != refusal.Status {
			return Status, fmt.Sprintf("status %d, want %d: %s", an.status, refusal.Status,
				strings.Join(append(refusal.Blame, refusal.MessageKey), ", "))
		}
		return an.errorEnvelope(fmt.Sprintf(`"code":%d,"message_key":%q`, refusal.Code, refusal.MessageKey))
	case an.status == 410 && (an.pin != "" || q.HasSince):
		return an.errorEnvelope(errorKeys[410])
	case an.status == 404 && q.Endpoint == "global" && an.snapshot == "":
		return an.errorEnvelope(`"code":40400,"message_key":"NOT_FOUND"`)
	case an.status != 200 && (an.status != 304 || an.tag == ""):
		return Status, fmt.Sprintf("status %d to a good request", an.status)
	case an.snapshot != "" && !model.IsSnapshotTime(an.snapshot):
		return Headers, fmt.Sprintf("X-Snapshot-Time %q", an.snapshot)
	case an.ignored != q.Ignored:
		return Headers, fmt.Sprintf("X-Ignored %q, want %q", an.ignored, q.Ignored)
	}
	var plain []byte
	if an.status == 200 && !an.head {
		var err error
		if plain, err = Decode(an.coding, an.body); err != nil {
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
	switch {
	case plain == nil:
		return "", ""
	case q.CSV:
		if err := model.CheckTable(q, string(plain)); err != nil {
			return Envelope, err.Error()
		}
		return "", ""
	}
	if q.Endpoint == "changes" {
		return changesOf(q, plain)
	}
	return c.structure(an, q, plain)
}

// errorEnvelope checks the body of an error. wantKeys contains the correct code and message_key, as JSON.
func (an *answer) errorEnvelope(wantKeys string) (Kind, string) {
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
	if got := fmt.Sprintf(`"code":%s,"message_key":%q`, e.Code, e.MessageKey); got != wantKeys || e.Message == nil ||
		string(e.Result) != "{}" {
		return Envelope, fmt.Sprintf("status %d with %.200s, want %s and an empty result", an.status, an.body, wantKeys)
	}
	if an.cacheControl != "no-store" {
		return Headers, fmt.Sprintf("status %d with Cache-Control %q, want no-store", an.status, an.cacheControl)
	}
	return "", ""
}

// maxPlain bounds the decoded size of an answer, in bytes.
const maxPlain = 64 << 20

// Decode decodes b, which has the given content coding. The coding "" means that b is not encoded.
func Decode(coding string, b []byte) ([]byte, error) {
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
		z, err := zstd.NewReader(
			bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPlain))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	case "br":
		r = brotli.NewReader(bytes.NewReader(b))
	default:
		return nil, fmt.Errorf("a coding that nobody asked for")
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxPlain+1))
	if err == nil && len(plain) > maxPlain {
		err = fmt.Errorf("more than %d bytes plain", maxPlain)
	}
	return plain, err
}

// structure checks an answer on its own: that its rows and total give exactly these bytes, that the rows
// match the filters and are in order, and that it agrees with other pages of the listing.
func (c *Checker) structure(an *answer, q *model.Query, plain []byte) (Kind, string) {
	var e struct {
		Result struct {
			Items []json.RawMessage `json:"items"`
			Total int64             `json:"total"`
			// Only the result of /global has these fields:
			MarketCap string    `json:"total_market_cap"`
			Volume    string    `json:"total_volume_24h"`
			Change    *string   `json:"total_market_cap_change_percentage_24h"`
			Time      time.Time `json:"data_time"`

			Notice *model.Notice `json:"notice"`
		} `json:"result"`
	}
	if err := json.Unmarshal(plain, &e); err != nil {
		return Envelope, fmt.Sprintf("%v: %.80q", err, plain)
	}
	r := &e.Result
	body := ""
	rows := make([]*model.Row, len(r.Items))
	if q.Endpoint == "global" {
		var change *model.Change
		if r.Change != nil {
			change = &model.Change{Value: *r.Change}
		}
		snapshot := &model.Snapshot{Time: r.Time, TotalMarketCap: r.MarketCap, TotalVolume: r.Volume,
			Notice: r.Notice}
		if err := snapshot.CheckTotals(); err != nil ||
			an.snapshot != "" && r.Time.Format(model.TimeFormat) != an.snapshot {
			return Envelope, fmt.Sprintf("global of snapshot %s: %v: %.300s", an.snapshot, err, plain)
		}
		body = snapshot.Answer(q, change).Body
	} else {
		for i, text := range r.Items {
			row, err := model.ReadRow(q.Items(), text)
			if err != nil {
				return Envelope, fmt.Sprintf("item %d: %v", i, err)
			}
			rows[i] = &row
		}
		body = model.Body(q, rows, r.Total)
	}
	switch {
	case body != string(plain):
		return Envelope, "body " + model.Difference(string(plain), body)
	case q.Endpoint == "global":
		return "", ""
	case q.Endpoint == "trending" && len(rows) > 20:
		return Paging, fmt.Sprintf("%d items on the board, 20 at most", len(rows))
	case q.Endpoint == "trending":
		return inOrder(rows, "24h", true)
	case q.Text != "":
		if want := model.Search(q.Text, rows); !slices.Equal(rows, want) {
			return Filter, fmt.Sprintf("of the %d items found by %q, the first %d of those that match stand in another order",
				len(rows), q.Text, len(want))
		}
		return "", ""
	}
	if want := min(q.Size, max(0, r.Total-q.Offset)); int64(len(rows)) != want || r.Total < 0 {
		return Paging, fmt.Sprintf(
			"%d items at offset %d of %d in pages of %d, want %d", len(rows), q.Offset, r.Total, q.Size, want)
	}
	for _, f := range q.Filters {
		if (f.Name == "category" || f.Name == "chain") && !q.Tails {
			continue // the items show their groups only with fields=groups
		}
		if i := slices.IndexFunc(rows, func(r *model.Row) bool { return !f.Matches(r) }); i >= 0 {
			return Filter,
				fmt.Sprintf("item of id %d, asked was %s=%s", rows[i].ID, f.Name, strings.Join(f.Values, ","))
		}
	}
	if kind, detail := inOrder(rows, q.Sort, q.Desc); detail != "" {
		return kind, detail
	}
	if detail := c.places.check(an, q, rows, r.Total); detail != "" {
		return Repeat, detail
	}
	return "", ""
}

// inOrder checks that neighboring items are in the order of the sort key, with ties by ascending id.
func inOrder(rows []*model.Row, sort string, desc bool) (Kind, string) {
	order := model.Order(sort, desc)
	for i := 1; i < len(rows); i++ {
		switch a, b := rows[i-1], rows[i]; {
		case a.ID == b.ID:
			return Repeat, fmt.Sprintf("id %d twice on one page", a.ID)
		case order(a, b) > 0:
			return Order, fmt.Sprintf("sorted by %s (descending: %v), item %d of id %d stands before the one of id %d",
				sort, desc, i-1, a.ID, b.ID)
		}
	}
	return "", ""
}

// changesOf is like structure, for a page of changes.
func changesOf(q *model.Query, plain []byte) (Kind, string) {
	var e struct {
		Result struct {
			Items []json.RawMessage
			Total int64
			Since *time.Time
		}
	}
	if err := json.Unmarshal(plain, &e); err != nil {
		return Envelope, fmt.Sprintf("%v: %.80q", err, plain)
	}
	total, all := e.Result.Total, make([]model.Changed, len(e.Result.Items))
	for i, text := range e.Result.Items {
		var err error
		if all[i], err = model.ReadChanged(text); err != nil {
			return Envelope, fmt.Sprintf("item %d: %v", i, err)
		}
		if !q.Changed(&all[i]) {
			return Filter, fmt.Sprintf("item %d was not asked for: %s", i, text)
		}
	}
	if body := model.ChangesBody(q, all, total, e.Result.Since); body != string(plain) {
		return Envelope, "body " + model.Difference(string(plain), body)
	}
	if want := min(q.Size, max(0, total-q.Offset)); int64(len(all)) != want || total < 0 {
		return Paging, fmt.Sprintf("%d items at offset %d of %d in pages of %d, want %d", len(all), q.Offset, total,
			q.Size, want)
	}
	if err := model.CheckOrder(all); err != nil {
		return Order, err.Error()
	}
	return "", ""
}
