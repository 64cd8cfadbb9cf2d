package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"example.com/marketdata/edge/coding"
	"example.com/marketdata/internal/bench/benchdoc"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// coded compares coded pages with plain ones: new pages as clients ask for them, and cached ones.
func coded(a, b *server, auth map[string]string, most int) (list []comparison) {
	const acceptEncoding = "Accept-Encoding"
	in := func(accept string, s *server, ask asker) load {
		return load{"edge, " + cmp.Or(accept, "plain"), s, ask,
			map[string]string{"X-Api-Key": auth["X-Api-Key"], acceptEncoding: accept}}
	}
	fresh, cached := pages(most, 5), always(quotes+"?page=3")
	for _, client := range []struct {
		name, accept string
		target       float64
	}{
		{"a new page for curl --compressed (zstd)", "deflate, gzip, br, zstd", 3},
		{"a new page for Chrome or Firefox (zstd)", "gzip, deflate, br, zstd", 3},
		{"a new page for Safari (gzip)", "gzip, deflate, br", 3.5},
		{"a new page for Python's requests (gzip)", "gzip, deflate", 3.5},
		{"a new page for Go (gzip)", "gzip", 3.5},
		{"a new page for Node's fetch (gzip)", "br, gzip, deflate", 3.5},
		{"a new page for a client that takes br alone", "br", 6},
	} {
		list = append(list, comparison{
			client.name + ", beside a plain one", client.target, in(client.accept, a, fresh), in("", b, fresh)})
	}
	for _, name := range []string{"zstd", "gzip", "br"} {
		list = append(list,
			comparison{"a cached page in " + name + ", beside a plain one", 0, in(name, a, cached), in("", b, cached)})
	}
	return list
}

// codingsCmd compares the settings of codings, on pages of recorded markets.
type codingsCmd struct {
	runCmd   `embed:""`
	Recorded string `default:"../shared/data" help:"Folder of recorded markets, which are not part of the project."`
}

// coder is a coding with one setting.
type coder struct {
	name string
	code func(dst, body []byte) []byte
}

// settings returns the settings to compare: of each coding the edge's own, and levels of libraries.
func settings() (all []coder) {
	all = append(all, coder{"zstd fastest, the edge's", coding.Zstd})
	for level := zstd.SpeedDefault; level <= zstd.SpeedBestCompression; level++ {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err)
		}
		all = append(
			all, coder{"zstd " + level.String(), func(dst, body []byte) []byte { return e.EncodeAll(body, dst) }})
	}
	type writer interface {
		io.WriteCloser
		Reset(io.Writer)
	}
	streamed := func(name string, w writer) {
		all = append(all, coder{name, func(dst, body []byte) []byte {
			sink := appender(dst)
			w.Reset(&sink)
			_, _ = w.Write(body) // the sink has no errors
			_ = w.Close()
			return sink
		}})
	}
	all = append(all, coder{"gzip −1, the edge's", coding.Gzip})
	for _, level := range []int{3, 5, 6} {
		w, err := gzip.NewWriterLevel(nil, level)
		if err != nil {
			panic(err)
		}
		streamed(fmt.Sprintf("gzip −%d", level), w)
	}
	all = append(all, coder{"br, the edge's", coding.Brotli})
	for _, level := range []int{0, 1, 2, 4} {
		streamed(fmt.Sprintf("br −%d", level), brotli.NewWriterLevel(nil, level))
	}
	return all
}

type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// samplePages is how many pages of each length there are of a market.
const samplePages = 40

// sample is the bodies of one length.
type sample struct {
	name   string
	bodies [][]byte
}

const codingsMethod = `Pages of %s, %d of each length, by id: average bytes (as a part of those of gzip −6) and processor time, medians of %d rounds that take the
settings in turn. gzip and zstd are of [klauspost/compress](https://github.com/klauspost/compress), br of [andybalholm/brotli](https://github.com/andybalholm/brotli), whose newer encoder (NewWriterV2),
level 1, is the edge's.`

