//go:build linux || darwin

package reviewer_test

import (
	"context"
	"fmt"

	"github.com/regent-policy/regent/reviewer"
)

// Run gives a program its input and takes its output, within bounds.
func ExampleProgram_Run() {
	p := reviewer.Program{Command: []string{"/bin/sh", "-c", "tr a-z A-Z"}}
	output, err := p.Run(context.Background(), []byte("is this fine?"))
	fmt.Println(string(output), err)

	p.Command = []string{"/bin/sh", "-c", "echo no idea >&2; exit 3"}
	_, err = p.Run(context.Background(), nil)
	fmt.Println(err)
	// Output:
	// IS THIS FINE? <nil>
	// run /bin/sh: exit status 3: no idea
}
