// Package secret reads passwords, keys and tokens from the environment. They often come from files
// that end in a newline, which neither headers nor logins accept.
package secret

import (
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
)

var log atomic.Pointer[slog.Logger]

// Log sets the logger for warnings of the whole process. Earlier warnings are discarded.
func Log(to *slog.Logger) { log.Store(to) }

// Env returns the value of an environment variable without leading and trailing white space. It
// logs a warning if there was any.
func Env(name string) string {
	value := os.Getenv(name)
	return changed(name, value, strings.TrimSpace(value))
}

// URL returns a URL without leading and trailing white space, and without any white space before
// its @, where a password may end. If there was any, it logs a warning with the given name.
func URL(name, value string) string {
	at := strings.LastIndexByte(value, '@') + 1
	return changed(name, value, strings.Join(strings.Fields(value[:at]), "")+strings.TrimSpace(value[at:]))
}

func changed(name, from, to string) string {
	if l := log.Load(); l != nil && from != to {
		l.Warn("ignoring white space around a secret", "name", name)
	}
	return to
}
