package cmdline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/cmdline"
	"example.com/marketdata/internal/test/must"
	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"
)

// terminal opens a terminal. text closes it and returns what was written to it.
func terminal(t *testing.T) (tty *os.File, text func() string) {
	t.Helper()
	screen := must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
	must.OK(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n := must.Get(unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN))(t)
	tty = must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	shown := make(chan string)
	go func() {
		b, _ := io.ReadAll(screen) // ends with EIO once the terminal is closed
		shown <- string(b)
	}()
	return tty, func() string {
		must.OK(t, tty.Close())
		defer screen.Close()
		return <-shown
	}
}

// TestColours: a terminal shows errors in red, warnings in yellow and headings in bold, unless the
// user or the terminal does not want colours, or a program reads the output.
func TestColours(t *testing.T) {
	const red, yellow, bold = "\x1b[31mtoy: ", "\x1b[33mtime=", "\x1b[1mUsage:\x1b[0m"
	for _, c := range []struct{ noColour, term, args, want string }{
		{"", "xterm", "print", red}, {"", "xterm", "print --needed fail", red},
		{"", "xterm", "print --needed warn", yellow}, {"", "xterm", "--help", bold}, {"", "xterm", "help print", bold},
		{"", "", "print", red},
		{"1", "xterm", "print", ""}, {"1", "xterm", "--help", ""}, {"", "dumb", "print --needed warn", ""},
		{"", "xterm", "print --json", ""}, {"", "xterm", "print --needed fail --json", ""},
		{"", "xterm", "print --needed warn --log-format json", ""},
	} {
		t.Setenv("NO_COLOR", c.noColour)
		t.Setenv("TERM", c.term)
		run := func(out io.Writer) {
			var cli struct {
				toy
				JSON bool
			}
			do := func(_ context.Context, _ *kong.Context, log *slog.Logger) error {
				log.Warn("careful")
				if cli.Needed == "fail" {
					return errors.New("failed")
				}
				return nil
			}
			cmdline.Program{Name: "toy", Description: "X is file:PATH", CLI: &cli, Run: do}.Do(
				t.Context(), strings.Fields(c.args), out, out)
		}
		tty, text := terminal(t)
		run(tty)
		shown := text()
		if c.want == "" && strings.Contains(shown, "\x1b") || strings.Contains(shown, "\x1b[1mX") ||
			!strings.Contains(shown, c.want) || shown == "" {
			t.Errorf("%+v: %q", c, shown)
		}
		var plain strings.Builder
		if run(&plain); strings.Contains(plain.String(), "\x1b") {
			t.Errorf("%+v: not on a terminal: %q", c, &plain)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 250 * time.Millisecond: "250 ms", 1999 * time.Millisecond: "1.9 s", 59 * time.Second: "59 s",
		time.Minute: "1 min", 3*time.Minute + 59*time.Second: "3 min", 5*time.Hour + 20*time.Minute: "5 h 20 min",
		24*time.Hour + 30*time.Second: "24 h", 12*24*time.Hour + time.Hour: "12 days", -3 * time.Minute: "-3 min",
		50_000 * time.Hour: "2,083 days",
	} {
		if got := cmdline.Span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
