//go:build !unix

package main

import "os/exec"

// grouped does nothing where there are no groups of processes.
func grouped(*exec.Cmd) (over func()) { return func() {} }
