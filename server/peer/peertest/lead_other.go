//go:build !unix

package peertest

func lead() {}
