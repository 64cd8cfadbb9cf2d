package process

import (
	"net"
	"syscall"
)

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// loopback returns an address that is unique to the process pid. The whole network 127.0.0.0/8,
// from which the address comes, belongs to this machine. pid is below 1<<22 (proc_pid_max(5)).
func loopback(pid int) string {
	return net.IPv4(127, byte(64+pid>>16), byte(pid>>8), byte(pid)).String()
}
