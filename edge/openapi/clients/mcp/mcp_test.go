package main

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge"
	marketdata "example.com/marketdata/edge/openapi/clients/go"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// now is the time of the newest snapshot of simulated.
var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// simulated starts an edge with a simulated market and its year, signed, and returns a server that asks it.
func simulated(t *testing.T) *service {
	t.Helper()
	store := buildtest.Signed(memstore.New())
	teststore.SimulateYear(t, store, "?assets=200&seed=1", now, teststore.SignFiles(buildtest.SignKey))
	teststore.Change(t, store, now.Add(90*time.Second))
	key := teststore.Key(t, store, 1000, 1000).Key
	base := openapitest.Start(t, edge.Config{Reader: store})
	openapitest.Await(t, base, key)
	return &service{base: base, key: key, log: slog.New(slog.DiscardHandler), trust: artifacts.Trust{buildtest.SignKey.Trust()},
		client: must.Get(marketdata.New(base, key, marketdata.Retries(0)))(t)}
}

// connect returns a session of the SDK's client with a server in memory.
func connect(t *testing.T, s *service) *mcp.ClientSession {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	must.Get(s.server("test").Connect(t.Context(), ours, nil))(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session := must.Get(client.Connect(t.Context(), theirs, nil))(t)
	t.Cleanup(func() { session.Close() })
	return session
}

func TestTry(t *testing.T) {
	s := connect(t, simulated(t))
	tools := must.Get(s.ListTools(t.Context(), nil))(t)
	b, _ := json.Marshal(tools.Tools)
	t.Log(len(b))
	for _, c := range []struct {
		tool string
		args map[string]any
	}{
		{"search", map[string]any{"words": "bitc"}},
		{"quotes", map[string]any{"slug": []string{"bitcoin"}}},
		{"markets", map[string]any{"size": 2, "snapshot": "2026-11-21T12:00:00Z"}},
		{"history", map[string]any{"slug": []string{"bitcoin"}, "window": "24h"}},
		{"history", map[string]any{"slug": []string{"bitcoin"}, "kind": "candles", "interval": "1d", "from": "2026-11-19"}},
		{"price_at", map[string]any{"slug": []string{"bitcoin"}, "time": []string{"2026-03-01", "2011-01-01T00:00:00Z"}}},
		{"global", map[string]any{}},
		{"verify_proof", map[string]any{"id": 1}},
		{"quotes", map[string]any{"slugs": []string{"bitcoin"}}},
		{"quotes", map[string]any{"slug": []string{"bitcoin"}, "snapshot": "yesterday"}},
		{"quotes", map[string]any{"slug": []string{"bitcoin"}, "snapshot": "2026-11-20T12:00:00Z"}},
		{"nothing", map[string]any{}},
		{"history", map[string]any{}},
		{"markets", map[string]any{"sort": "x"}},
		{"markets", map[string]any{"size": 100}},
	} {
		got, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		if err != nil {
			t.Log(c.tool, "ERR", err)
			continue
		}
		text := got.Content[0].(*mcp.TextContent).Text
		t.Log(c.tool, c.args, got.IsError, len(text), text[:min(len(text), 900)])
	}
}
