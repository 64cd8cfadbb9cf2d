package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a process that answers on addr.
type server struct {
	name string
	addr string
	cmd  *exec.Cmd
	// worker finds the process whose CPU time counts; nginx's is a child.
	worker int
}

// start starts a server pinned to the server's core and waits until it listens.
func (b *bench) start(ctx context.Context, name, addr string, env []string, args ...string) (*server, error) {
	log, err := os.Create(filepath.Join(b.work, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", strconv.Itoa(b.Server)}, args...)...)
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1"), env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{name: name, addr: addr, cmd: cmd, worker: cmd.Process.Pid}
	b.servers = append(b.servers, s)
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = conn.Close()
			return s, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, fmt.Errorf("%s does not listen on %s; its log is %s", name, addr, log.Name())
		}
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	done := make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-done
	}
}

func (b *bench) stopAll() {
	for _, s := range b.servers {
		s.stop()
	}
	b.servers = nil
}

// end stops one server.
func (b *bench) end(s *server) {
	s.stop()
	b.servers = slices.DeleteFunc(b.servers, func(other *server) bool { return other == s })
}

// nginx starts an nginx with one worker that sends the body of res from a file,
// which it keeps open, with the header lines of res.
func (b *bench) nginx(ctx context.Context, res *response, options string) (*server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.work, "nginx")
	if err := os.MkdirAll(filepath.Join(dir, "www"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "www", "answer"), res.body, 0o644); err != nil {
		return nil, err
	}
	var headers strings.Builder
	for _, h := range res.headers {
		switch h[0] {
		case "Date", "Content-Length", "Content-Type", "Connection", "ETag", "Last-Modified":
			// nginx has its own of each, of about the same length.
		default:
			fmt.Fprintf(&headers, "      add_header %s '%s';\n", h[0], h[1])
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
    root %[1]s/www;
    location = /openapi/v1/quotes {
      default_type application/json;
%[3]s      try_files /answer =404;
    }
  }
}
`, dir, addr, headers.String(), options)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		conf = "user root;\n" + conf
		if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
			return nil, err
		}
	}
	s, err := b.start(ctx, "nginx", addr, nil, "nginx", "-c", file)
	if err != nil {
		return nil, err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.worker, s.worker))
	if err != nil || len(bytes.Fields(children)) == 0 {
		return nil, fmt.Errorf("nginx has no worker: %v", err)
	}
	s.worker, err = strconv.Atoi(string(bytes.Fields(children)[0]))
	return s, err
}

// tick is the unit of /proc/PID/stat; it is 10 ms wherever Go runs on Linux.
const tick = 10 * time.Millisecond

// cpu returns the CPU time that a process has used, user and system, threads
// that have ended included.
func cpu(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	var sum time.Duration
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// rss returns the anonymous and shared resident memory of a process, in bytes.
func rss(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	var sum int64
	for line := range strings.SplitSeq(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) >= 2 && (f[0] == "RssAnon:" || f[0] == "RssShmem:") {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, err
			}
			sum += n << 10
		}
	}
	return sum, nil
}

// response is a captured answer.
type response struct {
	raw     []byte
	headers [][2]string
	body    []byte
}

// capture asks once and keeps the very bytes of the answer.
func capture(addr, path string, headers map[string]string) (*response, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // a test connection has deadlines
	req := "GET " + path + " HTTP/1.1\r\nHost: " + addr + "\r\n"
	for k, v := range headers {
		req += k + ": " + v + "\r\n"
	}
	if _, err := io.WriteString(conn, req+"\r\n"); err != nil {
		return nil, err
	}
	var raw bytes.Buffer
	br := bufio.NewReader(io.TeeReader(conn, &raw))
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	r := &response{raw: raw.Bytes(), body: body}
	head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
	for i, line := range strings.Split(head, "\r\n") {
		if k, v, ok := strings.Cut(line, ": "); ok && i > 0 {
			r.headers = append(r.headers, [2]string{k, v})
		}
	}
	if res.StatusCode != 200 && res.StatusCode != 304 {
		return nil, fmt.Errorf("%s: status %d: %s", path, res.StatusCode, body)
	}
	return r, nil
}

// header returns a header of the answer.
func (r *response) header(name string) string {
	for _, h := range r.headers {
		if strings.EqualFold(h[0], name) {
			return h[1]
		}
	}
	return ""
}

func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// coreTimes is what the machine's cores did since it started, in ticks.
type coreTimes struct{ all, stolen uint64 }

// cpuTimes reads the first line of /proc/stat: user, nice, system, idle, iowait,
// irq, softirq, steal.
func cpuTimes() (t coreTimes, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return t, fmt.Errorf("/proc/stat: %q", line)
	}
	for i, field := range fields[1:9] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return t, fmt.Errorf("/proc/stat: %w", err)
		}
		t.all += n
		if i == 7 {
			t.stolen = n
		}
	}
	return t, nil
}

// stolenSince returns which part of all cores' time the hypervisor gave to others.
func (t coreTimes) stolenSince(before coreTimes) float64 {
	if t.all == before.all {
		return 0
	}
	return float64(t.stolen-before.stolen) / float64(t.all-before.all)
}
