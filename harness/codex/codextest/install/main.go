// Command install brings the versions of Codex that the tests run with, by npm.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/regent-policy/regent/harness/codex/codextest"
)

func main() {
	for _, version := range codextest.Versions {
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
