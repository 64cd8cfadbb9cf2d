// Package redact prepares texts from outside, such as a store's error or a provider's answer, for
// logs, /status and reports (SECURITY.md, "What is promised").
package redact

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// maxText is the maximum length of such a text, in bytes.
const maxText = 200

// apiKey matches everything that begins like one of our API keys.
var apiKey = regexp.MustCompile(`mdk_live_\w*`)

// Text returns text without our API keys and without secrets, whether plain or URL-encoded, cut to
// maxText bytes of valid UTF-8 on one line. If text has already been cut, enough of it must remain
// that a secret cut off at the end begins after the first maxText bytes.
func Text(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.NewReplacer(secret, "[secret]", url.QueryEscape(secret), "[secret]", url.PathEscape(secret),
				"[secret]").Replace(text)
		}
	}
	if strings.Contains(text, "mdk_live_") {
		text = apiKey.ReplaceAllLiteralString(text, "[secret]")
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxText)], "")
	return strings.Join(
		strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

// Error returns an error that wraps err and whose text is err's text, changed by Text. It returns
// nil for nil, and err itself if its text needs no change.
func Error(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	whole := err.Error()
	if text := Text(whole, secrets...); text != whole {
		return &cut{text, err}
	}
	return err
}

type cut struct {
	text string
	err  error
}

func (c *cut) Error() string { return c.text }
func (c *cut) Unwrap() error { return c.err }
