package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/marketdata/internal/test/local"
	"golang.org/x/sys/unix"
)

// server is a program that answers on addr.
type server struct {
	*local.Program
	addr string
	// worker is the process whose CPU time counts. For nginx, it is a child of the started process.
	worker int
}

// on returns a Machine that runs programs on the given cores.
func (b *bench) on(env []string, cores ...int) *local.Machine {
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(cores), " ", ","), "[]")
	return &local.Machine{Bin: b.Bin, Data: b.work, Env: env, Under: []string{"taskset", "-c", list}}
}

// start starts a server pinned to the server's core and waits until it listens.
func (b *bench) start(ctx context.Context, addr, program string, args ...string) (*server, error) {
	name := fmt.Sprintf("%s-%d", filepath.Base(program), len(b.servers))
	p, err := b.on([]string{"GOMAXPROCS=1"}, b.Server).Start(name, program, args...)
	if err != nil {
		return nil, err
	}
	s := &server{p, addr, p.Pid()}
	b.servers = append(b.servers, s)
	return s, local.AwaitListener(ctx, addr, p)
}

// stop stops the given servers, or all servers if none is given.
func (b *bench) stop(which ...*server) {
	b.servers = slices.DeleteFunc(b.servers, func(s *server) bool {
		stop := len(which) == 0 || slices.Contains(which, s)
		if stop {
			s.Stop()
		}
		return stop
	})
}

// builder runs the builder on both cores and returns its output.
func (b *bench) builder(ctx context.Context, env []string, args ...string) ([]byte, error) {
	return b.on(env, b.Server, b.Client).Output(ctx, "builder", args...)
}

// nginx starts an nginx with one worker that sends the body of res from a file,
// which it keeps open, with the header lines of res.
func (b *bench) nginx(ctx context.Context, res *response, options string) (*server, error) {
	addr := local.Free("127.0.0.1:0")
	program, err := exec.LookPath("nginx")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.work, "nginx-")
	if err != nil {
		return nil, err
	}
	var headers strings.Builder
	for name := range res.Header {
		switch name {
		case "Date", "Content-Length", "Content-Type", "Connection", "Etag", "Last-Modified":
			// nginx sends its own values of these, which have about the same length.
		default:
			fmt.Fprintf(&headers, "      add_header %s '%s';\n", name, res.Header.Get(name))
		}
	}
	conf := fmt.Sprintf(`daemon off;
worker_processes 1;
pid %[1]s/pid;
error_log %[1]s/error.log;
events { worker_connections 1024; }
http {
  access_log off;
  server_tokens off;
  keepalive_requests 1000000000;
  %[4]s
  open_file_cache max=16;
  open_file_cache_valid 60s;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  server {
    listen %[2]s;
    root %[1]s;
    location = %[5]s {
      default_type application/json;
%[3]s      try_files /answer =404;
    }
  }
}
`, dir, addr, headers.String(), options, quotes)
	if os.Getuid() == 0 {
		conf = "user root;\n" + conf
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "answer"), res.body, 0o644),
		os.WriteFile(file, []byte(conf), 0o644)); err != nil {
		return nil, err
	}
	s, err := b.start(ctx, addr, program, "-c", file)
	if err != nil {
		return nil, err
	}
	// nginx listens before its worker runs.
	for master := s.worker; s.worker == master; time.Sleep(5 * time.Millisecond) {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", master, master))
		if err != nil || ctx.Err() != nil {
			return nil, fmt.Errorf("nginx has no worker: %w: %s", cmp.Or(err, ctx.Err()), s.Tail())
		}
		if fields := bytes.Fields(children); len(fields) > 0 {
			if s.worker, err = strconv.Atoi(string(fields[0])); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// cpu returns the CPU time that a process has used, user and system, including threads that have ended.
func cpu(pid int) (time.Duration, error) {
	// Compose the id of the process's CPU clock as clock_getcpuclockid(3) does. /proc would only count ticks
	// of 10 ms.
	const scheduled = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &t); err != nil {
		return 0, fmt.Errorf("read the clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// rss returns the anonymous and shared resident memory of a process, in bytes.
func rss(pid int) (sum int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && (f[0] == "RssAnon:" || f[0] == "RssShmem:") {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, err
			}
			sum += n << 10
		}
	}
	return sum, nil
}

// response is an answer, and its bytes.
type response struct {
	*http.Response
	raw, body []byte
}

// httpClient requests answers without a content coding, each on a new connection.
var httpClient = &http.Client{
	Timeout: 20 * time.Second, Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}

// capture sends one request and returns the answer.
func capture(addr, path string, headers map[string]string) (*response, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, err
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	res, err := httpClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	res.Close = false // Bare fasthttp sends this answer on connections that stay open.
	raw, err := httputil.DumpResponse(res, true)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotModified {
		err = fmt.Errorf("%s: status %d: %s", path, res.StatusCode, body)
	}
	return &response{res, raw, body}, err
}
