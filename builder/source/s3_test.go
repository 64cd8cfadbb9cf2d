package source

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testserver"
)

// TestS3 reads the sample from a real server, and tries again after the server has stopped.
func TestS3(t *testing.T) {
	server := testserver.MinIO(t)
	store := must.Get(s3store.Open(server.URL("a/feed"), server.Options()))(t)
	defer store.Close()
	sample := loadFeed(t, "testdata/feed")
	for name, f := range sample {
		ok(t, store.Put(t.Context(), artifacts.MustKey(name), f.Data))
	}
	for _, env := range server.Env() {
		name, value, _ := strings.Cut(env, "=")
		t.Setenv(name, value)
	}
	src := must.Get(Open(t.Context(), "feed+"+server.URL("a/feed"), nil))(t)
	if want := "feed+" + server.URL("a/feed"); src.String() != want {
		t.Errorf("is named %s, want %s", src, want)
	}
	files := must.Get(src.Files(t.Context(), time.Time{}))(t)
	total := map[string]int64{}
	feed, _ := mustRead(t, files, ReadOptions{Progress: func(file string, _, all int64) { total[file] = all }})
	if size := int64(len(sample[QuotesFile].Data)); total[QuotesFile] != size {
		t.Errorf("progress of %d bytes, want %d", total[QuotesFile], size)
	}
	want, _ := mustRead(t, FS(sample), ReadOptions{})
	same(t, *feed, *want)

	prefix := must.Get(s3store.Open(server.URL("a/moving"), server.Options()))(t)
	defer prefix.Close()
	replaced(t, must.Get(Open(t.Context(), "feed+"+server.URL("a/moving"), nil))(t), func(n int) {
		for name, text := range moving(n) {
			ok(t, prefix.Delete(t.Context(), artifacts.MustKey(name)))
			ok(t, prefix.Put(t.Context(), artifacts.MustKey(name), []byte(text)))
		}
	}, 1, 1000)

	elsewhere := must.Get(Open(t.Context(), "feed+"+server.URL("a/nothing"), nil))(t)
	nothing := must.Get(elsewhere.Files(t.Context(), time.Time{}))(t)
	if _, _, err := Read(t.Context(), nothing, ReadOptions{}); err == nil ||
		!strings.HasPrefix(err.Error(), "feed.json: missing, and a feed must have it") {
		t.Errorf("an empty prefix: %v", err)
	}
	// An unreachable server differs from a server that does not have the file.
	server.Stop()
	if _, err := files.Open(t.Context(), ChainsFile); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a server that is away: %v", err)
	}
	if _, _, err := Read(t.Context(), files, ReadOptions{}); err == nil || strings.Contains(err.Error(), "missing") {
		t.Errorf("a server that is away: %v", err)
	}
}
