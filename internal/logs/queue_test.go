package logs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

// gate is a writer in which each Write waits for an answer.
type gate struct {
	answers chan error
	out     strings.Builder
}

func (g *gate) Write(b []byte) (int, error) {
	if err := <-g.answers; err != nil {
		return 0, err
	}
	return g.out.Write(b)
}

// TestQueue: a writer that blocks or fails never blocks the users of a Queue. The lines that it did
// not accept are counted, and their number is logged once it works again (moby issue 22502, nerdctl
// issue 4591).
func TestQueue(t *testing.T) {
	g := &gate{answers: make(chan error)}
	before := Dropped()
	q := NewQueue(g, func(lost int) []byte { return fmt.Appendf(nil, "lost %d\n", lost) })
	line := []byte(strings.Repeat("x", 99) + "\n")
	const lines = 3 * maxQueued / 100
	for range lines {
		must.Get(q.Write(line))(t)
	}
	q.Close(0)
	if n := Dropped() - before; n < lines/3 || n > lines*2/3+1 {
		t.Fatalf("%d of %d lines were dropped", n, lines)
	}
	g.answers <- errors.New("no space left on device") // for the first batch
	close(g.answers)
	q.Close(time.Minute)
	n := int(Dropped() - before)
	want := fmt.Sprintf("lost %d\n", n)
	if got := g.out.String(); !strings.HasSuffix(got, want) || strings.Count(got, "lost") != 1 ||
		strings.Count(got, "\n") != lines-n+1 {
		t.Errorf("%d lines, %q; want %q last", strings.Count(got, "\n"), got[max(0, len(got)-20):], want)
	}
}
