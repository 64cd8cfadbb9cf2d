package network

import (
	"io"
	"net/http"
	"sync"
)

// Transport connects a client to a handler without a network, so that a test in a testing/synctest
// bubble waits in virtual time.
type Transport struct{ Handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, in := io.Pipe()
	w := &pipeWriter{in: in, header: http.Header{}, started: make(chan struct{})}
	go func() {
		t.Handler.ServeHTTP(w, r)
		w.WriteHeader(http.StatusOK)
		in.CloseWithError(r.Context().Err()) // Without an error, this is the normal end of the body.
	}()
	select {
	case <-w.started:
	case <-r.Context().Done():
		in.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
	stop := make(chan struct{})
	go func() {
		select {
		case <-r.Context().Done():
			in.CloseWithError(r.Context().Err())
		case <-stop:
		}
	}()
	return &http.Response{
		StatusCode: w.status, Header: w.header,
		Body:          &pipeBody{PipeReader: body, stop: sync.OnceFunc(func() { close(stop) })},
		ContentLength: -1, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

type pipeBody struct {
	*io.PipeReader
	stop func()
}

func (b *pipeBody) Close() error {
	b.stop()
	return b.PipeReader.Close()
}

type pipeWriter struct {
	in      *io.PipeWriter
	header  http.Header
	status  int
	started chan struct{}
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.header = w.header.Clone()
		close(w.started)
	}
}

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.in.Write(b)
}
