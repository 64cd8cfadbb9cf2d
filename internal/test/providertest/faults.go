package providertest

import (
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/provider"
)

// Endpoint names the part that a provider's list is for, and says whether it has prices.
type Endpoint struct {
	Part   string
	Prices bool
}

// marksOfDay is the number of snapshots a day; each must be there within inTime.
const (
	marksOfDay = 144
	inTime     = 2 * time.Minute
)

// endpointFaults are ways in which an endpoint fails.
var endpointFaults = map[string]http.HandlerFunc{
	"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"500":   Status(500), "403": Status(403), "429": RetryAfter(3600),
	"html": Says("<html>"), "empty": Says("[]"), "an error": Says(`{"error":"no"}`),
	"rows of nothing": Says("[" + strings.Repeat("{},", 100) + "{}]"),
}

// EndpointsFail makes the endpoints of a sample fail for a day, one at a time and all but the
// prices together. Prices of each mark are there within two minutes; the last good rows stand in
// for everything else, and the feed says so. Old prices stand in for an hour; after that there is
// no feed.
func EndpointsFail(
	t *testing.T, endpoints map[string]Endpoint, sample func() *Provider, open func(*Provider) *provider.Source,
) {
	t.Helper()
	var prices []string
	for path, e := range endpoints {
		if e.Prices {
			path, _, _ = strings.Cut(path, "?")
			prices = append(prices, path)
		}
	}
	for fault, answer := range endpointFaults {
		for path, e := range endpoints {
			if e.Prices && (fault == "403" || fault == "empty" || fault == "an error") {
				synctest.Test(t, func(t *testing.T) { pricesFail(t, path, e, answer, sample(), open) })
			} else if !e.Prices {
				synctest.Test(t, func(t *testing.T) {
					failForADay(t, path+" "+fault, endpoints, sample(), open, func(p *Provider, on bool) {
						if p.Fault(path, nil); on {
							p.Fault(path, answer)
						}
					}, e.Part)
				})
			}
		}
		synctest.Test(t, func(t *testing.T) {
			failForADay(t, "all but prices "+fault, endpoints, sample(), open, func(p *Provider, on bool) {
				if p.FaultElsewhere(nil); on {
					p.FaultElsewhere(answer, prices...)
				}
			}, "")
		})
	}
}

// failForADay makes endpoints that prices do not need fail for a day: part, or all.
func failForADay(
	t *testing.T, name string, endpoints map[string]Endpoint, p *Provider, open func(*Provider) *provider.Source,
	fail func(p *Provider, on bool), part string,
) {
	s := open(p)
	good := All(t, Files(t, s))
	for range 5 { // what is asked for one by one is had, too
		time.Sleep(10 * time.Minute)
		good = All(t, Files(t, s))
	}
	fail(p, true)
	failed := map[string]bool{}
	for range marksOfDay {
		time.Sleep(10*time.Minute - time.Duration(time.Now().UnixNano()%int64(10*time.Minute)))
		mark := time.Now()
		files, err := s.Files(t.Context(), time.Time{})
		if err != nil || time.Since(mark) > inTime || !maps.Equal(All(t, files), good) {
			t.Fatalf("%s: %v, after %v, or not the last good rows", name, err, time.Since(mark))
		}
		for _, got := range files.(source.Provenance).Parts() {
			if got.Quotes && got.State != source.PartNew {
				t.Fatalf("%s: prices %+v", name, got)
			}
			if got.Failures > 0 && got.State == source.PartStale && got.Reason != "" && !got.Fetched.IsZero() {
				failed[got.Name] = true
			}
		}
	}
	for _, e := range endpoints {
		// After a 429 the builder sends nothing else, and what is not sent does not fail.
		want := !e.Prices && (part == e.Part || part == "")
		if any := part == "" && strings.HasSuffix(name, "429"); failed[e.Part] != want && (!any || len(failed) == 0) {
			t.Errorf("%s: %s is said to have failed: %v, want %v", name, e.Part, failed[e.Part], want)
		}
	}
	fail(p, false)
	for range 30 {
		time.Sleep(10 * time.Minute)
		Files(t, s)
	}
	for _, got := range Files(t, s).(source.Provenance).Parts() {
		good := got.Failures == 0 && (got.State == source.PartNew || got.State == source.PartKept)
		if !strings.HasSuffix(got.Name, "/*") && !good {
			t.Errorf("%s: when it is over: %+v", name, got)
		}
	}
}

func pricesFail(
	t *testing.T, path string, e Endpoint, answer http.HandlerFunc, p *Provider, open func(*Provider) *provider.Source,
) {
	s := open(p)
	good := All(t, Files(t, s))
	p.Fault(path, answer)
	time.Sleep(50 * time.Minute)
	files := Files(t, s)
	if got := States(files)[e.Part]; got != source.PartStale || !maps.Equal(All(t, files), good) {
		t.Errorf("%s: %s, or not the last good rows", path, got)
	}
	time.Sleep(20 * time.Minute)
	if _, err := s.Files(t.Context(), time.Time{}); err == nil {
		t.Errorf("%s: prices that are too old", path)
	}
	p.Fault(path, nil)
	if got := All(t, Files(t, s)); !maps.Equal(got, good) {
		t.Errorf("%s: not as before when it is over", path)
	}
}

// NastyRows reads a market with a nasty row of asset a after a good one of asset b: the nasty one
// is accepted as it is or set aside with a reason, and b is accepted. Each of rows has the nasty
// one, its price in units of the last place ("": no quote), and how the reasons begin for which
// rows are set aside.
func NastyRows(t *testing.T, rows [][]string, market func(row string) provider.Market) {
	t.Helper()
	for _, test := range rows {
		row, price, want := test[0], test[1], test[2:]
		files := provider.NewFeed("test", time.Unix(1, 0), nil)
		market(row).Write(files)
		feed, report := Read(t, files)
		prices := map[string]string{}
		for _, q := range feed.Quotes {
			units := new(big.Int).SetUint64(q.Price.Hi)
			prices[feed.Assets[q.Asset].Key] = units.Lsh(units, 64).Or(units, new(big.Int).SetUint64(q.Price.Lo)).
				String()
		}
		var reasons []string
		for _, f := range report.Files {
			for _, r := range f.Rejections {
				reasons = append(reasons, r.Reason)
			}
		}
		if prices["a"] != price || !slices.EqualFunc(reasons, want, strings.HasPrefix) || prices["b"] == "" {
			t.Errorf("%s:\nprices %v, want %q; set aside %q, want %q", row, prices, price, reasons, want)
		}
	}
}
