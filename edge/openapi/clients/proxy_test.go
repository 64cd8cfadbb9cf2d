package clients

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/must"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

// TestPythonProxy reads totals and events through a proxy with a password, from an edge without TLS and
// from one with a certificate that only ca_file trusts. The Go and TypeScript clients leave both to the
// HTTP client that the caller passes.
func TestPythonProxy(t *testing.T) {
	have(t, python())
	store := openapitest.Market(t)
	key, base := teststore.Key(t, store, 100, 100).Key, openapitest.Start(t, edge.Config{Reader: store})
	openapitest.Await(t, base, key)
	secure := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(must.Get(url.Parse(base))(t)))
	t.Cleanup(secure.Close)
	var tunnels, requests atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user := r.Header.Get("Proxy-Authorization"); user != "Basic dXNlcjpwQHNz" { // user:p@ss
			t.Errorf("%s %s with the authorization %q", r.Method, r.URL, user)
		}
		if r.Method == http.MethodConnect {
			tunnels.Add(1)
			tunnel(t, w, r.Host)
			return
		}
		requests.Add(1)
		(&httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, FlushInterval: -1}).ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	write(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))

	const program = `
import sys
from marketdata import Client, TransportError
base, secure, key, proxy, authority = sys.argv[1:]
for url in base, secure:
    with Client(url, key, proxy=proxy, ca_file=authority) as client:
        print(client.global_().result.data_time == next(client.events()))
try:
    Client(secure, key, proxy=proxy, retries=0).global_()
except TransportError as error:
    print("CERTIFICATE_VERIFY_FAILED" in str(error))
`
	got := string(execute(t, "python", nil, python(), "-c", program, base, secure.URL, key,
		"http://user:p%40ss@"+strings.TrimPrefix(proxy.URL, "http://"), authority))
	if want := strings.Repeat("True\n", 3); got != want || requests.Load() != 2 || tunnels.Load() != 3 {
		t.Errorf("it prints\n%s\nwant\n%s\n%d requests and %d tunnels, want 2 and 3", got, want, requests.Load(),
			tunnels.Load())
	}
}

// tunnel connects the client with a server until either closes the connection.
func tunnel(t *testing.T, w http.ResponseWriter, to string) {
	server, err := net.Dial("tcp", to)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(client, server)
}
