// Command loadtest loads an HTTP service, measures it, and checks its answers.
package main

import (
	"os"
	"runtime/debug"
)

func main() {
	if os.Getenv("GOGC") == "" {
		// The heap is small, so the collector would run often and take processor time from sending and
		// measuring.
		debug.SetGCPercent(400)
	}
	program().Main()
}
