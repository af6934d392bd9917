package shell

import "testing"

// Internal because no text is known that makes the grammar panic.
func TestPanicIsAProblem(t *testing.T) {
	r := reader{dialect: Bash}
	r.guard(func() {
		r.add(Command{Line: 1, Column: 1})
		panic("unreachable")
	})
	f := r.facts()
	if len(f.Commands) != 1 {
		t.Errorf("%d commands, want the one that was found before", len(f.Commands))
	}
	if len(f.Problems) != 1 || f.Problems[0].Kind != "syntax" {
		t.Errorf("problems = %v, want one of syntax", f.Problems)
	}
}
