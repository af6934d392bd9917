// Package policy holds the built-in policies: the Rego that classifies and
// routes a call, and the tables (catalog) that it looks things up in. The folder
// is the package regent; a folder's path is its package's path.
package policy

import "embed"

// FS holds the built-in Rego and the tables.
//
//go:embed *.rego call/*.rego effects/*.rego guards/*.rego lib/*/*.rego tools/*.rego world/*.rego
//go:embed catalog/commands/*.yaml catalog/tools/*.yaml
var FS embed.FS
