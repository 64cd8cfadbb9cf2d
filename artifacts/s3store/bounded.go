package s3store

import (
	"io"
	"net/http"
)

// maxRest bounds the bytes of an answer that says whether a request was done.
const maxRest = 1 << 20

// bounded ends such answers behind maxRest bytes: the client reads a body to its end before
// it closes it, however long that is. What is left then goes with the connection.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err != nil || r.Method == http.MethodGet && res.StatusCode < http.StatusMultipleChoices {
		return res, err // what an object or a list holds has bounds of its own
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxRest), res.Body}
	return res, nil
}
