package provider_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"example.com/marketdata/builder/source"
	"example.com/marketdata/builder/source/coincap"
	"example.com/marketdata/builder/source/provider"
	"example.com/marketdata/internal/test/providertest"
)

// TestIntervals checks that a part's interval takes the quota into account.
func TestIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := providertest.New()
		now := time.Now().UTC().Format(time.RFC3339)
		p.Set("/assets",
			[]byte(`{"timestamp":`+fmt.Sprint(time.Now().UnixMilli())+`,"data":[{"id":"a","priceUsd":"1"}]}`))
		p.Set("/exchanges", []byte(`{"data":[{"exchangeId":"a","name":"A","updated":"`+now+`"}]}`))
		for _, path := range []string{"/assets", "/exchanges"} {
			p.Set(path+"?offset=1", []byte(`{"data":[]}`))
		}
		env := providertest.Env(t, "COINCAP_API_KEY=k")
		env.Transport, env.Cache = p.Transport(), t.TempDir()
		src, err := source.Open(t.Context(), "coincap:?base=https%3A%2F%2Fapi.example.test",
			map[string]source.Opener{"coincap": env.Opener(coincap.Open)})
		ok(t, err)
		files, err := src.Files(t.Context(), time.Time{})
		ok(t, err)
		// A quota of 2,500 calls a month allows a request every forty minutes, not for each
		// snapshot.
		if part := files.(source.Provenance).Parts()[0]; part.Every < 30*time.Minute || part.Every > time.Hour {
			t.Errorf("asked for every %v", part.Every)
		}
	})
}

// TestAgeOfRows checks that the newest of the provider's own times counts, except times in the
// future, and that no time counts in a replay.
func TestAgeOfRows(t *testing.T) {
	const untimed = -1
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // the time at which a bubble starts
	ask := func(t *testing.T) func(r provider.Round) error {
		return func(r provider.Round) error {
			_, err := required(t, r, rowsPart(0))
			return err
		}
	}
	row := func(field string, ago time.Duration) string {
		return fmt.Sprintf(`{%q:%q}`, field, now.Add(-ago).In(time.FixedZone("", 3600)).Format(time.RFC3339))
	}
	for _, c := range []struct {
		name, rows string
		ago        time.Duration // untimed if no row has a usable time
	}{
		{
			"the newest",
			row("last_updated", time.Hour) + "," + row("last_updated", time.Minute) + "," +
				row("last_updated", time.Second*90),
			time.Minute,
		},
		{"of a group", row("updated_at", time.Hour), time.Hour},
		{"a clock that is ahead", row("last_updated", -10*time.Minute), -10 * time.Minute},
		{
			"yet to come", row("last_updated", time.Hour) + "," + row("last_updated", -10*time.Minute-time.Second),
			time.Hour,
		},
		{"none", `{"last_updated":null},{"last_updated":"now"},{},7`, untimed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := providertest.New()
				p.Set("/rows", []byte("["+c.rows+"]"))
				live, dir := open(t, p, ""), t.TempDir()
				part := live.collect(t, ask(t))[0]
				ok(t, live.Record(t.Context(), dir))
				replayed := open(t, p, "replay="+dir).collect(t, ask(t))[0]
				if !replayed.Newest.IsZero() || !replayed.Quotes || replayed.Untimed {
					t.Errorf("replayed: %+v", replayed)
				}
				want := now.Add(-c.ago)
				if c.ago == untimed {
					want = time.Time{}
				}
				if !part.Newest.Equal(want) || !part.Quotes || part.Untimed != want.IsZero() {
					t.Errorf("%+v; want the newest of %v", part, want)
				}
			})
		})
	}
}
