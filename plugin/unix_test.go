package plugin_test

import (
	"os/signal"
	"syscall"
)

func ignoreTermination() { signal.Ignore(syscall.SIGTERM) }
