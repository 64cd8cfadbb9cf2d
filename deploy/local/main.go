// Command local runs the whole service on this machine: a store, the builder's
// loop and an edge. It is what `make run` and `make run-minio` start.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"example.com/marketdata/internal/local"
)

type cli struct {
	Bin    string `default:"bin" help:"Folder of the builder and edge programs."`
	Data   string `default:".run" help:"Folder for stores, logs and keys, one folder a source; kept between runs."`
	Source string `default:"sim:?assets=2000&seed=1" help:"Where the market comes from (see builder build --help)."`
	MinIO  bool   `name:"minio" help:"Keep the data in a MinIO that is started here, instead of in a folder."`
	Listen string `default:"127.0.0.1:8080" help:"Public address of the edge; a free port is taken when it is in use."`
	Admin  string `default:"127.0.0.1:9090" help:"Admin address of the edge; likewise."`
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("local"), kong.Description("Runs a store, a builder and an edge on this machine until it is interrupted."), kong.DefaultEnvars("LOCAL"))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "local:", err)
		os.Exit(1)
	}
}

func (c *cli) run(ctx context.Context) error {
	data, err := filepath.Abs(filepath.Join(c.Data, folder(c.Source)))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	// One for all sources, since all are asked with the same accounts.
	if name := "BUILDER_SOURCE_CACHE"; os.Getenv(name) == "" {
		if err := os.Setenv(name, filepath.Join(filepath.Dir(data), "provider")); err != nil {
			return err
		}
	}
	m := &local.Machine{Bin: c.Bin, Data: data, Store: "file:" + filepath.Join(data, "store")}
	keyFile := filepath.Join(data, "key")
	if c.MinIO {
		keyFile = filepath.Join(data, "key-minio")
		server, err := m.StartMinIO(ctx)
		if err != nil {
			return err
		}
		defer server.Close()
		fmt.Printf("MinIO       %s  (%s / %s)\n", server.Endpoint, server.AccessKey, server.SecretKey)
	}
	if err := m.BuildPast(ctx, c.Source, time.Now(), local.Year); err != nil {
		return err
	}
	key, err := m.Key(ctx, keyFile)
	if err != nil {
		return err
	}
	listen, admin := local.Free(c.Listen), local.Free(c.Admin)
	loop, err := m.Start("builder", "builder", "run", "--source", c.Source, "--store", m.Store)
	if err != nil {
		return err
	}
	defer loop.Stop()
	edge, err := m.Start("edge", "edge", "--store", m.Store, "--listen", listen, "--admin", admin, "--cache-dir", filepath.Join(data, "cache"), "--drain-wait", "0s")
	if err != nil {
		return err
	}
	defer edge.Stop()
	if err := local.Await(ctx, "http://"+admin+"/readyz", edge); err != nil {
		return err
	}
	greet(data, filepath.Dir(m.Log("edge")), listen, admin, key)
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

// folder names the folder of a source below Data. Each has its own: a market of
// one source in the store of another would be a market that has lost nearly all
// its assets, which the builder's guard rails refuse.
func folder(source string) string {
	scheme, _, _ := strings.Cut(source, ":")
	sum := sha256.Sum256([]byte(source))
	return scheme + "-" + hex.EncodeToString(sum[:4])
}

func greet(data, logs, listen, admin, key string) {
	base := "http://" + listen
	fmt.Printf(`board       %s/
reference   %s/docs
status      http://%s/status
logs        %s

Paste one of these:

  curl -H 'X-Api-Key: %s' '%s/openapi/v1/assets?sort=rank&limit=3'
  curl -H 'X-Api-Key: %s' '%s/openapi/v1/trending'
  curl -H 'X-Api-Key: %s' '%s/openapi/v1/global'

Ctrl-C stops everything. What was built stays in %s.
`, base, base, admin, logs, key, base, key, base, key, base, data)
}
