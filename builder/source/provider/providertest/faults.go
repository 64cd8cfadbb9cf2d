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

// Endpoint is what a provider's list is for: the part's name, how long its rows
// count as new, and the file that is another one without it; "" when there is no
// feed then.
type Endpoint struct {
	Part, File string
	Every      time.Duration
}

// EndpointsFail takes each endpoint of a sample away in turn: the last good rows
// stand in for an hour past their time, which the feed says; then they are gone.
func EndpointsFail(t *testing.T, endpoints map[string]Endpoint, sample func() *Provider, open func(*Provider) *provider.Source) {
	t.Helper()
	for path, e := range endpoints {
		for fault, answer := range map[string]http.HandlerFunc{"401": Status(401), "empty": Says("[]"), "an error": Says(`{"error":"no"}`)} {
			synctest.Test(t, func(t *testing.T) {
				p := sample()
				s := open(p)
				good := All(t, Files(t, s))
				p.Fault(path, answer)
				time.Sleep(e.Every + 50*time.Minute)
				files := Files(t, s)
				if got := States(files)[e.Part]; got != source.PartStale || !maps.Equal(All(t, files), good) {
					t.Errorf("%s, %s: %s, or not the last good rows", path, fault, got)
				}
				time.Sleep(20 * time.Minute)
				files, err := s.Files(t.Context(), time.Time{})
				if (err != nil) != (e.File == "") {
					t.Errorf("%s, %s: %v", path, fault, err)
				} else if err == nil && (States(files)[e.Part] != source.PartMissing || Contents(t, files, e.File) == good[e.File]) {
					t.Errorf("%s, %s: rows that are too old", path, fault)
				}
				p.Fault(path, nil)
				if got := All(t, Files(t, s)); !maps.Equal(got, good) {
					t.Errorf("%s, %s: not as before when it is over", path, fault)
				}
			})
		}
	}
}

// NastyRows reads a market in which a nasty row of the asset a follows a good one
// of the asset b: it is taken as it is or set aside with a reason, and b goes on. Each
// of rows has the nasty one, its price in units of the last place ("": no quote),
// and how the reasons begin for which rows are set aside.
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
			prices[feed.Assets[q.Asset].Key] = units.Lsh(units, 64).Or(units, new(big.Int).SetUint64(q.Price.Lo)).String()
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
