package logs

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestLogger(t *testing.T) {
	for format, want := range map[string]string{
		"text": "level=WARN msg=retry err=refused wait=1.5\n",
		"json": `"level":"WARN","msg":"retry","err":"refused","wait":1.5}` + "\n",
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
