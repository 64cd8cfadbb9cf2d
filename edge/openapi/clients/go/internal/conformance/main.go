// Conformance runs the cases of a file with this client and prints what came of
// each as a line of JSON. The test in the folder above starts the servers, and
// says in the file where they are.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"time"

	marketdata "example.com/marketdata/edge/openapi/clients/go"
)

type testCase struct {
	Name, Base, Key, Call, Mode string
	Take, Retries               int
	Query                       struct {
		ID                                    []int64
		Slug, Symbol, Category, Chain, Fields []string
		Page, Size                            int
		Limit, Offset                         int
		Sort, By, Window, Q                   string
		At                                    time.Time
	}
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
	client := &marketdata.Client{
		BaseURL: c.Base, Key: c.Key, Retries: c.Retries, Sleep: func(_ context.Context, d time.Duration) error {
			waits = append(waits, d.Seconds())
			return nil
		}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q := marketdata.Query{
		IDs: c.Query.ID, Slugs: c.Query.Slug, Symbols: c.Query.Symbol,
		Categories: c.Query.Category, Chains: c.Query.Chain, Page: c.Query.Page, Size: c.Query.Size,
		Limit: c.Query.Limit, Offset: c.Query.Offset,
		Sort: c.Query.Sort, Fields: c.Query.Fields, By: c.Query.By, Window: c.Query.Window, At: c.Query.At,
	}
	var err error
	switch c.Call {
	case "assets":
		err = list(ctx, c, out, q, client.Assets, func(r marketdata.Asset) int64 { return r.ID })
	case "quotes":
		err = list(ctx, c, out, q, client.Quotes, func(r marketdata.Quote) int64 { return r.ID })
	case "markets":
		err = list(ctx, c, out, q, client.Markets, func(r marketdata.Market) int64 { return r.ID })
	case "exchanges":
		err = list(ctx, c, out, q, client.Exchanges, func(r marketdata.Exchange) int64 { return r.ID })
	case "categories":
		err = list(ctx, c, out, q, client.Categories, func(r marketdata.Category) int64 { return r.ID })
	case "chains":
		err = list(ctx, c, out, q, client.Chains, func(r marketdata.Chain) int64 { return r.ID })
	case "history":
		err = list(ctx, c, out, q, client.History, func(r marketdata.History) int64 { return r.ID })
	case "trending":
		err = one(ctx, c, out, q, client.Trending)
	case "global":
		err = one(ctx, c, out, q, client.Global)
	case "search":
		err = one(ctx, c, out, q, func(ctx context.Context, q marketdata.Query) (
			*marketdata.Answer[marketdata.Items[marketdata.Asset]], error) {
			return client.Search(ctx, c.Query.Q, q)
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
		out["error"] = output{"key": "TRANSPORT"}
		var e *marketdata.Error
		if errors.As(err, &e) {
			out["error"] = output{"key": e.Key, "status": e.Status, "code": e.Code,
				"retry_after": e.RetryAfter.Seconds(), "gone": errors.Is(err, marketdata.SnapshotGone)}
			out["limit"] = limit(e.Limit)
		}
	}
	out["waits"] = waits
	return out
}

// list runs a case of a listing; modes pages and rows read all of it.
func list[T any](
	ctx context.Context, c testCase, out output, q marketdata.Query,
	call func(context.Context, marketdata.Query) (*marketdata.Answer[marketdata.List[T]], error), id func(T) int64,
) error {
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
		return one(ctx, c, out, q, call)
	}
	out["ids"] = ids
	return nil
}

// one runs a case of one answer; mode refresh asks for it twice.
func one[T any](
	ctx context.Context, c testCase, out output, q marketdata.Query,
	call func(context.Context, marketdata.Query) (*marketdata.Answer[T], error),
) error {
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
