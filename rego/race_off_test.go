//go:build !race

package rego

const raceEnabled = false
