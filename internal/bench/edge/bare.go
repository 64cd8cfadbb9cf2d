package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// bareCmd serves one captured response, head and body, at the lowest cost that fasthttp can reach
// by itself: without limits on reading, and with a write buffer that sends head and body in one
// system call.
type bareCmd struct {
	Listen   string `required:""`
	Response string `required:"" help:"File with the response, head included."`
	Copies   int    `default:"1" help:"Copies of the body in memory, sent in turn."`
}

func (c *bareCmd) Run(context.Context) error {
	raw, err := os.ReadFile(c.Response)
	if err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	contentType := res.Header.Get("Content-Type")
	type header struct{ name, value []byte }
	var headers []header
	for name := range res.Header {
		switch name {
		case "Date", "Content-Length", "Connection", "Content-Type":
		default:
			headers = append(headers, header{[]byte(name), []byte(res.Header.Get(name))})
		}
	}
	bodies := make([][]byte, c.Copies)
	for i := range bodies {
		bodies[i] = bytes.Clone(body)
	}
	var turn atomic.Uint32
	s := fasthttp.Server{
		NoDefaultServerHeader: true, NoDefaultContentType: true, WriteBufferSize: 64 << 10,
		Handler: func(ctx *fasthttp.RequestCtx) {
			h := &ctx.Response.Header
			for i := range headers {
				h.SetCanonical(headers[i].name, headers[i].value)
			}
			if contentType != "" {
				h.SetContentType(contentType)
			}
			ctx.SetStatusCode(res.StatusCode)
			if c.Copies == 1 {
				ctx.Response.SetBodyRaw(body)
				return
			}
			// Do not send the copy that is next in memory, because the processor may have prefetched it.
			ctx.Response.SetBodyRaw(bodies[turn.Add(1)*7919%uint32(c.Copies)])
		},
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	return s.Serve(ln)
}