func (c *codingsCmd) Run(ctx context.Context) error {
	return c.prepared(func(b *bench) error {
		samples, markets, err := c.samples(ctx, b)
		if err != nil {
			return err
		}
		d := benchdoc.Document{Title: "What a coding costs", Command: "make bench-edge CODINGS=1",
			Method: fmt.Sprintf(codingsMethod, markets, len(samples[0].bodies), c.Rounds), Columns: []string{"coding"}}
		all := settings()
		for _, a := range all {
			d.Rows = append(d.Rows, []string{a.name})
		}
		for _, s := range samples {
			d.Columns = append(d.Columns, s.name+", bytes", s.name+", µs")
			bytes, times := compareCodings(all, s.bodies, c.Rounds)
			base := bytes[slices.IndexFunc(all, func(a coder) bool { return a.name == "gzip −6" })]
			for i := range all {
				d.Rows[i] = append(d.Rows[i], fmt.Sprintf("%s (%.2f)", thousands(bytes[i]/len(s.bodies)),
					float64(bytes[i])/float64(base)), fmt.Sprintf("%.1f", float64(times[i].Nanoseconds())/1000))
			}
		}
		return d.Print(c.Out)
	})
}

// compareCodings returns, for each setting, the bytes of all bodies and the processor
// time of one.
func compareCodings(all []coder, bodies [][]byte, rounds int) (bytes []int, times []time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const slice = 5 * time.Millisecond
	took := make([][]time.Duration, len(all))
	dst := make([]byte, 0, 1<<20)
	for range rounds {
		for i, a := range all {
			began, n := threadTime(), 0
			for ; n == 0 || threadTime()-began < slice; n += len(bodies) {
				for _, body := range bodies {
					a.code(dst, body)
				}
			}
			took[i] = append(took[i], (threadTime()-began)/time.Duration(n))
		}
	}
	for i, a := range all {
		sum := 0
		for _, body := range bodies {
			sum += len(a.code(dst, body))
		}
		bytes = append(bytes, sum)
		times = append(times, median(took[i], func(d time.Duration) time.Duration { return d }))
	}
	return bytes, times
}

// threadTime returns the processor time that this thread has used. getrusage counts in the kernel's
// ticks, which are some milliseconds.
func threadTime() time.Duration {
	t, err := clock(unix.CLOCK_THREAD_CPUTIME_ID)
	if err != nil {
		panic(err)
	}
	return t
}

// samples returns pages of 20 and 100 rows (one row is too short to be coded) and a description of
// their markets: recorded ones, or the simulated one where there are none.
func (c *codingsCmd) samples(ctx context.Context, b *bench) (samples []sample, markets string, err error) {
	samples = []sample{{name: "20 rows"}, {name: "100 rows"}}
	take := func(name, about string) error {
		s, err := b.market(ctx, name, c.Assets)
		if err != nil {
			return err
		}
		defer b.stop(s)
		if markets != "" {
			markets += " and of "
		}
		markets += about
		var l struct{ Result struct{ Total int } }
		res, err := capture(s.addr, quotes+"?limit=1", b.auth())
		if err := cmp.Or(err, json.Unmarshal(res.body, &l)); err != nil {
			return err
		}
		for i, rows := range []int{20, 100} {
			for n := range samplePages {
				res, err := capture(s.addr,
					fmt.Sprintf(quotes+"?limit=%d&offset=%d", rows, n*(l.Result.Total-rows)/samplePages), b.auth())
				if err != nil {
					return err
				}
				samples[i].bodies = append(samples[i].bodies, res.body)
			}
		}
		return nil
	}
	for _, m := range []struct{ name, about, command, source string }{
		{"coingecko-2025", "21,441 recorded assets", "build", "--source=feed:"},
		{"top1000-2026", "1,000 recorded ones with 25 moments of history", "backfill", "--feeds="},
	} {
		folder := filepath.Join(c.Recorded, m.name)
		if _, err := os.Stat(folder); err != nil {
			fmt.Printf("skipped: a recorded market that is not part of the project is not there: %v\n", err)
			continue
		}
		fmt.Printf("building the market of %s\n", m.name)
		if _, err := b.builder(ctx, nil, m.command, m.source+folder, "--store", b.store(m.name)); err != nil {
			return nil, "", err
		}
		if err := take(m.name, m.about); err != nil {
			return nil, "", err
		}
	}
	if markets == "" {
		err = take("small", thousands(c.Assets)+" simulated assets")
	}
	return samples, markets, err
}
