//go:build !linux

package testserver

import "os/exec"

func dieWithParent(*exec.Cmd) {} // no such thing: a test that is killed leaves its server
