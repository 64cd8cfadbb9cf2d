// Package logs provides the programs' logging flags and defines the log format. A log has one line
// per event, on standard error. An error has the key err, and its text says what to do, if that is
// known. A duration is a number of seconds under a key that ends in _seconds.
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

// Flags are the flags of a program that logs. Embed it in a command line.
type Flags struct {
	LogLevel  string `enum:"debug,info,warn,error" default:"info" help:"Minimum level of log lines: debug, info, warn or error. The log is written to standard error."`
	LogFormat string `enum:"text,json" default:"text" help:"Format of log lines: text or json."`
}

// Logger returns the logger that the flags describe.
func (f Flags) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.LogLevel)); err != nil {
		panic(fmt.Sprintf("BUG: --log-level %q", f.LogLevel)) // The enum of the flag has no other values.
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

// Printable is a writer that escapes, in the form of JSON, characters that a terminal would
// interpret rather than show, such as ESC, U+009B and U+202E. So JSON keeps its meaning. Line feeds
// and tabs stay unchanged. Each Write must consist of whole characters.
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

// Escape returns text in the form in which Printable writes it.
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

// hidden reports whether a terminal would not show the character. Bytes that are not valid UTF-8
// arrive here as U+FFFD.
func hidden(r rune) bool {
	return r != '\n' && r != '\t' && !strconv.IsPrint(r) || r == utf8.RuneError
}
