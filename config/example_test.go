package config_test

import (
	"fmt"

	"github.com/regent-policy/regent/config"
)

func ExampleParse() {
	_, _, err := config.Parse("config.yaml", []byte("version: 1\npermissions:\n  mode: modelreview\n"))
	fmt.Println(err)
	// Output:
	// config.yaml:3:3: permissions.mode: unknown value "modelreview"; use one of manual, auto_allow, model_review (did you mean model_review?)
}

func ExampleTightenOnly() {
	home, _, err := config.Parse("/home/sam/.regent/config.yaml", []byte("version: 1\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	found, _, err := config.Parse("/work/app/.regent/config.yaml", []byte(`version: 1
permissions:
  mode: auto_allow
  request_timeout_seconds: 60
approval_policy: never
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	effective, refused := config.TightenOnly(home, found)
	fmt.Println(effective.Permissions.Mode, effective.Permissions.RequestTimeoutSeconds, effective.ApprovalPolicy)
	for _, l := range refused {
		fmt.Println(l)
	}
	// Output:
	// model_review 60 never
	// /work/app/.regent/config.yaml:3:3: permissions.mode: fewer calls are put to a person (from model_review to auto_allow)
}

func ExampleLooser() {
	before, _, err := config.Parse("config.yaml", []byte("version: 1\npermissions: {mode: manual}\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	after, _, err := config.Parse("config.yaml", []byte("version: 1\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range config.Looser(before, after) {
		fmt.Printf("%s: from %s to %s\n", l.Path, l.From, l.To)
	}
	// Output:
	// permissions.mode: from manual to model_review
}
