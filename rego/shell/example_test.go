package shell_test

import (
	"encoding/json"
	"fmt"

	"github.com/regent-policy/regent/rego/shell"
)

func ExampleParse() {
	facts := shell.Parse(shell.Bash, `cd src && grep -n "$word" *.go > /tmp/found`)
	data, err := json.MarshalIndent(facts.Commands[1], "", "  ")
	if err != nil {
		panic(err)
	}
	fmt.Println(string(data))
	// Output:
	// {
	//   "words": [
	//     {
	//       "value": "grep",
	//       "kind": "literal"
	//     },
	//     {
	//       "value": "-n",
	//       "kind": "literal"
	//     },
	//     {
	//       "value": "$word",
	//       "kind": "parameter",
	//       "quoted": true
	//     },
	//     {
	//       "value": "*.go",
	//       "kind": "glob"
	//     }
	//   ],
	//   "redirects": [
	//     {
	//       "op": "\u003e",
	//       "mode": "write",
	//       "target": {
	//         "value": "/tmp/found",
	//         "kind": "literal"
	//       }
	//     }
	//   ],
	//   "dir": "src",
	//   "line": 1,
	//   "column": 11,
	//   "text": "grep -n \"$word\" *.go \u003e /tmp/found"
	// }
}

func ExampleParseArgv() {
	facts := shell.ParseArgv([]string{"sudo", "bash", "-c", "ls | xargs rm"})
	for _, c := range facts.Commands {
		fmt.Println(c.Words[0].Value, c.Via)
	}
	// Output:
	// sudo []
	// bash [sudo]
	// ls [sudo bash -c pipe]
	// xargs [sudo bash -c pipe]
	// rm [sudo bash -c pipe xargs]
}
