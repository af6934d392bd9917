//go:build race

package main

// manyAsks wait at once. The race detector makes each cost ten times as much.
const manyAsks = 300
