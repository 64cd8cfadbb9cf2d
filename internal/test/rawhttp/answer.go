package rawhttp

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"example.com/marketdata/loadtest/check"
)

// Decode returns a body without its content coding.
func Decode(coding string, body []byte) ([]byte, error) { return check.Decode(coding, body) }

var requestID = regexp.MustCompile(`^[A-Za-z0-9._:=+/-]{1,128}$`)

// Check checks an answer against the rules of the interface that apply to every answer. It returns
// the message_key, or "" if the answer has none.
func Check(t testing.TB, method string, res *http.Response, body string) (messageKey string) {
	t.Helper()
	if ids := res.Header.Values("X-Request-Id"); len(ids) != 1 || !requestID.MatchString(ids[0]) {
		t.Errorf("%d: X-Request-Id %q", res.StatusCode, ids)
	}
	if origins := res.Header.Values("Access-Control-Allow-Origin"); len(origins) != 1 {
		t.Errorf("%d: Access-Control-Allow-Origin %q", res.StatusCode, origins)
	}
	exposed := res.Header.Get("Access-Control-Expose-Headers")
	for _, name := range []string{"X-Snapshot-Time", "ETag", "Last-Modified", "Cache-Control", "Vary", "Surrogate-Key",
		"Cache-Tag", "Content-Encoding", "Cache-Status", "X-Not-Found", "X-Ignored", "Access-Control-Allow-Origin",
		"RateLimit-Policy", "RateLimit", "X-Request-Id", "Retry-After"} {
		if !strings.Contains(", "+exposed+",", ", "+name+",") {
			t.Errorf("%d: %s is not exposed in %q", res.StatusCode, name, exposed)
		}
	}
	if res.Header.Get("Server") != "" || res.Header.Get("Date") == "" {
		t.Errorf("%d: Server %q, Date %q", res.StatusCode, res.Header.Get("Server"), res.Header.Get("Date"))
	}
	switch res.StatusCode {
	case 200, 206, 304:
		return ""
	case 204:
		if body != "" || res.Header.Get("Content-Length") != "" || res.Header.Get("Content-Type") != "" {
			t.Errorf("204 with %q, %v", body, res.Header)
		}
		return ""
	}
	if got := res.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("%d: Cache-Control %q", res.StatusCode, got)
	}
	if got := res.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("%d: Content-Type %q", res.StatusCode, got)
	}
	for name, status := range map[string]int{"Retry-After": 0, "Allow": 405, "WWW-Authenticate": 401} {
		want := res.StatusCode == status || name == "Retry-After" && (res.StatusCode == 429 || res.StatusCode == 503)
		if (res.Header.Get(name) != "") != want {
			t.Errorf("%d: %s %q", res.StatusCode, name, res.Header.Get(name))
		}
	}
	if after := res.Header.Get("Retry-After"); res.StatusCode == 503 && !SoonAgain(after) {
		t.Errorf("503: Retry-After %q", after)
	}
	if method == "HEAD" {
		if body != "" || res.ContentLength <= 0 {
			t.Errorf("%d to HEAD: body %q, Content-Length %d", res.StatusCode, body, res.ContentLength)
		}
		return ""
	}
	var envelope struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Key     string          `json:"message_key"`
		Result  json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal([]byte(body), &envelope); err != nil {
		t.Errorf("%d: body %q: %v", res.StatusCode, body, err)
		return ""
	}
	want := map[string]int{"BAD_REQUEST": 40000, "UNAUTHORIZED": 40100, "NOT_FOUND": 40400, "PATH_NOT_FOUND": 40401,
		"METHOD_NOT_ALLOWED": 40500, "REQUEST_TIMEOUT": 40800, "SNAPSHOT_GONE": 41000, "PRECONDITION_FAILED": 41200,
		"PAYLOAD_TOO_LARGE": 41300, "RANGE_NOT_SATISFIABLE": 41600,
		"TOO_MANY_REQUESTS": 42900, "HEADERS_TOO_LARGE": 43100,
		"INTERNAL_ERROR": 50000, "SERVICE_UNAVAILABLE": 50300}
	if envelope.Code != want[envelope.Key] || envelope.Code/100 != res.StatusCode || string(envelope.Result) != "{}" ||
		envelope.Message == "" {
		t.Errorf("%d: envelope %q", res.StatusCode, body)
	}
	return envelope.Key
}

// SoonAgain reports whether delay is a valid Retry-After value of a 503 response: 1 to 5 seconds.
func SoonAgain(delay string) bool { return len(delay) == 1 && '1' <= delay[0] && delay[0] <= '5' }
