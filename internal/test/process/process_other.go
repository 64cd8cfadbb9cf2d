//go:build !linux

package process

import "syscall"

// There is no such thing as Pdeathsig: a process that is killed leaves its
// programs behind.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Only 127.0.0.1 works everywhere.
func loopback(int) string { return "127.0.0.1" }
