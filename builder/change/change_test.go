package change

import (
	"math/big"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/ledger"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/must"
	"pgregory.net/rapid"
)

func TestChangeOf(t *testing.T) {
	at := time.Date(2026, 8, 2, 12, 0, 0, 0, time.UTC)
	total := func(ago time.Duration, v string) ledger.Total {
		return ledger.Total{Time: at.Add(-ago), MarketCap: v}
	}
	for _, c := range []struct {
		name   string
		totals []ledger.Total
		base   time.Duration // how much earlier than the newest total
		value  string
	}{
		{"alone", []ledger.Total{total(0, "5")}, 0, "0"},
		{"base is zero", []ledger.Total{total(time.Hour, "0"), total(0, "5")}, time.Hour, "0"},
		{"earliest within the day", []ledger.Total{total(25*time.Hour, "1"), total(23*time.Hour, "100"),
			total(time.Hour, "3"), total(0, "150")}, 23 * time.Hour, "50"},
		{"exactly a day", []ledger.Total{total(24*time.Hour, "200"), total(0, "150")}, 24 * time.Hour, "-25"},
		{"a step more than a day", []ledger.Total{total(24*time.Hour+artifacts.Step, "200"), total(0, "150")}, 0, "0"},
		{"to zero", []ledger.Total{total(time.Hour, "7"), total(0, "0")}, time.Hour, "-100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := must.Get(of(c.totals))(t)
			if got.Value != c.value || !got.Base.Equal(at.Add(-c.base)) || !got.Snapshot.Equal(at) {
				t.Errorf("value %s of base %v; want %s of %v", got.Value, got.Base, c.value, at.Add(-c.base))
			}
		})
	}
	for _, bad := range [][]ledger.Total{nil, {total(0, "x")}, {total(0, "-1")}, {total(0, "1.5")}} {
		if c, err := of(bad); err == nil {
			t.Errorf("totals %v give %v; want an error", bad, c)
		}
	}
}

// TestPercentChange compares the results with those of the model.
func TestPercentChange(t *testing.T) {
	digits := rapid.StringMatching(`[0-9]{1,60}`)
	rapid.Check(t, func(t *rapid.T) {
		now, base := digits.Draw(t, "now"), digits.Draw(t, "base")
		if rapid.Bool().Draw(t, "near") {
			// Ties and tiny changes: base and now share most digits.
			base = now[:len(now)-1] + "5"
		}
		got := must.Get(percentChange(now, base))(t)
		n, _ := new(big.Int).SetString(now, 10)
		b, _ := new(big.Int).SetString(base, 10)
		if want := model.Percent(b, n); got != want {
			t.Fatalf("percentChange(%s, %s) = %s, want %s", now, base, got, want)
		}
		if !artifacts.IsDecimal(got) {
			t.Fatalf("%q is no decimal", got)
		}
	})
}
