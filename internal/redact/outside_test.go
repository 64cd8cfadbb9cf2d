package redact

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "no such bucket": "no such bucket", " a\r\n\tb\x00c\x1b[31m ": "a b c [31m",
		"key=s3cr3t+/x!": "key=[secret]!", "?key=s3cr3t%2B%2Fx&": "?key=[secret]&",
		"\xff\xfea": "a", "key mdk_live_abcDEF012 of store": "key [secret] of store", strings.Repeat(
			"é", 150): strings.Repeat("é", 100), "x" + strings.Repeat("é", 150): "x" + strings.Repeat("é", 99),
		// The secret begins before the cut and ends after it.
		strings.Repeat("x", 195) + "s3cr3t+/x": strings.Repeat("x", 195) + "[secr",
	} {
		if got := Text(in, "", "s3cr3t+/x"); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestSecret: wherever a text contains secrets, the result contains no part of them, and is short,
// on one line and valid UTF-8.
func TestSecret(t *testing.T) {
	const secret = "QWERTYUIOPASDFGH"
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.OneOf(rapid.Just(secret), rapid.StringMatching(`[a-z \n]{0,60}`),
			rapid.Map(rapid.SliceOfN(rapid.ByteRange(0x80, 0xff), 0, 4), func(b []byte) string { return string(b) }))
		text := strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), "")
		got := Text(text, secret)
		for i := range len(secret) - 3 {
			if strings.Contains(got, secret[i:i+4]) {
				t.Fatalf("%q gives %q", text, got)
			}
		}
		if len(got) > maxText || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Fatalf("%q gives %q", text, got)
		}
	})
}

func TestError(t *testing.T) {
	plain := errors.New("plain")
	if Error(nil) != nil || Error(plain) != plain {
		t.Error("an error that is fit is not itself")
	}
	err := Error(&fs.PathError{Op: "open", Path: strings.Repeat("x", 1000), Err: fs.ErrNotExist}, "open")
	var path *fs.PathError
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &path) || len(err.Error()) != maxText ||
		!strings.HasPrefix(err.Error(), "[secret] xxx") {
		t.Errorf("%v", err)
	}
}
