package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

// in is a command that runs in a folder.
func in(dir, text string) api.Question {
	q := question(text)
	q.Request.Environment.Cwd = dir
	return q
}

// project is a folder with a workspace that allows a command.
func project(t *testing.T) (dir, workspace string) {
	t.Helper()
	dir = shortDir(t)
	workspace = filepath.Join(dir, ".regent")
	write(t, filepath.Join(workspace, "config.yaml"), "version: 1\npolicy: {paths: [policies]}\n")
	write(t, filepath.Join(workspace, "policies", "make.rego"), "package rules.make\n\n# METADATA\n# custom: {id: MAKE}\nallow contains \"make is fine\" if input.request.command.text == \"make x\"\n")
	return dir, workspace
}

func TestTrustedWorkspaceMayLoosen(t *testing.T) {
	d := start(t, setup{})
	dir, workspace := project(t)
	route := func() approval.Route {
		t.Helper()
		r, err := d.Check(t.Context(), in(dir, "make x"))
		if err != nil {
			t.Fatal(err)
		}
		return r.Route
	}
	if got := route(); got != approval.RouteAsk {
		t.Fatalf("before it is trusted the route is %s, want ask", got)
	}
	waiting, answer := d.pending(in(dir, "make x"))
	one, err := d.Trust(t.Context(), api.Trust{Dir: dir})
	if err != nil || one.Dir != workspace || !strings.HasPrefix(one.By, "user:") {
		t.Fatalf("trusted is %+v, %v; want %s by a user", one, err, workspace)
	}
	// What waits is ruled anew at once.
	if got := <-answer; got.err != nil || got.ID != waiting.ID || got.Outcome != approval.OutcomeAllow {
		t.Errorf("the request that waited is answered %+v, want that it is allowed", got)
	}
	if got := route(); got != approval.RouteAllow {
		t.Errorf("when it is trusted the route is %s, want allow", got)
	}
	all, err := d.Workspaces(t.Context())
	if err != nil || len(all.Trusted) != 1 || all.Trusted[0].Dir != workspace || len(all.Workspaces) != 2 || all.Workspaces[0].Dir != "" || !all.Workspaces[1].Trusted {
		t.Errorf("the workspaces are %+v, %v; want the home and %s, trusted", all, err, workspace)
	}
	if removed, err := d.Untrust(t.Context(), dir); err != nil || removed != workspace {
		t.Errorf("no longer trusted is %s, %v; want %s", removed, err, workspace)
	}
	if got := route(); got != approval.RouteAsk {
		t.Errorf("when it is no longer trusted the route is %s, want ask", got)
	}
}

func TestWorkspaceThatOthersCanChangeIsNotTrusted(t *testing.T) {
	d := start(t, setup{})
	dir, workspace := project(t)
	if err := os.Chmod(filepath.Join(workspace, "config.yaml"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Trust(t.Context(), api.Trust{Dir: dir}); code(t, err) != api.Unfit {
		t.Errorf("to trust it is %v, want %s", err, api.Unfit)
	}
}

func TestWhatLoosensIsConfirmed(t *testing.T) {
	d := start(t, setup{})
	confirm := strings.Replace(settings, "policy: {", "policy: {confirm_loosening: true, ", 1) + people + "}\n"
	write(t, filepath.Join(d.home, "config.yaml"), confirm)
	check := func() {
		t.Helper()
		if _, err := d.Check(t.Context(), question("ls")); err != nil { // a call looks at the files
			t.Fatal(err)
		}
	}
	check()
	write(t, filepath.Join(d.home, "config.yaml"), strings.Replace(confirm, "mode: manual", "mode: auto_allow", 1))
	check()
	all, err := d.Workspaces(t.Context())
	if err != nil || all.Workspaces[0].State != "held" || all.Workspaces[0].Held == "" {
		t.Fatalf("the home stands as %+v, %v; want held", all.Workspaces, err)
	}
	held := all.Workspaces[0].Held
	if e, err := d.Epoch(t.Context(), held); err != nil || !e.Held || e.ID != held {
		t.Errorf("what is held is %+v, %v", e, err)
	}
	if err := d.Confirm(t.Context(), api.Confirmation{Epoch: all.Workspaces[0].Epoch}); code(t, err) != api.MovedOn {
		t.Errorf("to confirm what is in force is %v, want %s", err, api.MovedOn)
	}
	if err := d.Confirm(t.Context(), api.Confirmation{Epoch: held}); err != nil {
		t.Fatal(err)
	}
	if all, err = d.Workspaces(t.Context()); err != nil || all.Workspaces[0].State != "current" || all.Workspaces[0].Epoch != held {
		t.Errorf("the home stands as %+v, %v; want by what was confirmed", all.Workspaces, err)
	}
}

func TestEpochShowsItsRules(t *testing.T) {
	d := start(t, setup{})
	s, err := d.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Epoch(t.Context(), s.Workspaces[0].Epoch)
	if err != nil || e.Workspace != "" || e.Held || len(e.Configuration) != 1 {
		t.Fatalf("the epoch is %+v, %v; want that of the home", e, err)
	}
	rule := slices.IndexFunc(e.Rules, func(r api.Rule) bool { return r.ID == "RM" })
	if rule < 0 || e.Rules[rule].Decision != "deny" || e.Rules[rule].Layer != "home" || e.Rules[rule].Line == 0 {
		t.Errorf("the rules are %+v, want RM among them", e.Rules)
	}
	if !slices.ContainsFunc(e.Files, func(f api.File) bool { return strings.HasSuffix(f.Name, "one.rego") && f.Kind == "policy" }) {
		t.Errorf("the files are %+v, want one.rego among them", e.Files)
	}
	var gone *api.Error
	if _, err := d.Epoch(t.Context(), strings.Repeat("0", 64)); !errors.As(err, &gone) || gone.Code != api.NoEpoch {
		t.Errorf("rules that are not loaded are %v, want %s", err, api.NoEpoch)
	}
}
