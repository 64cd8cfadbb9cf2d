package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

const (
	// maxReply bounds what one command may be answered with, in bytes. The
	// script's and PING's answers have less than 64, a server's first words
	// (HELLO, which lists its modules) a few KiB at most.
	maxReply = 64 << 10
	// elementCost is what room for one element of a list counts as.
	elementCost = 16
)

var errReply = errors.New("the limit store's reply is larger than any that is asked for, or is none")

// dialer returns go-redis' own dialer, whose connections bound what they
// receive.
func dialer(options *redis.Options) func(context.Context, string, string) (net.Conn, error) {
	dial := redis.NewDialer(options)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		b := &bounded{Conn: c}
		if raw, ok := c.(syscall.Conn); ok {
			// By this go-redis finds out whether an idle connection still lives.
			return struct {
				*bounded
				syscall.Conn
			}{b, raw}, nil
		}
		return b, nil
	}
}

// bounded is a connection on which replies are charged for what they say they
// are before go-redis sees it, since go-redis makes room for as much as a reply
// announces: "*2147483647" would take 32 GiB. What is sent gives the budget
// anew; when it is spent the connection is of no use any more. Lists in lists
// are bounded with it, and so is the depth to which go-redis follows them.
//
// It follows the framing of RESP, versions 2 and 3: lines, of which those that
// begin with one of $ = ! announce so many bytes and those that begin with one of
// * ~ > % | so many elements.
type bounded struct {
	net.Conn
	budget int
	kind   byte // of the line that is being read; 0: it begins with the next byte
	number int  // that it announces; -1 behind a minus, -2 behind the 1 after it
	skip   int  // bytes of a text that are still to come, line end included
	broken bool
}

func (b *bounded) Write(p []byte) (int, error) {
	b.budget = maxReply
	return b.Conn.Write(p)
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.broken {
		return 0, errReply
	}
	n, err := b.Conn.Read(p)
	if !b.follow(p[:n]) {
		b.broken = true
		return 0, errReply
	}
	return n, err
}

// follow charges for p. It reports whether the budget allows it.
func (b *bounded) follow(p []byte) bool {
	b.budget -= len(p)
	for len(p) > 0 && b.budget >= 0 {
		if n := min(b.skip, len(p)); n > 0 {
			b.skip -= n
			p = p[n:]
			continue
		}
		c := p[0]
		p = p[1:]
		switch {
		case b.kind == 0:
			b.kind, b.number = c, 0
		case c == '\n':
			if !b.announced() {
				return false
			}
			b.kind = 0
		case !b.announces(): // the rest of a line of text
		case c >= '0' && c <= '9' && b.number >= 0:
			// Past the budget any number is as good as another.
			b.number = min(10*b.number+int(c-'0'), 2*maxReply)
		case c == '-' && b.number == 0:
			b.number = -1 // to be followed by a 1: there is no other negative length
		case c == '1' && b.number == -1:
			b.number = -2
		case c != '\r':
			return false // what go-redis reads there need not be what is read here
		}
	}
	return b.budget >= 0
}

// announces reports a line that says how much follows it.
func (b *bounded) announces() bool { return strings.IndexByte("$=!*~>%|", b.kind) >= 0 }

// announced charges for what the line that has ended announces, and reports
// whether that can be.
func (b *bounded) announced() bool {
	switch b.number {
	case -1:
		return false
	case -2: // "$-1" and "*-1" announce nothing
		return true
	}
	switch b.kind {
	case '$', '=', '!':
		b.skip = b.number + len("\r\n")
		b.budget -= b.number
	case '*', '~', '>':
		b.budget -= b.number * elementCost
	case '%', '|':
		b.budget -= 2 * b.number * elementCost
	}
	return true
}
