package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/valyala/fasthttp"
)

// StaticFile is a file of the public listener that no key is asked for.
type StaticFile struct {
	Body        []byte
	ContentType string
	// CacheControl is the header's value; "": "public, max-age=300".
	CacheControl string
	// Header are more headers, such as Content-Security-Policy.
	Header map[string]string
}

type staticFile struct {
	body, contentType, cacheControl, etag []byte
	header                                [][2][]byte
}

func newStaticFile(f StaticFile) *staticFile {
	digest := sha256.Sum256(f.Body)
	file := &staticFile{
		body: bytes.Clone(f.Body), contentType: []byte(f.ContentType), cacheControl: []byte(f.CacheControl),
		etag: []byte(`"` + hex.EncodeToString(digest[:16]) + `"`),
	}
	if f.CacheControl == "" {
		file.cacheControl = []byte("public, max-age=300")
	}
	for name, value := range f.Header {
		file.header = append(file.header, [2][]byte{[]byte(name), []byte(value)})
	}
	return file
}

// answer sends the file, or says that the client has it.
func (f *staticFile) answer(r *Request) {
	r.route = RouteStatic
	response := &r.Ctx.Response
	h := &response.Header
	h.SetCanonical(headerETag, f.etag)
	h.SetCanonical(headerCacheControl, f.cacheControl)
	for _, kv := range f.header {
		h.SetCanonical(kv[0], kv[1])
	}
	if hasTag(r.IfNoneMatch, f.etag) {
		response.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	h.SetContentTypeBytes(f.contentType)
	response.SetBodyRaw(f.body)
}

// hasTag reports whether If-None-Match names the tag or is "*". The tags here
// hold no comma.
func hasTag(list, tag []byte) bool {
	for more := len(list) > 0; more; {
		var element []byte
		element, list, more = bytes.Cut(list, []byte{','})
		element = bytes.TrimPrefix(bytes.Trim(element, " \t"), []byte("W/"))
		if bytes.Equal(element, tag) || string(element) == "*" {
			return true
		}
	}
	return false
}
