package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	changes     = "/openapi/v1/changes"
	changesDays = 28 // days with one snapshot each; the builder keeps the changes of 30 days
	changesRows = 20 // per page
)

// changes compares a page of changes with a page of quotes of the same size.
func (b *bench) changes(ctx context.Context) error {
	const cached, fresh = "a cached page of changes, compared with a cached page of its size",
		"a new page of changes, compared with a new page of quotes of its size"
	if b.skipped(cached, fresh) {
		return nil
	}
	defer func(key string) { b.key = key }(b.key)
	m := b.on(nil, b.Server, b.Client)
	m.Store = b.store("changes")
	var before []time.Duration
	for day := changesDays; day >= 0; day-- {
		before = append(before, time.Duration(day)*24*time.Hour)
	}
	if err := m.BuildPast(ctx, fmt.Sprintf("sim:?assets=%d&seed=1", pastAssets), time.Now(), before); err != nil {
		return err
	}
	one, err := b.market(ctx, "changes", pastAssets)
	if err != nil {
		return err
	}
	other, err := b.edge(ctx, "changes-other", m.Store)
	if err != nil {
		return err
	}
	defer b.stop(one, other)
	page := fmt.Sprintf(changes+"?limit=%d", changesRows)
	res, err := b.cached(one, page)
	if err != nil {
		return err
	}
	var list struct {
		Result struct {
			Total int
			Since time.Time
		}
	}
	if err := json.Unmarshal(res.body, &list); err != nil {
		return err
	}
	offsets := list.Result.Total - 2*changesRows
	if offsets < changesRows {
		return fmt.Errorf("%d changes in %d days: too few for pages", list.Result.Total, changesDays)
	}
	size := len(res.body)
	rows, quotesPage, err := b.quotesOfSize(other, size)
	if err != nil {
		return err
	}
	// Every time on the first day selects the same changes, because the day's only snapshot is at its start.
	// So the random time makes the request new without changing its answer.
	pages := func(dst []byte, rnd *rand.Rand) []byte {
		return fmt.Appendf(dst, changes+"?limit=%d&since=%d&offset=%d",
			changesRows, list.Result.Since.Unix()+rnd.Int64N(80_000), rnd.IntN(offsets))
	}
	for _, c := range []comparison{
		{cached, 1.2, load{"edge, cached changes", one, always(page), b.auth()},
			load{"edge, cached page", other, always(quotesPage), b.auth()}},
		{fresh, 1.2, load{"edge, new changes", one, pages, b.auth()},
			load{"edge, new pages", other, func(dst []byte, rnd *rand.Rand) []byte {
				return listing(dst, rnd.IntN(pastAssets*9/10-rows), rows, sorts[rnd.IntN(len(sorts))])
			}, b.auth()}},
	} {
		if err := b.compare(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// quotesOfSize returns the request for the shortest page of quotes whose body has at least the given number
// of bytes, and the number of its rows.
func (b *bench) quotesOfSize(s *server, bytes int) (rows int, page string, err error) {
	for rows = 1; rows <= 100; rows++ {
		page = fmt.Sprintf(quotes+"?limit=%d", rows)
		res, err := capture(s.addr, page, b.auth())
		if err != nil {
			return 0, "", err
		}
		if len(res.body) >= bytes {
			fmt.Printf("%d bytes; %s: %d\n", bytes, page, len(res.body))
			return rows, page, nil
		}
	}
	return 0, "", fmt.Errorf("no page of quotes has %d bytes", bytes)
}
