// Command model is a model that says what a script has it say, for a Codex that is
// pointed at it. It prints the base_url of its provider, and runs until its standard
// input ends.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/regent-policy/regent/harness/codex/scripted"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: model SCRIPT.json")
	}
	script, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	model, err := scripted.Listen()
	if err != nil {
		return err
	}
	defer model.Close()
	if err := model.Parse(script); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	fmt.Println(model.URL())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
