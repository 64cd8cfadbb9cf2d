package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"example.com/marketdata/edge/auth"
	"example.com/marketdata/edge/files"
	"example.com/marketdata/edge/limit"
	"example.com/marketdata/edge/reply"
)

const (
	filesName = "files"
	// longestPay bounds how long a download waits for tokens. It is longer than a key with the lowest limit
	// needs to pay for one chunk of each of its downloads.
	longestPay = 2 * time.Minute
	// laterFile is the Retry-After value, in seconds, for a key with too many downloads.
	laterFile = 15
)

var slash = []byte{'/'}

// sending is the part of a file that an answer sends.
type sending struct {
	*files.File
	at, to int64
	first  []byte // the first bytes, which must be read before the head is written
	key    *auth.Key
	place  chan struct{} // the key's slots for downloads if this part occupies one, otherwise nil
}

// begin takes a slot if the download may have to wait for tokens. It returns false if no slot is free.
func (out *sending) begin(places chan struct{}) bool {
	if _, end := out.ChunkAt(out.at); end >= out.to || places == nil {
		return true
	}
	select {
	case places <- struct{}{}:
		out.place = places
		return true
	default:
		return false
	}
}

// end releases the slot. It may be called several times.
func (out *sending) end() {
	if out.place != nil {
		<-out.place
		out.place = nil
	}
}

// sendFile answers with a file. It stops waiting if the client closes the connection.
func (s *Server) sendFile(r *Request, name []byte) *problem {
	stop := func() {}
	if r.conn != nil {
		r.Asked.Context, stop = r.conn.socket.untilGone(r.Asked.Context)
	}
	defer stop()
	p, err := s.findFile(r, name)
	if err != nil {
		if p = r.failed(err); p == unavailable {
			r.fault = err
		}
	}
	return p
}

// findFile sets the head of an answer with a file, and the part to send.
func (s *Server) findFile(r *Request, name []byte) (*problem, error) {
	if bytes.IndexByte(name, '%') >= 0 { // generated clients escape the slash in a path parameter
		name = bytes.ReplaceAll(bytes.ReplaceAll(name, []byte("%2F"), slash), []byte("%2f"), slash)
	}
	f, err := s.cfg.Files.Find(&r.Asked, name)
	if err != nil {
		return nil, err
	}
	r.Asked.Snapshot = f.Time
	p := &r.Asked.Reply
	p.Add("X-Snapshot-Time", f.Time.AppendFormat(nil, headerTime))
	p.Add("ETag", f.Tag)
	modified := f.Time.AppendFormat(nil, http.TimeFormat)
	p.Add("Last-Modified", modified)
	p.Add("Accept-Ranges", []byte("bytes"))
	s.addFileCaching(r)
	switch status := r.Asked.Precondition(f.Tag, modified, true); status {
	case http.StatusPreconditionFailed:
		return nil, reply.ErrPrecondition
	case http.StatusNotModified:
		p.Status = status
		return nil, nil
	}
	out := &sending{File: f, to: f.Bytes, key: r.payer}
	if r.ranges != nil && !r.http().Header.IsHead() && r.Asked.SameRange(f.Tag, modified) {
		from, to, ok := f.Range(r.ranges)
		if ok && from == to {
			p.Clear()
			p.Add("Content-Range", fmt.Appendf(nil, "bytes */%d", f.Bytes))
			return noRange, nil
		}
		if ok {
			p.Status = http.StatusPartialContent
			p.Add("Content-Range", fmt.Appendf(nil, "bytes %d-%d/%d", from, to-1, f.Bytes))
		}
		out.at, out.to = from, to
	}
	if !r.http().Header.IsHead() {
		if err := s.readFirst(r, out); err != nil {
			return nil, err
		}
	}
	p.Add("Content-Type", []byte(f.MediaType))
	if s.cfg.SharedCaches {
		p.Lines = reply.AppendNames(p.Lines, f.Time.AppendFormat(nil, headerTime), filesName)
	}
	r.file = out
	return nil, nil
}

// readFirst pays for the first chunk and reads it.
func (s *Server) readFirst(r *Request, out *sending) (err error) {
	if !out.begin(r.Asked.Places.Of(limit.Download)) {
		return errDownloads
	}
	size, _ := out.ChunkAt(out.at)
	r.charge(readTokens(size))
	if out.first, err = out.Part(r.Asked.Context, out.at, out.to); err != nil {
		out.end()
	}
	return err
}

// addFileCaching adds the header lines for caches. A file below /at/ never changes.
func (s *Server) addFileCaching(r *Request) {
	scope, control := "private", "max-age=60"
	if s.cfg.SharedCaches && !(r.Asked.Pinned && !r.Asked.PinInPath) {
		scope = "public"
	}
	if r.Asked.PinInPath {
		control = "max-age=86400, immutable"
	}
	r.Asked.Reply.Add(headerCacheControl, []byte(scope+", "+control))
	if !r.Asked.PinInPath && !s.cfg.SharedCaches {
		r.Asked.Reply.Add("Vary", []byte("X-Snapshot-Time"))
	}
}

// writeFile writes the head and the file, chunk by chunk. The first chunk is already paid for.
func (s *Server) writeFile(c *conn, r *Request, head []byte) error {
	out := r.file
	defer out.end()
	head = bytes.Clone(head)
	r.Asked.Buffers.Release()
	if c.buffered() == 0 {
		c.giveInput()
	}
	ctx, stop := c.socket.untilGone(s.ctx)
	defer stop()
	body := out.first
	out.first = nil
	for {
		if err := c.writeAll(s.cfg.WriteTimeout, head, body); err != nil {
			return err
		}
		r.sent += len(body)
		out.at += int64(len(body))
		head, body = nil, nil // no chunk stays in memory while the download waits for tokens
		if out.at == out.to {
			break
		}
		if err := s.payChunk(ctx, out); err != nil {
			return err
		}
		var err error
		if body, err = out.Part(ctx, out.at, out.to); err != nil {
			return err
		}
	}
	return nil
}

// payChunk pays for the next chunk. It waits while less than half of the key's tokens are left, so that a
// download leaves the other half to the key's other requests.
func (s *Server) payChunk(ctx context.Context, out *sending) error {
	key := out.key
	if key == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.payWait)
	defer cancel()
	// Check rarely enough that waiting costs little, but often enough that downloads use the whole rate.
	every := key.Limit.Interval()
	every = max(every, min(250*time.Millisecond, every*time.Duration(key.Limit.Burst()/2)))
	size, _ := out.ChunkAt(out.at)
	for {
		now, wait := limit.At(time.Now()), every
		if 2*key.Charge(limit.Decision{}, now, 0).Remaining >= key.Limit.Burst() {
			left := key.Take(now)
			if left.OK {
				key.Charge(left, now, readTokens(size)) // may exceed the tokens that are left
				return nil
			}
			wait = time.Duration(left.RetryAfter) * time.Second
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
