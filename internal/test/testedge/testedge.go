// Package testedge runs edges for tests of packages that do not import the edge.
package testedge

import (
	"cmp"
	"context"
	"sync"
	"time"

	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/must"
)

// T is a test or a property check: a *testing.T, *testing.B or *rapid.T.
type T interface {
	must.TB
	Cleanup(f func())
	Errorf(format string, args ...any)
}

// Config configures an edge.
type Config = edge.Config

// Edge is a running edge.
type Edge struct {
	*edge.Edge
	// URL and Admin are the base addresses of its two listeners.
	URL, Admin string
	// Stop stops the edge. Further calls have no effect. The end of the test also stops the edge.
	Stop func()
}

// Start runs an edge until Stop is called or the test ends. By default it listens on free ports of
// this machine and polls every 20 ms.
func Start(t T, cfg Config) *Edge {
	t.Helper()
	cfg.Listen, cfg.Admin = cmp.Or(cfg.Listen, "127.0.0.1:0"), cmp.Or(cfg.Admin, "127.0.0.1:0")
	cfg.Poll = cmp.Or(cfg.Poll, 20*time.Millisecond)
	e := must.Get(edge.New(context.Background(), cfg))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("edge: %v", err)
		}
	})
	t.Cleanup(stop)
	return &Edge{e, "http://" + e.Addr().String(), "http://" + e.AdminAddr().String(), stop}
}
