package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/prometheus/common/promslog"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
)

// project is compose.yaml as Compose has it, with nothing in the environment.
func project(t *testing.T) *types.Project {
	t.Helper()
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  deploy,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(deploy, "compose.yaml"), Content: read(t, deploy, "compose.yaml")}},
		Environment: types.Mapping{},
	}, func(o *loader.Options) { o.ResolvePaths = true })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// environment is a service's.
func environment(s types.ServiceConfig) map[string]string {
	env := map[string]string{}
	for name, value := range s.Environment {
		if value != nil {
			env[name] = *value
		}
	}
	return env
}

// TestCompose: the programs take their flags, have the least rights and the time
// to drain; nothing but this machine reaches a port; everything that is mounted
// is there.
func TestCompose(t *testing.T) {
	p := project(t)
	for name, s := range p.Services {
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s on %q", name, port.Published, port.HostIP)
			}
		}
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); v.Type == "bind" && (err != nil || !v.ReadOnly) {
				t.Errorf("%s: %s: %v, read-only: %v", name, v.Source, err, v.ReadOnly)
			}
		}
		for _, line := range append(slices.Clone(s.Entrypoint), s.Command...) {
			if strings.Contains(line, "\n") { // a script
				if out, err := exec.Command("sh", "-n", "-c", line).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", name, err, out)
				}
			}
		}
		if s.Build == nil {
			continue
		}
		checkCommand(t, name, s.Command, environment(s))
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may do more than it must", name)
		}
		if user := environment(s)["AWS_ACCESS_KEY_ID"]; user != s.Command[0] {
			t.Errorf("%s is %s to the store", name, user)
		}
		if s.Command[0] != "edge" {
			continue
		}
		if drain := draining(t, s.Command); s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) <= drain {
			t.Errorf("%s: stopped after %v, drains for %v", name, s.StopGracePeriod, drain)
		}
		dir := flag(t, s.Command, "cache-dir")
		if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == dir && v.Type == "volume" }) {
			t.Errorf("%s: --cache-dir %s is no volume", name, dir)
		}
		proxy := p.Services["haproxy"].Networks["inside"].Ipv4Address
		if prefix := netip.MustParsePrefix(flag(t, s.Command, "proxy-protocol")); prefix.Addr().String() != proxy || !prefix.IsSingleIP() {
			t.Errorf("%s: believes %s, HAProxy is %s", name, prefix, proxy)
		}
		if subnet := netip.MustParsePrefix(p.Networks["inside"].Ipam.Config[0].Subnet); !subnet.Contains(netip.MustParseAddr(proxy)) {
			t.Errorf("HAProxy's %s is not in %s", proxy, subnet)
		}
	}
	// The users that the set-up makes have a policy each, of the right bucket.
	setup := p.Services["store-setup"].Command[0]
	for _, user := range []string{"edge", "builder"} {
		if !strings.Contains(setup, "mc admin user add store "+user+" ") {
			t.Errorf("no user %s", user)
		}
		policy := string(read(t, deploy, "policies", user+".json"))
		if bucket := "market"; !strings.Contains(setup, "store/"+bucket+"\n") || !strings.Contains(policy, `"arn:aws:s3:::`+bucket+`/live/*"`) ||
			!strings.HasPrefix(environment(p.Services["builder"])["BUILDER_STORE"], "s3://"+bucket+"/live?") {
			t.Errorf("%s: bucket and policy are not of one store", user)
		}
	}
}

// draining is how long an edge takes to end.
func draining(t *testing.T, args []string) time.Duration {
	t.Helper()
	var sum time.Duration
	for _, name := range []string{"drain-wait", "drain-timeout"} {
		d, err := time.ParseDuration(flag(t, args, name))
		if err != nil {
			t.Fatal(err)
		}
		sum += d
	}
	return sum
}

