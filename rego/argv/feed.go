package argv

import "github.com/regent-policy/regent/rego/shell"

// feed judges the names that command i is handed by another one.
func (t *Table) feed(commands []shell.Command, nodes []Node, i int) {
	if commands[i].OpenEnded {
		nodes[i].Problems = append(nodes[i].Problems, "operands come from input")
	}
}
