package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// running holds the metrics and answers of a running edge and builder.
type running struct {
	series  []labels.Labels // as Prometheus has them after a scrape
	answers map[string]bool // by program and path: whether the admin listener answers with 200
}

var live = sync.OnceValues(run)

func liveSeries(t *testing.T) []labels.Labels {
	t.Helper()
	r, err := live()
	if err != nil {
		t.Fatal(err)
	}
	return r.series
}

func run() (r running, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store := "--store=file:" + filepath.Join(bin, "store")
	if out, err := exec.CommandContext(ctx, filepath.Join(bin, "builder"), "keys", "create", store, "--name=check").
		CombinedOutput(); err != nil {
		return r, fmt.Errorf("keys create: %w\n%s", err, out)
	}
	r.answers = map[string]bool{}
	for _, p := range []struct {
		listen string   // flag of the admin listener
		args   []string // starting with the program
		path   string   // path of the listener that shows whether the program is ready
		until  string   // the last text to appear there
	}{
		{"--metrics=",
			[]string{"builder", "run", store, "--source=sim:?assets=60&seed=1", "--backup=file:" + bin}, "/metrics",
			`builder_jobs_total{name="gc",outcome="done"} 1`},
		// The limit store does not answer. The edge has metrics about it nevertheless.
		{"--admin=", []string{"edge", store, "--limit-store=redis://127.0.0.1:1", "--listen=127.0.0.1:0",
			"--cache-dir=" + filepath.Join(bin, "cache"), "--drain-wait=0s"}, "/readyz", "ready"},
	} {
		address, err := freeAddress()
		if err != nil {
			return r, err
		}
		ctx, stop := context.WithCancel(ctx)
		cmd := exec.CommandContext(ctx, filepath.Join(bin, p.args[0]), append(p.args[1:], p.listen+address)...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		var log strings.Builder
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			stop()
			return r, err
		}
		defer func() { stop(); _ = cmd.Wait() }() // its exit status does not matter
		var body string
		for tick := time.NewTicker(20 * time.Millisecond); !strings.Contains("\n"+body, "\n"+p.until); body, _ = get(
			ctx, address, p.path) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return r, fmt.Errorf("%v: no %s in\n%s", p.args, p.until, body)
			}
		}
		for _, path := range []string{"/livez", "/readyz", "/metrics"} {
			_, ok := get(ctx, address, path)
			r.answers[p.args[0]+" "+path] = ok
		}
		body, _ = get(ctx, address, "/metrics")
		if err := r.add(body, p.args[0], address); err != nil {
			return r, err
		}
	}
	return r, nil
}

// get returns the body of the answer to a GET, and whether its status is 200.
func get(ctx context.Context, address, path string) (string, bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return "", false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", false // the program does not listen yet
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err == nil && res.StatusCode == http.StatusOK
}

// add adds the series of a scrape with the labels that Prometheus adds, and the series "up", which
// Prometheus creates.
func (r *running) add(body, job, instance string) error {
	add := func(l labels.Labels) {
		r.series = append(r.series, labels.NewBuilder(l).Set("job", job).Set("instance", instance).Labels())
	}
	add(labels.FromStrings("__name__", "up"))
	p, err := textparse.New([]byte(body), "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		switch entry, err := p.Next(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case entry == textparse.EntrySeries:
			var l labels.Labels
			p.Labels(&l)
			add(l)
		}
	}
}
