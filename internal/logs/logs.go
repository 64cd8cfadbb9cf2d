// Package logs has the flags and the form of the programs' logs: one line an
// event, on standard error, the key of an error is err, and a duration is a
// number of seconds.
package logs

import (
	"io"
	"log/slog"
)

// Flags are the flags of a program that logs; embed them in its command line.
type Flags struct {
	LogLevel  slog.Level `default:"info" placeholder:"LEVEL" help:"Log what is at least debug, info, warn or error, on standard error."`
	LogFormat string     `enum:"text,json" default:"text" help:"Form of log lines: text or json."`
}

// Logger returns the log that the flags ask for.
func (f Flags) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.Float64Value(a.Value.Duration().Seconds())
		}
		return a
	}}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
