package e2e

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

// clocked is a source that records the time of the latest feed that it returned.
type clocked struct {
	source.Source
	feed time.Time
}

func (c *clocked) Files(ctx context.Context, t time.Time) (files source.Files, err error) {
	if files, err = c.Source.Files(ctx, t); err == nil {
		_, c.feed, err = source.ReadInfo(ctx, files)
	}
	return files, err
}

// table is a source that behaves like a database table whose rows change every two seconds.
type table struct{}

func (table) String() string { return "table" }

func (table) Files(context.Context, time.Time) (source.Files, error) {
	time.Sleep(700 * time.Millisecond) // duration of the queries
	return source.FS(tinyFeed()), nil
}

// tinyFeed returns a feed with the time of the last even second.
func tinyFeed() fstest.MapFS {
	return buildtest.World{Assets: 10, At: time.Now().Truncate(2 * time.Second)}.Feed()
}

// rewritten returns a folder that is rewritten every minute until the test ends: each time, a
// symbolic link moves to a new folder.
func rewritten(t *testing.T) source.Source {
	dir := t.TempDir()
	link := filepath.Join(dir, "feed")
	write := func() {
		at := time.Now().Format("150405")
		must.OK(t, os.CopyFS(filepath.Join(dir, at), tinyFeed()))
		must.OK(t, os.Symlink(at, filepath.Join(dir, "next")))
		must.OK(t, os.Rename(filepath.Join(dir, "next"), link))
	}
	write()
	every(t, time.Minute, write)
	return must.Get(source.Open(t.Context(), "feed:"+link, nil))(t)
}

// every calls f at intervals of d until the test ends.
func every(t *testing.T, d time.Duration, f func()) {
	go func() {
		for tick := time.NewTicker(d); ; {
			select {
			case <-tick.C:
				f()
			case <-t.Context().Done():
				return
			}
		}
	}()
}

// provided returns a provider whose market changes every half minute.
func provided(t *testing.T, a *fakeAPI) source.Source {
	f := &fake{t: t, api: a}
	transport, stop := f.serve()
	t.Cleanup(stop)
	move := func() { f.tell(newFakeMarket(int(time.Now().Unix()/600%100)), nil) }
	move()
	every(t, 30*time.Second, move)
	return f.open(t, transport, "?quota=none&rate=60000&slow=30&cache="+url.QueryEscape(t.TempDir())+a.options)
}

// TestDay follows "builder run" through a day. Each of the day's 144 marks has a snapshot of that
// time, published within 30 seconds of it, from data less than a minute old (report, D11).
func TestDay(t *testing.T) {
	warm(t)
	for name, open := range map[string]func(t *testing.T) source.Source{
		"a table that changes every two seconds": func(*testing.T) source.Source { return table{} },
		"a folder that is rewritten each minute": rewritten,
		"a provider":                             func(t *testing.T) source.Source { return provided(t, fakeAPIs[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(artifacts.Step - 37*time.Second) // the builder starts before a mark
				day(t, &clocked{Source: open(t)})
			})
		})
	}
}

func day(t *testing.T, src *clocked) {
	s := memstore.New()
	b := must.Get(builder.New(builder.Config{Store: s, Source: src, Guards: builder.DefaultGuards,
		Log: buildtest.Discard, Settings: floors(t, model.Defaults())}))(t)
	nothing := func(context.Context) error { return nil }
	var marks []time.Time
	loop := builder.Loop{
		Build: func(ctx context.Context, mark time.Time) error {
			r, err := b.BuildMark(ctx, mark)
			if err != nil || !r.Published {
				t.Errorf("mark %v: %+v, %v", mark, r, err)
				return err
			}
			p := buildtest.Head(t, s).Pointer
			if late, age := p.Published.Sub(mark), p.Published.Sub(src.feed); !p.Time.Equal(mark) ||
				late > 30*time.Second && len(marks) > 0 || age > time.Minute {
				t.Errorf("mark %v: snapshot of %v, %v after the mark, of data %v old", mark, p.Time, late, age)
			}
			marks = append(marks, p.Time)
			return nil
		},
		Published: func(ctx context.Context) (time.Time, error) {
			_, err := publish.ReadHead(ctx, s)
			return time.Time{}, err
		},
		Change: nothing, ChangeEvery: time.Hour, Collect: nothing, CollectEvery: time.Hour, Log: buildtest.Discard,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour-time.Second)
	defer cancel()
	loop.Run(ctx)
	// The first snapshot is for the mark before the start, so it is late.
	if len(marks) != 145 || marks[144].Sub(marks[0]) != 24*time.Hour {
		t.Errorf("%d snapshots: %v", len(marks), marks)
	}
}
