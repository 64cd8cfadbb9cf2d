// Command loadtest loads an HTTP service, measures it, and checks its answers.
package main

import (
	"os"
	"runtime/debug"
)

func main() {
	if os.Getenv("GOGC") == "" {
		// Little is kept, so that the collector would run often; each time it
		// takes processors that send and measure.
		debug.SetGCPercent(400)
	}
	program().Main()
}
