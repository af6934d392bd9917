package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// withheldBuiltins are the built-ins that policies do not get: those that reach
// the network, the clock, the environment or chance, so that one input has one
// answer and a rule cannot carry it away. A name that ends in a dot stands for
// all that begin with it.
var withheldBuiltins = []string{
	"http.send",
	"net.lookup_ip_addr",
	"opa.runtime",
	"providers.",
	"rand.intn",
	"rego.parse_module",
	"time.now_ns",
	"trace",
	"uuid.rfc4122",
}

func withheld(name string) bool {
	return slices.ContainsFunc(withheldBuiltins, func(w string) bool {
		return name == w || strings.HasSuffix(w, ".") && strings.HasPrefix(name, w)
	})
}

// capabilities is what the compiler offers to every module.
func capabilities(s Settings) *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion()
	c.Builtins = slices.DeleteFunc(c.Builtins, func(b *ast.Builtin) bool {
		return withheld(b.Name) && !slices.Contains(s.AllowBuiltins, b.Name)
	})
	for _, f := range builtins {
		c.Builtins = append(c.Builtins, &ast.Builtin{Name: f.decl.Name, Decl: f.decl.Decl, Nondeterministic: f.decl.Nondeterministic})
	}
	// nil would mean every host; http.send alone reads this list.
	c.AllowNet = slices.Clone(s.AllowNet)
	if c.AllowNet == nil {
		c.AllowNet = []string{}
	}
	return c
}
