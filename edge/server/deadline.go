package server

import "time"

// deadlines keeps the deadlines of a connection. fasthttp sets three for every
// request, each of which costs a timer; here one is armed when it matters, and
// one that is armed for a little earlier than asked for is left as it is.
type deadlines struct {
	slack                 time.Duration // how much earlier
	read                  time.Time     // asked for, armed before the next reading
	armedRead, armedWrite time.Time
}

// near reports whether armed will do for asked.
func (d *deadlines) near(armed, asked time.Time) bool {
	if armed.IsZero() || asked.IsZero() {
		return armed.Equal(asked)
	}
	early := asked.Sub(armed)
	return 0 <= early && early < d.slack
}

// SetReadDeadline notes the deadline; armRead sets it.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.deadlines.read = t
	return nil
}

// armRead is to be called before the connection is read from.
func (c *conn) armRead() error {
	d := &c.deadlines
	if d.near(d.armedRead, d.read) {
		return nil
	}
	d.armedRead = d.read
	return c.Conn.SetReadDeadline(d.read)
}

// readBy sets the deadline at once.
func (c *conn) readBy(t time.Time) error {
	c.deadlines.read = t
	return c.armRead()
}

// SetWriteDeadline sets the deadline.
func (c *conn) SetWriteDeadline(t time.Time) error {
	d := &c.deadlines
	if d.near(d.armedWrite, t) {
		return nil
	}
	d.armedWrite = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets both.
func (c *conn) SetDeadline(t time.Time) error {
	d := &c.deadlines
	d.read, d.armedRead, d.armedWrite = t, t, t
	return c.Conn.SetDeadline(t)
}
