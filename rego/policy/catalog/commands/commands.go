// Package commands holds the tables of what programs do with their arguments;
// their form is described at argv.Load.
package commands

import "embed"

// FS holds the tables.
//
//go:embed *.yaml
var FS embed.FS