// listens are the ports that a service of compose.yaml listens on.
func listens(t *testing.T, s types.ServiceConfig) (ports []string) {
	t.Helper()
	add := func(addr string) {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	env := environment(s)
	switch s.Name {
	case "builder":
		add(flag(t, s.Command, "metrics"))
	case "haproxy":
		add(env["LISTEN"])
		add(env["STATS"])
	case "minio":
		ports = append(ports, "9000")
	case "prometheus":
		ports = append(ports, "9090")
	default:
		add(flag(t, s.Command, "listen"))
		add(flag(t, s.Command, "admin"))
	}
	return ports
}

// TestPorts: Prometheus, HAProxy and Grafana ask where there is somebody.
func TestPorts(t *testing.T) {
	p := project(t)
	check := func(who, target string) {
		t.Helper()
		host, port, err := net.SplitHostPort(target)
		if err != nil {
			t.Fatal(err)
		}
		if host == "localhost" {
			host = who
		}
		s, ok := p.Services[host]
		if !ok {
			t.Errorf("%s asks %s: no such service", who, target)
		} else if ports := listens(t, s); !slices.Contains(ports, port) {
			t.Errorf("%s asks %s, which listens on %v", who, target, ports)
		}
	}
	for _, s := range scrapeConfigs(t, "prometheus.yml") {
		for _, d := range s.ServiceDiscoveryConfigs {
			for _, group := range d.(discovery.StaticConfig) {
				for _, target := range group.Targets {
					check("prometheus", string(target["__address__"]))
				}
			}
		}
	}
	env := environment(p.Services["haproxy"])
	for _, edge := range []string{"EDGE1", "EDGE2"} {
		check("haproxy", env[edge])
		host, _, _ := strings.Cut(env[edge], ":")
		check("haproxy", host+":"+env[edge+"_ADMIN_PORT"])
	}
	if port := p.Services["haproxy"].Ports[0]; ":"+port.Published != env["LISTEN"] {
		t.Errorf("HAProxy listens on %s, published is %s", env["LISTEN"], port.Published)
	}
}

func scrapeConfigs(t *testing.T, file string) []*promconfig.ScrapeConfig {
	t.Helper()
	cfg, err := promconfig.LoadFile(filepath.Join(deploy, "prometheus", file), false, promslog.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	return cfg.ScrapeConfigs
}

// missing skips a test without the program it needs; where none may be missing,
// as in CI, it fails.
func missing(t *testing.T, program string) {
	t.Helper()
	if os.Getenv("MARKETDATA_REQUIRE_S3") == "1" {
		t.Fatalf("%s is not installed", program)
	}
	t.Skipf("%s is not installed", program)
}

// TestHAProxy: HAProxy takes its configuration in compose.yaml's environment.
func TestHAProxy(t *testing.T) {
	haproxy, err := exec.LookPath("haproxy")
	if err != nil {
		if haproxy, err = exec.LookPath("/usr/sbin/haproxy"); err != nil {
			missing(t, "haproxy")
		}
	}
	s := project(t).Services["haproxy"]
	i := slices.IndexFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return strings.HasSuffix(v.Target, "/haproxy.cfg") })
	cmd := exec.CommandContext(t.Context(), haproxy, "-c", "-f", s.Volumes[i].Source)
	env := environment(s)
	env["CERT"] = certificate(t)
	env["EDGE1"], env["EDGE2"] = "127.0.0.1:8080", "127.0.0.2:8080" // their names are of Compose's network
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "WARNING") {
		t.Errorf("%v\n%s", err, out)
	}
}

// certificate is a PEM file with a chain of one and its key.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tls.pem")
	all := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(file, all, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCertificate: the script of compose.yaml makes a certificate for this
// machine, with its key, in the file that HAProxy reads.
func TestCertificate(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		missing(t, "openssl")
	}
	dir := t.TempDir()
	p := project(t)
	// Nobody but root may give a file away.
	script := strings.ReplaceAll(strings.ReplaceAll(p.Services["certificate"].Command[0], "/tls/", dir+"/"), "chown 99:99", "test -f")
	if out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all := read(t, dir, filepath.Base(environment(p.Services["haproxy"])["CERT"]))
	block, rest := pem.Decode(all)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := cert.VerifyHostname("localhost"); err != nil {
		t.Error(err)
	}
	if block, _ := pem.Decode(rest); block == nil || block.Type != "PRIVATE KEY" {
		t.Errorf("no key: %q", rest)
	}
}
