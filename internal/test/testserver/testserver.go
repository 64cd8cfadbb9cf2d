// Package testserver starts real S3 servers for tests and for trying out the project: [KindMinIO]
// and, as a second implementation that shares no code with it, [KindVersitygw]. A server listens on
// a port of 127.0.0.1, keeps its data in a folder, and has random credentials and one empty bucket.
//
// The programs are built from their Go modules when they are first needed, into
// $MARKETDATA_TEST_BIN or the user's cache folder, and reused from then on; see [Program].
//
// Tests call [MinIO] and [Versitygw]. [Start] does not depend on tests.
package testserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/internal/test/process"
)

// Bucket is the name of every server's bucket.
const Bucket = "marketdata"

// Region is the region that every server reports.
const Region = "us-east-1"

// Folders in the server's folder.
const (
	dataFolder     = "data"
	accountsFolder = "accounts" // of versitygw
)

// startTimeout is how long a server may take to answer for the first time. pollEvery is the
// interval between attempts.
const (
	startTimeout = time.Minute
	pollEvery    = 50 * time.Millisecond
)

// Options are options for Start. The zero value is right for a server of one test.
type Options struct {
	// Dir is the folder for the server's data, which is kept after Close. If it is empty, the
	// server uses a temporary folder, which Close removes.
	Dir string
	// Port is a port of 127.0.0.1. Zero means a free one, which stays the same when the server is
	// restarted.
	Port int
	// AccessKey and SecretKey are the server's credentials. They are random if empty.
	AccessKey, SecretKey string
	// Log, if not nil, receives the server's output.
	Log io.Writer
}

// Server is one S3 server. Its methods are safe for concurrent use.
type Server struct {
	Kind                 Kind
	Endpoint             string // http://127.0.0.1:port
	AccessKey, SecretKey string

	program string
	dir     string
	ownDir  bool // whether Close removes dir
	port    int
	log     io.Writer

	mu      sync.Mutex
	process *process.Process // nil while stopped
}

// Start starts a server and waits until its bucket is usable. The server keeps running after ctx
// ends; Close stops it.
func Start(ctx context.Context, kind Kind, o Options) (*Server, error) {
	program, err := Program(ctx, kind)
	if err != nil {
		return nil, err
	}
	s := &Server{Kind: kind, AccessKey: o.AccessKey, SecretKey: o.SecretKey, program: program, dir: o.Dir, log: o.Log}
	if s.AccessKey == "" {
		s.AccessKey = "test" + rand.Text()[:12]
	}
	if s.SecretKey == "" {
		s.SecretKey = rand.Text()
	}
	if s.log == nil {
		s.log = io.Discard
	}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "marketdata-"+kind.String()+"-"); err != nil {
			return nil, err
		}
		s.ownDir = true
	}
	for _, folder := range []string{dataFolder, accountsFolder} {
		if err := os.MkdirAll(filepath.Join(s.dir, folder), 0o755); err != nil {
			return nil, err
		}
	}
	// A port that is free now may be taken a moment later.
	for range 3 {
		if s.port = o.Port; s.port == 0 {
			if s.port, err = freePort(); err != nil {
				break
			}
		}
		s.Endpoint = "http://127.0.0.1:" + strconv.Itoa(s.port)
		if err = s.Start(ctx); err == nil || o.Port != 0 || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Run starts a server on the given port. Its data are in dir, which may contain data from earlier
// runs. It uses the well-known default credentials of MinIO.
func Run(ctx context.Context, kind Kind, dir string, port int) (*Server, error) {
	return Start(ctx, kind, Options{Dir: dir, Port: port, AccessKey: "minioadmin", SecretKey: "minioadmin"})
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// URL returns the URL of the part of the bucket below prefix, in the form that package stores reads.
func (s *Server) URL(prefix string) string {
	return fmt.Sprintf("s3://%s/%s?endpoint=%s&region=%s", Bucket, prefix, s.Endpoint, Region)
}

// Env returns the environment variables, in the form NAME=value, that let a process use the server.
func (s *Server) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s.AccessKey, "AWS_SECRET_ACCESS_KEY=" + s.SecretKey, "AWS_SESSION_TOKEN="}
}

// Options returns the options that let this process use the server.
func (s *Server) Options() s3store.Options {
	return s3store.Options{Credentials: &s3store.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey}}
}

// Start restarts a stopped server on the same port with the same data, and waits until it answers.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return fmt.Errorf("%s is running", s.Kind)
	}
	p, err := process.Start(s.command())
	if err != nil {
		return fmt.Errorf("start %s: %w", s.Kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.await(ctx, p); err != nil {
		p.Kill()
		return fmt.Errorf("start %s at %s: %w; it printed: %s", s.Kind, s.Endpoint, err, p.Tail())
	}
	s.process = p
	return nil
}

// await waits until the bucket exists.
func (s *Server) await(ctx context.Context, p *process.Process) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := s3store.CreateBucket(ctx, s.URL(""), s.Options())
		if err == nil {
			return nil
		}
		select {
		case <-p.Exited():
			return fmt.Errorf("it ended: %w", p.Err())
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

func (s *Server) command() *exec.Cmd {
	listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	data := filepath.Join(s.dir, dataFolder)
	var cmd *exec.Cmd
	switch s.Kind {
	case KindMinIO:
		cmd = exec.Command(
			s.program, "server", "--quiet", "--address", listen, "--certs-dir", filepath.Join(s.dir, "certs"), data)
		cmd.Env = []string{
			"MINIO_ROOT_USER=" + s.AccessKey, "MINIO_ROOT_PASSWORD=" + s.SecretKey, "MINIO_REGION=" + Region,
			"MINIO_BROWSER=off", "MINIO_UPDATE=off", // no console, no calls home
		}
	case KindVersitygw:
		cmd = exec.Command(s.program, "--quiet", "--keep-alive", "--port", listen, "--region", Region,
			"--iam-dir", filepath.Join(s.dir, accountsFolder), "--iam-cache-disable", "posix", data)
		cmd.Env = []string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey}
	}
	// The server must not depend on any other environment variables of this process.
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"), "HOME="+s.dir, "TMPDIR="+os.TempDir())
	cmd.Dir = s.dir
	cmd.Stdout = s.log
	return cmd
}

// AddAccount adds an account to a versitygw server, so that a program can use the server with its
// own credentials.
func (s *Server) AddAccount(ctx context.Context, accessKey, secretKey string) error {
	return s.admin(ctx, "create-user", "--access", accessKey, "--secret", secretKey, "--role", "admin")
}

// DeleteAccount deletes an account.
func (s *Server) DeleteAccount(ctx context.Context, accessKey string) error {
	return s.admin(ctx, "delete-user", "--access", accessKey)
}

func (s *Server) admin(ctx context.Context, args ...string) error {
	if s.Kind != KindVersitygw {
		return fmt.Errorf("%s: no accounts", s.Kind)
	}
	cmd := exec.CommandContext(ctx, s.program, append([]string{"admin", "--access", s.AccessKey, "--secret",
		s.SecretKey, "--endpoint-url", s.Endpoint}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, out)
	}
	return nil
}

// Stop kills the server and keeps its data. It does nothing if the server is not running.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Kill()
		s.process = nil
	}
}

// Close stops the server permanently and removes its data, unless they are in a folder that the
// caller chose.
func (s *Server) Close() error {
	s.Stop()
	if !s.ownDir {
		return nil
	}
	return os.RemoveAll(s.dir)
}
