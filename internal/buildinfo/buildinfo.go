// Package buildinfo describes the build of the running program.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// Read returns the version of the main module and the revision from which it was built. A value
// that the build did not record is "unknown".
func Read() (version, revision string) {
	version = "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	return version, setting("vcs.revision")
}

// Version returns the output of --version: the program's name, its version, the revision, the date
// of the revision, and the version of Go.
func Version(program string) string {
	version, revision := Read()
	return program + " " + version + " " + revision + " " + setting("vcs.time") + " " + runtime.Version()
}

// setting returns a setting of the build, or "unknown" if the build did not record it.
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
