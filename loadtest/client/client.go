// Package client is a lean HTTP/1.1 client for load generation: one goroutine
// drives one connection, one request at a time, with bytes that the caller
// has assembled. It parses answers in place and allocates nothing in the steady
// state, because the client's own cost lowers the load that it can measure.
//
// It knows Content-Length, chunked bodies, bodies that end with the
// connection, interim (1xx) answers and answers without a body. It follows no
// redirects, keeps no cookies and undoes no content coding.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"
)

// The kinds of failure of a request. They come wrapped: ask with errors.Is.
var (
	// ErrConnect: no connection could be opened.
	ErrConnect = errors.New("connect")
	// ErrTimeout: the answer was not complete in time.
	ErrTimeout = errors.New("timeout")
	// ErrClosed: the connection ended before the answer did.
	ErrClosed = errors.New("connection closed")
	// ErrMalformed: the bytes are no HTTP/1.1 answer.
	ErrMalformed = errors.New("malformed answer")
	// ErrTooLarge: head or body are longer than the client takes.
	ErrTooLarge = errors.New("answer too large")
)

const (
	// maxHead bounds an answer's status line and header fields, in bytes.
	maxHead = 256 << 10
	// initialBuffer holds most pages of the market-data API whole.
	initialBuffer = 32 << 10
)

// Endpoint is where to connect.
type Endpoint struct {
	// Host is the value of the Host header field.
	Host string
	// Prefix is the URL's path, which requests' paths are added to, without a
	// slash at its end.
	Prefix string
	// Header is the header fields that each request has besides its own, one a line, each line
	// with its end.
	Header string

	addr string
	tls  *tls.Config // nil: plain TCP
}

// ParseEndpoint reads a base URL, http or https.
func ParseEndpoint(raw string, insecure bool) (*Endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("URL %q: want http://HOST[:PORT][/PATH] or https://…", raw)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("URL %q: takes no user, query or fragment", u.Redacted())
	}
	e := &Endpoint{Host: u.Host, Prefix: u.EscapedPath(), Header: "User-Agent: loadtest\r\n", addr: u.Host}
	for e.Prefix != "" && e.Prefix[len(e.Prefix)-1] == '/' {
		e.Prefix = e.Prefix[:len(e.Prefix)-1]
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
		e.tls = &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}, InsecureSkipVerify: insecure}
	}
	if u.Port() == "" {
		e.addr = net.JoinHostPort(u.Hostname(), port)
	}
	return e, nil
}

// Dial opens a connection, with TLS where the URL says so.
func (e *Endpoint) Dial(ctx context.Context, deadline time.Time) (net.Conn, error) {
	d := net.Dialer{Deadline: deadline}
	nc, err := d.DialContext(ctx, "tcp", e.addr)
	if err != nil {
		return nil, err
	}
	if e.tls == nil {
		return nc, nil
	}
	tc := tls.Client(nc, e.tls)
	if err := tc.SetDeadline(deadline); err != nil {
		nc.Close()
		return nil, err
	}
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		if errors.As(err, new(*tls.CertificateVerificationError)) {
			err = fmt.Errorf("%w (--insecure takes any)", err)
		}
		return nil, err
	}
	return tc, nil
}

// Conn is one connection, opened when it is first needed and again after it
// was closed. It is not safe for concurrent use.
type Conn struct {
	// Timeout bounds a request from sending to the end of its answer. It may
	// be kept an eighth too long: arming a timer anew for each request costs as
	// much as all of the parsing.
	Timeout time.Duration
	// MaxBody bounds an answer's body, in bytes.
	MaxBody int
	// Opened is called, when set, with how long a connection took to open.
	Opened func(time.Duration)

	endpoint *Endpoint
	nc       net.Conn
	used     bool      // nc has carried an answer
	deadline time.Time // of nc
	buf      []byte    // bytes read
	w        int       // buf[:w] is filled
	resp     Response
}

