//go:build !unix

package engine

import "time"

// cpuTime returns 0, because this system does not report it. So the limit on processor time is not checked.
func cpuTime() time.Duration { return 0 }
