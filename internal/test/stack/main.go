// Command stack runs the service on this machine as in production: a MinIO server, the builder, two
// edges with read-only credentials, and HAProxy in front of them with TLS and HTTP/2. "make stack"
// and "make loadtest" start it, and "make test-long" kills parts of it under load.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/local"
	"github.com/alecthomas/kong"
)

type cli struct {
	Bin    string `default:"bin" help:"Folder of the builder, edge and loadtest programs."`
	Data   string `default:".run/stack" help:"Folder for everything that is written; kept between runs."`
	Source string `default:"sim:?assets=2000&seed=1" help:"Where the market comes from (see builder build --help)."`

	Up       upCmd       `cmd:"" default:"1" help:"Run everything until it is interrupted."`
	Loadtest loadtestCmd `cmd:"" help:"Load two edges for the better part of a minute, and write a report."`
}

type upCmd struct{}

type loadtestCmd struct {
	Stages string `default:"10s:100-500,35s:500" help:"The load (see loadtest run --help)."`
	SLO    string `name:"slo" placeholder:"T" help:"Search for the capacity of one edge instead: the highest rate at which this holds, such as 'p99<20ms', with no snapshots published."`
}

func main() {
	var c cli
	cmdline.Program{
		Name: "stack", Description: "Runs MinIO, a builder, two edges and HAProxy on this machine.", CLI: &c,
		Run: func(ctx context.Context, parsed *kong.Context, _ *slog.Logger) error {
			return cmdline.Uninterrupted(ctx, parsed.Run(&c))
		},
	}.Main()
}

// Run implements the command.
func (*upCmd) Run(ctx context.Context, c *cli) error {
	data, err := filepath.Abs(c.Data)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	s, err := start(
		ctx, config{bin: c.Bin, data: data, source: c.Source, newest: time.Now(), balanced: true})
	if err != nil {
		return err
	}
	defer s.stop()
	loop, err := s.Start("builder", "builder", "run", "--source", c.Source, "--store", s.Store)
	if err != nil {
		return err
	}
	defer loop.Stop()
	s.greet()
	select {
	case <-ctx.Done():
		fmt.Println("\nstopping")
		return nil
	case <-s.haproxy.Exited():
		return s.haproxy.Failure()
	case <-s.edges[0].Exited():
		return s.edges[0].Failure()
	case <-s.edges[1].Exited():
		return s.edges[1].Failure()
	case <-loop.Exited():
		return loop.Failure()
	}
}

func (s *stack) greet() {
	base := "https://" + s.listen
	fmt.Printf(`HAProxy     %s  (its figures: http://%s/)
edges       http://%s/status
            http://%s/status
MinIO       %s  (%s / %s)
logs        %s

Paste one of these:

  curl --cacert %[9]s -H 'X-Api-Key: %[10]s' '%[1]s/openapi/v1/assets?sort=rank&limit=3'
  curl --cacert %[9]s -H 'X-Api-Key: %[10]s' '%[1]s/openapi/v1/trending'
  curl --cacert %[9]s -H 'X-Api-Key: %[10]s' '%[1]s/openapi/v1/global'

Ctrl-C stops everything. What was built stays in %[11]s.
`, base, s.stats, s.edges[0].admin, s.edges[1].admin, s.minio.Endpoint, s.minio.AccessKey, s.minio.SecretKey, filepath.Dir(s.Log("edge1")),
		certificateFile(s.Data), s.key, s.Data)
}

// publishEvery is the interval between snapshots during the load. In production it is ten minutes.
const publishEvery = 12 * time.Second

// invalid is the load tester's exit status for a run whose rate was limited by the load tester
// itself.
const invalid = 4

// Run implements the command. The load tester shares about two processors with everything else. It
// has a higher priority and loads the edges directly, so requests are sent when they are due and
// the edges get the remaining processor time.
func (l *loadtestCmd) Run(ctx context.Context, c *cli) error {
	out, err := filepath.Abs(c.Data)
	if err != nil {
		return err
	}
	// The store begins an hour in the past, so that there are snapshots to publish.
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	data, err := os.MkdirTemp(out, "loadtest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	fmt.Println("starting a MinIO, a year of snapshots and two edges")
	s, err := start(ctx, config{
		bin: c.Bin, data: data, source: c.Source, newest: time.Now().Add(-time.Hour), ages: local.Year, nice: true})
	if err != nil {
		return err
	}
	defer s.stop()
	report, figures := filepath.Join(out, "report.html"), filepath.Join(out, "run.json")
	first, second := "http://"+s.edges[0].listen, "http://"+s.edges[1].listen
	args := []string{"run", "--url", first, "--url", second, "--stages", l.Stages, "--oracle", s.Store, "--streams",
		"16", "--label", "two edges on one machine", "--out", figures}
	publish := s.publishOn
	if l.SLO != "" {
		args = []string{"capacity", "--url", first, "--slo", l.SLO}
		publish = func(context.Context) error { return nil }
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, "loadtest"), append(args, "--key", s.key, "--html", report)...)
	cmd.Env = append(os.Environ(), s.reader.Env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // This process forwards Ctrl-C.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return err
	}
	publishing, enough := context.WithCancel(ctx)
	published := make(chan error, 1)
	go func() { published <- publish(publishing) }()
	err = cmd.Wait()
	enough()
	if err := errors.Join(<-published, ctx.Err()); err != nil {
		return err
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == invalid {
		if l.SLO == "" {
			fmt.Println("\nThe load tester was short of processors, which it shares with all the rest: the answers were checked, but the times are not the edges' alone.")
			err = nil
		} else {
			fmt.Println("\nThe load tester and the edge share these processors with all the rest. Try again when that does less, with a larger threshold (make loadtest SLO='p99<50ms'), or load an edge on another machine: loadtest capacity --help.")
		}
	}
	if _, statErr := os.Stat(report); statErr == nil {
		fmt.Printf("\nreport      file://%s\n", report)
		if l.SLO == "" {
			fmt.Printf("figures     %s\n", figures)
		}
	}
	return err
}

// publishOn publishes one snapshot after another until ctx is done.
func (s *stack) publishOn(ctx context.Context) error {
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		// A build that has begun must be able to complete.
		if err := s.publish(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}
