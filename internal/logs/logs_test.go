package logs

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestLogger(t *testing.T) {
	for format, want := range map[string]string{
		"text": "level=WARN msg=retry err=refused wait_seconds=1.5\n",
		"json": `"level":"WARN","msg":"retry","err":"refused","wait_seconds":1.5}` + "\n",
	} {
		var out strings.Builder
		log := Flags{LogLevel: "warn", LogFormat: format}.Logger(&out)
		log.Info("below the level")
		log.Warn("retry", "err", errors.New("refused"), "wait", 1500*time.Millisecond)
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q, want one line that ends with %q", format, got, want)
		}
	}
}

// TestHidden: no log line contains characters that a terminal would interpret, and JSON still has
// its original meaning.
func TestHidden(t *testing.T) {
	text := "a\u0080\u009b31m\u009f\u200e\u200f\u202a\u202e\u2066\u2069\ufeff\u00ad\U000e0001 é 漢 \"🚀\""
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		Flags{LogLevel: "info", LogFormat: format}.Logger(&out).Info(text, "key", text, "err", errors.New("x"+text))
		for _, r := range strings.TrimSuffix(out.String(), "\n") {
			if !strconv.IsPrint(r) {
				t.Errorf("%s: %U is in %q", format, r, out.String())
			}
		}
		var line struct{ Msg, Key string }
		if format == "json" &&
			(json.Unmarshal([]byte(out.String()), &line) != nil || line.Msg != text || line.Key != text) {
			t.Errorf("%s says %q", out.String(), line)
		}
	}
}
