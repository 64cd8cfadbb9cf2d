package auth

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/internal/test/must"
)

// asked is a client that sends requests with one key from many goroutines, while key sets replace each other.
// It counts the admitted requests.
type asked struct {
	keys     *Keys
	text     []byte
	admitted atomic.Int64
}

// ask looks up the key and takes a token, as a request does.
func (a *asked) ask(t *testing.T, at time.Time, memo *Memo) bool {
	key, verdict := a.keys.Lookup(a.text, at, memo)
	if verdict != Allowed {
		t.Errorf("verdict %v", verdict)
		return false
	}
	if !key.Take(limit.At(at)).OK {
		return false
	}
	a.admitted.Add(1)
	return true
}

// check compares the number of requests admitted in a period with the limit. It must be at most rate·t +
// burst, and at least 99 % of that.
func (a *asked) check(t *testing.T, rate, burst int, period time.Duration) {
	t.Helper()
	most := float64(rate)*period.Seconds() + float64(burst)
	if got := float64(a.admitted.Load()); got > most || got < 0.99*most {
		t.Errorf("%d a second, burst %d: %.0f got through in %v, want at most %.0f and 99 %% of it", rate, burst, got,
			period, most)
	}
}

// TestSaturatedAcrossReloads simulates a minute in which 64 goroutines send as many requests as they can, and
// a new set comes into force every second.
func TestSaturatedAcrossReloads(t *testing.T) {
	const goroutines, steps = 64, 20 // steps is the number per simulated second
	text, entry := newKey(t, 1)
	_, other := newKey(t, 2)
	for _, c := range []struct{ rate, burst int }{{100, 200}, {1, 1}, {37, 5}, {5000, 300}} {
		entry.Rate, entry.Burst = c.rate, c.burst
		a := &asked{keys: new(Keys), text: []byte(text)}
		began := time.Now()
		a.keys.Use(set(entry), began)
		var memos [goroutines]Memo
		for step := range 60*steps + 1 {
			now := began.Add(time.Duration(step) * time.Second / steps)
			var wg sync.WaitGroup
			for i := range goroutines {
				wg.Go(func() {
					for a.ask(t, now, &memos[i]) {
					}
				})
			}
			if step%steps == 0 {
				// Replace the set while the goroutines take tokens. The order of the keys in the set
				// alternates.
				if step%(2*steps) == 0 {
					a.keys.Use(set(entry, other), now)
				} else {
					a.keys.Use(set(other, entry), now)
				}
			}
			wg.Wait()
		}
		a.check(t, c.rate, c.burst, time.Minute)
	}
}

// counting is a cheap source of bytes for different keys.
type counting struct {
	n    uint64
	next [8]byte
	left int
}

func (c *counting) Read(p []byte) (int, error) {
	for i := range p {
		if c.left == 0 {
			c.n++
			binary.LittleEndian.PutUint64(c.next[:], c.n*0x9E3779B97F4A7C15)
			c.left = len(c.next)
		}
		p[i] = c.next[len(c.next)-c.left]
		c.left--
	}
	return len(p), nil
}

// TestMadeUpKeys checks that looking up millions of invalid keys retains no memory.
func TestMadeUpKeys(t *testing.T) {
	malformed, wellFormed := 9_000_000, 1_000_000
	if testing.Short() {
		malformed, wellFormed = 100_000, 10_000
	}
	text, entry := newKey(t, 1)
	var keys Keys
	now := time.Now()
	keys.Use(set(entry), now)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var memo Memo
	random := new(counting)
	for range wellFormed {
		unknown := must.Get(artifacts.NewKey(random))(t)
		if _, got := keys.Lookup([]byte(unknown), now, &memo); got != Refused {
			t.Fatalf("a made-up key: %v", got)
		}
	}
	presented := []byte(text)
	for i := range malformed {
		binary.LittleEndian.PutUint64(presented[len(artifacts.KeyPrefix):], uint64(i)<<8|0x80) // not base 62
		if _, got := keys.Lookup(presented, now, &memo); got != Refused {
			t.Fatalf("a malformed key: %v", got)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d keys took %d bytes", malformed+wellFormed, grown)
	}
	if _, got := keys.Lookup([]byte(text), now, &memo); got != Allowed {
		t.Errorf("the key that is in force: %v", got)
	}
}
