package check

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// live returns every series of an edge and a builder that run, as Prometheus
// has them after a scrape.
var live = sync.OnceValues(scrapeAll)

func liveSeries(t *testing.T) []labels.Labels {
	t.Helper()
	series, err := live()
	if err != nil {
		t.Fatal(err)
	}
	return series
}

func scrapeAll() (_ []labels.Labels, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store := "file:" + filepath.Join(bin, "store")
	if out, err := command(ctx, "builder", "keys", "create", "--store", store, "--name", "check").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("keys create: %w\n%s", err, out)
	}
	builder, stop, err := start(ctx, command(ctx, "builder", "run", "--source", "sim:?assets=60&seed=1", "--store", store, "--metrics", "127.0.0.1:0"), ` metrics=(127\.0\.0\.1:\d+)`)
	if err != nil {
		return nil, err
	}
	defer stop()
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	// Nobody answers at the store of limits: what the edge tells of it is there
	// all the same.
	edge, stop, err := start(ctx, command(ctx, "edge", "--store", store, "--limit-store", "redis://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", admin, "--cache-dir", filepath.Join(bin, "cache"), "--drain-wait", "0s"), ` admin=(127\.0\.0\.1:\d+)`)
	if err != nil {
		return nil, err
	}
	defer stop()

	var all []labels.Labels
	for job, address := range map[string]string{"edge": edge, "builder": builder} {
		// The first snapshot comes a moment after the start, and the first gc a
		// moment later still.
		wanted := map[string]string{"edge": "edge_snapshot_age_seconds", "builder": `builder_jobs_total{name="gc",outcome="done"} 1`}[job]
		body, err := scrapeUntil(ctx, "http://"+address+"/metrics", wanted)
		if err != nil {
			return nil, err
		}
		series, err := parseSeries(body, job, address)
		if err != nil {
			return nil, err
		}
		all = append(all, series...)
	}
	return all, nil
}

// start starts a program and returns what the first group of the pattern
// matches in its log, and how to stop it.
func start(ctx context.Context, cmd *exec.Cmd, pattern string) (string, func(), error) {
	log, err := cmd.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	done := make(chan struct{})
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		<-done
		_ = cmd.Wait() // how it ended is no matter here
	}
	found := make(chan string, 1)
	go func() {
		defer close(done)
		lines, matcher := bufio.NewScanner(log), regexp.MustCompile(pattern)
		var seen strings.Builder
		for lines.Scan() {
			if m := matcher.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				break
			}
			fmt.Fprintln(&seen, lines.Text())
		}
		_, _ = io.Copy(io.Discard, log) // until it ends
		close(found)
	}()
	select {
	case address, ok := <-found:
		if ok {
			return address, stop, nil
		}
	case <-ctx.Done():
	}
	stop()
	return "", nil, fmt.Errorf("%v did not say %s", cmd.Args, pattern)
}

func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// scrapeUntil scrapes until the text is there.
func scrapeUntil(ctx context.Context, url, text string) (string, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		body, err := scrape(ctx, url)
		if err == nil && strings.Contains(body, "\n"+text) {
			return body, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", fmt.Errorf("%s: no %s: %v\n%s", url, text, err, body)
		}
	}
}

func scrape(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, res.Status)
	}
	return string(b), err
}

// parseSeries returns the series of a scrape with the labels that Prometheus
// adds, and the series up that it makes.
func parseSeries(body, job, instance string) ([]labels.Labels, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	all := []labels.Labels{labels.FromStrings("__name__", "up", "job", job, "instance", instance)}
	for name, family := range families {
		for _, m := range family.Metric {
			own := []string{"job", job, "instance", instance}
			for _, l := range m.Label {
				own = append(own, l.GetName(), l.GetValue())
			}
			add := func(name string, more ...string) {
				all = append(all, labels.FromStrings(append(append([]string{"__name__", name}, own...), more...)...))
			}
			switch {
			case m.Histogram != nil:
				add(name + "_sum")
				add(name + "_count")
				for _, b := range m.Histogram.Bucket {
					add(name+"_bucket", "le", fmt.Sprint(b.GetUpperBound()))
				}
			case m.Summary != nil:
				add(name + "_sum")
				add(name + "_count")
				for _, q := range m.Summary.Quantile {
					add(name, "quantile", fmt.Sprint(q.GetQuantile()))
				}
			default:
				add(name)
			}
		}
	}
	return all, nil
}
