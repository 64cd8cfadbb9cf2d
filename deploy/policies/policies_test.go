// Package policies holds the policies of the two users of a bucket, for Amazon S3 and for MinIO.
// Its tests compare them with what the programs require.
package policies

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/artifacts/s3store"
	"example.com/marketdata/artifacts/signed"
	"example.com/marketdata/builder/publish"
	"example.com/marketdata/internal/test/testserver"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/lifecycle"
)

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// open opens the store with credentials that are restricted by policy, or with all rights if policy
// is empty.
func open(t *testing.T, server *testserver.Server, policy string) *s3store.Store {
	t.Helper()
	c := s3store.Credentials{AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey}
	if policy != "" {
		policy = strings.ReplaceAll(policy, ":::market", ":::"+testserver.Bucket)
		role, err := credentials.NewSTSAssumeRole(server.Endpoint, credentials.STSAssumeRoleOptions{
			AccessKey: c.AccessKeyID, SecretKey: c.SecretAccessKey, Policy: policy, Location: testserver.Region})
		if err != nil {
			t.Fatal(err)
		}
		v, err := role.GetWithContext(&credentials.CredContext{Client: http.DefaultClient})
		if err != nil {
			t.Fatalf("%v\n%s", err, policy)
		}
		c = s3store.Credentials{
			AccessKeyID: v.AccessKeyID, SecretAccessKey: v.SecretAccessKey, SessionToken: v.SessionToken}
	}
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

// TestActions: with its policy, each side can do everything that it needs from a store. Without any
// one of the actions it cannot. Edges cannot change anything.
func TestActions(t *testing.T) {
	server := testserver.MinIO(t)
	ctx := t.Context()
	owner := open(t, server, "")
	version, err := owner.Swap(ctx, artifacts.CurrentKey, "", []byte("pointer"))
	if err != nil {
		t.Fatal(err)
	}
	reads := func(s *s3store.Store) error {
		if _, _, err := s.GetIf(ctx, artifacts.CurrentKey, version, 100); !errors.Is(err, artifacts.ErrNotModified) {
			return fmt.Errorf("an object that is known: %w", err)
		}
		if _, _, err := s.Get(ctx, artifacts.ChangeKey, 100); !errors.Is(err, artifacts.ErrNotFound) {
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
		policy := read(t, file)
		if err := uses(open(t, server, policy)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, action := range regexp.MustCompile(`"s3:\w+"`).FindAllString(policy, -1) {
			if file == "edge.json" && action == `"s3:ListBucket"` {
				continue // without it, MinIO still distinguishes missing from forbidden, but Amazon does not
			}
			if err := uses(open(t, server, strings.Replace(policy, action, `"s3:GetBucketLocation"`, 1))); err == nil {
				t.Errorf("%s: nothing needs %s", file, action)
			}
		}
	}

	edge := open(t, server, read(t, "edge.json"))
	_, swapErr := edge.Swap(ctx, artifacts.CurrentKey, version, []byte("forged"))
	_, firstErr := edge.Swap(ctx, artifacts.KeysKey, "", []byte("forged"))
	for what, err := range map[string]error{
		"swap": swapErr, "first swap": firstErr,
		"put":    edge.Put(ctx, artifacts.MustKey("objects/00/1"), []byte("forged")),
		"delete": edge.Delete(ctx, artifacts.CurrentKey),
	} {
		if err == nil || !strings.Contains(err.Error(), "Access Denied") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestLogDenied: a builder that may write everywhere except below log/, or may not delete there,
// publishes nothing in a signed store, and names the missing permission (D10).
func TestLogDenied(t *testing.T) {
	server := testserver.MinIO(t)
	key, err := artifacts.NewSignKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ action, resource, want string }{
		"all of it":  {"s3:PutObject", "log/*", "s3:PutObject"},
		"entries":    {"s3:PutObject", "log/tile/entries/*", "s3:PutObject"},
		"to delete":  {"s3:DeleteObject", "log/*", "s3:DeleteObject"},
		"checkpoint": {"s3:PutObject", "log/?????", "s3:PutObject"}, // as long as log/probe
	} {
		deny := fmt.Sprintf(`"Statement": [
    {"Sid": "No", "Effect": "Deny", "Action": [%q], "Resource": ["arn:aws:s3:::market/live/%s"]},`, c.action, c.resource)
		s := signed.Store(open(t, server, strings.Replace(read(t, "builder.json"), `"Statement": [`, deny, 1)),
			[]artifacts.SignKey{key}, artifacts.Trust{key.Trust()})
		at := time.Date(2026, 11, 21, 10, 10, 0, 0, time.UTC)
		ref := artifacts.RefOf([]byte("a manifest"))
		_, err := new(publish.Head).Point(t.Context(), s, ref, at, publish.Timing{Now: func() time.Time { return at }})
		if !errors.Is(err, artifacts.ErrNoAccess) || !strings.Contains(err.Error(), c.want+" in bucket") ||
			!strings.Contains(err.Error(), "log/") {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := s.Get(t.Context(), artifacts.CurrentKey, 1<<12); !errors.Is(err, artifacts.ErrNotFound) {
			t.Errorf("%s: the pointer moved: %v", name, err)
		}
	}
}

// TestLifecycle: MinIO accepts the rules for a versioned bucket, and they fit the store's keys. The
// lease creates 10,000 versions a day (cdkd 2450, tempo 3141), whereas versions of other keys must
// still exist when they are needed.
func TestLifecycle(t *testing.T) {
	server := testserver.MinIO(t)
	var rules lifecycle.Configuration
	decoder := json.NewDecoder(strings.NewReader(read(t, "lifecycle.json")))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&rules); err != nil {
		t.Fatal(err)
	}
	client, err := minio.New(strings.TrimPrefix(server.Endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(server.AccessKey, server.SecretKey, "")})
	if err == nil {
		err = client.EnableVersioning(t.Context(), testserver.Bucket)
	}
	if err == nil {
		err = client.SetBucketLifecycle(t.Context(), testserver.Bucket, &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	kept, err := client.GetBucketLifecycle(t.Context(), testserver.Bucket)
	if err != nil || len(kept.Rules) != len(rules.Rules) {
		t.Fatalf("%+v, %v", kept, err)
	}
	for key, want := range map[string]int{"lease": 1, "probe/clock-X": 1, "current": 30, "keys": 30,
		"objects/ab/cd": 30, "log/checkpoint": 30} {
		days := 1000 // the rule with the shortest time applies
		for _, r := range kept.Rules {
			if r.Status != "Enabled" || !r.Expiration.IsDaysNull() || !r.Expiration.IsDateNull() {
				t.Errorf("%s: it removes what is in force, or nothing", r.ID)
			}
			if strings.HasPrefix("live/"+key, r.RuleFilter.Prefix) {
				days = min(days, int(r.NoncurrentVersionExpiration.NoncurrentDays))
			}
		}
		if days != want {
			t.Errorf("old versions of %s stay for %d days, want %d", key, days, want)
		}
	}
}

// TestCompose: after the setup of compose.yaml has run on its store, once or twice, the builder can
// do everything that it needs, and edges can read but cannot change anything.
func TestCompose(t *testing.T) {
	server := testserver.Versitygw(t)
	ctx := t.Context()
	_, setup, _ := strings.Cut(read(t, "../compose.yaml"), "\n  store-setup:\n")
	_, script, _ := strings.Cut(setup, "\n    command:\n      - |\n")
	script, _, _ = strings.Cut(script, "\n\n")
	bin := t.TempDir()
	program, err := testserver.Program(ctx, testserver.KindVersitygw)
	if err == nil {
		err = os.Symlink(program, filepath.Join(bin, "versitygw"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		cmd := exec.CommandContext(ctx, "sh", "-euc", strings.ReplaceAll(script, "$$", "$"))
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "ADMIN_ACCESS_KEY=" + server.AccessKey,
			"ADMIN_SECRET_KEY=" + server.SecretKey, "ADMIN_ENDPOINT_URL=" + server.Endpoint,
			"BUILDER_SECRET=of-builder", "EDGE_SECRET=of-edge"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	open := func(account string) *s3store.Store {
		s, err := s3store.Open("s3://market/live?endpoint="+server.Endpoint, s3store.Options{
			Credentials: &s3store.Credentials{AccessKeyID: account, SecretAccessKey: "of-" + account}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	builder, edge := open("builder"), open("edge")
	version, err := builder.Swap(ctx, artifacts.CurrentKey, "", []byte("pointer"))
	err = errors.Join(err, builder.SelfTest(ctx), builder.List(ctx, "", func(artifacts.Info) error { return nil }))
	if err != nil {
		t.Errorf("builder: %v", err)
	}
	if b, _, err := edge.Get(ctx, artifacts.CurrentKey, 100); string(b) != "pointer" {
		t.Errorf("edge: %q, %v", b, err)
	}
	if _, _, err := edge.Get(ctx, artifacts.ChangeKey, 100); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("edge: an object that is not there: %v", err)
	}
	_, swapErr := edge.Swap(ctx, artifacts.CurrentKey, version, []byte("forged"))
	for what, err := range map[string]error{
		"swap":   swapErr,
		"put":    edge.Put(ctx, artifacts.MustKey("objects/00/1"), []byte("forged")),
		"delete": edge.Delete(ctx, artifacts.CurrentKey),
	} {
		if !errors.Is(err, artifacts.ErrNoAccess) {
			t.Errorf("edge: %s: %v", what, err)
		}
	}
}

// TestAWSBucket: Amazon's bucket policy gives the two roles the same rights as the policies of
// their users, and denies edges everything else.
func TestAWSBucket(t *testing.T) {
	type statement struct {
		Effect              string
		Principal           any
		Action              any // a list, or a pattern
		NotAction, Resource []string
	}
	statements := func(file string) []statement {
		var policy struct{ Statement []statement }
		if err := json.Unmarshal([]byte(read(t, file)), &policy); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		return policy.Statement
	}
	bucket := statements("aws-bucket.json")
	for _, side := range []string{"edge", "builder"} {
		var got, want, actions []string
		denied := false
		for _, s := range statements(side + ".json") {
			want = append(want, fmt.Sprint(s.Effect, s.Action, s.Resource))
			for _, a := range s.Action.([]any) {
				actions = append(actions, a.(string))
			}
		}
		for _, s := range bucket {
			if fmt.Sprint(s.Principal) != "map[AWS:arn:aws:iam::111122223333:role/marketdata-"+side+"]" {
				continue
			}
			if s.Effect == "Allow" {
				got = append(got, fmt.Sprint(s.Effect, s.Action, s.Resource))
			} else {
				denied = slices.Equal(s.NotAction, actions)
			}
		}
		if !slices.Equal(got, want) || denied != (side == "edge") {
			t.Errorf("%s: %v, want %v; the rest is denied: %v", side, got, want, denied)
		}
	}
}
