package providertest

import (
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/builder/source/provider"
)

// NastyRows reads markets that have a valid row of asset b and a nasty row of asset a. The nasty
// row must be accepted as it is or set aside with a reason, and b must be accepted. Each element of
// rows has the nasty row, its price in units of the last decimal place ("" for no quote), and the
// prefixes of the reasons for which rows are set aside.
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
