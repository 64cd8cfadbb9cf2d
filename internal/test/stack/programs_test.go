package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	haproxyfiles "example.com/marketdata/deploy/haproxy"
	edgepackage "example.com/marketdata/edge"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/testedge"
	"example.com/marketdata/internal/test/teststore"
)

// quotation is what a program shows for a coin.
type quotation struct {
	ID, Name string
	Change   float64 `json:"price_change_percentage_24h"`
}

// TestCoinGeckoPrograms runs terminal programs that can use no address other than
// api.coingecko.com. A hosts entry that only they see leads them to HAProxy, whose certificate they
// trust. The program ticker sends no key, so HAProxy adds one. They show the market of "make run".
// If SCREENSHOTS names a folder, the test saves pictures there, which needs aha and Chromium.
func TestCoinGeckoPrograms(t *testing.T) {
	const name, others = "api.coingecko.com", "raw.githubusercontent.com finance.yahoo.com query2.finance.yahoo.com"
	_, cointop := exec.LookPath("cointop")
	_, ticker := exec.LookPath("ticker")
	if os.Geteuid() != 0 || cointop != nil && ticker != nil {
		t.Skip("there is neither cointop nor ticker 4, or no right to a hosts entry and port 443")
	}
	s := &stack{Machine: &local.Machine{Data: t.TempDir()}, listen: "127.0.16.3:443",
		names: append(strings.Fields(others), name)}
	key := s.serveCoins(t)
	s.serveNothing(t, "127.0.16.4:443")
	must.OK(t, os.WriteFile(filepath.Join(s.Data, "hosts"), []byte("127.0.0.1 localhost\n127.0.16.3 "+name+
		"\n127.0.16.4 "+others+"\n"), 0o644))
	coins := s.quotations(t, name)
	var watched []string
	for _, q := range coins {
		watched = append(watched, q.ID+".CG")
	}
	for _, c := range []struct {
		program, config, typed, then string
		wide, high                   int
	}{
		// cointop shows the first coin's chart, whose axis is dotted.
		{"cointop", fmt.Sprintf("[coingecko]\n  api_key = %q\n", key), "Enter", "┊", 150, 26},
		{"ticker", "show-separator: true\nwatchlist: [" + strings.Join(watched, ", ") + "]\n", "", "", 84, 14},
	} {
		t.Run(c.program, func(t *testing.T) {
			for _, needed := range []string{c.program, "tmux"} {
				if _, err := exec.LookPath(needed); err != nil {
					t.Skip(err)
				}
			}
			home := t.TempDir()
			must.OK(t, os.WriteFile(filepath.Join(home, "config"), []byte(c.config), 0o644))
			screen := openTerminal(t, home, c.wide, c.high, fmt.Sprintf("unshare --mount sh -c 'mount --bind %s/hosts "+
				"/etc/hosts && HOME=%[2]s SSL_CERT_FILE=%s %s --config %[2]s/config; sleep 60'",
				s.Data, home, certificateFile(s.Data), c.program))
			for _, q := range coins {
				screen.await(q.Name)
				screen.await(fmt.Sprintf("%.2f%%", q.Change))
			}
			if c.typed != "" {
				screen.tmux("send-keys", c.typed)
				screen.await(c.then)
			}
			picture(t, c.program, screen.tmux("capture-pane", "-p", "-e"), c.wide, c.high)
		})
	}
}

// terminal is a tmux terminal without a screen.
type terminal struct {
	t      *testing.T
	socket string
}

func openTerminal(t *testing.T, dir string, wide, high int, command string) terminal {
	t.Helper()
	screen := terminal{t, filepath.Join(t.TempDir(), "tmux")}
	screen.tmux("-f", "/dev/null", "new-session", "-d", "-c", dir, "-x", strconv.Itoa(wide), "-y", strconv.Itoa(high),
		command)
	t.Cleanup(func() { screen.tmux("kill-server") })
	return screen
}

