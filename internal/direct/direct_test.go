package direct_test

import (
	"net"
	"net/http"
	"os"
	"testing"

	"example.com/marketdata/internal/direct"
)

func TestMain(m *testing.M) {
	os.Setenv("HTTP_PROXY", "http://proxy.example:3128") // net/http reads it once
	os.Unsetenv("NO_PROXY")
	os.Unsetenv("no_proxy")
	os.Exit(m.Run())
}

// TestProxy uses the addresses that Amazon documents (IMDS, task and pod roles), those of RFC 3927
// and of RFC 4291, section 2.5.6, and this machine's own.
func TestProxy(t *testing.T) {
	hosts := map[string]bool{ // true means through the proxy
		"169.254.169.254": false, "169.254.170.2": false, "169.254.170.23:80": false, "[fd00:ec2::254]": false,
		"[fd00:ec2::23]:80": false, "[fe80::1]:8080": false, "[fe80::1%25eth0]": false,
		"[::ffff:169.254.169.254]": false, "0.0.0.0:9000": false,
		"127.0.0.1:9000": false, "127.8.8.8": false, "[::1]:9000": false, "localhost:9000": false,
		"s3.amazonaws.com": true, "192.0.2.1:9000": true, "169.253.169.254": true, "[fd00:ec2::255]": true,
	}
	if name, err := os.Hostname(); err == nil {
		hosts[name] = false
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if ip := a.(*net.IPNet).IP; ip.To4() != nil {
			hosts[net.JoinHostPort(ip.String(), "9090")] = false
		}
	}
	for host, proxied := range hosts {
		r, err := http.NewRequest(http.MethodGet, "http://"+host+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if u, err := direct.Proxy(r); err != nil || (u != nil) != proxied {
			t.Errorf("%s: %v, %v", host, u, err)
		}
	}
}
