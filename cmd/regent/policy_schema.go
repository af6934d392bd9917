package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/rego/schema"
)

// schemaNames is what `regent policy schema` prints without a name.
type schemaNames struct {
	Schemas []string `json:"schemas"`
}

func newPolicySchema(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON Schema of what goes into a decision or comes out",
		Long: `Print the JSON Schema of what goes into a decision or comes out. Policies are
type-checked against it when they are loaded: a field that does not exist is an
error with its place. Without NAME, the names are listed.`,
		Example: `  $ regent policy schema
  request
  ruling
  verdict
  $ regent policy schema request > request.schema.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("unexpected argument %q; schema prints one schema", args[1])
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return schema.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: action(func(_ *cobra.Command, args []string) error { return a.policySchema(args) }),
	}
	exits(cmd, exitDone, exitUsage)
	return cmd
}

func (a *app) policySchema(args []string) error {
	names := schema.Names()
	switch {
	case len(args) == 0 && a.global.json():
		return writeJSON(a.stdout, schemaNames{names}, true)
	case len(args) == 0:
		_, err := fmt.Fprintln(a.stdout, strings.Join(names, "\n"))
		return err
	}
	text, err := schema.Text(args[0])
	if err != nil {
		return usagef("no schema %q%s; there are %s", args[0], didYouMean(near(args[0], names, "")), strings.Join(names, ", "))
	}
	_, err = fmt.Fprintln(a.stdout, strings.TrimRight(string(text), "\n"))
	return err
}
