// Package logs has the flags and the form of the programs' logs: one line an
// event, on standard error, the key of an error is err, which says what to do
// about it where that is known, and a duration is a number of seconds.
package logs

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strconv"
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
			a.Value = slog.Float64Value(a.Value.Duration().Seconds())
		} else if err, is := a.Value.Any().(error); is {
			a.Value = slog.StringValue(Text(err))
		}
		return a
	}}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(printable{w}, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// printable writes lines of JSON in which characters that a terminal would obey rather than
// show, such as U+009B and U+202E, are escaped. The library's text form does so by itself.
type printable struct{ w io.Writer }

// Write implements io.Writer. Handlers write a whole line at a time.
func (p printable) Write(line []byte) (int, error) {
	hidden := func(r rune) bool { return r >= utf8.RuneSelf && !strconv.IsPrint(r) }
	if bytes.IndexFunc(line, hidden) < 0 {
		return p.w.Write(line)
	}
	escaped := make([]byte, 0, len(line)+len(line)/4)
	for _, r := range string(line) { // characters beyond ASCII stand in strings alone
		if hidden(r) {
			for _, unit := range utf16.AppendRune(nil, r) {
				escaped = fmt.Appendf(escaped, `\u%04x`, unit)
			}
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	if _, err := p.w.Write(escaped); err != nil {
		return 0, err
	}
	return len(line), nil
}
