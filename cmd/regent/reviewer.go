package main

import "github.com/spf13/cobra"

func newReviewer(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reviewer",
		Short: "See how well reviewers judge",
		Long: `See how well reviewers judge, by the record of approvals. The commands work on the
file, whether or not a daemon serves it.`,
		Example: `  $ regent reviewer report --since 7d`,
	}
	group(a, cmd)
	cmd.AddCommand(newReviewerReport(a))
	for _, sub := range append(cmd.Commands(), cmd) {
		needsDaemon(sub) // or one that ran
	}
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}
