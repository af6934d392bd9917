package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/rego"
)

// listing is what `regent policy list` prints.
type listing struct {
	Epoch string      `json:"epoch"`
	Rules []rego.Rule `json:"rules"`
	Files []rego.File `json:"files"`
}

func newPolicyList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the rules that count and the files they come from",
		Long: `List the rules that count and the files they come from, from the organization's
layer down to the workspace's. A rule in mode warn or shadow is told and changes
nothing; an ignored rule or file counts for nothing, and the list says why.`,
		Example: `  $ regent policy list
  RULE         DECISION  MODE     SEVERITY  LAYER      PLACE                     TITLE
  STARTER-001  deny      enforce  high      workspace  policies/starter.rego:16  No force push
  STARTER-002  ask       enforce  high      workspace  policies/starter.rego:28  Publishing a package needs a person
  STARTER-003  ask       enforce  medium    workspace  policies/starter.rego:41  Throwing away work needs a person
  ...
  $ regent policy list --output json`,
		Args: noArgs("name the workspace with --workspace"),
		RunE: action(func(cmd *cobra.Command, _ []string) error { return a.policyList(cmd.Context(), cmd.CommandPath()) }),
	}
	exitsAs(cmd, map[int]string{exitUsage: "bad usage, or the configuration or the policies do not load"}, exitDone, exitFailed, exitUsage)
	return cmd
}

func (a *app) policyList(ctx context.Context, command string) error {
	engines, err := a.engines(command)
	if err != nil {
		return err
	}
	epoch, err := engines.only(ctx)
	if err != nil {
		return err
	}
	l := listing{Epoch: epoch.ID, Rules: epoch.Policy.Rules(), Files: epoch.Policy.Files()}
	if a.global.json() {
		if l.Rules == nil {
			l.Rules = []rego.Rule{}
		}
		if l.Files == nil {
			l.Files = []rego.File{}
		}
		return writeJSON(a.stdout, l, true)
	}
	rows := [][]string{{"RULE", "DECISION", "MODE", "SEVERITY", "LAYER", "PLACE", "TITLE"}}
	for _, r := range l.Rules {
		severity, title := r.Severity, r.Title
		if severity == "" {
			severity = "-"
		}
		if r.Ignored != "" {
			title += " (ignored: " + r.Ignored + ")"
		}
		rows = append(rows, []string{
			shown(r.ID), r.Decision, r.Mode, shown(severity), string(r.Layer), fmt.Sprintf("%s:%d", shown(r.File), r.Line), shown(title),
		})
	}
	if len(l.Rules) == 0 {
		rows = [][]string{{"no rules"}}
	}
	if err := table(a.stdout, "", rows); err != nil {
		return err
	}
	rows = [][]string{{"FILE", "LAYER", "KIND", "NOTE"}}
	for _, f := range l.Files {
		rows = append(rows, []string{shown(f.Name), string(f.Layer), f.Kind, shown(f.Reason)})
	}
	if len(l.Files) > 0 {
		fmt.Fprintln(a.stdout)
		if err := table(a.stdout, "", rows); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.stdout, "\nepoch %s\n", short(l.Epoch))
	return err
}
