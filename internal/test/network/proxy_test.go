package network

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/internal/test/must"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	var options []goleak.Option
	for _, f := range Leaks {
		options = append(options, goleak.IgnoreAnyFunction(f))
	}
	goleak.VerifyTestMain(m, options...)
}

// TestFaults: a body of 20,000 bytes gets through if the fault only delays data, does not get
// through any other fault, and gets through again once the fault is gone.
func TestFaults(t *testing.T) {
	body := strings.Repeat("0123456789", 2000)
	server := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }))
	defer server.Close()
	p := must.Get(Start(server.Listener.Addr().String()))(t)
	addr := p.Addr()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func() error {
		res, err := client.Get("http://" + addr)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err == nil && string(b) != body {
			err = errors.New("another body")
		}
		return err
	}
	for _, f := range Faults {
		t.Run(f.Name, func(t *testing.T) {
			must.OK(t, p.Set(f))
			client.Timeout = 5 * time.Second
			if f.Loses {
				client.Timeout = time.Second
			}
			if err := ask(); (err != nil) != f.Loses {
				t.Errorf("with the fault: %v", err)
			}
			must.OK(t, p.Heal())
			if err := ask(); err != nil {
				t.Errorf("without: %v", err)
			}
			if p.Addr() != addr {
				t.Errorf("it moved from %s to %s", addr, p.Addr())
			}
		})
	}
	must.OK(t, p.Close())
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("it listens after Close")
	}
}
