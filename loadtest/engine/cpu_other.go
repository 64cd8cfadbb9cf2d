//go:build !unix

package engine

import "time"

// cpuTime returns 0: this system does not report it, so the limit on it is not checked.
func cpuTime() time.Duration { return 0 }
