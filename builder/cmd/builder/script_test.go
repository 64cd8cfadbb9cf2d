package main

import (
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts in testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "capture": capture},
	})
}

// status runs a command that must exit with the given status, as in "status 1 builder verify".
func status(ts *testscript.TestScript, _ bool, args []string) {
	var exit *exec.ExitError
	got := 0
	if errors.As(ts.Exec(args[1], args[2:]...), &exit) {
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("status %d, want %s", got, args[0])
	}
}

// capture sets a variable to the part of the last command's output that the group in a pattern
// matches, as in capture ID '"id":"(\w+)"'.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if found == nil {
		ts.Fatalf("no %s", args[1])
	}
	ts.Setenv(args[0], found[1])
}
