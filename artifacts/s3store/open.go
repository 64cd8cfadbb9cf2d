package s3store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/marketdata/artifacts"
	"example.com/marketdata/internal/direct"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Time limits of the steps of a request. The limit of the whole request is the caller's context.
const (
	dialTimeout   = 3 * time.Second
	roleTimeout   = 5 * time.Second
	tlsTimeout    = 5 * time.Second
	headerTimeout = 15 * time.Second // from the end of the request to the beginning of the answer
	stallTimeout  = 20 * time.Second // without a byte in either direction
	idleTimeout   = time.Minute
)

// Limits of the connections to the endpoint.
const (
	maxConns = 64
	maxIdle  = 32
)

// Credentials sign requests. SessionToken may be empty.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// Options are options for Open.
type Options struct {
	// Credentials, if not nil, replace those of the environment.
	Credentials *Credentials
}

// Open opens the store that address names (see the package documentation). It does not connect: it
// reports an invalid address, but only the first call reports a missing endpoint or bucket.
func Open(address string, o Options) (*Store, error) {
	a, err := parse(address)
	if err != nil {
		return nil, err
	}
	signer, err := o.signer(a.profile)
	if err != nil {
		return nil, fmt.Errorf("store %q: %w", address, err)
	}
	transport, err := newTransport(a.secure)
	if err != nil {
		return nil, fmt.Errorf("store %q: %w", address, err)
	}
	lookup := minio.BucketLookupDNS
	if a.pathStyle {
		lookup = minio.BucketLookupPath
	}
	clock := &clock{next: bounded{transport}, now: time.Now}
	client, err := minio.NewCore(a.host, &minio.Options{
		Creds:        signer.Credentials,
		Secure:       a.secure,
		Transport:    clock,
		Region:       a.region, // otherwise the client first asks the server for it
		BucketLookup: lookup,
		MaxRetries:   1,
	})
	if err != nil {
		return nil, fmt.Errorf("store %q: %w", address, err)
	}
	return &Store{
		client: client, transport: transport, clock: clock, bucket: a.bucket, prefix: a.prefix, signer: signer}, nil
}

// CreateBucket creates the bucket that address names, for a server that was just started. It is not
// an error if the bucket exists.
func CreateBucket(ctx context.Context, address string, o Options) error {
	s, err := Open(address, o)
	if err != nil {
		return err
	}
	defer s.Close()
	err = s.client.MakeBucket(ctx, s.bucket, minio.MakeBucketOptions{})
	var answer minio.ErrorResponse
	if errors.As(err, &answer) && answer.Code == minio.BucketAlreadyOwnedByYou {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", s.bucket, err)
	}
	return nil
}

// address is a parsed address.
type address struct {
	bucket, prefix string // prefix is empty or ends with a slash
	host           string // host of the endpoint, with the port if the address has one
	secure         bool
	region         string
	profile        string // profile in the credentials file; empty for the usual credentials
	pathStyle      bool
}

// The parameters of an address.
const (
	paramEndpoint  = "endpoint"
	paramRegion    = "region"
	paramPathStyle = "path-style"
	paramProfile   = "profile"
)

func parse(s string) (address, error) {
	a, err := parseAddress(s)
	if err != nil {
		return address{}, fmt.Errorf("store %q: %w; want s3://bucket/prefix?%s=http://host:port&%s=name&%s=true|false&%s=name, all parameters optional",
			withoutSecrets(s), err, paramEndpoint, paramRegion, paramPathStyle, paramProfile)
	}
	return a, nil
}

// withoutSecrets removes credentials from an address. They do not belong there, and must not appear
// in errors.
func withoutSecrets(s string) string {
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		if i := strings.LastIndexByte(rest, '@'); i >= 0 {
			return scheme + "://..." + rest[i:]
		}
	}
	return s
}

func parseAddress(s string) (address, error) {
	u, err := url.Parse(s)
	if err != nil {
		return address{}, errors.Unwrap(err) // without the address, which the caller adds
	}
	switch {
	case u.Scheme != "s3":
		return address{}, errors.New("the scheme is not s3")
	case u.User != nil:
		return address{}, errors.New("credentials do not belong in the address: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case u.Host == "":
		return address{}, errors.New("there is no bucket")
	case u.Fragment != "":
		return address{}, errors.New("there is a #")
	}
	if err := s3utils.CheckValidBucketNameStrict(u.Host); err != nil {
		return address{}, fmt.Errorf("bucket: %w", err)
	}
	a := address{bucket: u.Host, prefix: strings.Trim(u.Path, "/")}
	if a.prefix != "" {
		if _, err := artifacts.ParseKey(a.prefix); err != nil {
			return address{}, fmt.Errorf("prefix: %w", err)
		}
		a.prefix += "/"
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return address{}, err
	}
	known := []string{paramEndpoint, paramRegion, paramPathStyle, paramProfile}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return address{}, fmt.Errorf("unknown parameter %q", name)
		}
		if len(values) > 1 || values[0] == "" {
			return address{}, fmt.Errorf("parameter %s must have exactly one value", name)
		}
	}
	if err := a.setEndpoint(q.Get(paramEndpoint)); err != nil {
		return address{}, fmt.Errorf("%s: %w", paramEndpoint, err)
	}
	switch v := q.Get(paramPathStyle); v {
	case "":
	case "true", "false":
		a.pathStyle = v == "true"
	default:
		return address{}, fmt.Errorf("%s: %q is neither true nor false", paramPathStyle, v)
	}
	a.profile = q.Get(paramProfile)
	a.region = cmp.Or(q.Get(paramRegion), os.Getenv("AWS_REGION"), "us-east-1")
	return a, nil
}

func (a *address) setEndpoint(s string) error {
	if s == "" {
		a.host, a.secure = "s3.amazonaws.com", true // The client uses the endpoint of the region.
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("%q is not http://host:port or https://host", s)
	case u.User != nil, u.RawQuery != "", u.Fragment != "", strings.Trim(u.Path, "/") != "":
		return fmt.Errorf("%q has more than a host and a port", u.Redacted())
	}
	a.host, a.secure, a.pathStyle = u.Host, u.Scheme == "https", true
	return nil
}

func newTransport(secure bool) (*http.Transport, error) {
	// The client's default transport configures root certificates and turns off decompression of
	// bodies. Only the limits are changed here.
	t, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	t.Proxy = direct.Proxy
	dialer := net.Dialer{Timeout: dialTimeout}
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return stallConn{c}, nil
	}
	t.TLSHandshakeTimeout = tlsTimeout
	t.ResponseHeaderTimeout = headerTimeout
	t.IdleConnTimeout = idleTimeout
	t.MaxConnsPerHost = maxConns
	t.MaxIdleConns = maxIdle
	t.MaxIdleConnsPerHost = maxIdle
	return t, nil
}

// stallConn fails a read or write if no byte has moved for stallTimeout. A write also extends the
// deadline of a waiting read, because the wait for an answer begins at the end of the request. (An
// idle connection ends in the same way.)
type stallConn struct {
	net.Conn
}

func (c stallConn) Read(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c stallConn) Write(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
