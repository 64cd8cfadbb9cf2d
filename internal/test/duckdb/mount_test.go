package duckdb

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// remote is an edge's file in a folder. Each read becomes a range request with an API key to the
// edge. DuckDB's own HTTP client is not used, because it is an extension that is downloaded when it
// is first needed.
type remote struct {
	fs.Inode
	url, key string
	size     int64
	read     atomic.Int64 // bytes that the edge has sent
	requests atomic.Int64
}

func (r *remote) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Size, out.Mode = uint64(r.size), 0o444
	return 0
}

func (r *remote) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0 // the kernel does not read ahead
}

func (r *remote) Read(ctx context.Context, _ fs.FileHandle, dest []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	end := min(at+int64(len(dest)), r.size)
	if at >= end {
		return fuse.ReadResultData(nil), 0
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, syscall.EIO
	}
	req.Header.Set("X-Api-Key", r.key)
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", at, end-1))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, syscall.EIO
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusPartialContent || int64(len(b)) != end-at {
		return nil, syscall.EIO
	}
	r.read.Add(end - at)
	r.requests.Add(1)
	return fuse.ReadResultData(b), 0
}

type folder struct {
	fs.Inode
	files map[string]*remote // by path
}

func (f *folder) OnAdd(ctx context.Context) {
	for name, file := range f.files {
		in := &f.Inode
		if dir := path.Dir(name); dir != "." {
			if in = f.GetChild(dir); in == nil {
				in = f.NewPersistentInode(ctx, &fs.Inode{}, fs.StableAttr{Mode: syscall.S_IFDIR})
				f.AddChild(dir, in, false)
			}
		}
		in.AddChild(path.Base(name), f.NewPersistentInode(ctx, file, fs.StableAttr{}), false)
	}
}

// mount shows files in a folder until the end of the test. It skips the test if it lacks the rights
// to mount.
func mount(t *testing.T, files map[string]*remote) (dir string) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Getuid() != 0 {
		t.Skip("skipped: this test mounts a folder, which takes root and /dev/fuse")
	}
	dir = t.TempDir()
	server, err := fs.Mount(dir, &folder{files: files}, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return dir
}
