//go:build linux && !race

package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"example.com/marketdata/edge/rows"
	"example.com/marketdata/internal/test/must"
	"golang.org/x/sys/unix"
)

const (
	// If longCrowd is "1", each address has a thousand connections, which are opened again after they are
	// closed. The test then takes a few minutes.
	longCrowd = "TEST_LONG"
	// crowdJob makes the test binary run as a crowd.
	crowdJob = "SERVER_TEST_CROWD"
)

// crowd describes many connections from one process that send something and read nothing.
type crowd struct {
	Server           string
	First, Addresses int // the client addresses, in 127.1.0.0/16
	Each             int // connections per address
	Send             string
	Again            bool // reopen connections that the server closes
}

func init() {
	text := os.Getenv(crowdJob)
	if text == "" {
		return
	}
	var job crowd
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	job.run()
	os.Exit(0)
}

func (j *crowd) run() {
	conns := make([]net.Conn, j.Addresses*j.Each)
	connect := func(i int) {
		address := net.IPv4(127, 1, byte((j.First+i/j.Each)/250), byte((j.First+i/j.Each)%250+1))
		d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: address}, Control: receives(4 << 10)}
		c, err := d.Dial("tcp", j.Server)
		if err != nil {
			return
		}
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(c, j.Send)
		conns[i] = c
	}
	for i := range conns {
		connect(i)
	}
	fmt.Println("ready")
	for j.Again {
		time.Sleep(time.Second)
		for i, c := range conns {
			if c == nil || gone(c) {
				if c != nil {
					c.Close()
				}
				connect(i)
			}
		}
	}
	select {} // until the process is killed
}

// receives returns a dialer's Control function that bounds the socket's receive buffer.
func receives(bytes int) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		set := func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, bytes) }
		return errors.Join(c.Control(set), err)
	}
}

// gone reports whether the server has closed a connection, without reading from it.
func gone(c net.Conn) bool {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		closed = err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return closed || err != nil
}

// start runs the job in processes with at most perProgram connections each, until stop is called.
func (j crowd) start(t *testing.T) (stop func()) {
	t.Helper()
	const perProgram = 12_000
	exe := must.Get(os.Executable())(t)
	var all []*exec.Cmd
	stop = sync.OnceFunc(func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	t.Cleanup(stop)
	var ready []*bufio.Reader
	for end := j.First + j.Addresses; j.First < end; j.First += j.Addresses {
		j.Addresses = min(end-j.First, max(1, perProgram/j.Each))
		text := must.Get(json.Marshal(j))(t)
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), crowdJob+"="+string(text))
		cmd.Stderr = os.Stderr
		out := must.Get(cmd.StdoutPipe())(t)
		must.OK(t, cmd.Start())
		all, ready = append(all, cmd), append(ready, bufio.NewReader(out))
	}
	for _, r := range ready {
		if line, err := r.ReadString('\n'); line != "ready\n" {
			t.Fatalf("a crowd says %q, %v", line, err)
		}
	}
	return stop
}

const largeAnswer = assets + "?page=4"

// crowdServer answers page 4 with a large body that is composed for the request, and /docs with a file of 1
// MiB.
func crowdServer(t *testing.T, change func(*Config)) (*Server, string, string) {
	keys, text := newKeys(t, 1_000_000, 1_000_000)
	s, addr := start(t, func(cfg *Config) {
		cfg.Keys = keys
		cfg.Static = map[string]StaticFile{"/docs": {Body: make([]byte, 1<<20), ContentType: "text/html"}}
		cfg.Answer = func(r *Request) error {
			if r.Asked.Query.Page != 4 {
				return stub(r)
			}
			r.Asked.Buffers.Body()
			r.Asked.Reply.Body = r.Asked.Buffers.LargeBody()[:rows.LargeSize]
			return nil
		}
		change(cfg)
	})
	return s, addr, "X-Api-Key: " + text
}

// innocent is a client that is not part of the crowd.
type innocent struct {
	address string
	server  string
	key     string
	pause   time.Duration // between two segments of a request, or two reads of a large answer
}

func (c *innocent) exchange(send func(net.Conn) error, read io.Writer) error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.address)}, Control: receives(16 << 10)}
	conn, err := d.Dial("tcp", c.server)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		return err
	}
	if err := send(conn); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 4<<10), &http.Request{Method: "GET"})
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{read}, struct{ io.Reader }{res.Body}, make([]byte, 4<<10))
	if err == nil && (res.StatusCode != 200 || n != res.ContentLength) {
		err = fmt.Errorf("%s, %d bytes of %d", res.Status, n, res.ContentLength)
	}
	return err
}

