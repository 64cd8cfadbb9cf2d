// Conformance runs the test cases in a file with this client, and prints the result of each as a line of
// JSON. The test in the folder clients starts the servers and writes their URLs into the file.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"time"

	marketdata "example.com/marketdata/edge/openapi/clients/go"
)

type testCase struct {
	Name, Base, Key, Call, Mode, Words string
	Take                               int
	Retries                            *int
	Query                              json.RawMessage
}

type output map[string]any

func main() {
	var cases []testCase
	b, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(b, &cases)
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range cases {
		if err := json.NewEncoder(os.Stdout).Encode(c.run()); err != nil {
			log.Fatal(err)
		}
	}
}

func (c testCase) run() output {
	waits := []float64{}
	out := output{"case": c.Name}
	options := []marketdata.Option{
		marketdata.UserAgent("conformance/1"), marketdata.Sleep(func(_ context.Context, d time.Duration) error {
			waits = append(waits, d.Seconds())
			return nil
		})}
	if c.Retries != nil {
		options = append(options, marketdata.Retries(*c.Retries))
	}
	client, err := marketdata.New(c.Base, c.Key, options...)
	if err != nil {
		return output{"case": c.Name, "waits": waits, "error": output{"key": "INVALID"}}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch c.Call {
	case "assets":
		err = list(ctx, c, out, client.Assets, func(r marketdata.Asset) int64 { return r.ID })
	case "quotes":
		err = list(ctx, c, out, client.Quotes, func(r marketdata.Quote) int64 { return r.ID })
	case "markets":
		err = list(ctx, c, out, client.Markets, func(r marketdata.Market) int64 { return r.ID })
	case "exchanges":
		err = list(ctx, c, out, client.Exchanges, func(r marketdata.Exchange) int64 { return r.ID })
	case "categories":
		err = list(ctx, c, out, client.Categories, func(r marketdata.Category) int64 { return r.ID })
	case "chains":
		err = list(ctx, c, out, client.Chains, func(r marketdata.Chain) int64 { return r.ID })
	case "history":
		err = list(ctx, c, out, client.History, func(r marketdata.History) int64 { return r.ID })
	case "candles":
		err = list(ctx, c, out, client.Candles, func(r marketdata.CandleSeries) int64 { return r.ID })
	case "prices":
		err = list(ctx, c, out, client.Prices, func(r marketdata.PriceSeries) int64 { return r.ID })
	case "changes":
		err = list(ctx, c, out, client.Changes, func(r marketdata.Change) int64 { return r.ID })
	case "trending":
		err = one(ctx, c, out, client.Trending)
	case "global":
		err = one(ctx, c, out, client.Global)
	case "search":
		err = one(ctx, c, out, func(ctx context.Context, q marketdata.SearchQuery) (
			*marketdata.Answer[marketdata.Items[marketdata.Asset]], error) {
			return client.Search(ctx, c.Words, q)
		})
	case "events":
		times := []time.Time{}
		for at, failed := range client.Events(ctx) {
			if err = failed; err == nil {
				times = append(times, at)
			}
			if len(times) == c.Take {
				break
			}
		}
		out["events"] = times
	default:
		log.Fatalf("case %s: no call %q", c.Name, c.Call)
	}
	if err != nil {
		var api *marketdata.APIError
		var broken *marketdata.TransportError
		switch {
		case errors.As(err, &api):
			out["error"] = output{"key": api.MessageKey, "status": api.Status, "code": api.Code,
				"retry_after": api.RetryAfter.Seconds(), "gone": errors.Is(err, marketdata.ErrSnapshotGone)}
			out["limit"] = limit(api.Limit)
		case errors.As(err, &broken):
			out["error"] = output{"key": "TRANSPORT"}
		case errors.Is(err, errNotAQuery):
			out["error"] = output{"key": "INVALID"}
		default:
			log.Fatalf("%s: %v", c.Name, err)
		}
	}
	out["waits"] = waits
	return out
}

var errNotAQuery = errors.New("the endpoint has no such parameter")

// query returns the case's query, if it fits the endpoint's query type.
func query[Q any](c testCase) (q Q, err error) {
	if len(c.Query) == 0 {
		return q, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(c.Query))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&q); err != nil {
		return q, errors.Join(errNotAQuery, err)
	}
	return q, nil
}

// list runs a case for a listing. The modes "pages" and "rows" read the whole listing.
func list[T any, Q marketdata.PagesQuery](
	ctx context.Context, c testCase, out output,
	call func(context.Context, Q) (*marketdata.Answer[marketdata.Page[T]], error), id func(T) int64,
) error {
	q, err := query[Q](c)
	if err != nil {
		return err
	}
	ids := []int64{}
	switch c.Mode {
	case "pages":
		times := []*time.Time{}
		for page, err := range marketdata.Pages(ctx, call, q) {
			if err != nil {
				return err
			}
			times = append(times, pointer(page.SnapshotTime))
			for _, row := range page.Result.Items {
				ids = append(ids, id(row))
			}
		}
		out["snapshots"] = times
	case "rows":
		for row, err := range marketdata.Rows(ctx, call, q) {
			if err != nil {
				return err
			}
			ids = append(ids, id(row))
		}
	default:
		return one(ctx, c, out, call)
	}
	out["ids"] = ids
	return nil
}

// one runs a case with a single answer. The mode "refresh" requests it twice.
func one[T, Q any](
	ctx context.Context, c testCase, out output, call func(context.Context, Q) (*marketdata.Answer[T], error),
) error {
	q, err := query[Q](c)
	if err != nil {
		return err
	}
	a, err := call(ctx, q)
	if err == nil && c.Mode == "refresh" {
		a, err = a.Refresh(ctx)
	}
	if err != nil {
		return err
	}
	out["result"], out["snapshot_time"], out["unchanged"] = a.Result, pointer(a.SnapshotTime), a.Unchanged
	out["not_found"], out["ignored"], out["limit"] = a.NotFound, a.Ignored, limit(a.Limit)
	return nil
}

func pointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func limit(l *marketdata.RateLimit) output {
	if l == nil {
		return nil
	}
	return output{"quota": l.Quota, "window": l.Window, "remaining": l.Remaining, "reset": l.Reset}
}
