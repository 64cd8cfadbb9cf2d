// Package source reads the state of the market from a feed (FEED.md).
//
// A [Source] provides the files of a feed at one moment. It can be a folder, a prefix in an object
// store, a live provider, or a simulated market. One reader turns the files of all sources into a
// [market.Feed], so every rule of FEED.md applies to all of them:
//
//	src, err := source.Open(ctx, "feed:/var/lib/market/feed", nil)
//	err = source.Use(ctx, src, time.Time{}, func(files source.Files) (err error) {
//		feed, report, err = source.Read(ctx, files, source.ReadOptions{})
//		return err
//	})
//
// Read sets aside a row that it cannot use, and says why in the report. Read returns an error only
// if there is no feed. It reads each file once. In memory it keeps only the accepted rows, one
// line, and the first reasons.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/market"
)

// The files of a feed. All except the first two are optional. A missing file has the same meaning
// as an empty file.
const (
	InfoFile       = "feed.json"
	AssetsFile     = "assets.ndjson"
	QuotesFile     = "quotes.ndjson"
	ExchangesFile  = "exchanges.ndjson"
	CategoriesFile = "categories.ndjson"
	ChainsFile     = "chains.ndjson"
	RatesFile      = "rates.ndjson"
)

// Files are a feed's files at one moment.
type Files interface {
	// Open opens a feed file by name. The error is fs.ErrNotExist for a file that does not exist,
	// and another error if the source does not respond. If the file has a method Size() int64, the
	// size is used to report progress. If the file is tabular, reports treat it as a table whose
	// values are cells. Open may be called again for the same file.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
}

// Part describes a part of a live source's feed and where it came from.
type Part struct {
	Name  string    `json:"name"`
	State PartState `json:"state"`
	// Fetched is the time at which the provider delivered the rows, or zero if it is unknown.
	Fetched time.Time `json:"fetched,omitzero"`
	// Newest is the newest time that the provider gives for a row. It is zero if the provider gives
	// none, and in a replay.
	Newest time.Time `json:"newest,omitzero"`
	// Quotes reports whether the part consists of quote rows.
	Quotes bool `json:"quotes,omitempty"`
	// Untimed reports whether the rows come from a live source and none of them has a usable time.
	Untimed bool `json:"untimed,omitempty"`
	// Every is the interval at which the part is requested, as far as the quota allows. 0 means
	// that it is requested for each feed.
	Every time.Duration `json:"-"`
	// Failures is the number of consecutive failures to fetch the part.
	Failures int `json:"failures,omitempty"`
	// Reason describes what is wrong with the part, or is "" if nothing is.
	Reason string `json:"reason,omitempty"`
}

// PartState says whether a part is new, and what replaces it if it is unavailable.
type PartState string

// The states of a part.
const (
	PartNew     PartState = "new"     // fetched for this feed
	PartKept    PartState = "kept"    // fetched earlier, and not yet due again
	PartStale   PartState = "stale"   // unavailable, so the last good rows are used
	PartMissing PartState = "missing" // unavailable, and there are no rows to use instead
)

// Provenance is implemented by Files that know where their rows came from.
type Provenance interface {
	Parts() []Part
}

// Remembered is implemented by Files that know the market's history. A new store begins with this
// history.
type Remembered interface {
	// Past returns earlier states of the market, oldest first, or nil if none is known. Each
	// state has only its time, the assets with their keys and whether they are active, and quotes
	// without supplies. A market cap or volume of zero is unknown.
	Past(ctx context.Context) iter.Seq2[*market.Feed, error]
}

// Recaller is implemented by sources that must know whether the market's history is wanted before
// Files is called, since they request more data in that case.
type Recaller interface {
	// Recall says whether the Files that are requested next must implement Remembered.
	Recall(wanted bool)
}

// Noticed is implemented by sources whose data must be shown with a notice.
type Noticed interface {
	// Notice returns the notice, or nil if there is none.
	Notice() *artifacts.Notice
}

