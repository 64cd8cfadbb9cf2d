package server

import "sync/atomic"

// account is what one client address has: its open connections, and the bytes
// that are taken up for those of them that wait for their peer. Without it, one
// address could take all the memory that slow peers may have, and others would
// be turned away.
type account struct {
	conns int // by listener.mu
	bytes atomic.Int64
}

// charge charges n bytes, which are taken up while the peer is slow, to the account
// of its address and to the sum of all, and reports whether both have room.
// Nothing is charged where they have not. A connection has one charge at a time.
func (c *conn) charge(n int64) bool {
	l := c.listener
	c.charged = n
	l.waiting.Add(1)
	room := l.waitingBytes.Add(n) <= l.maxBytes
	if c.account != nil { // else a proxy that has not said for whom it comes
		room = c.account.bytes.Add(n) <= l.maxBytesOne && room
	}
	if !room {
		c.discharge()
	}
	return room
}

// discharge takes the charge back, if there is one.
func (c *conn) discharge() {
	if c.charged == 0 {
		return
	}
	l := c.listener
	l.waiting.Add(-1)
	l.waitingBytes.Add(-c.charged)
	if c.account != nil {
		c.account.bytes.Add(-c.charged)
	}
	c.charged = 0
}
