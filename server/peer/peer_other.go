//go:build !linux && !darwin

package peer

func peerOf(int, func(int) (int, error)) (Process, error) { return Process{}, ErrUnsupported }

func peerPidfd(int) (int, error) { return 0, ErrUnsupported }

type handle struct{}

func open(int) (handle, node, error) { return handle{}, node{}, ErrUnsupported }

func (handle) close() {}

func (handle) read() (node, error) { return node{}, ErrUnsupported }
