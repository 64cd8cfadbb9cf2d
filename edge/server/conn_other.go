//go:build !unix

package server

// Write writes p as net.Conn does.
func (c *conn) Write(p []byte) (int, error) { return c.Conn.Write(p) }

func (c *conn) prepareWriter() {}
