package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"
)

// Serve serves the connections of ln until Drain, and then returns nil; or it
// returns why it cannot go on. It may be called once.
//
// Requests are parsed by fasthttp. The loop around that is the server's own,
// for what fasthttp.Server spends on each request where the memory of idle
// connections is to be small: a byte from the heap, five readings of the clock,
// three timers, and a response that is copied twice.
func (s *Server) Serve(ln net.Listener) error {
	l := newListener(ln, &s.cfg)
	if !s.listener.CompareAndSwap(nil, l) {
		return errors.New("server: Serve was called before")
	}
	defer close(s.served)
	if s.draining.Load() {
		return l.Close()
	}
	for {
		c, err := l.accept()
		switch {
		case err != nil && s.draining.Load():
			return nil
		case err != nil:
			return fmt.Errorf("serve %v: %w", ln.Addr(), err)
		}
		go s.serveConn(c)
	}
}

// serveConn answers the requests of a connection, one after another.
func (s *Server) serveConn(c *conn) {
	defer c.Close()
	defer func() {
		// Handlers have a recover of their own, which answers.
		if v := recover(); v != nil {
			s.log.brokenConn(v, debug.Stack())
		}
	}()
	for c.await() {
		c.stage.Add(1)
		r := s.acquire(c)
		r.mem.in.Reset(c)
		more := s.exchange(c, r)
		for more && r.mem.in.Buffered() > 0 { // a pipeline
			r.begin(c)
			more = s.exchange(c, r)
		}
		s.release(r)
		if !more {
			return
		}
		c.stage.Add(1)
	}
}

// exchange reads a request and writes its answer. It reports whether another
// request may follow.
func (s *Server) exchange(c *conn, r *Request) bool {
	if err := s.read(c, r); err != nil {
		if err == io.EOF {
			return false
		}
		s.unread(c, r, err)
	} else {
		r.Now = time.Now()
		s.handle(r)
	}
	return s.write(c, r) == nil && !r.close
}

// read reads a request. It returns io.EOF when the client has gone.
func (s *Server) read(c *conn, r *Request) error {
	request := r.http()
	request.Reset()
	c.late = time.Time{}
	if err := request.Header.Read(r.mem.in); err != nil {
		if nothing := (fasthttp.ErrNothingRead{}); errors.As(err, &nothing) {
			return io.EOF
		}
		return err
	}
	header := &request.Header
	if !plainTarget(header.RequestURI()) || !plainHost(header.Host()) {
		uri := fasthttp.AcquireURI()
		defer fasthttp.ReleaseURI(uri)
		if err := uri.Parse(header.Host(), header.RequestURI()); err != nil {
			return err
		}
	}
	switch length := header.ContentLength(); {
	case ambiguous(header):
		return errAmbiguous
	case length == noBody:
		return nil
	case length > maxBody: // and is not asked for
		return fasthttp.ErrBodyTooLarge
	}
	c.late = time.Time{} // as much time again
	if request.MayContinue() {
		if err := c.send([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return io.EOF
		}
	}
	err := request.ContinueReadBody(r.mem.in, maxBody, false)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// write writes the answer.
func (s *Server) write(c *conn, r *Request) error {
	first, rest := s.appendReply(r)
	if err := c.send(first); err != nil || rest == nil {
		return err
	}
	return c.send(rest)
}
