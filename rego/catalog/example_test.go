package catalog_test

import (
	"fmt"
	"testing/fstest"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego/catalog"
)

// A table says what the tools of a harness do and what their arguments mean.
func Example() {
	c, err := catalog.Load(fstest.MapFS{"native.yaml": {Data: []byte(`
harness: native
tools:
  save:
    effects: [write]
    external: false
    arguments: {path: {role: write, required: true}, content: text}
`)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := c.Call(&approval.Request{
		Kind: approval.KindTool,
		Tool: &approval.Tool{Name: "save", Arguments: []byte(`{"path": "/w/a", "contents": "x"}`)},
	})
	fmt.Println(call.Listed, call.Writes, call.Problems)
	// Output:
	// true [/w/a] [argument "contents" is not in the catalogue]
}
