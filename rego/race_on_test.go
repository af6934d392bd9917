//go:build race

package rego

const raceEnabled = true
