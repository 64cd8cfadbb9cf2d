// Package buildinfo says which build of a program is running.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// Read returns the module's version and the revision it was built from, each
// "unknown" where the build does not say.
func Read() (version, revision string) {
	version = "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	return version, setting("vcs.revision")
}

// Version returns what --version prints: program, version, revision, the revision's date, version
// of Go.
func Version(program string) string {
	version, revision := Read()
	return program + " " + version + " " + revision + " " + setting("vcs.time") + " " + runtime.Version()
}

// setting returns a setting of the build, "unknown" if it has none.
func setting(key string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
	}
	return "unknown"
}
