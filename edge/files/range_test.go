package files

import (
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/artifacts"
)

const length = 5000

// rangeForm matches an int-range or a suffix-range of RFC 9110, 14.1.2.
var rangeForm = regexp.MustCompile(`^(?i:bytes)=[ \t]*(\d*)-(\d*)[ \t]*$`)

// modelRange implements File.Range as RFC 9110, 14.1.2 and 14.2 define it, for numbers of any size.
func modelRange(header string) (from, to int64, ok bool) {
	m := rangeForm.FindStringSubmatch(header)
	if m == nil || m[1] == "" && m[2] == "" {
		return 0, length, false
	}
	number := func(digits string) int64 {
		n, _ := new(big.Int).SetString(digits, 10)
		if !n.IsInt64() {
			return math.MaxInt64
		}
		return n.Int64()
	}
	switch {
	case m[1] == "":
		return length - min(number(m[2]), length), length, true
	case m[2] != "" && number(m[2]) < number(m[1]):
		return 0, length, false
	case number(m[1]) >= length:
		return 0, 0, true
	case m[2] == "":
		return number(m[1]), length, true
	}
	return number(m[1]), min(number(m[2]), length-1) + 1, true
}

// FuzzRange compares File.Range with modelRange for any header. The first seed once caused a panic.
func FuzzRange(f *testing.F) {
	for _, header := range []string{
		"bytes=9999999999999999999-", "bytes=0-9999999999999999999", "bytes=-9999999999999999999",
		"bytes=9223372036854775808-9223372036854775807", "bytes=18446744073709551616-18446744073709551617",
		"bytes=" + strings.Repeat("9", 400) + "-", "bytes=0000000000000000000000001-2", "Bytes=1-2", "bytes=5000-",
		"bytes=-0", "bytes=4999-4999", "bytes=--1", "bytes=+1-2", "bytes=1-2,3-4", "bytes= 1-2 ", "items=1-2", "",
	} {
		f.Add(header)
	}
	file := &File{File: artifacts.File{Bytes: length}}
	f.Fuzz(func(t *testing.T, header string) {
		from, to, ok := file.Range([]byte(header))
		wantFrom, wantTo, want := modelRange(header)
		same := from == wantFrom && to == wantTo || from == to && wantFrom == wantTo
		if ok != want || ok && !same {
			t.Errorf("%q: %d to %d, %v; want %d to %d, %v", header, from, to, ok, wantFrom, wantTo, want)
		}
	})
}