// twoSegments sends a request whose head arrives in two segments.
func (c *innocent) twoSegments() error {
	raw := request("GET", assets, c.key)
	return c.exchange(func(conn net.Conn) error {
		if _, err := io.WriteString(conn, raw[:40]); err != nil {
			return err
		}
		time.Sleep(c.pause)
		_, err := io.WriteString(conn, raw[40:])
		return err
	}, io.Discard)
}

// slowly is a Writer that waits before each Write returns.
type slowly time.Duration

func (s slowly) Write(p []byte) (int, error) { time.Sleep(time.Duration(s)); return len(p), nil }

func (c *innocent) largeAnswer() error {
	return c.exchange(func(conn net.Conn) error {
		_, err := io.WriteString(conn, request("GET", largeAnswer, c.key))
		return err
	}, slowly(c.pause))
}

// obtained calls ask n times, with atOnce concurrent calls, and returns how many of them succeed.
func obtained(t *testing.T, n, atOnce int, ask func() error) int {
	var got, next atomic.Int64
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := ask(); err == nil {
					got.Add(1)
				} else {
					t.Log(err)
				}
			}
		})
	}
	wg.Wait()
	return int(got.Load())
}

// TestCrowdTakesNothing checks that, while many addresses have as many connections as they can get, each with
// one byte, half a head or unread answers, another client gets 99 % of its answers.
func TestCrowdTakesNothing(t *testing.T) {
	job := crowd{Addresses: 10, Each: 40}
	tries, pause, change := 100, time.Millisecond, func(cfg *Config) {
		cfg.MaxConns = 200
		cfg.ReadTimeout, cfg.WriteTimeout, cfg.IdleTimeout = 2*patience, 2*patience, 2*patience
	}
	if os.Getenv(longCrowd) == "1" {
		// One process has too few descriptors for all connections of the crowd.
		job = crowd{Addresses: 50, Each: 1000, Again: true}
		tries, pause, change = 1000, 10*time.Millisecond, func(cfg *Config) { cfg.MaxConns = 16_000 }
	}
	for name, send := range map[string]string{
		"a byte":         "G",
		"half a head":    sizedHead(4 << 10)[:3<<10],
		"unread answers": strings.Repeat(request("GET", largeAnswer, "KEY"), 3),
		"unread files":   strings.Repeat(request("GET", "/docs"), 3),
	} {
		t.Run(name, func(t *testing.T) {
			s, addr, key := crowdServer(t, change)
			job.Server, job.Send = addr, strings.ReplaceAll(send, "KEY", key)
			before := socketPages(t)
			defer job.start(t)()
			until(t, func() bool {
				open := s.Stats().Open
				if open > s.cfg.MaxConns+maxClosing {
					t.Fatalf("%d connections of at most %d", open, s.cfg.MaxConns)
				}
				return open >= s.cfg.MaxConns*7/8
			})
			victim := &innocent{"127.0.2.1", addr, key, pause}
			got := obtained(t, tries, 2, victim.twoSegments)
			t.Logf("%d of %d answers to heads in two segments; %+v", got, tries, s.Stats())
			if got < tries*99/100 {
				t.Errorf("%d of %d answers to heads in two segments", got, tries)
			}
			if got := obtained(t, 40, 2, victim.largeAnswer); got < 40 {
				t.Errorf("%d of 40 large answers", got)
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			t.Logf("%+v; the process has %d MiB, sockets %d MiB", s.Stats(), (m.Sys-m.HeapReleased)>>20,
				(socketPages(t)-before)*int64(os.Getpagesize())>>20)
		})
	}
}

// maxClosing bounds the connections that were displaced, but are not closed yet.
const maxClosing = 64

// socketPages returns the number of pages that the kernel uses for all TCP sockets of the machine.
func socketPages(t *testing.T) (pages int64) {
	text := must.Get(os.ReadFile("/proc/net/sockstat"))(t)
	for line := range strings.Lines(string(text)) {
		if _, mem, ok := strings.Cut(line, " mem "); ok && strings.HasPrefix(line, "TCP:") {
			must.Get(fmt.Sscan(mem, &pages))(t)
		}
	}
	return pages
}
