//go:build !race

package main

const manyAsks = 2000
