package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"example.com/marketdata/internal/cmdline"
)

// TestSecrets checks that a secret that begins or ends in white space, as the contents of files
// often do, is sent without it and causes a warning (see argo-workflows issue 981 and
// external-secrets issue 2533). The secrets are S3 credentials, the header for a feed, and a
// provider's key.
func TestSecrets(t *testing.T) {
	var sent string // the headers of all requests
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Authorization", "X-Amz-Security-Token", "X-Cg-Demo-Api-Key"} {
			sent += r.Header.Get(name) + "\n"
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	for _, test := range []struct {
		vars []string // NAME=VALUE
		args []string
		want []string // parts of the sent headers
	}{
		{
			[]string{"AWS_ACCESS_KEY_ID=key\n", "AWS_SECRET_ACCESS_KEY= secret\r\n", "AWS_SESSION_TOKEN=token "},
			[]string{"status", "--store", "s3://bucket/live?endpoint=" + server.URL},
			[]string{"Credential=key/", "token\n"},
		},
		{
			[]string{"FEED_AUTHORIZATION=Bearer secret \n"}, []string{"check", "--source", "feed+" + server.URL + "/"},
			[]string{"Bearer secret\n"},
		},
		{
			[]string{"COINGECKO_DEMO_API_KEY=\tCG-secret\n"},
			[]string{"feed", "--source", "coingecko:?base=" + server.URL, "--out", filepath.Join(t.TempDir(), "feed")},
			[]string{"CG-secret\n"},
		},
	} {
		sent = ""
		for _, v := range test.vars {
			name, value, _ := strings.Cut(v, "=")
			t.Setenv(name, value)
		}
		r := command(t, test.args...)
		for _, want := range test.want {
			if !strings.Contains(sent, want) {
				t.Errorf("%q: sent %q, want %q; %s", test.vars, sent, want, r.stderr)
			}
		}
		for _, v := range test.vars {
			name, _, _ := strings.Cut(v, "=")
			if r.status != cmdline.Failed || !strings.Contains(r.stderr, "white space") ||
				!strings.Contains(r.stderr, "name="+name) || strings.Contains(r.stderr, "secret\\") {
				t.Errorf("%s: status %d, %s", name, r.status, r.stderr)
			}
		}
	}
}

// TestEmptyProtection checks that an empty value for a flag that protects something is a usage
// error, both in the environment and on the command line (see docker/compose issue 5505).
func TestEmptyProtection(t *testing.T) {
	args := []string{"status", "--store", "file:" + t.TempDir()}
	for _, name := range []string{"BUILDER_TRUST_KEY", "BUILDER_SIGN_KEY", "BUILDER_STATE_DIR"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "")
			if r := command(t, args...); r.status != cmdline.Usage || !strings.Contains(r.stderr, name+", is empty") {
				t.Errorf("status %d, %s", r.status, r.stderr)
			}
		})
	}
	if r := command(t, append(args, "--trust-key=")...); r.status != cmdline.Usage ||
		!strings.Contains(r.stderr, "--trust-key is empty") {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
}
