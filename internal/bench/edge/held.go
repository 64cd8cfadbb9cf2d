package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"example.com/marketdata/artifacts/dirstore"
	"example.com/marketdata/builder/keys"
)

const (
	heldConns     = 10_000
	streamsPerKey = 8                // the number of streams that a key may have on an edge
	commentEvery  = 15 * time.Second // the interval between a stream's comments
)

// hold opens heldConns connections to an edge, sends one request on each, reads the answers with readAnswer, and
// waits. It reports the memory that the connections occupy in the edge. The connections stay open until release
// is called.
func (b *bench) hold(ctx context.Context, what string, most int64, s *server, wait time.Duration,
	request func(i int) string, readAnswer func(*http.Response) error) (release func() error, err error) {
	var conns []io.Closer
	release = func() (err error) {
		for _, c := range conns {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	before, err := rss(s.worker)
	if err != nil {
		return release, err
	}
	for i := range heldConns {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			return release, err
		}
		conns = append(conns, c)
		if _, err := io.WriteString(c, request(i)); err != nil {
			return release, err
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && res.StatusCode != http.StatusOK {
			err = errors.New(res.Status)
		}
		if err == nil {
			err = readAnswer(res)
		}
		if err != nil {
			return release, fmt.Errorf("connection %d: %w", i, err)
		}
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	after, err := rss(s.worker)
	b.single(row{what: what, measured: fmt.Sprintf("%d MiB", (after-before)>>20),
		target: fmt.Sprintf("≤ %d MiB", most), met: after-before <= most<<20})
	return release, err
}

// idle measures the memory of connections that wait after an answer.
func (b *bench) idle(ctx context.Context) error {
	what := "memory of " + thousands(heldConns) + " idle connections"
	if b.skipped(what) {
		return nil
	}
	s, err := b.edge(ctx, "idle", b.store("small"), "--max-conns-per-address", strconv.Itoa(heldConns+100))
	if err != nil {
		return err
	}
	defer b.stop(s)
	const page = quotes + "?page=3"
	if _, err := b.cached(s, page); err != nil {
		return err
	}
	release, err := b.hold(ctx, what, 60, s, 0,
		func(int) string { return "GET " + page + " HTTP/1.1\r\nHost: edge\r\nX-Api-Key: " + b.key + "\r\n\r\n" },
		func(res *http.Response) error { _, err := io.Copy(io.Discard, res.Body); return err })
	return errors.Join(err, release())
}

// streams measures the cost of open event streams: their memory, and the processor time of requests while
// they are open. Nobody reads the streams, so they cost no time on the core of the load. They carry only
// short comments, which fit into the sockets' buffers.
func (b *bench) streams(ctx context.Context) error {
	count := thousands(heldConns)
	memory, cost := "memory of "+count+" streams of events",
		"a cached page with "+count+" streams of events open, compared with none"
	if b.skipped(memory, cost) {
		return nil
	}
	none, err := b.market(ctx, "streams", b.Assets)
	if err != nil {
		return err
	}
	defer b.stop(none)
	texts, err := b.streamKeys(ctx) // The keys must exist before the edge starts, so that it knows them.
	if err != nil {
		return err
	}
	some, err := b.edge(ctx, "held", b.store("streams"), "--max-conns-per-address", strconv.Itoa(heldConns+100),
		"--max-streams", strconv.Itoa(heldConns))
	if err != nil {
		return err
	}
	defer b.stop(some)
	release, err := b.hold(ctx, memory, 150, some, commentEvery, // By then each stream has received one comment.
		func(i int) string {
			return "GET /openapi/v1/events HTTP/1.1\r\nHost: edge\r\nX-Api-Key: " + texts[i/streamsPerKey] + "\r\n\r\n"
		},
		func(*http.Response) error { return nil })
	if err == nil {
		page := always(quotes + "?page=3")
		err = b.compare(ctx, comparison{cost, 1.02, load{"edge, " + count + " streams", some, page, b.auth()},
			load{"edge, none", none, page, b.auth()}})
	}
	return errors.Join(err, release())
}

// streamKeys creates enough keys for all streams. It adds them to the store of the market that the streams use.
func (b *bench) streamKeys(ctx context.Context) (texts []string, err error) {
	store, err := dirstore.Open(filepath.Join(b.work, "store-streams"), dirstore.Options{})
	if err != nil {
		return nil, err
	}
	for range heldConns / streamsPerKey {
		k, err := (&keys.Registry{Store: store}).Create(ctx, keys.Request{Name: "stream", Rate: 1, Burst: 8})
		if err != nil {
			return nil, err
		}
		texts = append(texts, k.Key)
	}
	return texts, nil
}
