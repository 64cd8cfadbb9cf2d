package coingecko

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	feed "example.com/marketdata/builder/market"
	"example.com/marketdata/builder/source"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/providertest"
)

// TestWeek checks that the prices of the preceding week are requested only for a new store. The
// last price belongs to the last full hour before the coin's time. An invalid price is left out and
// does not affect others.
func TestWeek(t *testing.T) {
	p := sampleProvider(t)
	base := "?pages=1&rate=60000&base=" + p.Serve(t) + api
	usual := providertest.Files(t, openTest(t, base, "COINGECKO_PRO_API_KEY=k")).(source.Remembered)
	if past := usual.Past(t.Context()); past != nil {
		t.Error("a past that nobody asked for")
	}
	coin := func(id, updated, prices string) string {
		return fmt.Sprintf(`{"id":%q,"symbol":"s","name":"N","current_price":7,"last_updated":%q,`+
			`"sparkline_in_7d":{"price":[%s]}}`, id, updated, prices)
	}
	long := strings.Repeat("5,", 300) + "6.25"
	p.Set(api+"/coins/markets?sparkline=true", []byte("["+strings.Join([]string{
		coin("bitcoin", "2026-11-21T07:20:31.123Z", "91000.123456789012345678,1e-7,null,-1,92000"),
		coin("ethereum", "2026-11-21T06:59:59Z", "3000"), coin("01coin", "2026-11-21T07:00:00Z", long),
		coin("none", "", "1"),
		`{"id":"empty","symbol":"s","name":"N","current_price":7,"last_updated":"2026-11-21T07:20:00Z","sparkline_in_7d":null}`,
	}, ",")+"]"))
	s := openTest(t, base, "COINGECKO_PRO_API_KEY=k")
	s.Recall(true)
	p.Set(api+"/coins/list", []byte(`[{"id":"bitcoin","symbol":"btc","name":"Bitcoin"}]`))
	var got bytes.Buffer
	last := time.Time{}
	hours := 0
	for before, err := range providertest.Files(t, s).(source.Remembered).Past(t.Context()) {
		must.OK(t, err)
		if !before.Time.After(last) {
			t.Errorf("%v comes behind %v", before.Time, last)
		}
		last = before.Time
		hours++
		for _, q := range before.Quotes {
			if key := before.Assets[q.Asset].Key; key != "01coin" || q.Price.Lo%10 != 0 || hours == maxWeek {
				fmt.Fprintf(&got, "%s %s %s\n", before.Time.Format("15:04"), key,
					feed.AppendDecimal(nil, q.Price, feed.PriceDecimals))
			}
		}
	}
	want := `03:00 bitcoin 91000.123456789012345678
04:00 bitcoin 0.0000001
06:00 ethereum 3000
07:00 bitcoin 92000
07:00 01coin 6.25
`
	if got.String() != want || hours != maxWeek {
		t.Errorf("%d hours:\n%swant\n%s", hours, got.String(), want)
	}
	asked := slices.DeleteFunc(p.Asked(), func(path string) bool { return !strings.HasSuffix(path, "sparkline=true") })
	if len(asked) != 1 {
		t.Errorf("asked for the week by %q", asked)
	}
}
