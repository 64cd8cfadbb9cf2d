package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"example.com/marketdata/artifacts"
	haproxyfiles "example.com/marketdata/deploy/haproxy"
	"example.com/marketdata/internal/test/local"
	"example.com/marketdata/internal/test/testserver"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

var errNoHAProxy = errors.New("haproxy is not on the path: apt-get install haproxy")

// keyRate is both the rate and the burst of the API key. It is more than one machine can send.
const keyRate = "1000000"

// config is the configuration of a stack.
type config struct {
	bin, data string
	source    string
	// newest is the time of the newest snapshot. If the store has no snapshot, it gets one for each
	// of the ages, counted back from that time.
	newest   time.Time
	ages     []time.Duration
	balanced bool // whether HAProxy runs in front
	nice     bool // whether the project's programs run at a lower priority
	signed   bool // whether the store is signed; every build then also writes files
}

// stack is the running service. The Machine has the builder's credentials.
type stack struct {
	*local.Machine
	reader  local.Machine // with credentials that only permit reading
	minio   *testserver.Server
	key     string            // API key
	sign    artifacts.SignKey // of a signed store
	edges   [2]*edge
	haproxy *local.Program // nil if it does not run
	listen  string         // HAProxy's address for clients; empty means port 8443 or a free port
	names   []string       // names in HAProxy's certificate, in addition to those of this machine
	stats   string         // address of HAProxy's statistics
	source  string
	newest  time.Time
	// activate is how long after its publication edges make a snapshot current. Zero means the
	// builder's default.
	activate time.Duration
}

// edge is one of the edges. Its Program is replaced when the edge is started again.
type edge struct {
	*local.Program
	machine       *local.Machine
	name          string
	listen, admin string
	args          []string
}

// start starts everything and returns when it is ready. If it fails, it stops everything that it
// has started.
func start(ctx context.Context, c config) (_ *stack, err error) {
	program := ""
	if c.balanced {
		if program, err = exec.LookPath("haproxy"); err != nil {
			return nil, errNoHAProxy
		}
	}
	s := &stack{Machine: &local.Machine{Bin: c.bin, Data: c.data}, source: c.source, newest: c.newest}
	if c.nice {
		s.Under = []string{"nice", "-n", "19"}
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.minio, err = s.StartS3(ctx, testserver.KindMinIO); err != nil {
		return nil, err
	}
	if c.signed {
		if s.sign, err = s.Sign(); err != nil {
			return nil, err
		}
		s.Env = append(s.Env, "BUILDER_FILES=build")
	}
	if err := s.BuildPast(ctx, c.source, c.newest, c.ages); err != nil {
		return nil, err
	}
	if s.key, err = s.Key(ctx, filepath.Join(c.data, "key"), "--rate", keyRate, "--burst", keyRate); err != nil {
		return nil, err
	}
	s.reader = *s.Machine
	if s.reader.Env, err = readOnly(s.minio); err != nil {
		return nil, err
	}
	if c.signed {
		s.reader.Env = append(s.reader.Env, "EDGE_TRUST_KEY="+s.sign.Trust().Text())
	}
	for i := range s.edges {
		e := &edge{machine: &s.reader, name: fmt.Sprintf("edge%d", i+1)}
		e.listen, e.admin = local.Free(fmt.Sprintf("127.0.0.1:%d", 8081+i)),
			local.Free(fmt.Sprintf("127.0.0.1:%d", 9091+i))
		e.args = []string{"--store", s.Store, "--listen", e.listen, "--admin", e.admin, "--cache-dir",
			filepath.Join(c.data, e.name), "--drain-wait", "2s"}
		if c.balanced {
			e.args = append(e.args, "--proxy-protocol", "127.0.0.1/32")
		}
		if err := e.start(ctx); err != nil {
			return nil, err
		}
		s.edges[i] = e
	}
	if !c.balanced {
		return s, nil
	}
	return s, s.balance(ctx, program, haproxyfiles.Config)
}

// start starts the edge and returns when it is ready.
func (e *edge) start(ctx context.Context) error {
	p, err := e.machine.Start(e.name, "edge", e.args...)
	if err != nil {
		return err
	}
	if err := local.Await(ctx, "http://"+e.admin+"/readyz", p); err != nil {
		p.Stop()
		return err
	}
	e.Program = p
	return nil
}

// balance starts HAProxy with the given configuration.
func (s *stack) balance(ctx context.Context, program string, config []byte) error {
	file := filepath.Join(s.Data, "haproxy.cfg")
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return err
	}
	pem, err := makeCertificate(s.Data, s.names...)
	if err != nil {
		return err
	}
	if s.listen == "" {
		s.listen = local.Free("127.0.0.1:8443")
	}
	s.stats = local.Free("127.0.0.1:8404")
	cmd := exec.Command(program, "-db", "-f", file)
	cmd.Env = append(os.Environ(), "LISTEN="+s.listen, "STATS="+s.stats, "CERT="+pem)
	for i, e := range s.edges {
		_, port, err := net.SplitHostPort(e.admin)
		if err != nil {
			return err
		}
		cmd.Env = append(
			cmd.Env, fmt.Sprintf("EDGE%d=%s", i+1, e.listen), fmt.Sprintf("EDGE%d_ADMIN_PORT=%s", i+1, port))
	}
	p, err := s.StartCommand("haproxy", cmd)
	if err != nil {
		return err
	}
	s.haproxy = p
	return local.Await(ctx, "http://"+s.stats+"/metrics", p)
}

