// Package logs has the flags and the form of the programs' logs: one line an
// event, on standard error, the key of an error is err, which says what to do
// about it where that is known, and a duration is a number of seconds.
package logs

import (
	"fmt"
	"io"
	"log/slog"
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
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
