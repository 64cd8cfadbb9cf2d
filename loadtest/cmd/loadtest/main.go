// Command loadtest load-tests an HTTP service: it sends requests, measures the answers, and checks them.
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
