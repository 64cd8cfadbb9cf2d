// Command demo runs the whole service on this machine: a store, the builder's loop and an edge.
// `make run` starts it.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/testserver"
	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"
)

type cli struct {
	Bin    string          `default:"bin" help:"Folder of the builder and edge programs."`
	Data   string          `default:".run" help:"Folder for stores, logs and keys, one folder a source; kept between runs, and for one run at a time."`
	Source string          `default:"sim:?assets=2000&seed=1" help:"Where the market comes from (see builder build --help)."`
	Server string          `enum:"none,minio,versitygw" default:"none" help:"Keep the data in this S3 server, which is started here, instead of in a folder: minio or versitygw."`
	Listen cmdline.Address `default:"127.0.0.1:8080" help:"Public address of the edge."`
	Admin  cmdline.Address `default:"127.0.0.1:9090" help:"Admin address of the edge."`
}

var servers = map[string]testserver.Kind{"minio": testserver.KindMinIO, "versitygw": testserver.KindVersitygw}

func main() {
	var c cli
	cmdline.Program{
		Name: "demo", Description: "Runs a store, a builder and an edge on this machine until it is interrupted.",
		CLI: &c,
		Run: func(ctx context.Context, _ *kong.Context, _ *slog.Logger) error {
			return cmdline.Uninterrupted(ctx, c.run(ctx))
		},
	}.Main()
}

// printPlan prints the cost of the source if it is a provider. It returns an error for a source
// that does not exist.
func (c *cli) printPlan(ctx context.Context, m *local.Machine) error {
	// All sources share one folder, because they use the same accounts.
	if err := defaultEnv("BUILDER_STATE_DIR", filepath.Join(filepath.Dir(m.Data), "provider")); err != nil {
		return err
	}
	plan, err := m.Output(ctx, "builder", "source", "--source", c.Source)
	if err == nil && bytes.Contains(plan, []byte(", plan ")) {
		fmt.Printf("%sWhat the terms allow, such as serving the data to others: "+
			"builder/source/README.md, \"What it costs\"\n\n", plan)
	}
	return err
}

// defaultEnv sets an environment variable for the programs that are started later, unless it is
// already set.
func defaultEnv(name, value string) error {
	if os.Getenv(name) != "" {
		return nil
	}
	return os.Setenv(name, value)
}

// ports are listeners that reserve addresses until the edge uses them, so that no other run takes
// them.
type ports []net.Listener

func (p ports) Close() {
	for _, ln := range p {
		ln.Close()
	}
}

func takePorts(listen, admin string) (p ports, err error) {
	for _, port := range [][2]string{{"DEMO_LISTEN", listen}, {"DEMO_ADMIN", admin}} {
		ln, err := net.Listen("tcp", port[1])
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("the edge cannot have %s, and %s=HOST:PORT make run gives it another: %w", port[1],
				port[0], err)
		}
		p = append(p, ln)
	}
	return p, nil
}

func (c *cli) run(ctx context.Context) error {
	data, err := filepath.Abs(filepath.Join(c.Data, folder(c.Source)))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Data, 0o755); err != nil {
		return err
	}
	running, board, err := lock(filepath.Join(c.Data, "running"))
	if err != nil {
		return err
	}
	if running == nil {
		return c.elsewhere(board)
	}
	defer running.Close()
	listen, admin := string(c.Listen), string(c.Admin)
	ports, err := takePorts(listen, admin)
	if err != nil {
		return err
	}
	defer ports.Close()
	m := &local.Machine{Bin: c.Bin, Data: data, Store: "file:" + filepath.Join(data, "store")}
	if err := c.printPlan(ctx, m); err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	keyFile := filepath.Join(data, "key")
	if kind, ok := servers[c.Server]; ok {
		keyFile += "-" + c.Server
		server, err := m.StartS3(ctx, kind)
		if err != nil {
			return err
		}
		defer server.Close()
		fmt.Printf("%-12s%s  (%s / %s)\n", c.Server, server.Endpoint, server.AccessKey, server.SecretKey)
	}
	if err := defaultEnv("BUILDER_FILES", "build"); err != nil {
		return err
	}
	if err := m.BuildPast(ctx, c.Source, time.Now(), nil); err != nil {
		return err
	}
	key, err := m.Key(ctx, keyFile)
	if err != nil {
		return err
	}
	loop, err := m.Start("builder", "builder", "run", "--source", c.Source, "--store", m.Store)
	if err != nil {
		return err
	}
	defer loop.Stop()
	ports.Close()
	edge, err := m.Start("edge", "edge", "--store", m.Store, "--listen", listen, "--admin", admin, "--cache-dir",
		filepath.Join(data, "cache"), "--drain-wait", "0s", "--coingecko")
	if err != nil {
		return err
	}
	defer edge.Stop()
	if err := local.Await(ctx, "http://"+admin+"/readyz", edge); err != nil {
		return err
	}
	// In a container the edge listens on all addresses, but a browser reaches it at this machine's
	// address.
	at := strings.Replace(listen, "0.0.0.0:", "127.0.0.1:", 1)
	board = "http://" + at + "/#key=" + key
	if _, err := running.WriteString(board + " " + c.Source); err != nil {
		return err
	}
	first, err := largest(ctx, "http://"+at, key)
	if err != nil {
		return err
	}
	greet(c.Source, data, filepath.Dir(m.Log("edge")), at, admin, key, board, first)
	return wait(ctx, edge, loop)
}

