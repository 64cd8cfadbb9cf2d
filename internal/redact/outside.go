// Package redact prepares text that came from outside, a store's error or a
// provider's answer, for logs, /status and reports (SECURITY.md, "What is promised").
package redact

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

// maxText is how long such a text may be, in bytes.
const maxText = 200

// apiKey is what begins like an API key of ours.
var apiKey = regexp.MustCompile(`mdk_live_\w*`)

// Text returns text without our API keys and without the secrets, also URL-encoded ones, and then
// cut to maxText bytes of valid UTF-8 on one line. A text that was cut before must be so long that
// the rest of a secret at its end is cut off here.
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

// Error returns an error that reads as Text, and is what err is to errors.Is and
// errors.As; nil for nil. err is returned as it is when its text is fit.
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
