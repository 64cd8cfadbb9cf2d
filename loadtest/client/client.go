// Package client is a small HTTP/1.1 client for load generation. One goroutine drives one connection, with
// one request at a time, whose bytes the caller provides. It parses answers in place and allocates nothing in
// the steady state, because the cost of the client reduces the load that it can measure.
//
// It supports Content-Length, chunked bodies, bodies that are delimited by the close of the connection,
// interim responses (1xx), and answers without a body. It does not follow redirects, keep cookies, or decode
// content codings.
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

// The kinds of failure of a request. Errors wrap them, so use errors.Is.
var (
	// ErrConnect means that the connection could not be opened.
	ErrConnect = errors.New("connect")
	// ErrTimeout means that the answer was not complete in time.
	ErrTimeout = errors.New("timeout")
	// ErrClosed means that the connection ended before the answer was complete.
	ErrClosed = errors.New("connection closed")
	// ErrMalformed means that the bytes are not an HTTP/1.1 answer.
	ErrMalformed = errors.New("malformed answer")
	// ErrTooLarge means that the head or body exceeds the client's bounds.
	ErrTooLarge = errors.New("answer too large")
)

const (
	// maxHead bounds an answer's status line and header fields, in bytes.
	maxHead = 256 << 10
	// initialBuffer is large enough for most pages of the market-data API.
	initialBuffer = 32 << 10
)

// Endpoint is a server that a Conn connects to.
type Endpoint struct {
	// Host is the value of the Host header field.
	Host string
	// Prefix is the path of the base URL, without a final slash. The paths of requests are appended to it.
	Prefix string
	// Header contains the header fields that are added to each request, one per line, including line ends.
	Header string

	addr string
	tls  *tls.Config // nil for plain TCP
}

// ParseEndpoint parses an http or https base URL.
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

// Dial opens a connection, with TLS for https.
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

// Conn is a connection. It opens at its first use, and reopens after it has been closed. It must not be used
// concurrently.
type Conn struct {
	// Timeout bounds the time from sending a request to the end of its answer. It may be exceeded by an
	// eighth, because setting a timer for each request costs as much as parsing the answer.
	Timeout time.Duration
	// MaxBody bounds an answer's body, in bytes.
	MaxBody int
	// Opened, if not nil, is called with the time that opening a connection took.
	Opened func(time.Duration)

	endpoint *Endpoint
	nc       net.Conn
	used     bool      // whether nc has received an answer
	deadline time.Time // the deadline set on nc
	buf      []byte    // bytes read
	w        int       // buf[:w] is filled
	resp     Response
}

// New returns a connection to e, which is not open yet.
func New(e *Endpoint) *Conn {
	return &Conn{Timeout: 10 * time.Second, MaxBody: 64 << 20, endpoint: e}
}

// Close closes the connection. A later Do opens it again.
func (c *Conn) Close() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

// Do sends req, a complete request, and returns its answer, which is valid until the next call. head reports
// whether the method is HEAD.
//
// A server may close an idle connection just as a request is sent on it. So if a connection that was used
// earlier ends before the first byte of the answer, Do sends the request once more on a new connection, as
// browsers do, and sets Response.Retried.
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

// roundTrip sends req and reads its answer. It does not time out before minDeadline.
func (c *Conn) roundTrip(req []byte, head bool, minDeadline time.Time) (*Response, error) {
	c.w = 0
	if c.deadline.Before(minDeadline) {
		c.deadline = minDeadline.Add(c.Timeout / 8)
		if err := c.nc.SetDeadline(c.deadline); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrClosed, err)
		}
	}
	_, writeErr := c.nc.Write(req)
	if writeErr != nil && errors.Is(writeErr, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("%w: %w", ErrTimeout, writeErr)
	}
	// A server may answer and close without reading the whole request. So look for an answer even if the
	// request could not be sent completely.
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

// grow replaces the buffer with one of n bytes. The parsed part still refers to the old buffer, which must
// not be written to again.
func (c *Conn) grow(n int) {
	buf := make([]byte, n)
	copy(buf, c.buf[:c.w])
	c.buf = buf
}

func (c *Conn) read(head bool) (*Response, error) {
	at := 0 // the beginning of the head
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

// readHead reads until the head that begins at the given index is complete, and returns the index of its end.
func (c *Conn) readHead(at int) (int, error) {
	for from := at; ; {
		if end := headEnd(c.buf[:c.w], from); end > 0 {
			return end, nil
		}
		if c.w-at > maxHead {
			return 0, fmt.Errorf("%w: head over %d bytes", ErrTooLarge, maxHead)
		}
		// The empty line may begin in the bytes read so far.
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
	for { // ignore trailer fields
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

// line returns the line that begins at the given index, without its line end, and the index of the next line.
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
