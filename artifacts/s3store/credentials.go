package s3store

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/direct"
	"example.com/marketdata/internal/durable"
	"example.com/marketdata/internal/secret"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// fileEnv is the environment variable that names the credentials file.
const fileEnv = "AWS_SHARED_CREDENTIALS_FILE"

// maxFile is the maximum size of the credentials file, in bytes.
const maxFile = 64 << 10

// askAgain is the pause before a role that failed to provide new credentials is asked again. Until
// then the current credentials stay in use.
const askAgain = 10 * time.Second

// signer has the credentials that sign requests.
type signer struct {
	*credentials.Credentials
	from   string  // the source of the access key, for errors
	rotate *source // nil if the credentials are fixed for the life of the store
}

// signer looks for credentials in o, the environment, a file and a role, in this order. It does not
// use minio-go's chain of providers, which falls back to unsigned requests if none of them has
// credentials, and hides the reason.
func (o Options) signer(profile string) (*signer, error) {
	c, from := o.Credentials, "the given credentials"
	if c == nil && profile == "" {
		from = "AWS_ACCESS_KEY_ID"
		c = &Credentials{
			secret.Env("AWS_ACCESS_KEY_ID"), secret.Env("AWS_SECRET_ACCESS_KEY"), secret.Env("AWS_SESSION_TOKEN")}
	}
	switch {
	case c == nil:
	case c.AccessKeyID != "" && c.SecretAccessKey != "":
		return &signer{
			Credentials: credentials.NewStaticV4(c.AccessKeyID, c.SecretAccessKey, c.SessionToken), from: from}, nil
	case c.AccessKeyID != "":
		return nil, errors.New("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not")
	case c.SecretAccessKey != "":
		return nil, errors.New("AWS_SECRET_ACCESS_KEY is set and AWS_ACCESS_KEY_ID is not")
	}
	s := &source{path: os.Getenv(fileEnv)}
	switch {
	case s.path != "":
		from = s.path
		if profile != "" {
			from = fmt.Sprintf("profile %q in %s", profile, s.path)
		}
		s.next = &credentials.FileAWSCredentials{Filename: s.path, Profile: profile}
	case profile != "":
		return nil, fmt.Errorf("profile %q: %s is not set", profile, fileEnv)
	default:
		from = "this machine's role"
		// A role is asked about once an hour, so idle connections are not worth keeping.
		s.next = &credentials.IAM{Client: &http.Client{Timeout: roleTimeout, Transport: &http.Transport{
			Proxy: direct.Proxy, DisableKeepAlives: true}}}
	}
	return &signer{Credentials: credentials.New(s), from: from, rotate: s}, nil
}

// source provides the credentials of a file or a role. It reads the file again when it has changed,
// and asks the role before its credentials expire. While it gets no newer credentials, it keeps the
// last ones. It is guarded by the lock of the credentials.Credentials that uses it.
type source struct {
	next credentials.Provider
	path string      // path of the credentials file, or empty for a role
	read os.FileInfo // the state of the file just before it was last read; nil if it did not exist

	last  credentials.Value
	asked time.Time // when that provider was last asked for credentials
	fault error     // why that attempt failed, or nil
}

// IsExpired implements credentials.Provider.
func (s *source) IsExpired() bool {
	switch {
	case s.last.AccessKeyID == "", s.path != "" && s.changed():
		return true
	case s.last.Expiration.IsZero():
		return false
	}
	return s.next.IsExpired() && time.Since(s.asked) >= askAgain
}

// changed reports whether the file has changed since it was last read. Kubernetes updates a mounted
// file by replacing a link to its folder, which os.Stat follows.
func (s *source) changed() bool {
	now, err := os.Stat(s.path)
	if err != nil || s.read == nil {
		return err == nil
	}
	return !os.SameFile(now, s.read) || !now.ModTime().Equal(s.read.ModTime()) || now.Size() != s.read.Size()
}

// RetrieveWithCredContext implements credentials.Provider.
func (s *source) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	usable := s.last.AccessKeyID != "" && (s.last.Expiration.IsZero() || time.Now().Before(s.last.Expiration))
	if s.path == "" && usable && time.Since(s.asked) < askAgain {
		return s.last, nil // The last credentials were refused, but there are no newer ones yet.
	}
	s.asked = time.Now()
	v, err := s.retrieve(c)
	if s.fault = err; err == nil {
		s.last = v
	} else if !usable {
		return v, fmt.Errorf("%w: no credentials: %w", artifacts.ErrNoAccess, err)
	}
	return s.last, nil
}

func (s *source) retrieve(c *credentials.CredContext) (credentials.Value, error) {
	if s.path == "" {
		v, err := s.next.RetrieveWithCredContext(c)
		if err != nil {
			err = fmt.Errorf("neither AWS_ACCESS_KEY_ID nor %s is set, and this machine has no role: %w", fileEnv, err)
		}
		return v, err
	}
	// Stat comes first, so that a file that replaces this one during the read counts as a change.
	s.read, _ = os.Stat(s.path)
	// Make sure that it is a regular file of bounded size.
	if _, err := durable.ReadFile(s.path, maxFile); err != nil {
		return credentials.Value{}, fmt.Errorf("%s: %w", fileEnv, err)
	}
	v, err := s.next.RetrieveWithCredContext(c)
	if err == nil && (v.AccessKeyID == "" || v.SecretAccessKey == "") {
		err = errors.New("the profile has no aws_access_key_id and aws_secret_access_key")
	}
	if err != nil {
		err = fmt.Errorf("%s=%s: %w", fileEnv, s.path, err)
	}
	return v, err
}

// Retrieve implements credentials.Provider.
func (s *source) Retrieve() (credentials.Value, error) { return s.RetrieveWithCredContext(nil) }

// signed makes a request. If the store rejects the credentials that signed it, which may have been
// replaced in the meantime, signed repeats the request once with the newest ones. A rejected
// request has done nothing, so even a conditional write may be repeated.
func (s *Store) signed(request func() error) error {
	err := request()
	var answer minio.ErrorResponse
	if s.signer.rotate == nil || !errors.As(err, &answer) {
		return err
	}
	if isCredential(answer.Code) {
		s.signer.Expire()
		err = request()
	}
	return err
}

// isCredential reports whether a server's error code means that newer credentials may help.
func isCredential(code string) bool {
	switch code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "InvalidTokenId":
		return true
	}
	return false
}

// why explains why there are no newer credentials than the rejected ones, or returns an empty
// string.
func (s *signer) why() string {
	if s.rotate == nil {
		return ""
	}
	s.Lock()
	defer s.Unlock()
	if s.rotate.fault == nil {
		return ""
	}
	return fmt.Sprintf(" (cannot read newer credentials: %v)", s.rotate.fault)
}
