package upkeep

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/builder/change"
	"example.com/marketdata/internal/test/buildtest"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
)

func backUp(t *testing.T, from artifacts.Reader, to artifacts.Store) *BackupReport {
	t.Helper()
	return must.Get(Backup(t.Context(), BackupConfig{From: from, To: to}))(t)
}

// TestBackup checks that a backup has exactly the reachable objects, byte for byte, and that the
// next one copies only new objects.
func TestBackup(t *testing.T) {
	s, w, one, _ := keyed(t)
	to := memstore.New()
	for i := range 3 {
		r := backUp(t, s, to)
		want := buildtest.Keys(reached(t, s))
		verify(t, to)
		if r.Sequence != uint64(3+i) || r.Objects != len(want) || i == 0 && r.Copied != len(want) || i > 0 &&
			(r.Copied == 0 || r.Copied > len(want)/2) {
			t.Errorf("report %+v of %d objects", r, len(want))
		}
		for _, key := range append(want, buildtest.Keys(moving)...) {
			if string(stored(t, s, key)) != string(stored(t, to, key)) {
				t.Errorf("%s differs", key)
			}
		}
		if i == 0 && len(contents(t, to)) != len(want) {
			t.Errorf("%d objects, want %d", len(contents(t, to)), len(want))
		}
		if r := backUp(t, s, to); r.Copied != 0 {
			t.Errorf("the same again: %+v", r)
		}
		overwrite(t, to, want[i], []byte("cut"))
		if r := backUp(t, s, to); r.Copied != 1 {
			t.Errorf("with one that was cut: %+v", r)
		}
		w = w.Later(artifacts.Step)
		mustBuild(t, s, w)
	}
	other, _, _, _ := keyed(t)
	for name, c := range map[string]struct {
		from artifacts.Reader
		to   artifacts.Store
		says string
	}{
		"another store": {s, other, "another store"}, "exchanged": {to, s, "later snapshot"},
		"itself": {s, s, "the store itself"},
	} {
		if r, err := Backup(t.Context(), BackupConfig{From: c.from, To: c.to}); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	// A damaged or older small object in the store must not replace a better one in the backup.
	revoke(t, s, one.ID)
	must.Get(change.Record(t.Context(), s, time.Now))(t)
	older := clone(t, to, all)
	backUp(t, s, to)
	for key := range moving {
		good := stored(t, s, key)
		for _, body := range [][]byte{good[:20], stored(t, older, key), stored(t, other, key)} {
			bad := clone(t, s, all)
			overwrite(t, bad, key, body)
			_, err := Backup(t.Context(), BackupConfig{From: bad, To: to})
			if err == nil && !bytes.Equal(body, good) || !bytes.Equal(stored(t, to, key), good) {
				t.Errorf("%s is %s: %v; the backup has %s", key, body, err, stored(t, to, key))
			}
		}
	}
	if r, err := Backup(t.Context(), BackupConfig{From: memstore.New(), To: other}); err != nil || r.Snapshot != "" {
		t.Errorf("without a snapshot: %+v, %v", r, err)
	}
	damaged := clone(t, s, all)
	overwrite(t, damaged, artifacts.ObjectKey(head(t, s).Manifest.Ledger.Digest), nil)
	if r, err := Backup(t.Context(), BackupConfig{From: damaged, To: memstore.New()}); !errors.Is(err,
		artifacts.ErrNotFound) || !strings.Contains(err.Error(), "builder repair") {
		t.Errorf("of a damaged store: %+v, %v", r, err)
	}
}

// TestBackupBeside runs builders, and a gc with a short grace period, during a backup. The backup
// must be consistent, or report that it could not be.
func TestBackupBeside(t *testing.T) {
	for moves, want := range map[int]error{1: nil, pointerTries - 1: nil, pointerTries: errMoved} {
		s, c := storeWithClock()
		w := grown(t, s)
		moved := 0
		from := tap(s, func(op string, key artifacts.Key) {
			// Just before the last manifest of a try is read, all snapshots are replaced.
			if m := head(t, s).Manifest; moved < moves &&
				key == artifacts.ManifestKey(m.Retained[len(m.Retained)-1].Manifest.Digest) {
				moved++
				for range 2 {
					w = w.Later(2 * time.Hour)
					mustBuild(t, s, w)
				}
				c.Pass(3 * time.Hour)
				collect(t, s)
			}
		})
		to := memstore.New()
		r, err := Backup(t.Context(), BackupConfig{From: from, To: to})
		if !errors.Is(err, want) || moved != moves {
			t.Errorf("moved %d of %d times: %+v, %v", moved, moves, r, err)
		}
		if err == nil {
			verify(t, to)
		}
	}
}

// TestBackupFaults makes each call to the backup's store fail. The store must then hold the
// previous or the new backup, complete in either case.
func TestBackupFaults(t *testing.T) {
	s, w, _, _ := keyed(t)
	first := memstore.New()
	backUp(t, s, first)
	mustBuild(t, s, w.Later(artifacts.Step))
	everyFault(t, func(t *testing.T) artifacts.Store { return clone(t, first, all) }, few,
		func(t *testing.T, to artifacts.Store) error {
			_, err := Backup(context.Background(), BackupConfig{From: s, To: to})
			return err
		}, func(t *testing.T, to artifacts.Store, _ fault, err error) {
			if got := verify(t, to).Sequence; got != 3 && got != 4 || err == nil && got != 4 {
				t.Errorf("sequence %d, %v", got, err)
			}
			backUp(t, s, to)
			if got := verify(t, to).Sequence; got != 4 {
				t.Errorf("the next backup: sequence %d", got)
			}
		})
}
