package provider_test

import (
	"fmt"
	"testing"
	"time"

	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/builder/source/provider/providertest"
)

// TestAgeOfRows: the newest of the provider's own times counts, of a recording
// none, and none that is yet to come.
func TestAgeOfRows(t *testing.T) {
	const untimed = -1
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	clock := func(c *provider.Config) { c.Now = func() time.Time { return now } }
	row := func(field string, ago time.Duration) string {
		return fmt.Sprintf(`{%q:%q}`, field, now.Add(-ago).In(time.FixedZone("", 3600)).Format(time.RFC3339))
	}
	for _, c := range []struct {
		name, rows string
		ago        time.Duration // untimed: no time
	}{
		{"the newest", row("last_updated", time.Hour) + "," + row("last_updated", time.Minute) + "," + row("last_updated", time.Second*90), time.Minute},
		{"of a group", row("updated_at", time.Hour), time.Hour},
		{"a clock that is ahead", row("last_updated", -10*time.Minute), -10 * time.Minute},
		{"yet to come", row("last_updated", time.Hour) + "," + row("last_updated", -10*time.Minute-time.Second), time.Hour},
		{"none", `{"last_updated":null},{"last_updated":"now"},{},7`, untimed},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := providertest.New()
			p.Set("/rows", []byte("["+c.rows+"]"))
			collect := func(col *provider.Collector) *provider.Round {
				var rows []provider.Row
				round, err := col.Collect(t.Context(), func(r *provider.Round) error {
					return r.Lists(t.Context(), provider.List{Required: true, Into: &rows, Part: rowsPart(0)})
				})
				if err != nil {
					t.Fatal(err)
				}
				return round
			}
			live, dir := collect(newCollector(t, p, clock)), t.TempDir()
			if err := live.Record(dir); err != nil {
				t.Fatal(err)
			}
			replayed := collect(newCollector(t, p, clock, func(c *provider.Config) { c.Replay = dir })).Parts()[0]
			if !replayed.Newest.IsZero() || !replayed.Quotes || replayed.Untimed {
				t.Errorf("replayed: %+v", replayed)
			}
			want := now.Add(-c.ago)
			if c.ago == untimed {
				want = time.Time{}
			}
			if part := live.Parts()[0]; !part.Newest.Equal(want) || !part.Quotes || part.Untimed != want.IsZero() {
				t.Errorf("%+v; want the newest of %v", part, want)
			}
		})
	}
}
