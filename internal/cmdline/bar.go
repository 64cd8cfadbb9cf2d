package cmdline

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Bar shows a progress bar with the given number of steps on standard error if that is a terminal.
// Each call of step advances it by one step.
func Bar(total int, what string) (step func()) {
	bar := progressbar.NewOptions(total, progressbar.OptionSetDescription(what), progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetVisibility(term.IsTerminal(int(os.Stderr.Fd()))), progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	return func() { _ = bar.Add(1) } // A progress bar that cannot be drawn does no harm.
}
