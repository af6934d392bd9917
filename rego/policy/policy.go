// Package policy holds the built-in policies: the Rego that classifies and
// routes a call, and the tables (catalog) that it looks things up in. The folder
// is the package regent; a folder's path is its package's path.
package policy

import (
	"embed"
	"io/fs"
)

// FS holds the built-in Rego and the tables.
//
//go:embed *.rego call/*.rego effects/*.rego grants/*.rego guards/*.rego lib/*/*.rego tools/*.rego verdicts/*.rego world/*.rego
//go:embed catalog/commands/*.yaml catalog/tools/*.yaml
var FS embed.FS

// Commands is the folder of the tables of what programs do with their arguments;
// see argv.Load.
func Commands() fs.FS { return sub("catalog/commands") }

// Tools is the folder of the tables of what tools do; see catalog.Load.
func Tools() fs.FS { return sub("catalog/tools") }

func sub(dir string) fs.FS {
	f, err := fs.Sub(FS, dir)
	if err != nil {
		panic(err) // only a name that is no path at all makes one
	}
	return f
}
