package main

import "github.com/spf13/cobra"

func newPolicy(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Look at the rules: list, lint, confirm, and the schemas they are checked against",
		Long:  "Look at the rules of all layers, and at the schemas that they are checked against.",
		Example: `  $ regent policy lint
  nothing found
  $ regent policy list
  $ regent policy schema request`,
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	cmd.AddCommand(newPolicyList(a), newPolicyLint(a), newPolicySchema(a), newPolicyConfirm(a))
	group(a, cmd)
	return cmd
}
