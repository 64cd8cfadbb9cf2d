package cmdline

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"example.com/marketdata/internal/logs"
	"github.com/alecthomas/kong"
	"golang.org/x/term"
)

// Paint colors text for people: problems red, warnings yellow, success green, headings bold. The
// zero value does not change text.
type Paint struct{ on bool }

// PaintOn returns the colors for w. There are none unless w is a terminal, TERM is not dumb, and
// NO_COLOR (https://no-color.org) is unset or empty.
func PaintOn(w io.Writer) Paint {
	return Paint{Terminal(w) != nil && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (p Paint) Red(text string) string    { return p.paint("31", text) }
func (p Paint) Yellow(text string) string { return p.paint("33", text) }
func (p Paint) Green(text string) string  { return p.paint("32", text) }
func (p Paint) Bold(text string) string   { return p.paint("1", text) }

func (p Paint) paint(code, text string) string {
	if !p.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + logs.Escape(text) + "\x1b[0m"
}

// colour matches the escape sequences that paint adds.
var colour = regexp.MustCompile(`\x1b\[(31|33|32|1|0)m`)

// heading matches the headings of a help text.
var heading = regexp.MustCompile(`(?m)^(Usage:|[A-Z][A-Za-z ]*:$)`)

// printHelp prints help, with bold headings on a terminal.
func (p Program) printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	out, colours := ctx.Stdout, PaintOn(ctx.Stdout)
	if !colours.on {
		return p.writeHelp(options, ctx)
	}
	width, _, err := term.GetSize(int(fileOf(out).Fd()))
	if err == nil && width > 0 && os.Getenv("COLUMNS") == "" {
		// Kong determines the width only if it writes to a terminal itself.
		os.Setenv("COLUMNS", strconv.Itoa(width))
		defer os.Unsetenv("COLUMNS")
	}
	var text bytes.Buffer
	ctx.Stdout = &text
	defer func() { ctx.Stdout = out }()
	if err := p.writeHelp(options, ctx); err != nil {
		return err
	}
	_, err = io.WriteString(out, heading.ReplaceAllStringFunc(text.String(), colours.Bold))
	return err
}

// paintedLog colors the lines of a text log. Each Write must be one line.
type paintedLog struct {
	io.Writer
	Paint
}

func (p paintedLog) Write(line []byte) (int, error) {
	if !p.on {
		return p.Writer.Write(line)
	}
	text := strings.TrimSuffix(string(line), "\n")
	_, event, _ := strings.Cut(text, " ") // after the time
	switch {
	case strings.HasPrefix(event, "level=ERROR"):
		text = p.Red(text)
	case strings.HasPrefix(event, "level=WARN"):
		text = p.Yellow(text)
	}
	if _, err := io.WriteString(p.Writer, text+"\n"); err != nil {
		return 0, err
	}
	return len(line), nil
}
