//go:build !unix

package edge

import "math"

// openFiles returns how many files the process may open. There is no limit on this system.
func openFiles() uint64 { return math.MaxUint64 }
