package oracle_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/model"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/teststore"
	"example.com/marketdata/loadtest/oracle"
)

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func load(t *testing.T, store artifacts.Reader) *oracle.Snapshot {
	t.Helper()
	m := must.Get(oracle.FindManifest(t.Context(), store, t0))(t)
	return must.Get(oracle.Load(t.Context(), store, m))(t)
}

// A row that the interface does not allow is a fault of the snapshot, even though all servers that copy it
// give the same answer.
func TestFaultsOfTheSnapshot(t *testing.T) {
	for name, change := range map[string]struct{ list, from, to string }{
		"exponent":           {"quotes", `"1y":"[^"]*"`, `"1y":"1.2e1"`},
		"trailing zero":      {"exchanges", `"taker":"0.25"`, `"taker":"0.250"`},
		"minus zero":         {"quotes", `"6h":"[^"]*"`, `"6h":"-0"`},
		"too many decimals":  {"exchanges", `"taker":"0.25"`, `"taker":"0.123456789"`},
		"missing window":     {"quotes", `,"30d":"[^"]*"`, ``},
		"negative price":     {"quotes", `"price":"`, `"price":"-`},
		"no market cap":      {"quotes", `"market_cap":[^,]*`, `"market_cap":"0"`},
		"negative amount":    {"categories", `"volume_24h":"`, `"volume_24h":"-`},
		"white space":        {"quotes", `,"price"`, `, "price"`},
		"escape":             {"quotes", `https://`, `https:\/\/`},
		"order of fields":    {"assets", `("name":"[^"]*"),("symbol":"[^"]*")`, `$2,$1`},
		"another field":      {"chains", `}$`, `,"extra":1}`},
		"no explorers":       {"assets", `"explorers":\[[^]]*\]`, `"explorers":null`},
		"time with a zone":   {"categories", `"snapshot_time":"([^"]*)Z"`, `"snapshot_time":"$1+00:00"`},
		"cut":                {"trending", `}(,"since":"[^"]*")?}$`, `$1}`},
		"number for a price": {"trending", `"price":"([^"]*)"`, `"price":$1`},
	} {
		t.Run(name, func(t *testing.T) {
			store, sort := memstore.New(), "id"
			if change.list == "trending" {
				sort = "board"
			}
			teststore.PublishAwkward(t, store, 40, t0, 1)
			var changed string
			teststore.EditRow(t, store, change.list, sort, func(row []byte) []byte {
				changed = regexp.MustCompile(change.from).ReplaceAllString(string(row), change.to)
				if changed == string(row) {
					t.Fatalf("no %q in %s", change.from, row)
				}
				return []byte(changed)
			})
			if faults := load(t, store).Faults(); len(faults) != 1 {
				t.Errorf("%d faults found in %s: %q", len(faults), changed, faults)
			}
		})
	}
}

func TestFindManifest(t *testing.T) {
	ctx, store := context.Background(), memstore.New()
	if _, err := oracle.FindManifest(ctx, store, t0); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("empty store: %v", err)
	}
	teststore.PublishAwkward(t, store, 40, t0, 1, 1)
	for _, at := range []time.Time{t0, t0.Add(artifacts.Step)} {
		m, err := oracle.FindManifest(ctx, store, at)
		if err != nil || !m.Time.Equal(at) {
			t.Errorf("%v: %v", at, err)
		}
	}
	if _, err := oracle.FindManifest(ctx, store, t0.Add(time.Hour)); !errors.Is(err, oracle.ErrNoSnapshot) {
		t.Errorf("unknown snapshot: %v", err)
	}
}

// /global contains the change record if it is from the snapshot's database and its value can be represented.
func TestChange(t *testing.T) {
	published := memstore.New()
	teststore.PublishAwkward(t, published, 40, t0, 1)
	s := load(t, published)
	q, _ := model.Parse(model.Prefix + "global")
	for name, tc := range map[string]struct {
		c    *model.Change
		want string
	}{
		"none":             {nil, "null"},
		"good":             {&model.Change{Database: "example", Value: "-2.35"}, `"-2.35"`},
		"nine digits":      {&model.Change{Database: "example", Value: "123456789.5"}, `"123456789.5"`},
		"ten digits":       {&model.Change{Database: "example", Value: "1234567890"}, "null"},
		"another database": {&model.Change{Database: "other", Value: "1"}, "null"},
		"no decimal":       {&model.Change{Database: "example", Value: "1e5"}, "null"},
	} {
		if got := s.Answer(q, tc.c).Body; !strings.Contains(
			got, `"total_market_cap_change_percentage_24h":`+tc.want+`,"data_time":"2026-11-01T12:00:00Z"}}`) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	store := memstore.New()
	if c, err := oracle.GetChange(context.Background(), store); c != nil || err != nil {
		t.Errorf("no record: %v, %v", c, err)
	}
	rec := &artifacts.Change{Format: artifacts.Format, Database: "example", Time: t0, Value: "1.5"}
	must.Get(store.Swap(context.Background(), artifacts.ChangeKey, "", rec.Encode()))(t)
	c, err := oracle.GetChange(context.Background(), store)
	if err != nil || c == nil || *c != (model.Change{Database: "example", Time: t0, Value: "1.5"}) {
		t.Errorf("record: %v, %v", c, err)
	}
}
