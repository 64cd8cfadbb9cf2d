package cmdline

import (
	"io"
	"os"
	"strings"
	"sync"

	"example.com/marketdata/internal/logs"
	"golang.org/x/term"
)

// output writes a program's output. It escapes control characters that a terminal would interpret,
// except for the colors that paint adds. It remembers its first error, which is reported at the end of
// the command.
type output struct {
	to    io.Writer
	paint Paint
	mu    sync.Mutex
	err   error
}

// Write implements io.Writer. After an error, it writes nothing.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		_, o.err = io.WriteString(o.to, o.escape(string(b)))
	}
	if o.err != nil {
		return 0, o.err
	}
	return len(b), nil
}

func (o *output) escape(text string) string {
	if !o.paint.on {
		return logs.Escape(text)
	}
	var safe strings.Builder
	for at := []int{0, 0}; at != nil; text = text[at[1]:] {
		if at = colour.FindStringIndex(text); at == nil {
			safe.WriteString(logs.Escape(text))
			break
		}
		safe.WriteString(logs.Escape(text[:at[0]]) + text[at[0]:at[1]])
	}
	return safe.String()
}

// failed returns the first error.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// fileOf returns the file that w writes to, or nil.
func fileOf(w io.Writer) *os.File {
	if o, ok := w.(*output); ok {
		w = o.to
	}
	f, _ := w.(*os.File)
	return f
}

// Terminal returns the file that w writes to if it is a terminal, or else nil.
func Terminal(w io.Writer) *os.File {
	if f := fileOf(w); f != nil && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Discards reports whether w is /dev/null. This is also the case if the program was started with
// its standard output closed: the runtime then opens /dev/null in its place, so that the next file
// to be opened does not become standard output.
func Discards(w io.Writer) bool {
	f := fileOf(w)
	if f == nil {
		return false
	}
	is, err := f.Stat()
	null, nerr := os.Stat(os.DevNull)
	return err == nil && nerr == nil && os.SameFile(is, null)
}
