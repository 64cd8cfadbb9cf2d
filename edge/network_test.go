package edge_test

import (
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/network"
	"example.com/marketdata/internal/test/testserver"
)

// TestNetworkFaults puts a faulty network between an edge and MinIO, with one kind of fault after another,
// while snapshots are published and requests are answered. It does so for an edge that is starting and for
// one that has been running.
func TestNetworkFaults(t *testing.T) {
	server := testserver.MinIO(t)
	proxy := must.Get(network.Start(strings.TrimPrefix(server.Endpoint, "http://")))(t)
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	open := func(address string) *s3store.Store {
		s := must.Get(s3store.Open(address, server.Options()))(t)
		t.Cleanup(func() { s.Close() })
		return s
	}
	address := server.URL("faults")
	w := newWorld(t, open(address))
	through := open(strings.Replace(address, server.Endpoint, "http://"+proxy.Addr(), 1))
	quick := func(c *edge.Config) { c.Poll = 20 * time.Millisecond }
	set := func(f network.Fault) {
		t.Helper()
		must.OK(t, proxy.Set(f))
	}
	heal := func() {
		t.Helper()
		must.OK(t, proxy.Heal())
	}
	newest := w.publish()
	n := w.start(through, quick)
	n.complete(newest)
	for _, f := range network.Faults {
		if testing.Short() && f.Name == network.BlackHole.Name {
			continue // each read takes five seconds, the edge's timeout
		}
		t.Run(f.Name, func(t *testing.T) {
			crowd := n.crowd()
			crowd.more()
			set(f)
			fresh := w.start(through, quick)
			strangers := fresh.crowd()
			newest = w.publish()
			if f.Loses {
				n.reports("")
			} else {
				n.complete(newest)
			}
			crowd.more()
			heal()
			n.complete(newest)
			fresh.complete(newest)
			crowd.more()
			crowd.always()
			strangers.more()
			strangers.done() // these get 503 until the store is reachable
			fresh.stop()
		})
	}
}
