package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
)

// TestDialectErrors checks that every error below a dialect's prefix has the dialect's format, even if it
// occurs before the path is parsed, since its clients understand no other format (COINGECKO.md, "Rules").
// Elsewhere, and without a dialect, errors have the usual format.
func TestDialectErrors(t *testing.T) {
	dialect := &Dialect{
		Prefix:     "/api/v3/",
		EndpointAt: func([]byte) (int, bool) { return 0, false },
		AppendError: func(dst []byte, status int, message string) []byte {
			return fmt.Appendf(dst, `{"status":%d,"says":%q}`, status, message)
		},
	}
	_, with := start(t, func(cfg *Config) { cfg.Dialect, cfg.ReadTimeout = dialect, 200*time.Millisecond })
	_, without := start(t, func(cfg *Config) { cfg.ReadTimeout = 200 * time.Millisecond })
	const ping = "/api/v3/ping"
	for _, tc := range []struct {
		raw    string
		status int
	}{
		{request("GET", ping, "X-Long: "+strings.Repeat("a", 40<<10)), 431},
		{"GET /api/v3/simple/token_price/e?contract_addresses=" + strings.Repeat("0x1,", 10<<10), 431},
		{"GET " + ping + " HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		{"\r\nGET " + ping + "\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"GET http://a" + ping + " HTTP/1.1\r\nHost : a\r\n\r\n", 400},
		{request("GET", ping, "Content-Length: 5000"), 413}, {request("POST", ping), 405},
		{"GET " + ping + " HT", 408}, {request("GET", "/api/v3/none"), 404},
	} {
		for addr, spoken := range map[string]bool{with: true, without: false} {
			c := dial(t, addr).send(tc.raw)
			got := must.Get(http.ReadResponse(c.r, nil))(t)
			body := string(must.Get(io.ReadAll(got.Body))(t))
			form := `{"code":`
			if spoken {
				form = fmt.Sprintf(`{"status":%d,"says":"`, tc.status)
			}
			if got.StatusCode != tc.status || !strings.HasPrefix(body, form) {
				t.Errorf("%.40q, with the dialect %t: %d %s", tc.raw, spoken, got.StatusCode, body)
			}
			c.Close()
		}
	}
	c := dial(t, with).send("GET /openapi/v1/assets?a=/api/v3/ HTTP/1.1\r\n\r\n")
	expect(t, 400, "BAD_REQUEST", c.receive("GET"))
}
