package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// bareCmd serves one captured response, head and body, as cheaply as fasthttp
// can by itself: no read-side limits, and a write buffer that takes head and
// body in one system call.
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
	head, body, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
	if !ok {
		return fmt.Errorf("%s: no end of the head", c.Response)
	}
	lines := bytes.Split(head, []byte("\r\n"))
	status, err := strconv.Atoi(string(bytes.Fields(lines[0])[1]))
	if err != nil {
		return err
	}
	type header struct{ name, value []byte }
	var headers []header
	var contentType []byte
	for _, line := range lines[1:] {
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch string(name) {
		case "Date", "Content-Length", "Connection":
		case "Content-Type":
			contentType = value
		default:
			headers = append(headers, header{name, value})
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
			if contentType != nil {
				h.SetContentTypeBytes(contentType)
			}
			ctx.SetStatusCode(status)
			if c.Copies == 1 {
				ctx.Response.SetBodyRaw(body)
				return
			}
			// Never the next one in memory, which the processor would have fetched.
			ctx.Response.SetBodyRaw(bodies[turn.Add(1)*7919%uint32(c.Copies)])
		},
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	return s.Serve(ln)
}
