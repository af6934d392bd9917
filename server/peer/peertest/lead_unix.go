//go:build unix

package peertest

import "syscall"

// lead fails where the process leads a group already; then there is a shell that
// leads its session, and nothing to do.
func lead() { _, _ = syscall.Setsid() }
