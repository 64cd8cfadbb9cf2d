package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// targets are what is asked of a market of n assets: pages of every listing in
// every order, filters, and the two that are no listing.
func targets(n int) []string {
	all := []string{"trending", "global", "assets?slug=nothing,,x", "quotes?symbol=btc,eth,usdt&size=100"}
	for collection, sorts := range map[string]string{
		"assets": "id name symbol slug rank", "quotes": "id name symbol slug", "exchanges": "id name slug volume",
		"categories": "id name slug market_cap volume_24h", "chains": "id name slug market_cap volume_24h",
	} {
		for i, sort := range strings.Fields(sorts) {
			all = append(all,
				fmt.Sprintf("%s?sort=%s&size=100&page=%d", collection, sort, i+1),
				fmt.Sprintf("%s?sort=%s:desc&limit=20&offset=%d", collection, sort, n*i/5))
		}
		all = append(all, collection+"?id=1,2,3,5,8,13,21,34,55,89,144,233,377,610,987&size=50")
	}
	for i := range all {
		all[i] = "/openapi/v1/" + all[i]
	}
	return all
}

// client asks one edge on one connection.
type client struct {
	*soak
	edge    *node
	random  *rand.Rand
	targets []string
	http    *http.Client

	life   int64             // of the edge, that what follows is from
	latest string            // newest snapshot that was answered
	tags   map[string]tagged // by target
}

type tagged struct {
	tag  string
	body []byte
}

const (
	// patience bounds a request. An edge answers or gives up within a few
	// seconds, whatever the store does.
	patience = 15 * time.Second
	// think is the pause between two requests of a client.
	think = 2 * time.Millisecond
)

func (c *client) run(ctx context.Context) {
	defer c.http.CloseIdleConnections()
	for ctx.Err() == nil {
		if c.edge.down() {
			pause(ctx, 10*time.Millisecond)
			continue
		}
		c.ask(ctx, c.targets[c.random.IntN(len(c.targets))], manner(c.random.IntN(int(manners))))
		pause(ctx, think)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// manner is how something is asked for.
type manner int

const (
	conditional manner = iota // if it is not what the client has
	compressed
	pinned // from the newest snapshot that the client knows
	plain
	manners = plain + 3 // half of all
)

func (c *client) ask(ctx context.Context, target string, m manner) {
	life, began := c.edge.life.Load(), time.Now()
	if life != c.life { // what the edge that was killed had said is over
		c.life, c.latest, c.tags = life, "", map[string]tagged{}
	}
	req, err := http.NewRequest(http.MethodGet, "http://"+c.edge.addr+target, nil)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	var known tagged
	switch m {
	case conditional:
		if known = c.tags[target]; known.tag != "" {
			req.Header.Set("If-None-Match", known.tag)
		}
	case compressed:
		req.Header.Set("Accept-Encoding", "gzip")
	case pinned:
		if c.latest != "" {
			req.Header.Set("X-Snapshot-Time", c.latest)
		}
	}
	res, err := c.http.Do(req)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(res.Body)
		_ = res.Body.Close() // it was read, or has failed
	}
	if err != nil {
		if c.edge.life.Load() == life && ctx.Err() == nil {
			c.report.answered(0)
			c.report.breaks(cutAnswers, "%s: %s after %v: %v", c.edge.name, target, time.Since(began), err)
		} else {
			c.report.cutOff()
		}
		return
	}
	c.report.answered(res.StatusCode)
	if err := c.judge(ctx, target, req.Header, res, body, known, began); err != nil {
		c.report.breaks(wrongAnswers, "%s: %s: %v", c.edge.name, target, err)
	}
}

// judge returns what is wrong with an answer.
func (c *client) judge(ctx context.Context, target string, asked http.Header, res *http.Response, body []byte, known tagged, began time.Time) error {
	pin, snapshot := asked.Get("X-Snapshot-Time"), res.Header.Get("X-Snapshot-Time")
	switch res.StatusCode {
	case http.StatusServiceUnavailable:
		if res.Header.Get("Retry-After") != "1" || !bytes.HasPrefix(body, []byte(`{"code":50300,`)) || !bytes.HasSuffix(body, []byte(`"result":{}}`)) {
			return fmt.Errorf("a 503 with %v and %s", res.Header, body)
		}
		if c.calm(began) {
			c.report.breaks(calm503, "%s: %s, pinned to %q", c.edge.name, target, pin)
		}
		return nil
	case http.StatusNotModified:
		if known.tag == "" || res.Header.Get("ETag") != known.tag || len(body) > 0 {
			return fmt.Errorf("a 304 to %q with %v", known.tag, res.Header)
		}
		body = known.body
	case http.StatusOK:
		if res.Header.Get("Content-Encoding") == "gzip" {
			r, err := gzip.NewReader(bytes.NewReader(body))
			if err == nil {
				body, err = io.ReadAll(r)
			}
			if err != nil {
				return fmt.Errorf("gzip: %w", err)
			}
		}
	default:
		c.report.breaks(unexpected, "%s: %s: status %d: %s", c.edge.name, target, res.StatusCode, body)
		return nil
	}
	switch {
	case pin != "" && snapshot != pin:
		return fmt.Errorf("pinned to %s, answered from %q", pin, snapshot)
	case pin == "" && snapshot < c.latest: // the format sorts as text
		return fmt.Errorf("answered from %q after %s", snapshot, c.latest)
	case pin == "":
		c.latest = snapshot
	}
	if err := c.truth.check(ctx, snapshot, target, body); err != nil {
		if ctx.Err() != nil {
			return nil // the end has come before it could be judged
		}
		return err
	}
	c.tags[target] = tagged{strings.Replace(res.Header.Get("ETag"), `-gzip"`, `"`, 1), body}
	return nil
}
