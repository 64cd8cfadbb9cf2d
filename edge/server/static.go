package server

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"

	"example.com/marketdata/edge/reply"
	"github.com/klauspost/compress/gzip"
)

// StaticFile is a file of the public listener that needs no key. Its bytes must not change.
type StaticFile struct {
	Body        []byte
	ContentType string
	// Brotli and Gzip are Body in these codings, or nil. The server prefers them in this order, if the client
	// accepts them.
	Brotli, Gzip []byte
	// CacheControl is the value of Cache-Control; "" means "public, max-age=300".
	CacheControl string
	// Header contains additional headers, such as Content-Security-Policy.
	Header map[string]string
	// Origin is a placeholder in Body for the origin to which a request was sent. If it is not empty, the
	// server replaces the placeholder for each request and compresses the result.
	Origin string
}

// codedFile is a file in one coding.
type codedFile struct {
	coding, body, etag []byte
	notModified, ok    []byte // the header lines of a 304 and of a 200
}

type staticFile struct {
	codings []codedFile // the plain one last
	source  StaticFile
	last    atomic.Pointer[originFile] // the file for the last request's origin; used only if source.Origin is set
}

// originFile is a file with its origin filled in.
type originFile struct {
	origin string
	file   *staticFile
}

// forOrigin returns the file for requests to the origin of r.
func (f *staticFile) forOrigin(r *Request) *staticFile {
	if f.source.Origin == "" {
		return f
	}
	origin := originOf(r)
	last := f.last.Load()
	if last == nil || last.origin != origin {
		with := f.source
		with.Body = bytes.ReplaceAll(with.Body, []byte(with.Origin), []byte(origin))
		var coded bytes.Buffer
		z, _ := gzip.NewWriterLevel(&coded, gzip.BestSpeed) // a client can force this by varying Host
		_, _ = z.Write(with.Body)
		_ = z.Close()
		with.Gzip, with.Origin = coded.Bytes(), ""
		last = &originFile{origin, newStaticFile(with)}
		f.last.Store(last)
	}
	return last.file
}

// originOf returns the origin to which a request was sent, such as https://host, or "/" if it does not state
// its host. A proxy that terminates TLS states the scheme in X-Forwarded-Proto.
func originOf(r *Request) string {
	header := &r.http().Header
	host := string(header.Host())
	if host == "" || len(host) > 255 { // validHost has checked it
		return "/"
	}
	if string(header.Peek("X-Forwarded-Proto")) == "https" {
		return "https://" + host
	}
	return "http://" + host
}

func newStaticFile(f StaticFile) *staticFile {
	digest := sha256.Sum256(f.Body)
	tag := `"` + hex.EncodeToString(digest[:16])
	file := &staticFile{source: f}
	for _, c := range []struct {
		name string
		body []byte
	}{{"br", f.Brotli}, {"gzip", f.Gzip}} {
		if c.body != nil {
			coded := codedFile{coding: []byte(c.name), body: c.body, etag: []byte(tag + "-" + c.name + `"`)}
			file.codings = append(file.codings, coded)
		}
	}
	file.codings = append(file.codings, codedFile{body: f.Body, etag: []byte(tag + `"`)})
	for i := range file.codings {
		v := &file.codings[i]
		v.notModified = reply.AppendLine(nil, "ETag", v.etag)
		caching := cmp.Or(f.CacheControl, "public, max-age=300")
		v.notModified = reply.AppendLine(v.notModified, headerCacheControl, []byte(caching))
		if len(file.codings) > 1 {
			v.notModified = append(v.notModified, lineVary...)
		}
		for _, name := range slices.Sorted(maps.Keys(f.Header)) {
			v.notModified = reply.AppendLine(v.notModified, name, []byte(f.Header[name]))
		}
		v.ok = reply.AppendLine(bytes.Clone(v.notModified), "Content-Type", []byte(f.ContentType))
		if v.coding != nil {
			v.ok = reply.AppendLine(v.ok, "Content-Encoding", v.coding)
		}
	}
	return file
}

// feedFile is the last result of Config.Feed, prepared for sending.
type feedFile struct {
	source *StaticFile
	file   *staticFile
}

// sendFeed sends the feed of changes.
func (s *Server) sendFeed(r *Request) *problem {
	source := s.cfg.Feed()
	if source == nil {
		return unavailable
	}
	last := s.feed.Load()
	if last == nil || last.source != source {
		last = &feedFile{source, newStaticFile(*source)}
		s.feed.Store(last)
	}
	return s.sendStatic(r, last.file.forOrigin(r))
}

// sendStatic sends a file, or the status of a failed precondition. Files have no modification time.
func (s *Server) sendStatic(r *Request, f *staticFile) *problem {
	v := &f.codings[0]
	for i := 1; v.coding != nil && !accepts(r.Asked.AcceptEncoding, v.coding); i++ {
		v = &f.codings[i]
	}
	switch status := r.Asked.Precondition(v.etag, nil, true); status {
	case http.StatusPreconditionFailed:
		return preconditionFailed
	case http.StatusNotModified:
		r.Asked.Reply.Status, r.Asked.Reply.Fixed = status, v.notModified
	default:
		r.Asked.Reply.Fixed, r.Asked.Reply.Body = v.ok, v.body
	}
	return nil
}

// accepts reports whether Accept-Encoding names the coding with a weight above 0. "*" means gzip.
func accepts(list, coding []byte) bool {
	accepted := false
	for more := len(list) > 0; more; {
		var element []byte
		element, list, more = bytes.Cut(list, []byte{','})
		name, weight, _ := bytes.Cut(element, []byte{';'})
		name = bytes.Trim(name, " \t")
		// The value of a zero weight, such as q=0 or q=0.0, consists only of these characters.
		refused := len(weight) > 0 && len(bytes.Trim(weight, " \tqQ=0.")) == 0
		if bytes.EqualFold(name, coding) {
			return !refused
		}
		if string(name) == "*" && string(coding) == "gzip" {
			accepted = !refused
		}
	}
	return accepted
}