// stop stops everything. The store is last, because the others use it.
func (s *stack) stop() {
	if s.haproxy != nil {
		s.haproxy.Kill() // It no longer has clients.
	}
	var edges sync.WaitGroup
	for _, e := range s.edges {
		if e != nil {
			edges.Go(e.Stop)
		}
	}
	edges.Wait()
	if s.minio != nil {
		_ = s.minio.Close() // Errors do not matter, because the whole folder is removed later.
	}
}

// readPolicy lets edges read and list the objects in the bucket. Without the permission to list,
// the server would answer 403 for a missing object.
const readPolicy = `{"Version":"2012-10-17","Statement":[
{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::` + testserver.Bucket + `/*"},
{"Effect":"Allow","Action":"s3:ListBucket","Resource":"arn:aws:s3:::` + testserver.Bucket + `"}]}`

// readOnly returns the environment of programs that may only read the store. The credentials are
// valid for a week, which is the most that MinIO allows.
func readOnly(server *testserver.Server) ([]string, error) {
	v, err := temporary(server, readPolicy)
	if err != nil {
		return nil, fmt.Errorf("read-only credentials: %w", err)
	}
	return []string{"AWS_ACCESS_KEY_ID=" + v.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + v.SecretAccessKey,
		"AWS_SESSION_TOKEN=" + v.SessionToken}, nil
}

// temporary returns credentials that are valid for a week, restricted by policy unless it is empty.
func temporary(server *testserver.Server, policy string) (credentials.Value, error) {
	c, err := credentials.NewSTSAssumeRole(server.Endpoint, credentials.STSAssumeRoleOptions{
		AccessKey: server.AccessKey, SecretKey: server.SecretKey, Policy: policy, DurationSeconds: 7 * 24 * 3600,
		Location: testserver.Region,
	})
	if err != nil {
		return credentials.Value{}, err
	}
	return c.GetWithContext(&credentials.CredContext{Client: http.DefaultClient})
}

// publish publishes the snapshot of the next ten-minute mark.
func (s *stack) publish(ctx context.Context) error {
	s.newest = s.newest.Add(10 * time.Minute)
	args := []string{"build", "--source", s.source, "--store", s.Store, "--log-level", "warn", "--allow", "ahead",
		"--time", s.newest.UTC().Format(time.RFC3339)}
	if s.activate > 0 {
		args = append(args, "--activate-after", s.activate.String())
	}
	_, err := s.Output(ctx, "builder", args...)
	return err
}

// counters holds counters that HAProxy has kept since its start.
type counters struct {
	answered int // requests
	retried  int // number of retries, on the same edge or another one
	up       int // number of edges that HAProxy considers ready
}

// counters reads the counters from HAProxy.
func (s *stack) counters(ctx context.Context) (counters, error) {
	text, err := local.Get(ctx, "http://"+s.stats+"/;csv")
	if err != nil {
		return counters{}, err
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) == 0 {
		return counters{}, fmt.Errorf("HAProxy's figures: %d rows, %w", len(rows), err)
	}
	var c counters
	for _, row := range rows[1:] {
		field := map[string]string{}
		for i, name := range rows[0] {
			field[name] = row[i]
		}
		switch {
		case field["# pxname"] != "edges":
		case field["svname"] == "BACKEND":
			for name, sum := range map[string]*int{"req_tot": &c.answered, "wretr": &c.retried, "wredis": &c.retried} {
				n, err := strconv.Atoi(field[name])
				if err != nil {
					return counters{}, fmt.Errorf("HAProxy's figures: %s: %w", name, err)
				}
				*sum += n
			}
		case field["status"] == "UP":
			c.up++
		}
	}
	return c, nil
}
