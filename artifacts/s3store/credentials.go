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

// fileEnv names the environment variable for the credentials file.
const fileEnv = "AWS_SHARED_CREDENTIALS_FILE"

// maxFile bounds the credentials file, in bytes.
const maxFile = 64 << 10

// askAgain is how long the credentials in force are used before a role is asked again that failed.
const askAgain = 10 * time.Second

// signer is whose credentials sign requests.
type signer struct {
	*credentials.Credentials
	from   string  // where the access key is from, as errors name it
	rotate *source // nil: they are fixed for the life of the store
}

// signer looks for credentials: those of o, of the environment, of a file, of a role. A chain of
// providers would end in unsigned requests when none has any, and hide why.
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
		// Once an hour: without idle connections.
		s.next = &credentials.IAM{Client: &http.Client{Timeout: roleTimeout, Transport: &http.Transport{
			Proxy: direct.Proxy, DisableKeepAlives: true}}}
	}
	return &signer{Credentials: credentials.New(s), from: from, rotate: s}, nil
}

// source gives the credentials of a file or a role. It reads the file again when it has changed, asks
// the role before its credentials end, and keeps the last ones while it gets no newer. The lock of
// the credentials.Credentials guards it.
type source struct {
	next credentials.Provider
	path string      // of the file; "": it is a role
	read os.FileInfo // of the file before it was last read; nil: it was not there

	last  credentials.Value
	asked time.Time // when next was last asked
	fault error     // why next gave none then
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

// changed reports whether the file is another than the one that was read. Kubernetes exchanges a link
// to its folder, which os.Stat follows.
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
		return s.last, nil // after a refusal: they are as new as can be
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
	// What comes in its place after this shows as a change.
	s.read, _ = os.Stat(s.path)
	if _, err := durable.ReadFile(s.path, maxFile); err != nil { // it is a file, and no endless one
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

// signed makes a request, and once more with the newest credentials when the store refused those
// that signed it: they were exchanged while it was under way. A refused request did nothing, so a
// conditional write may be sent again, too.
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

// isCredential reports whether a server's code says that newer credentials may help.
func isCredential(code string) bool {
	switch code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "InvalidTokenId":
		return true
	}
	return false
}

// why adds the reason for which there are no newer credentials than those that were refused.
func (s *signer) why() string {
	if s.rotate == nil {
		return ""
	}
	s.Lock()
	defer s.Unlock()
	if s.rotate.fault == nil {
		return ""
	}
	return fmt.Sprintf(" (newer ones could not be read: %v)", s.rotate.fault)
}
