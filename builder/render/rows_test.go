package render

import (
	"encoding/json"
	"fmt"
	"testing"
	"unicode/utf8"

	"example.com/marketdata/internal/lab/must"
	"example.com/marketdata/loadtest/model"
	"pgregory.net/rapid"
)

// TestString holds the escaping against the model, and against what a JSON reader makes of it.
func TestString(t *testing.T) {
	check := func(s string) error {
		got := string(appendString(nil, s))
		var back string
		if err := json.Unmarshal([]byte(got), &back); err != nil || back != s {
			return fmt.Errorf("%q is written as %s, read as %q, %v", s, got, back, err)
		}
		if want := model.Quote(s); got != want {
			return fmt.Errorf("%q is written as %s, want %s", s, got, want)
		}
		return nil
	}
	for _, s := range []string{"", "plain", "\"", `\`, "\x00\x01\x1f\x7f", "\b\f\n\r\t\v", "</script>&<>",
		"\u2028\u2029", "Ünïcödé 漢字 🚀", "a\"b\\c\nd", "\ufeff"} {
		must.OK(t, check(s))
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Filter(utf8.ValidString).Draw(t, "s")
		ok(t, check(s))
	})
}

var ok = must.OK
