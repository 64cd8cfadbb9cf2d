package cmdline

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"
)

// Size is a number of bytes. Its text must have a unit, because a bare 256 might just as well mean
// 256 MiB. Only 0 needs no unit.
type Size int64

var sized = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?) ?([kKMGT]i?)?B$|^0$`)

// maxSize is one pebibyte, more than any of the programs can use.
const maxSize = 1 << 50

// UnmarshalText parses sizes such as 256MiB, 1.5GB, 100 kB, 1B or 0.
func (s *Size) UnmarshalText(b []byte) error {
	n, err := humanize.ParseBytes(string(b))
	if err != nil || !sized.Match(b) || n > maxSize {
		return fmt.Errorf("size %.40q: want a number and its unit, such as 256MiB: B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, at most 1024TiB", b)
	}
	*s = Size(n)
	return nil
}

// Address is an address to listen on, host and port. An empty Address means not to listen.
type Address string

// UnmarshalText parses addresses such as 127.0.0.1:8080, [::1]:8080, localhost:8080 or :8080.
func (a *Address) UnmarshalText(b []byte) error {
	_, port, err := net.SplitHostPort(string(b))
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if len(b) > 0 && err != nil {
		return fmt.Errorf("address %.80q: want HOST:PORT, such as 127.0.0.1:8080, or :8080 for all of this machine's addresses", b)
	}
	*a = Address(b)
	return nil
}

// decodePrefix parses an address range.
func decodePrefix(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("range", &text); err != nil {
		return err
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Errorf("range of addresses %.60q: want ADDRESS/BITS, such as 10.0.0.0/8, or 10.0.0.1/32 for one", text)
	}
	target.Set(reflect.ValueOf(p))
	return nil
}

// decodeDuration parses a duration and rejects negative ones, which no flag accepts.
func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("duration %.40q: want numbers with units, such as 500ms, 90s, 10m or 1h30m, not below 0s", text)
	}
	target.SetInt(int64(d))
	return nil
}

// Moment is a time on the command line.
type Moment struct{ time.Time }

// UnmarshalText parses a time in RFC 3339.
func (m *Moment) UnmarshalText(b []byte) error {
	t, err := time.Parse(time.RFC3339, string(b))
	if err != nil {
		return fmt.Errorf("time %.40q: want RFC 3339, such as 2026-11-21T07:20:00Z", b)
	}
	m.Time = t
	return nil
}

// Span formats a duration for people, such as 250 ms, 1.2 s, 3 min, 5 h 20 min or 12 days.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Span(-d)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%d.%d s", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute), " 0 min")
	}
	return humanize.Comma(int64(d/(24*time.Hour))) + " days"
}
