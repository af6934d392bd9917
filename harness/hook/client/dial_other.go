//go:build !unix

package client

import (
	"net"
	"time"
)

// dialTime is how long the daemon may take to be there.
const dialTime = 250 * time.Millisecond

func dial(path string) (Conn, error) { return net.DialTimeout("unix", path, dialTime) }
