package shards

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/test/must"
)

// FuzzDiskFile checks that, whatever an object's file contains, whether it changes while a process runs or
// before it starts, the cache returns the rows of the object.
func FuzzDiskFile(f *testing.F) {
	dir := f.TempDir()
	c, s, mem := setup(f, Config{Memory: 1, Dir: dir})
	ref := object(f, mem, 1, 3)
	other := object(f, mem, 4, 3)
	o := c.Acquire(ref)
	wantRow(f, c, o, 0, 1)
	wantRow(f, c, c.Acquire(other), 0, 4)
	path := filepath.Join(dir, filepath.FromSlash(artifacts.ObjectKey(ref.Digest).String()))
	good, err := os.ReadFile(path)
	must.OK(f, err)
	wrong, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(artifacts.ObjectKey(other.Digest).String())))
	must.OK(f, err)
	f.Add(good, false)
	f.Add(wrong, false)
	f.Add(wrong, true)
	f.Add([]byte{}, true)
	f.Add(good[:len(good)-1], false)
	f.Add(good[:5], false)
	for i := range good { // one bit of each byte flipped, sometimes before a process starts
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		f.Add(bad, i%29 == 0)
	}
	f.Add(bytes.Repeat([]byte{0xff}, len(good)), true)
	f.Fuzz(func(t *testing.T, content []byte, restart bool) {
		must.OK(t, os.WriteFile(path, content, 0o644))
		if restart {
			again := must.Get(New(Config{Store: s, Memory: 1, Dir: dir}))(t)
			defer again.Close()
			again.cfg.Pause = 0
			wantRow(t, again, again.Acquire(ref), 1, 2)
			return
		}
		for i := range 3 {
			wantRow(t, c, o, i, 1+i)
		}
	})
}
