// Package buildinfo says which build of a program is running.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// Read returns the module's version and the revision it was built from, each
// "unknown" where the build does not say.
func Read() (version, revision string) {
	version, revision = "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return version, revision
}

// Version returns what --version prints: program, version, revision, version of
// Go.
func Version(program string) string {
	version, revision := Read()
	return program + " " + version + " " + revision + " " + runtime.Version()
}
