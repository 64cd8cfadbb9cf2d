package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/valyala/fasthttp"
)

// StaticFile is a file of the public listener that no key is asked for. What it
// points to must not be changed any more.
type StaticFile struct {
	Body        []byte
	ContentType string
	// Brotli and Gzip are Body in these codings, for clients that accept them,
	// in this order; nil: it is not sent so.
	Brotli, Gzip []byte
	// CacheControl is the header's value; "": "public, max-age=300".
	CacheControl string
	// Header are more headers, such as Content-Security-Policy.
	Header map[string]string
}

// variant is a file in one coding.
type variant struct {
	coding, body, etag []byte
}

type staticFile struct {
	variants                  []variant // the plain one last
	contentType, cacheControl []byte
	header                    [][2][]byte
}

func newStaticFile(f StaticFile) *staticFile {
	digest := sha256.Sum256(f.Body)
	tag := `"` + hex.EncodeToString(digest[:16])
	file := &staticFile{contentType: []byte(f.ContentType), cacheControl: []byte(f.CacheControl)}
	if f.Brotli != nil {
		file.variants = append(file.variants, variant{[]byte("br"), f.Brotli, []byte(tag + `-br"`)})
	}
	if f.Gzip != nil {
		file.variants = append(file.variants, variant{[]byte("gzip"), f.Gzip, []byte(tag + `-gzip"`)})
	}
	file.variants = append(file.variants, variant{nil, f.Body, []byte(tag + `"`)})
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
	var v *variant
	have := false
	for i := range f.variants {
		each := &f.variants[i]
		if v == nil && (each.coding == nil || accepts(r.AcceptEncoding, each.coding)) {
			v = each
		}
		// The content is the same in all codings, as contract section 8 has it
		// for answers.
		have = have || hasTag(r.IfNoneMatch, each.etag)
	}
	h.SetCanonical(headerETag, v.etag)
	h.SetCanonical(headerCacheControl, f.cacheControl)
	if len(f.variants) > 1 {
		h.SetCanonical(headerVary, valueAcceptEncoding)
	}
	for _, kv := range f.header {
		h.SetCanonical(kv[0], kv[1])
	}
	if have {
		response.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	h.SetContentTypeBytes(f.contentType)
	if v.coding != nil {
		h.SetContentEncodingBytes(v.coding)
	}
	response.SetBodyRaw(v.body)
}

// accepts reports whether Accept-Encoding names the coding, or all, with a
// weight above 0.
func accepts(list, coding []byte) bool {
	accepted := false
	for more := len(list) > 0; more; {
		var element []byte
		element, list, more = bytes.Cut(list, []byte{','})
		name, weight, _ := bytes.Cut(element, []byte{';'})
		name = bytes.Trim(name, " \t")
		// q=0, q=0.0 and so on have nothing but these characters.
		refused := len(weight) > 0 && len(bytes.Trim(weight, " \tqQ=0.")) == 0
		if bytes.EqualFold(name, coding) {
			return !refused
		}
		if string(name) == "*" {
			accepted = !refused
		}
	}
	return accepted
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