// wait waits until ctx is done and returns nil, or until a process exits and returns its failure.
func wait(ctx context.Context, edge, loop *local.Program) error {
	select {
	case <-ctx.Done():
		fmt.Println("\nstopping")
		return nil
	case <-edge.Exited():
		return edge.Failure()
	case <-loop.Exited():
		return loop.Failure()
	}
}

// folder returns the name of a source's folder below Data. Each source needs its own folder: in the
// store of another source the market would seem to have lost nearly all of its assets, and the
// builder's guard rails would stop the build.
func folder(source string) string {
	scheme, _, _ := strings.Cut(source, ":")
	if scheme == "sim" {
		scheme = "sim4" // because earlier simulated markets had other names and prices
	}
	sum := sha256.Sum256([]byte(source))
	return scheme + "-" + hex.EncodeToString(sum[:4])
}

// lock locks the file for the lifetime of this process and empties it. If another process has the
// lock, lock returns nil and what that process has written.
func lock(path string) (*os.File, string, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, "", err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return f, "", f.Truncate(0)
	case !errors.Is(err, unix.EWOULDBLOCK):
		return nil, "", errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	text, err := io.ReadAll(f)
	return nil, string(text), errors.Join(err, f.Close())
}

// elsewhere reports which run holds the folder. It returns nil if that run is ready and has the same
// source.
func (c *cli) elsewhere(running string) error {
	board, source, ready := strings.Cut(running, " ")
	switch {
	case !ready:
		return fmt.Errorf("another run has just begun in %s", c.Data)
	case source != c.Source:
		return fmt.Errorf(
			"running already, with SOURCE=%s: %s\nEnd that with Ctrl-C, or give this one a folder and addresses of its own: DEMO_DATA=.run2 DEMO_LISTEN=127.0.0.1:8081 DEMO_ADMIN=127.0.0.1:9091 make run SOURCE='%s'", source, board, c.Source)
	}
	fmt.Printf("running already\nboard       %s\n", board)
	return nil
}

// largest returns the slug of the largest asset, which differs between sources. Programs for
// CoinGecko use it as the coin's id.
func largest(ctx context.Context, edge, key string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, edge+"/openapi/v1/assets?sort=rank&limit=1", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-Api-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var page struct {
		Result struct{ Items []struct{ Slug string } }
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&page); err != nil {
		return "", err
	}
	if len(page.Result.Items) == 0 {
		return "", fmt.Errorf("%s has no assets: %s", edge, res.Status)
	}
	return page.Result.Items[0].Slug, nil
}

// greet prints all addresses, and commands that work as they are printed.
func greet(source, data, logs, listen, admin, key, board, first string) {
	if strings.HasPrefix(source, "sim:") {
		fmt.Println("prices      invented: this market is simulated")
	}
	fmt.Printf(`reference   http://%[1]s/docs
coingecko   http://%[1]s/api/v3  (programs take this address; http://%[1]s/docs?coingecko has its paths)
status      http://%[2]s/status
logs        %[3]s
data        %[5]s
API key     %[4]s

Paste the line that begins with export. Then each of the others works as it is:

  export MARKETDATA_URL=http://%[1]s MARKETDATA_KEY=%[4]s
  curl -H "X-Api-Key: $MARKETDATA_KEY" "$MARKETDATA_URL/openapi/v1/quotes?slug=%[7]s"
  curl -H "X-Api-Key: $MARKETDATA_KEY" "$MARKETDATA_URL/openapi/v1/markets?size=3"
  curl -H "X-Api-Key: $MARKETDATA_KEY" "$MARKETDATA_URL/openapi/v1/history?slug=%[7]s&window=7d"
  curl -H "X-Api-Key: $MARKETDATA_KEY" "$MARKETDATA_URL/openapi/v1/search?q=eth"
  curl -H "X-Api-Key: $MARKETDATA_KEY" "$MARKETDATA_URL/openapi/v1/files"
  curl -H "x-cg-demo-api-key: $MARKETDATA_KEY" "$MARKETDATA_URL/api/v3/simple/price?ids=%[7]s&vs_currencies=usd"
  curl -N -H "X-Api-Key: $MARKETDATA_KEY" "$MARKETDATA_URL/openapi/v1/events"   # the current snapshot, then each new one, until Ctrl-C

Ctrl-C stops the service. What was built stays.

board, signed in: %[6]s
`, listen, admin, logs, key, data, board, url.QueryEscape(first))
}