// New returns a connection to e, not yet open.
func New(e *Endpoint) *Conn {
	return &Conn{Timeout: 10 * time.Second, MaxBody: 64 << 20, endpoint: e}
}

// Close closes the connection; a later Do opens it again.
func (c *Conn) Close() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

// Do sends req, one whole request, and returns its answer, which is valid
// until the next call. head says that the request's method is HEAD.
//
// A server may close a connection that has lain idle at the very moment a
// request is sent on it. So when a connection that was used before ends before
// the first byte of the answer, the request is sent once more on a new one, as
// browsers do, and Response.Retried is set.
func (c *Conn) Do(ctx context.Context, req []byte, head bool) (*Response, error) {
	limit := time.Now().Add(c.Timeout)
	for retried := false; ; retried = true {
		reused := c.nc != nil && c.used
		if err := c.open(ctx, limit); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConnect, err)
		}
		resp, err := c.roundTrip(req, head, limit)
		if err == nil {
			resp.Retried = retried
			if resp.close {
				c.Close()
			}
			return resp, nil
		}
		c.Close()
		if reused && c.w == 0 && errors.Is(err, ErrClosed) && !retried {
			continue
		}
		return nil, err
	}
}

func (c *Conn) open(ctx context.Context, deadline time.Time) error {
	if c.nc != nil {
		return nil
	}
	start := time.Now()
	nc, err := c.endpoint.Dial(ctx, deadline)
	if err != nil {
		return err
	}
	if c.Opened != nil {
		c.Opened(time.Since(start))
	}
	c.nc, c.used, c.deadline = nc, false, time.Time{}
	return nil
}

// roundTrip sends req and reads its answer. It gives up at limit at the
// earliest.
func (c *Conn) roundTrip(req []byte, head bool, limit time.Time) (*Response, error) {
	c.w = 0
	if c.deadline.Before(limit) {
		c.deadline = limit.Add(c.Timeout / 8)
		if err := c.nc.SetDeadline(c.deadline); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrClosed, err)
		}
	}
	_, writeErr := c.nc.Write(req)
	if writeErr != nil && errors.Is(writeErr, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("%w: %w", ErrTimeout, writeErr)
	}
	// A server may answer and close without reading all: look for its answer
	// even when the request could not be written whole.
	resp, err := c.read(head)
	if err != nil {
		if writeErr != nil && c.w == 0 {
			err = fmt.Errorf("%w: %w", ErrClosed, writeErr)
		}
		return nil, err
	}
	c.used = true
	resp.close = resp.close || writeErr != nil
	return resp, nil
}

