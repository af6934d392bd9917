package argv_test

import (
	"fmt"

	"github.com/regent-policy/regent/rego/argv"
	"github.com/regent-policy/regent/rego/policy"
	"github.com/regent-policy/regent/rego/shell"
)

// A table reads the commands of a shell text: which options are given, and which
// files are named to what end.
func ExampleTable_ReadAll() {
	table, err := argv.Load(policy.Commands())
	if err != nil {
		fmt.Println(err)
		return
	}
	facts := shell.Parse(shell.Bash, "sort -uo names.txt raw.txt && git push -f origin main")
	for _, n := range table.ReadAll(&facts) {
		fmt.Println(n.Program, n.Subcommand, n.Flags, n.Operands, n.Uses)
		for _, p := range n.Writes {
			fmt.Println("  writes", p.Word)
		}
	}
	// Output:
	// sort [] [-u -o] [raw.txt] [sort]
	//   writes names.txt
	// git [push] [-f] [origin main] [git push]
}
