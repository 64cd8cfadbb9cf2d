package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"example.com/marketdata/internal/cmdline"
)

// TestSecrets: a secret that ends in a newline or a blank, as files of secrets do, is sent without
// it and with a warning (row K9; argo-workflows 981 and external-secrets 2533 have the same of an
// access key). The inputs of our own are the header of a feed and a provider's key.
func TestSecrets(t *testing.T) {
	var sent string // of all requests
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
		want []string // of what is sent
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

// TestEmptyProtection: what protects and is set but empty is wrong usage (row K12, docker/compose
// 5505), in the environment and on the command line.
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