// fill reads more bytes, at least one.
func (c *Conn) fill() error {
	if c.w == len(c.buf) {
		c.grow(max(initialBuffer, 2*len(c.buf)))
	}
	n, err := c.nc.Read(c.buf[c.w:])
	c.w += n
	switch {
	case n > 0:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrTimeout
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case err == nil:
		return fmt.Errorf("%w: read of no bytes", ErrClosed)
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// grow makes the buffer n bytes long. What was parsed goes on to refer to the
// old one, which therefore must not be written to again.
func (c *Conn) grow(n int) {
	buf := make([]byte, n)
	copy(buf, c.buf[:c.w])
	c.buf = buf
}

func (c *Conn) read(head bool) (*Response, error) {
	at := 0 // where the head begins
	for {
		end, err := c.readHead(at)
		if err != nil {
			return nil, err
		}
		if err := c.resp.parse(c.buf[at:end]); err != nil {
			return nil, err
		}
		at = end
		if c.resp.Status == 101 {
			return nil, fmt.Errorf("%w: 101 to a request that asked for no other protocol", ErrMalformed)
		}
		if c.resp.Status >= 200 {
			break
		}
	}
	r := &c.resp
	var end int
	var err error
	switch {
	case head || r.Status == 204 || r.Status == 304:
		end, r.Body = at, nil
	case r.chunked:
		end, err = c.readChunked(at)
	case r.length >= 0:
		end, err = c.readLength(at)
	default:
		r.close = true
		end, err = c.readToEnd(at)
	}
	if err != nil {
		return nil, err
	}
	if end != c.w {
		return nil, fmt.Errorf("%w: %d bytes behind the answer", ErrMalformed, c.w-end)
	}
	r.Size = c.w
	return r, nil
}

// readHead reads until the head that begins at at is whole and returns its end.
func (c *Conn) readHead(at int) (int, error) {
	for from := at; ; {
		if end := headEnd(c.buf[:c.w], from); end > 0 {
			return end, nil
		}
		if c.w-at > maxHead {
			return 0, fmt.Errorf("%w: head over %d bytes", ErrTooLarge, maxHead)
		}
		// The end may begin in what is here already.
		from = max(at, c.w-3)
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
}

func (c *Conn) readLength(at int) (int, error) {
	n := c.resp.length
	if n > c.MaxBody {
		return 0, fmt.Errorf("%w: body of %d bytes", ErrTooLarge, n)
	}
	if at+n > len(c.buf) {
		c.grow(at + n)
	}
	for c.w < at+n {
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	c.resp.Body = c.buf[at : at+n]
	return at + n, nil
}

func (c *Conn) readToEnd(at int) (int, error) {
	for {
		err := c.fill()
		switch {
		case err != nil && errors.Is(err, io.EOF):
			c.resp.Body = c.buf[at:c.w]
			return c.w, nil
		case err != nil:
			return 0, err
		case c.w-at > c.MaxBody:
			return 0, fmt.Errorf("%w: body over %d bytes", ErrTooLarge, c.MaxBody)
		}
	}
}

// readChunked reads a chunked body and joins its chunks.
func (c *Conn) readChunked(at int) (int, error) {
	in, out := at, at // in: next byte to parse; out: end of the body so far
	for {
		line, next, err := c.line(in)
		if err != nil {
			return 0, err
		}
		n, ok := chunkSize(line)
		if !ok {
			return 0, fmt.Errorf("%w: chunk size %.40q", ErrMalformed, line)
		}
		if n > c.MaxBody || out-at+n > c.MaxBody {
			return 0, fmt.Errorf("%w: body over %d bytes", ErrTooLarge, c.MaxBody)
		}
		in = next
		if n == 0 {
			break
		}
		for c.w < in+n+2 {
			if err := c.fill(); err != nil {
				return 0, err
			}
		}
		copy(c.buf[out:], c.buf[in:in+n])
		out += n
		if in += n; c.buf[in] != '\r' || c.buf[in+1] != '\n' {
			return 0, fmt.Errorf("%w: chunk without its end", ErrMalformed)
		}
		in += 2
	}
	for { // trailer fields, not kept
		line, next, err := c.line(in)
		if err != nil {
			return 0, err
		}
		in = next
		if len(line) == 0 {
			c.resp.Body = c.buf[at:out]
			return in, nil
		}
		if next-at > maxHead+c.MaxBody {
			return 0, fmt.Errorf("%w: trailer", ErrTooLarge)
		}
	}
}

// line returns the line that begins at at, without its end, and where the next
// one begins.
func (c *Conn) line(at int) (line []byte, next int, err error) {
	for from := at; ; {
		for i := from; i < c.w; i++ {
			if c.buf[i] == '\n' {
				line = c.buf[at:i]
				if len(line) > 0 && line[len(line)-1] == '\r' {
					line = line[:len(line)-1]
				}
				return line, i + 1, nil
			}
		}
		if c.w-at > maxHead {
			return nil, 0, fmt.Errorf("%w: line over %d bytes", ErrTooLarge, maxHead)
		}
		from = c.w
		if err := c.fill(); err != nil {
			return nil, 0, err
		}
	}
}
