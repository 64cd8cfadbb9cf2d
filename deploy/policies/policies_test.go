// Package policies holds the policies of the two users of a bucket, for Amazon
// and for MinIO. Its tests hold them against what programs ask for.
package policies

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/internal/testserver"
)

type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid, Effect string
	Principal   any                          `json:",omitempty"`
	Action      any                          `json:",omitempty"` // a name, or a list
	NotAction   []string                     `json:",omitempty"`
	Resource    []string                     `json:",omitempty"`
	Condition   map[string]map[string]string `json:",omitempty"`
}

func read(t *testing.T, file string) policy {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var p policy
	if err := d.Decode(&p); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if p.Version != "2012-10-17" {
		t.Fatalf("%s: version %q", file, p.Version)
	}
	return p
}

// grants lists what the policy allows as "action resource", sorted.
func (p policy) grants(principal any) (all []string) {
	for _, s := range p.Statement {
		if s.Effect != "Allow" || s.Principal != nil && fmt.Sprint(s.Principal) != fmt.Sprint(principal) {
			continue
		}
		for _, action := range s.Action.([]any) {
			for _, r := range s.Resource {
				all = append(all, fmt.Sprint(action, " ", r))
			}
		}
	}
	slices.Sort(all)
	return all
}

// without is the policy with one action less, for the test server's bucket.
func (p policy) without(action string) string {
	q := policy{Version: p.Version}
	for _, s := range p.Statement {
		var left []any
		for _, a := range s.Action.([]any) {
			if a != action {
				left = append(left, a)
			}
		}
		if len(left) > 0 {
			s.Action = left
			q.Statement = append(q.Statement, s)
		}
	}
	b, err := json.Marshal(q)
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(b), ":::market", ":::"+testserver.Bucket)
}

// role returns credentials for what a policy allows, and nothing more.
func role(t *testing.T, server *testserver.Server, policy string) s3store.Credentials {
	t.Helper()
	c, err := credentials.NewSTSAssumeRole(server.Endpoint, credentials.STSAssumeRoleOptions{AccessKey: server.AccessKey, SecretKey: server.SecretKey, Policy: policy, Location: testserver.Region})
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.GetWithContext(&credentials.CredContext{Client: http.DefaultClient})
	if err != nil {
		t.Fatalf("%v\n%s", err, policy)
	}
	return s3store.Credentials{AccessKeyID: v.AccessKeyID, SecretAccessKey: v.SecretAccessKey, SessionToken: v.SessionToken}
}