// Source provides the state of the market.
type Source interface {
	// Files returns the feed's files for the moment t, or for the source's own present if t is
	// zero. A folder has only one state and ignores t. The files are a consistent
	// view of the feed at one moment, or reading them fails.
	Files(ctx context.Context, t time.Time) (Files, error)
	// String returns the name of the source for logs, without credentials.
	String() string
}

// ErrReplaced means that the files that were read belong to two states of a feed. Use reads them
// again.
var ErrReplaced = errors.New("the feed was replaced while it was read: remove feed.json before the other files " +
	"change and write it last, or point a symbolic link at a new folder")

const (
	maxReads  = 3           // how many times Use reads a feed that is replaced each time
	rereadGap = time.Second // pause before the feed is read again, so that its writer can finish
)

// Use calls fn with the files of src for the moment t. If Files or fn returns ErrReplaced because
// the feed was replaced in the meantime, Use requests the files again and calls fn again, up to
// three times in total.
func Use(ctx context.Context, src Source, t time.Time, fn func(Files) error) error {
	replaced := false
	for n := 1; ; n++ {
		files, err := src.Files(ctx, t)
		if err == nil {
			err = fn(files)
		}
		// Once a feed has changed, a file may be missing only because its writer has not finished.
		replaced = replaced || errors.Is(err, ErrReplaced)
		if err == nil || !replaced {
			return err
		}
		if n == maxReads {
			return fmt.Errorf("read %d times: %w", n, err)
		}
		select {
		case <-time.After(rereadGap):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Opener opens a source with one scheme. rest is the part of the source's name after the colon.
type Opener func(ctx context.Context, rest string) (Source, error)

// Schemes lists the sources that Open accepts. Help texts and errors show the list.
func Schemes(others map[string]Opener) string {
	taken := "feed:PATH, feed+s3://BUCKET/PREFIX?endpoint=URL&region=REGION, feed+https://HOST/PATH, csv:PATH"
	for _, name := range slices.Sorted(maps.Keys(others)) {
		taken += ", " + name + ":"
	}
	return taken
}

// Open opens the source that spec names: feed:PATH, feed+s3://…, feed+https://…, csv:PATH, or a
// source with another scheme. openers has the openers of such schemes, by the name of the scheme
// without the colon ("sim").
func Open(ctx context.Context, spec string, openers map[string]Opener) (Source, error) {
	scheme, rest, found := strings.Cut(spec, ":")
	open := openers[scheme]
	switch {
	case !found:
	case scheme == "feed":
		open = openFolder
	case scheme == "feed+s3":
		open = openS3
	case scheme == "feed+https", scheme == "feed+http":
		open = openHTTP(strings.TrimPrefix(scheme, "feed+"))
	case scheme == "csv":
		open = openCSV
	}
	if !found || open == nil {
		if found {
			spec = scheme + ":" // the rest may contain a password
		}
		return nil, fmt.Errorf("source %q: %swant one of %s", spec, meant(spec), Schemes(openers))
	}
	src, err := open(ctx, rest)
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", scheme, err)
	}
	return src, nil
}

// meant returns a question that suggests a source if path is a folder or a CSV file, or ""
// otherwise.
func meant(path string) string {
	info, err := os.Stat(path)
	tables := strings.HasSuffix(path, ".csv")
	switch {
	case err != nil || !info.IsDir() && !tables:
		return ""
	case !info.IsDir():
		path = filepath.Dir(path)
	default:
		_, err = os.Stat(filepath.Join(path, csvName(AssetsFile)))
		tables = err == nil
	}
	if tables {
		return "did you mean csv:" + path + "? "
	}
	return "did you mean feed:" + path + "? "
}

// Metered is implemented by sources whose calls are counted.
type Metered interface {
	// Quota returns the numbers of calls, or nil if they are unknown.
	Quota() *Quota
}

// Quota says how many calls a source has made and may still make.
type Quota struct {
	Source string `json:"source"`
	// Limit is the number of calls allowed per month, or 0 if there is no limit.
	Limit int `json:"limit"`
	// Used is the number of calls over the last 32 dates. Left is the number of calls left within
	// Limit.
	Used int  `json:"used"`
	Left *int `json:"left,omitempty"`
}
