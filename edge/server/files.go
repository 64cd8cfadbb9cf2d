package server

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/files"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/reply"
	"example.com/marketdata/edge/snapshot"
)

const (
	filesName = "files"
	// piece is how much of a file is sent for one token.
	piece = 256 << 10
)

// sending is a part of a file that is sent.
type sending struct {
	*files.File
	at, to int64
	first  []byte // the bytes from at on, read before the head says that there are any
	key    *auth.Key
}

// answerFiles answers a request for the list of files or for a file, and reports whether the path is
// of that form.
func (s *Server) answerFiles(r *Request, path []byte) bool {
	name, pathPin, ok := nameAt(path)
	name, found := bytes.CutPrefix(name, []byte(filesName))
	if !ok || !found || len(name) > 0 && (name[0] != '/' || len(name) == 1) {
		return false
	}
	r.route = RouteFiles
	p := s.admit(r)
	if p == nil {
		p = r.parsePin(pathPin)
	}
	if p != nil {
		s.problem(r, p)
		return true
	}
	if len(name) == 0 {
		r.Other = files.Listing{Files: s.cfg.Files}
		s.answerFound(r)
		return true
	}
	if err := s.findFile(r, name[1:]); err != nil {
		s.problem(r, problemOf(err))
	}
	return true
}

// findFile sets the head of the answer with a file, and what of it is sent.
func (s *Server) findFile(r *Request, name []byte) error {
	if key := r.Bill.Key; r.Pinned && key != nil {
		defer key.EndPinned()
		if !key.BeginPinned() {
			return snapshot.ErrLater
		}
	}
	f, err := s.cfg.Files.Find(&r.Request, name)
	if err != nil {
		return err
	}
	r.Snapshot = f.Time
	p := &r.Reply
	p.Add("X-Snapshot-Time", f.Time.AppendFormat(nil, headerTime))
	p.Add("ETag", f.Tag)
	modified := f.Time.AppendFormat(nil, http.TimeFormat)
	p.Add("Last-Modified", modified)
	p.Add("Accept-Ranges", []byte("bytes"))
	s.addFileCaching(r)
	if reply.NotModified(&r.Request, f.Tag, modified) {
		p.Status = http.StatusNotModified
		return nil
	}
	out := &sending{File: f, to: f.Bytes, key: r.Bill.Key}
	if r.ranges != nil && !r.http().Header.IsHead() && (r.ifRange == nil || bytes.Equal(r.ifRange, f.Tag)) {
		from, to, ok := f.Range(r.ranges)
		if ok && from == to {
			p.Clear()
			s.problem(r, noRange)
			p.Add("Content-Range", fmt.Appendf(nil, "bytes */%d", f.Bytes))
			return nil
		}
		if ok {
			p.Status = http.StatusPartialContent
			p.Add("Content-Range", fmt.Appendf(nil, "bytes %d-%d/%d", from, to-1, f.Bytes))
		}
		out.at, out.to = from, to
	}
	if out.first, err = f.Part(out.at, min(piece, out.to-out.at)); err != nil {
		p.Clear()
		return err
	}
	p.Add("Content-Type", []byte(f.MediaType))
	if s.cfg.SharedCaches {
		p.Lines = reply.AppendNames(p.Lines, f.Time.AppendFormat(nil, headerTime), filesName)
	}
	r.file = out
	return nil
}

// addFileCaching adds the header lines for caches. A file below /at/ never changes.
func (s *Server) addFileCaching(r *Request) {
	scope, control := "private", "max-age=60"
	if s.cfg.SharedCaches && !(r.Pinned && !r.PinInPath) {
		scope = "public"
	}
	if r.PinInPath {
		control = "max-age=86400, immutable"
	}
	r.Reply.Add(headerCacheControl, []byte(scope+", "+control))
	if !r.PinInPath && !s.cfg.SharedCaches {
		r.Reply.Add("Vary", []byte("X-Snapshot-Time"))
	}
}

// writeFile writes head and file, piece by piece, each for a token; the first is paid for. While
// less than half of the key's tokens are left it waits, so that a download leaves the others to the
// key's other requests.
func (s *Server) writeFile(c *conn, r *Request, head []byte) error {
	out := r.file
	head = bytes.Clone(head)
	r.Buffers.Release()
	if c.buffered() == 0 {
		c.giveInput()
	}
	s.detach(r)
	if c.forwards {
		c.client = r.client
	}
	c.enter(writing)
	defer c.resume()
	c.broken = true
	c.patience = c.listener.writeTimeout
	defer func() { c.patience = 0 }()
	body := out.first
	out.first = nil
	for {
		if err := c.orCut(c.SetWriteDeadline(time.Now().Add(c.patience))); err != nil {
			return err
		}
		if err := c.writeAll(chargeWriting+out.Held(), head, body); err != nil {
			return err
		}
		head, r.sent = nil, r.sent+len(body)
		if out.at += int64(len(body)); out.at == out.to {
			break
		}
		if err := s.payPiece(c, out); err != nil {
			return err
		}
		var err error
		if body, err = out.Part(out.at, min(piece, out.to-out.at)); err != nil {
			return err
		}
	}
	c.broken = false
	return c.orCut(c.SetWriteDeadline(time.Time{}))
}

// payPiece takes a token for a piece, and waits for it. Nobody is charged for that wait, so the
// connection holds no chunk meanwhile.
func (s *Server) payPiece(c *conn, out *sending) error {
	key := out.key
	if key == nil {
		return nil
	}
	// Long enough that thousands that wait cost little, and short enough to use all of the rate.
	every := key.Limit.Interval()
	every = max(every, min(250*time.Millisecond, every*time.Duration(key.Limit.Burst()/2)))
	for {
		now, wait := limit.At(time.Now()), every
		if 2*key.Charge(limit.Decision{}, now, 0).Remaining >= key.Limit.Burst() {
			left := key.Take(now)
			if left.OK {
				return nil
			}
			wait = time.Duration(left.RetryAfter) * time.Second
		}
		out.Drop()
		c.discharge()
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}
