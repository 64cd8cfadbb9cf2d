package server

import "time"

// deadlines keeps the deadlines of a connection. Setting one costs a timer, so
// one that is armed for a little earlier than what is asked for is left as it
// is.
type deadlines struct {
	slack                 time.Duration // how much earlier
	armedRead, armedWrite time.Time
}

// near reports whether armed will do for asked.
func (d *deadlines) near(armed, asked time.Time) bool {
	early := asked.Sub(armed)
	return !armed.IsZero() && 0 <= early && early < d.slack
}

// readBy sets the time by which the next reading must have come to an end.
func (c *conn) readBy(t time.Time) error {
	d := &c.deadlines
	if d.near(d.armedRead, t) {
		return nil
	}
	d.armedRead = t
	return c.Conn.SetReadDeadline(t)
}

// writeBy sets the time by which the next writing must have come to an end.
func (c *conn) writeBy(t time.Time) error {
	d := &c.deadlines
	if d.near(d.armedWrite, t) {
		return nil
	}
	d.armedWrite = t
	return c.Conn.SetWriteDeadline(t)
}
