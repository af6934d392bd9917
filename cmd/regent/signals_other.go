//go:build !unix

package main

import (
	"os"
	"syscall"
)

// viewSignals are those that a view has to act on. The size is looked at each
// second.
func viewSignals() []os.Signal { return []os.Signal{syscall.SIGHUP, syscall.SIGQUIT} }

func signalMeaning(os.Signal) viewSignal { return signalEnd }
