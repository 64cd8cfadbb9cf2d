package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
)

// TestProve makes a proof with the commands of the page about proofs, and checks it without the
// store; a checkpoint that was kept is held against the log, and against one that was begun anew.
func TestProve(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("BUILDER_STORE", "file:"+filepath.Join(dir, "store"))
	trust := strings.TrimSpace(done(t, "keygen", "key"))
	stranger := strings.TrimSpace(done(t, "keygen", "other"))
	build := func(at string) {
		done(t, "build", "--source", simulated, "--time", at, "--sign-key", "key", "--force", "--retain", "0")
	}
	build("2026-11-21T07:10:00Z")
	kept := must.Get(os.ReadFile("store/log/checkpoint"))(t)
	must.OK(t, os.WriteFile("kept", kept, 0o644))
	build("2026-11-21T07:20:00Z")
	prove := []string{"prove", "--time", "2026-11-21T07:10:00Z", "--asset", "1", "--trust-key", trust, "--out"}
	done(t, append(prove, "proof")...)
	wants(t, cmdline.Failed, "never written over", append(prove, "proof")...)
	wants(t, cmdline.Failed, "not retained", "prove", "--time", "2026-11-20T07:10:00Z", "--asset", "1", "--out", "none")
	wants(t, cmdline.Failed, "no quote of asset 9999", "prove", "--time", "2026-11-21T07:10:00Z", "--asset", "9999",
		"--out", "none")

	continues := []string{"verify", "--trust-key", trust, "--checkpoint"}
	for _, file := range []string{"kept", "proof"} {
		if out := done(t, append(continues, file)...); !strings.Contains(out, "has 2 leaves") {
			t.Errorf("%s: %s", file, out)
		}
	}
	// Signing ends: the log waits, and when it begins again goes on with what was published meanwhile.
	done(t, "sign", "--sign-key", "key", "--off")
	done(t, "build", "--source", simulated, "--time", "2026-11-21T07:30:00Z", "--force")
	done(t, "sign", "--sign-key", "key")
	build("2026-11-21T07:40:00Z")
	if out := done(t, append(continues, "kept")...); !strings.Contains(out, "has 4 leaves") {
		t.Error(out)
	}
	// A log that is lost comes back from a backup. Without one it can be given up, and that is seen.
	must.OK(t, os.Mkdir("backup", 0o755))
	done(t, "backup", "--to", "file:backup")
	build("2026-11-21T07:50:00Z")
	must.OK(t, os.RemoveAll("store/log"))
	wants(t, cmdline.Failed, "log", "build", "--source", simulated, "--time", "2026-11-21T08:00:00Z", "--sign-key",
		"key", "--force")
	wants(t, cmdline.Failed, "log/checkpoint", "repair", "--sign-key", "key")
	wants(t, cmdline.Done, "mended: log/checkpoint from the pointer", "repair", "--from", "backup", "--sign-key", "key")
	done(t, append(continues, "kept")...)
	must.OK(t, os.RemoveAll("store/log"))
	done(t, "sign", "--sign-key", "key", "--off")
	done(t, "sign", "--sign-key", "key")
	build("2026-11-21T08:00:00Z")
	done(t, "verify", "--trust-key", trust)
	wants(t, cmdline.Failed, "rewritten", append(continues, "kept")...)

	must.OK(t, os.RemoveAll("store"))
	out := done(t, "verify", "--proof", "proof", "--trust-key", trust)
	if !strings.Contains(out, `{"id":1,`) || !strings.Contains(out, "leaf 0 of 2") {
		t.Error(out)
	}
	wants(t, cmdline.Failed, "not signed by a trusted key", "verify", "--proof", "proof", "--trust-key", stranger)
	wants(t, cmdline.Usage, "--trust-key is needed", "verify", "--proof", "proof")
	wants(t, cmdline.Usage, "give one", "verify", "--proof", "proof", "--checkpoint", "kept")
}