func open(t *testing.T, server *testserver.Server, c s3store.Credentials) *s3store.Store {
	t.Helper()
	s, err := s3store.Open(server.URL("live"), s3store.Options{Credentials: &c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestActions: with its policy each side can do all that it asks of a store,
// with one action less it cannot, and edges can change nothing.
func TestActions(t *testing.T) {
	server := testserver.MinIO(t)
	ctx := t.Context()
	owner := open(t, server, s3store.Credentials{AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey})
	if _, err := owner.Swap(ctx, artifacts.CurrentKey, "", []byte("pointer")); err != nil {
		t.Fatal(err)
	}

	reads := func(s *s3store.Store) error {
		_, version, err := s.Get(ctx, artifacts.CurrentKey, 100)
		if err == nil {
			_, _, err = s.GetIf(ctx, artifacts.CurrentKey, version, 100)
		}
		if !errors.Is(err, artifacts.ErrNotModified) {
			return err
		}
		if _, _, err = s.Get(ctx, artifacts.ChangeKey, 100); !errors.Is(err, artifacts.ErrNotFound) {
			return fmt.Errorf("an object that is not there: %w", err)
		}
		return nil
	}
	for file, uses := range map[string]func(*s3store.Store) error{
		"edge.json": reads,
		"builder.json": func(s *s3store.Store) error {
			gc := func(o artifacts.Info) error { return s.Delete(ctx, o.Key) }
			return errors.Join(reads(s), s.SelfTest(ctx), s.List(ctx, artifacts.ProbePrefix, gc))
		},
	} {
		p := read(t, file)
		if err := uses(open(t, server, role(t, server, p.without("")))); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, s := range p.Statement {
			for _, action := range s.Action.([]any) {
				if file == "edge.json" && action == "s3:ListBucket" {
					continue // MinIO tells missing from forbidden all the same, Amazon does not
				}
				if err := uses(open(t, server, role(t, server, p.without(action.(string))))); err == nil {
					t.Errorf("%s: nothing needs %s", file, action)
				}
			}
		}
	}

	edge := open(t, server, role(t, server, read(t, "edge.json").without("")))
	_, version, err := edge.Get(ctx, artifacts.CurrentKey, 100)
	if err != nil {
		t.Fatal(err)
	}
	_, swapErr := edge.Swap(ctx, artifacts.CurrentKey, version, []byte("forged"))
	_, firstErr := edge.Swap(ctx, artifacts.KeysKey, "", []byte("forged"))
	for what, err := range map[string]error{
		"swap": swapErr, "first swap": firstErr, "put": edge.Put(ctx, "objects/00/1", []byte("forged")), "delete": edge.Delete(ctx, artifacts.CurrentKey),
	} {
		if err == nil || !strings.Contains(err.Error(), "Access Denied") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if b, _, err := owner.Get(ctx, artifacts.CurrentKey, 100); err != nil || string(b) != "pointer" {
		t.Errorf("the pointer is %q, %v", b, err)
	}
}

// TestPrograms: builder and edge get along with their policies.
func TestPrograms(t *testing.T) {
	server := testserver.MinIO(t)
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-ldflags=-s -w", "-o", bin+"/", "./builder/cmd/builder", "./edge/cmd/edge").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	command := func(file, program string, args ...string) *exec.Cmd {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		c := role(t, server, read(t, file).without(""))
		cmd := exec.CommandContext(ctx, filepath.Join(bin, program), append(args, "--store", server.URL("live"))...)
		cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+c.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+c.SecretAccessKey, "AWS_SESSION_TOKEN="+c.SessionToken)
		return cmd
	}
	for _, args := range []string{
		"build --source sim:?assets=60&seed=1 --time 2026-11-21T07:20:00Z",
		"build --source sim:?assets=60&seed=1 --time 2026-11-21T07:30:00Z",
		"change", "keys create --name test", "keys list", "gc", "rollback --to 2026-11-21T07:20:00Z", "verify",
	} {
		if out, err := command("builder.json", "builder", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("builder %s: %v\n%s", args, err, out)
		}
	}

	edge := command("edge.json", "edge", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--cache-dir", t.TempDir(), "--drain-wait", "0s")
	log, err := edge.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := edge.Start(); err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	missing := map[string]bool{"snapshot is current": true, "a new set is in force": true}
	for lines := bufio.NewScanner(log); len(missing) > 0 && lines.Scan(); {
		fmt.Fprintln(&seen, lines.Text())
		for what := range missing {
			if strings.Contains(lines.Text(), what) {
				delete(missing, what)
			}
		}
	}
	if err := edge.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_, _ = io.Copy(io.Discard, log) // until it ends
	_ = edge.Wait()                 // how it ends is no matter here
	if len(missing) > 0 {
		t.Errorf("the edge said nothing of %v:\n%s", slices.Collect(maps.Keys(missing)), &seen)
	}
}

// TestAWSBucket: Amazon's bucket policy gives the two roles what the policies of
// their users do, denies edges everything else, and takes no bucket by chance.
func TestAWSBucket(t *testing.T) {
	bucket := read(t, "aws-bucket.json")
	for _, side := range []string{"edge", "builder"} {
		principal := map[string]any{"AWS": "arn:aws:iam::111122223333:role/marketdata-" + side}
		if got, want := bucket.grants(principal), read(t, side+".json").grants(nil); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", side, got, want)
		}
	}
	edges := map[string]any{"AWS": "arn:aws:iam::111122223333:role/marketdata-edge"}
	both := []string{"arn:aws:s3:::market", "arn:aws:s3:::market/*"}
	denied := false
	for _, s := range bucket.Statement {
		if s.Effect != "Deny" || fmt.Sprint(s.Principal) != fmt.Sprint(edges) {
			continue
		}
		denied = slices.Equal(s.NotAction, []string{"s3:GetObject", "s3:ListBucket"}) && slices.Equal(s.Resource, both) && s.Condition == nil
	}
	if !denied {
		t.Error("edges are not denied the rest")
	}
}
