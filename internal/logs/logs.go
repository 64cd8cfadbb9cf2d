// Package logs has the flags and the form of the programs' logs: one line an
// event, on standard error, the key of an error is err, which says what to do
// about it where that is known, and a duration is a number of seconds under a key that ends in _seconds.
package logs

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Flags are the flags of a program that logs; embed them in its command line.
type Flags struct {
	LogLevel  string `enum:"debug,info,warn,error" default:"info" help:"Log what is at least debug, info, warn or error, on standard error."`
	LogFormat string `enum:"text,json" default:"text" help:"Form of log lines: text or json."`
}

// Logger returns the log that the flags ask for.
func (f Flags) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.LogLevel)); err != nil {
		panic(fmt.Sprintf("BUG: --log-level %q", f.LogLevel)) // its enum has no others
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Key += "_seconds"
			a.Value = slog.Float64Value(a.Value.Duration().Seconds())
		} else if err, is := a.Value.Any().(error); is {
			a.Value = slog.StringValue(Text(err))
		}
		return a
	}}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(Printable{w}, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// Printable is a writer in which characters that a terminal would obey rather than show, such as ESC,
// U+009B and U+202E, are escaped as JSON escapes them, so that JSON stays what it means. Line feeds and
// tabs pass. It changes each Write by itself: a character must not be split between two.
type Printable struct{ To io.Writer }

// Write implements io.Writer.
func (p Printable) Write(b []byte) (int, error) {
	if bytes.IndexFunc(b, hidden) < 0 {
		return p.To.Write(b)
	}
	if _, err := io.WriteString(p.To, Escape(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Escape returns text as Printable writes it.
func Escape(text string) string {
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	escaped := make([]byte, 0, len(text)+len(text)/4)
	for _, r := range text {
		if hidden(r) {
			for _, unit := range utf16.AppendRune(nil, r) {
				escaped = fmt.Appendf(escaped, `\u%04x`, unit)
			}
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return string(escaped)
}

// hidden reports a character that is not shown. A byte that is no UTF-8 comes here as U+FFFD.
func hidden(r rune) bool {
	return r != '\n' && r != '\t' && !strconv.IsPrint(r) || r == utf8.RuneError
}
