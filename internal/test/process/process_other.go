//go:build !linux

package process

import "syscall"

// Most other systems lack Pdeathsig. There the programs of a killed process keep running.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Only 127.0.0.1 works on every system.
func loopback(int) string { return "127.0.0.1" }
