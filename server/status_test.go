package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/notify"
)

func TestStatus(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	d := start(t, setup{options: server.Options{Warnings: []string{"look at this"}, Notifiers: func() []notify.Stats {
		return []notify.Stats{{Name: "ops", Kind: "webhook", State: notify.Failing, Sent: 1, Failed: 2, Dropped: 3, Queued: 4, Fault: "no", FaultAt: at}, {Name: "desk", State: notify.Idle}}
	}}})
	_, answer := d.pending(question("make x"))
	s, err := d.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Version != "v1.2.3" || s.PID != os.Getpid() || s.Started.IsZero() || s.Home != d.home || s.Socket != d.socket ||
		len(s.Addresses) != 1 || s.Addresses[0] != d.tcp || s.Waiting != 1 || s.Principal.Role != "local" || s.Principal.Prover != "local" {
		t.Errorf("the status is %+v", s)
	}
	if len(s.Workspaces) != 1 || s.Workspaces[0].State != "current" || s.Workspaces[0].Rules == 0 {
		t.Errorf("the workspaces are %+v, want the home, current", s.Workspaces)
	}
	if s.Ledger == nil || s.Ledger.Head != 1 || s.Ledger.Hash == "" || s.Ledger.Bytes == 0 || s.Ledger.Failing {
		t.Errorf("the ledger is %+v, want one event", s.Ledger)
	}
	if diff := cmp.Diff([]string{"look at this"}, s.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]api.Notifier{
		{Name: "ops", Kind: "webhook", State: "failing", Sent: 1, Failed: 2, Dropped: 3, Queued: 4, Fault: "no", FaultAt: at.UTC()},
		{Name: "desk", State: "idle"},
	}, s.Notifiers); diff != "" {
		t.Errorf("notifiers (-want +got):\n%s", diff)
	}
	text := d.metricsOf()
	for _, want := range []string{
		`regent_notifications_total{notifier="ops",result="sent"} 1`,
		`regent_notifications_total{notifier="ops",result="failed"} 2`,
		`regent_notifications_total{notifier="ops",result="dropped"} 3`,
		`regent_notifications_queued{notifier="ops"} 4`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	member, err := d.As("user:mia").Status(t.Context())
	want := api.Status{Version: "v1.2.3", Started: s.Started, Principal: api.Principal{ID: "user:mia", Role: "member", Prover: "user:mia"}}
	if diff := cmp.Diff(want, member); err != nil || diff != "" {
		t.Errorf("%v; what a member sees (-want +got):\n%s", err, diff)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	<-answer
}

func TestHealth(t *testing.T) {
	d := start(t, setup{})
	if h, err := d.Health(t.Context()); err != nil || !h.OK || h.Reasons != nil {
		t.Errorf("the health is %+v, %v; want ok", h, err)
	}
	if err := os.Remove(filepath.Join(d.home, "runtime", "runtime.db")); err != nil {
		t.Fatal(err)
	}
	h, err := d.Health(t.Context())
	if err != nil || h.OK || len(h.Reasons) != 1 || !strings.Contains(h.Reasons[0], "ledger") || strings.Contains(h.Reasons[0], d.home) {
		t.Errorf("the health is %+v, %v; want that the ledger cannot be read, and not where it is", h, err)
	}
	response, _ := d.sends("GET", "/v1/health", "")
	if response.StatusCode != 503 {
		t.Errorf("the status is %d, want 503", response.StatusCode)
	}
	// Nothing runs that could not be recorded.
	if a, err := d.Ask(t.Context(), question("echo hi")); code(t, err) != api.LedgerDamaged || !errors.Is(err, approval.ErrDamaged) || a.Outcome != "" {
		t.Errorf("a question is answered %+v, %v; want %s", a, err, api.LedgerDamaged)
	}
	if err := d.stop(); !errors.Is(err, approval.ErrDamaged) {
		t.Errorf("the daemon ends with %v, want that its ledger is damaged", err)
	}
}

func TestDaemonThatCannotBeReachedIsNotHealthy(t *testing.T) {
	d := start(t, setup{})
	if h, err := d.Health(t.Context()); err != nil || !h.OK { // and a connection that stays
		t.Fatalf("the health is %+v, %v; want ok", h, err)
	}
	if err := os.Rename(d.socket, d.socket+".away"); err != nil {
		t.Fatal(err)
	}
	h, err := d.Health(t.Context())
	if err != nil || h.OK || len(h.Reasons) != 1 || !strings.Contains(h.Reasons[0], "socket") {
		t.Errorf("the health is %+v, %v; want that the socket is gone", h, err)
	}
	if err := os.Rename(d.socket+".away", d.socket); err != nil {
		t.Fatal(err)
	}
	if h, err := d.Health(t.Context()); err != nil || !h.OK {
		t.Errorf("the health is %+v, %v once the socket is back", h, err)
	}
}

func TestHomeWithoutRulesIsNotHealthy(t *testing.T) {
	d := start(t, setup{principals: "principals: {owner: []}\nno_such_key: 1\n"})
	h, err := d.Health(t.Context())
	if err != nil || h.OK || len(h.Reasons) != 1 || !strings.Contains(h.Reasons[0], "no rules") {
		t.Errorf("the health is %+v, %v; want that no rules are loaded", h, err)
	}
	if _, err := d.As("user:olga").Status(t.Context()); code(t, err) != api.UnknownPrincipal {
		t.Errorf("nobody is known, but a name gives %v", err)
	}
	if r, err := d.Check(t.Context(), question("ls")); err != nil || r.Route != approval.RouteAsk {
		t.Errorf("the route is %s, %v; want ask", r.Route, err)
	}
}

func TestMetrics(t *testing.T) {
	d := start(t, setup{})
	d.deny()
	d.until(approval.Resolved)
	if _, err := d.Check(t.Context(), question("ls")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Read(t.Context(), "nothing"); err == nil {
		t.Fatal("there is a record of nothing")
	}
	_, answer := d.pending(question("make x"))
	text := d.metricsOf()
	for _, want := range []string{
		`regent_build_info{version="v1.2.3"} 1`,
		`regent_requests_total{route="deny"} 1`,
		`regent_requests_total{route="ask"} 1`,
		`regent_decisions_total{outcome="deny",source="rule"} 1`,
		`regent_approvals_closed_total{state="resolved"} 1`,
		`regent_checks_total 1`,
		`regent_requests_waiting 1`,
		`regent_http_asks_open 1`,
		`regent_http_event_readers 0`,
		`regent_epoch_loads_total 1`,
		`regent_epoch_load_failures_total 0`,
		`regent_workspaces{state="current"} 1`,
		`regent_ledger_events 6`,
		`regent_ledger_failing 0`,
		`regent_ruling_seconds_count{call="check"} 1`,
		`regent_ruling_seconds_count{call="requests"} 1`,
		`regent_http_responses_total{route="POST /v1/requests",status="200"} 1`,
		`regent_http_responses_total{route="GET /v1/approvals/{id}",status="404"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	for _, secret := range []string{"make x", "rm x", "user:", d.home} {
		if strings.Contains(text, secret) {
			t.Errorf("the metrics tell %q", secret)
		}
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	<-answer
}
