package traffic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"example.com/marketdata/internal/model"
	"example.com/marketdata/loadtest/client"
)

// Directory contains the listings of a service, in order of popularity.
type Directory struct {
	// Snapshot is the time of the snapshot from which the listings were read, or "" if there is none.
	Snapshot string
	Lists    map[string]*List
}

// List is a listing.
type List struct {
	Total   int // the number of rows; Entries may contain fewer
	Entries []Entry
}

// Entry is a row. Its values are escaped for use in a query.
type Entry struct{ ID, Slug, Symbol string }

// listings contains the listings to read, each in the order that best approximates popularity. The quotes
// belong to the assets, so only their number is read.
var listings = []struct{ endpoint, sort string }{
	{"assets", "rank"}, {"exchanges", "volume:desc"}, {"categories", ""}, {"chains", ""}, {"quotes", ""},
}

// maxWaits bounds the number of retries if the service refuses a request because the rate is too high or
// because it is not ready.
const maxWaits = 100

// ReadDirectory reads the listings of the service at e, all from one snapshot. It reads each listing page by
// page until it has maxRows rows. progress, if not nil, is called after each page with the number of rows
// read and the number of rows to read.
func ReadDirectory(
	ctx context.Context, e *client.Endpoint, key string, maxRows int, progress func(endpoint string, read, total int),
) (*Directory, error) {
	d := &Directory{Lists: map[string]*List{}}
	conn := client.New(e)
	defer conn.Close()
	for _, l := range listings {
		rows := maxRows
		if l.endpoint == "quotes" {
			rows = 1
		}
		list := &List{}
		d.Lists[l.endpoint] = list
		for page := 1; len(list.Entries) < rows; page++ {
			n, err := d.page(ctx, conn, e, key, l.endpoint, l.sort, page, list)
			if err != nil {
				return nil, fmt.Errorf("read the directory: /%s: %w", l.endpoint, err)
			}
			if progress != nil {
				progress(l.endpoint, len(list.Entries), min(rows, list.Total))
			}
			if n == 0 || len(list.Entries) >= list.Total {
				break
			}
		}
	}
	return d, nil
}

func (d *Directory) page(
	ctx context.Context, conn *client.Conn, e *client.Endpoint, key, endpoint, sort string, page int, list *List,
) (int, error) {
	target := fmt.Sprintf("%s%s?page=%d&size=100", model.Prefix, endpoint, page)
	if sort != "" {
		target += "&sort=" + sort
	}
	header := http1(e, "GET", target, key)
	if d.Snapshot != "" {
		header = append(header, "X-Snapshot-Time: "+d.Snapshot+"\r\n"...)
	}
	resp, err := ask(ctx, conn, append(header, "\r\n"...))
	if err != nil {
		return 0, err
	}
	var body struct {
		Result struct {
			Items []struct {
				ID     json.Number
				Slug   string
				Symbol string
			}
			Total int
		}
	}
	if err := json.Unmarshal(resp.Body, &body); err != nil {
		return 0, fmt.Errorf("page %d: %w", page, err)
	}
	if d.Snapshot == "" {
		d.Snapshot = string(resp.Get("X-Snapshot-Time"))
	}
	list.Total = body.Result.Total
	for _, it := range body.Result.Items {
		list.Entries = append(list.Entries, Entry{it.ID.String(), url.QueryEscape(it.Slug), url.QueryEscape(it.Symbol)})
	}
	return len(body.Result.Items), nil
}

// ask sends a request and returns the answer, whose status is 200. If the status is 429 or 503, it waits for
// as long as the service asks, and then retries.
func ask(ctx context.Context, conn *client.Conn, req []byte) (*client.Response, error) {
	for waits := 0; ; waits++ {
		resp, err := conn.Do(ctx, req, false)
		if err != nil {
			return nil, err
		}
		if resp.Status == 200 {
			return resp, nil
		}
		if resp.Status != 429 && resp.Status != 503 || waits == maxWaits {
			err := fmt.Errorf("status %d: %.200s", resp.Status, bytes.TrimSpace(resp.Body))
			if resp.Status == 401 {
				err = fmt.Errorf("%w; give one with --key, builder keys create makes it", err)
			}
			return nil, err
		}
		seconds, err := strconv.Atoi(string(resp.Get("Retry-After")))
		if err != nil || seconds < 1 || seconds > 60 {
			seconds = 1
		}
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// http1 returns the head of a request without the empty line at its end.
func http1(e *client.Endpoint, method, target, key string) []byte {
	b := fmt.Appendf(nil, "%s %s%s HTTP/1.1\r\nHost: %s\r\n%s", method, e.Prefix, target, e.Host, e.Header)
	if key != "" {
		b = fmt.Appendf(b, "X-Api-Key: %s\r\n", key)
	}
	return b
}
