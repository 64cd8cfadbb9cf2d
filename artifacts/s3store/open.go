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

// Bounds of a request's steps. None is a bound of the whole: that is the caller's context.
const (
	dialTimeout   = 3 * time.Second
	roleTimeout   = 5 * time.Second
	tlsTimeout    = 5 * time.Second
	headerTimeout = 15 * time.Second // from the end of a request to its answer
	stallTimeout  = 20 * time.Second // without a byte in either direction
	idleTimeout   = time.Minute
)

// Bounds of the connections to the endpoint.
const (
	maxConns = 64
	maxIdle  = 32
)

// Credentials sign requests. SessionToken may be empty.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// Options say how a store is opened.
type Options struct {
	// Credentials, when not nil, are used in place of the environment's.
	Credentials *Credentials
}

// Open opens the store that address names (see the package's comment). It does not connect: a wrong
// address is an error, an endpoint or a bucket that is not there shows in the first call.
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
		Region:       a.region, // else the client asks the server for it first
		BucketLookup: lookup,
		MaxRetries:   1,
	})
	if err != nil {
		return nil, fmt.Errorf("store %q: %w", address, err)
	}
	return &Store{
		client: client, transport: transport, clock: clock, bucket: a.bucket, prefix: a.prefix, signer: signer}, nil
}

// CreateBucket makes the bucket that address names, for a server that was just
// started. A bucket that is there is no error.
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

// address is what an address says.
type address struct {
	bucket, prefix string // prefix is empty or ends with a slash
	host           string // of the endpoint, with its port if it has one
	secure         bool
	region         string
	profile        string // of the credentials file; "": the usual credentials
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

// withoutSecrets keeps credentials, which have no business in an address, out of errors.
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
		return address{}, errors.Unwrap(err) // without the address, which the caller names
	}
	switch {
	case u.Scheme != "s3":
		return address{}, errors.New("the scheme is not s3")
	case u.User != nil:
		return address{}, errors.New("credentials do not belong here but in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
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
			return address{}, fmt.Errorf("parameter %s wants one value", name)
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
		a.host, a.secure = "s3.amazonaws.com", true // the client goes to the region's own
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
	// The client's own default knows about root certificates and must not
	// decompress bodies; only the bounds are ours.
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

// stallConn fails a read or a write when no byte has moved for stallTimeout. A
// write moves a waiting read's deadline too: an answer is waited for from the
// request's end on. (An idle connection ends for it as well.)
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
