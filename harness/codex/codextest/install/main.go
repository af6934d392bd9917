// Command install brings versions of Codex by npm and prints where each is: those
// that are named, or those that the tests run with.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/regent-policy/regent/harness/codex/codextest"
)

func main() {
	versions := codextest.Versions
	if len(os.Args) > 1 {
		versions = os.Args[1:]
	}
	for _, version := range versions {
		path, err := codextest.Install(context.Background(), version)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			// The tests say which of them need it, and fail where CI is set.
			if errors.Is(err, codextest.ErrNoNPM) {
				return
			}
			os.Exit(1)
		}
		fmt.Println(path)
	}
}
