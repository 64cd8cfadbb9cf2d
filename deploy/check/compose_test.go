package check

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// project returns compose.yaml as Compose reads it, with an empty environment.
func project(t *testing.T) *types.Project {
	t.Helper()
	p, err := compose(t, nil, "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func compose(t *testing.T, environment types.Mapping, files ...string) (*types.Project, error) {
	t.Helper()
	details := types.ConfigDetails{WorkingDir: deploy, Environment: environment}
	for _, file := range files {
		details.ConfigFiles = append(details.ConfigFiles, types.ConfigFile{Filename: filepath.Join(deploy, file)})
	}
	return loader.LoadWithContext(t.Context(), details, func(o *loader.Options) { o.ResolvePaths = true })
}

// TestFeedOfYourOwn checks that compose.feed.yaml mounts the folder that FEED names as read-only,
// and that Compose rejects it if FEED is not set.
func TestFeedOfYourOwn(t *testing.T) {
	if _, err := compose(t, types.Mapping{}, "compose.yaml", "compose.feed.yaml"); err == nil ||
		!strings.Contains(err.Error(), "the folder of your feed") {
		t.Errorf("without FEED: %v", err)
	}
	p, err := compose(t, types.Mapping{"FEED": "/srv/market"}, "compose.yaml", "compose.feed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := p.Services["builder"]
	at := slices.IndexFunc(b.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Source == "/srv/market" })
	if source := b.Environment.ToMapping()["BUILDER_SOURCE"]; source != "csv:/feed" || at < 0 ||
		!b.Volumes[at].ReadOnly || b.Volumes[at].Target != "/feed" {
		t.Errorf("source %s, volumes %v", source, b.Volumes)
	}
}

func composeProcesses(t *testing.T) (all []process) {
	for name, s := range project(t).Services {
		if s.Build == nil {
			continue
		}
		p := process{where: "compose.yaml: " + name, args: s.Command, env: s.Environment.ToMapping()}
		for _, v := range s.Volumes {
			p.writable = append(p.writable, v.Target)
		}
		if s.StopGracePeriod != nil {
			p.grace = time.Duration(*s.StopGracePeriod)
		}
		all = append(all, p)
	}
	return all
}

// TestCompose: everything that is built or mounted exists, ports are reachable only from this
// machine, and something listens at every address that a configuration names.
func TestCompose(t *testing.T) {
	p := project(t)
	// These are the ports on which third-party images listen.
	listens := map[string][]string{"store": {"7070"}, "prometheus": {"9090"}, "grafana": {"3000"}}
	for _, process := range composeProcesses(t) {
		_, name, _ := strings.Cut(process.where, ": ")
		listens[name] = process.listens(t)
	}
	haproxy := p.Services["haproxy"].Environment.ToMapping()
	for _, value := range haproxy {
		if host, port, err := net.SplitHostPort(value); err == nil && host == "" {
			listens["haproxy"] = append(listens["haproxy"], port)
		}
	}
	var published []string
	for name, s := range p.Services {
		if h := s.HealthCheck; h != nil && slices.Contains(programs, h.Test[1]) {
			process{where: "compose.yaml: health of " + name, args: h.Test[1:],
				env: s.Environment.ToMapping()}.checkCommand(t)
		}
		if s.Build != nil {
			if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Error(err)
			}
		}
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); v.Type == "bind" && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, port := range s.Ports {
			published = append(published, port.Published)
			if port.HostIP != "127.0.0.1" || !slices.Contains(listens[name], fmt.Sprint(port.Target)) {
				t.Errorf("%s: port %d is published on %q, listened on are %v", name, port.Target, port.HostIP,
					listens[name])
			}
		}
	}
	dashboards := regexp.MustCompile(`path: (\S+)`).
		FindStringSubmatch(read(t, deploy, "grafana/provisioning/dashboards/marketdata.yaml"))
	if !slices.ContainsFunc(
		p.Services["grafana"].Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == dashboards[1] }) {
		t.Errorf("no dashboards are mounted at %s", dashboards[1])
	}
	listens["localhost"] = published
	check := func(where, host, port string) {
		if !slices.Contains(listens[host], port) {
			t.Errorf("%s: %s:%s, where %v are listened on", where, host, port, listens[host])
		}
	}
	address := regexp.MustCompile(`(?:^|[\s'"/])([a-z][a-z0-9]*):(\d{4,5})\b`)
	for _, file := range []string{
		"compose.yaml", "prometheus/prometheus.yml", "grafana/provisioning/datasources/prometheus.yaml"} {
		for _, m := range address.FindAllStringSubmatch(read(t, deploy, file), -1) {
			check(file, m[1], m[2])
		}
	}
	for name, port := range haproxy {
		if edge, found := strings.CutSuffix(name, "_ADMIN_PORT"); found {
			check(name, strings.ToLower(edge), port)
		}
	}
	for _, process := range composeProcesses(t) {
		if from, to := process.flag(t, "proxy-protocol"),
			p.Services["haproxy"].Networks["inside"].Ipv4Address+"/32"; process.args[0] == "edge" && from != to {
			t.Errorf("%s: believes %s, HAProxy is %s", process.where, from, to)
		}
	}
}

// TestHAProxy: HAProxy accepts its configuration in the environment of compose.yaml, with the
// certificate that the script in compose.yaml creates. The scripts are valid shell scripts.
func TestHAProxy(t *testing.T) {
	p := project(t)
	dir := t.TempDir()
	here := strings.NewReplacer("/tls/", dir+"/", "chown 99:99", "test -f") // only root may give a file away
	for name, s := range p.Services {
		for _, line := range s.Command {
			if name == "certificate" {
				tool(t, nil, "sh", "-euc", here.Replace(line))
			} else if strings.Contains(line, "\n") {
				tool(t, nil, "sh", "-n", "-c", line)
			}
		}
	}
	s := p.Services["haproxy"]
	var env []string
	for name, value := range s.Environment.ToMapping() {
		// Names of edges are valid only in Compose's network.
		env = append(env, name+"="+regexp.MustCompile(`^edge\d`).ReplaceAllString(here.Replace(value), "127.0.0.1"))
	}
	i := slices.IndexFunc(
		s.Volumes, func(v types.ServiceVolumeConfig) bool { return strings.HasSuffix(v.Target, "/haproxy.cfg") })
	if out := tool(t, env, "haproxy", "-c", "-f", s.Volumes[i].Source); strings.Contains(out, "WARNING") {
		t.Error(out)
	}
}

// TestImages: every image states its release.
func TestImages(t *testing.T) {
	found := 0
	for _, m := range regexp.MustCompile(`(?m)^ *image: *(?:&\S+ )?([^*\s]\S+)$`).
		FindAllStringSubmatch(read(t, deploy, "compose.yaml"), -1) {
		_, tag, _ := strings.Cut(m[1], ":")
		if found++; tag == "" || tag == "latest" {
			t.Errorf("%s: no release", m[1])
		}
	}
	if found == 0 {
		t.Error("no images")
	}
}
