//go:build unix

package main

import (
	"os"
	"syscall"
)

// viewSignals are those that a view has to act on.
func viewSignals() []os.Signal {
	return []os.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGCONT}
}

func signalMeaning(sig os.Signal) viewSignal {
	switch sig {
	case syscall.SIGWINCH:
		return signalResized
	case syscall.SIGCONT:
		return signalResumed
	default:
		return signalEnd
	}
}
