// Package secret reads passwords, keys and tokens, which programs get from the environment. They
// often come from files that end in a newline, which no header and no login takes.
package secret

import (
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
)

var log atomic.Pointer[slog.Logger]

// Log sets where warnings go, of the whole process; before, they go nowhere.
func Log(to *slog.Logger) { log.Store(to) }

// Env returns the value of an environment variable without white space at its ends, and warns
// where there is some.
func Env(name string) string {
	value := os.Getenv(name)
	return changed(name, value, strings.TrimSpace(value))
}

// URL returns a URL without white space at its ends, and without any before its @, where a password
// may end. It warns where there is some, of name.
func URL(name, value string) string {
	at := strings.LastIndexByte(value, '@') + 1
	return changed(name, value, strings.Join(strings.Fields(value[:at]), "")+strings.TrimSpace(value[at:]))
}

func changed(name, from, to string) string {
	if l := log.Load(); l != nil && from != to {
		l.Warn("a secret has white space at its end or beginning, which is left out", "name", name)
	}
	return to
}