func (s terminal) tmux(args ...string) []byte {
	s.t.Helper()
	cmd := exec.CommandContext(context.Background(), "tmux", append([]string{"-S", s.socket}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %v %s", cmd.Args, err, out)
	}
	return out
}

// await waits until the terminal shows text.
func (s terminal) await(text string) {
	s.t.Helper()
	if err := poll(s.t.Context(), text, func() (bool, error) {
		return bytes.Contains(s.tmux("capture-pane", "-p"), []byte(text)), nil
	}); err != nil {
		s.t.Fatalf("%v; it shows\n%s", err, s.tmux("capture-pane", "-p"))
	}
}

// serveCoins runs an edge with the market of "make run" behind HAProxy, which adds the returned key
// to each request.
func (s *stack) serveCoins(t *testing.T) (key string) {
	t.Helper()
	haproxy, store := program(t, "haproxy"), memstore.New()
	now := time.Now().UTC().Truncate(10 * time.Minute) // where the programs' charts end
	teststore.SimulateYear(t, store, "?assets=2000&seed=1", now)
	key = teststore.Key(t, store, 1000, 1000).Key
	cfg := edgepackage.Config{Reader: store, Coins: true, CacheDir: t.TempDir()}
	cfg.Server.ProxyProtocol = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	e := testedge.Start(t, cfg)
	for i := range s.edges {
		s.edges[i] = &edge{listen: e.Addr().String(), admin: e.AdminAddr().String()}
	}
	const last = "    default_backend edges\n"
	config := strings.Replace(string(haproxyfiles.Config), last,
		"    http-request set-header X-Api-Key "+key+"\n"+last, 1)
	err := s.balance(t.Context(), haproxy, []byte(config))
	if s.haproxy != nil {
		t.Cleanup(s.haproxy.Kill)
	}
	must.OK(t, err)
	return key
}

// serveNothing stands in for ticker's other data sources, without which ticker does not start. It
// sends an empty list of symbols and a cookie.
func (s *stack) serveNothing(t *testing.T, addr string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "A3", Value: "none"})
	}))
	_ = server.Listener.Close()
	server.Listener = must.Get(net.Listen("tcp", addr))(t)
	pem := filepath.Join(s.Data, "haproxy.pem")
	server.TLS = &tls.Config{Certificates: []tls.Certificate{must.Get(tls.LoadX509KeyPair(pem, pem))(t)}}
	server.StartTLS()
	t.Cleanup(server.Close)
}

// quotations requests the top coins through HAProxy.
func (s *stack) quotations(t *testing.T, name string) (coins []quotation) {
	t.Helper()
	c := s.client(t, "")
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", s.listen)
	}
	must.OK(t, poll(t.Context(), "an answer", func() (bool, error) {
		answer, err := c.Get("https://" + name + "/api/v3/coins/markets?vs_currency=usd&per_page=4")
		if err != nil {
			return false, nil
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return false, nil // HAProxy knows of no edge yet
		}
		return true, json.NewDecoder(answer.Body).Decode(&coins)
	}))
	return coins
}

// picture saves a picture of a terminal's screen if SCREENSHOTS names a folder.
func picture(t *testing.T, name string, screen []byte, wide, high int) {
	t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	aha := exec.CommandContext(t.Context(), "aha", "--no-header", "--black")
	aha.Stdin = bytes.NewReader(screen)
	page := filepath.Join(t.TempDir(), name+".html")
	must.OK(t, os.WriteFile(page, fmt.Appendf(nil, `<!doctype html><meta charset=utf-8><style>
body { margin: 8px; background: #000; color: #ccc } pre { margin: 0; font: 13px/16px "DejaVu Sans Mono" }</style>
<pre>%s</pre>`, must.Get(aha.Output())(t)), 0o644))
	size := fmt.Sprintf("--window-size=%d,%d", wide*8+16, high*16+16)
	must.Get(exec.CommandContext(t.Context(), "chromium-headless-shell", "--headless", "--no-sandbox",
		"--hide-scrollbars", "--disable-gpu", "--disable-lcd-text", "--disable-background-networking", size,
		"--screenshot="+filepath.Join(dir, name+".png"), "file://"+page).Output())(t)
}
