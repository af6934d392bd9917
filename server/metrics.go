package server

import (
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/regent-policy/regent/gate"
)

// metrics are what is counted, in a registry of their own. Their labels have few
// values: never a path, an id or anything of a request but the name of a tool.
type metrics struct {
	handler http.Handler
	// answered counts answers by route and status.
	answered *prometheus.CounterVec
	// rulings are the times that answers took for which nobody was waited.
	rulings *prometheus.HistogramVec
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		answered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "regent_http_responses_total", Help: "Answers by route and HTTP status.",
		}, []string{"route", "status"}),
		rulings: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "regent_ruling_seconds",
			Help:    "Time from the head of a request to its answer, where nobody had to be waited for, the ledger included.",
			Buckets: []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"call"}),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.answered, m.rulings, &gauges{s},
	)
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		// Half of the numbers would pass for all of them.
		ErrorHandling: promhttp.HTTPErrorOnError, DisableCompression: true,
	})
	return m
}

func (m *metrics) responded(route string, status int) {
	if status == 0 {
		return // nobody was there to be answered
	}
	if route == "" || route == "/" {
		route = "none"
	}
	m.answered.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

func (m *metrics) ruled(call string, took time.Duration) {
	m.rulings.WithLabelValues(call).Observe(took.Seconds())
}

// gauges read the counts of the gate, the epochs and the ledger when somebody
// asks for them.
type gauges struct{ s *Server }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("regent_"+name, help, labels, nil)
}

var (
	descBuild      = describe("build_info", "Always 1; the label tells the version.", "version")
	descRoutes     = describe("requests_total", "Questions by the route that policy gave them, those skipped included.", "route")
	descFailures   = describe("policy_failures_total", "Questions that policy could not rule on, by kind.", "kind")
	descDecisions  = describe("decisions_total", "Decisions by what kind of thing decided, and how.", "source", "outcome")
	descClosed     = describe("approvals_closed_total", "Records that ended, by state.", "state")
	descChecked    = describe("checks_total", "Questions that were only ruled on.")
	descRerouted   = describe("rerouted_total", "Waiting requests that were routed again by new rules.")
	descFenced     = describe("fence_refusals_total", "Actions that the fence refused.")
	descUnrecorded = describe("unrecorded_total", "Questions refused because the ledger could not take them.")
	descSkips      = describe("skips_total", "Calls that nobody had to answer, by what they do and which tool they are of.", "effects", "tool")
	descVerdicts   = describe("verdicts_total", "What reviewers said.", "reviewer", "outcome")
	descSessions   = describe("sessions", "Sessions that are open.")
	descTurns      = describe("turns", "Turns that are open.")
	descRefused    = describe("permission_requests_refused_total", "Requests for permissions that approval_policy refused without asking anybody.")
	descUnmatched  = describe("answers_unmatched_total", "Answers to requests for permissions that changed nothing.")
	descHookFails  = describe("hook_failures_total", "Hooks that failed.")
	descCallFaults = describe("call_faults_total", "Calls of sessions that ended with an error for the model, by kind.", "fault")
	descWaiting    = describe("requests_waiting", "Requests that wait for an answer.")
	descInstances  = describe("instances", "Hosts that have requests.")
	descAgents     = describe("agent_processes", "Processes that count as agents.")
	descAsks       = describe("http_asks_open", "Calls that wait for an answer.")
	descReaders    = describe("http_event_readers", "Readers of the stream of events.")
	descLoads      = describe("epoch_loads_total", "How often rules were loaded.")
	descLoadFaults = describe("epoch_load_failures_total", "How often rules that were loaded could not be put in force.")
	descWorkspaces = describe("workspaces", "Loaded workspaces, by how they stand.", "state")
	descEvents     = describe("ledger_events", "Number of the last event of the ledger.")
	descBytes      = describe("ledger_bytes", "Size of the files of the ledger.", "file")
	descQueued     = describe("ledger_queued", "Changes that wait to be written.")
	descCommits    = describe("ledger_commits_total", "Transactions of the ledger.")
	descChanges    = describe("ledger_changes_total", "Changes that were asked of the ledger, by what became of them.", "result")
	descTold       = describe("notifications_total", "What notifiers were told, by what came of it.", "notifier", "result")
	descUntold     = describe("notifications_queued", "What waits to be told.", "notifier")
	descFailing    = describe("ledger_failing", "1 while the ledger cannot be kept.")
)

// maxToolLabel bounds the name of a tool as it is shown.
const maxToolLabel = 64

// shortSkips are skips by names that can be shown: an agent makes up the names of
// its tools. Those that are too long are counted together, as "other".
func shortSkips(skips map[gate.SkipKind]int64) map[gate.SkipKind]int64 {
	short := make(map[gate.SkipKind]int64, len(skips))
	for kind, n := range skips {
		if len(kind.Tool) > maxToolLabel || !utf8.ValidString(kind.Tool) {
			kind.Tool = "other"
		}
		short[kind] += n
	}
	return short
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descBuild, descRoutes, descFailures, descDecisions, descClosed, descChecked, descRerouted, descFenced, descUnrecorded,
		descSkips, descVerdicts, descSessions, descTurns, descRefused, descUnmatched, descHookFails, descCallFaults,
		descWaiting, descInstances, descAgents, descAsks, descReaders, descLoads, descLoadFaults, descWorkspaces,
		descEvents, descBytes, descQueued, descCommits, descChanges, descFailing, descTold, descUntold,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	s := g.s
	gauge(descBuild, 1, s.version)
	stats := s.gate.Stats()
	for route, n := range stats.Routes {
		counter(descRoutes, n, string(route))
	}
	for kind, n := range stats.Failures {
		counter(descFailures, n, kind)
	}
	for kind, n := range stats.Decisions {
		counter(descDecisions, n, string(kind.Source), string(kind.Outcome))
	}
	for state, n := range stats.Closed {
		counter(descClosed, n, string(state))
	}
	for kind, n := range stats.Verdicts {
		counter(descVerdicts, n, kind.Reviewer, string(kind.Outcome))
	}
	for kind, n := range shortSkips(stats.Skips) {
		counter(descSkips, n, kind.Effects, kind.Tool)
	}
	sessions := s.native.Stats()
	gauge(descSessions, int64(sessions.Sessions))
	gauge(descTurns, int64(sessions.Turns))
	counter(descRefused, sessions.Refused)
	counter(descUnmatched, sessions.Unmatched)
	counter(descHookFails, sessions.HookFailures)
	for fault, n := range sessions.Faults {
		counter(descCallFaults, n, string(fault))
	}
	counter(descChecked, stats.Checked)
	counter(descRerouted, stats.Rerouted)
	counter(descFenced, stats.Fenced)
	counter(descUnrecorded, stats.Unrecorded)
	gauge(descWaiting, int64(stats.Waiting))
	gauge(descInstances, int64(stats.Instances))
	gauge(descAgents, int64(s.agents.Len()))
	gauge(descAsks, s.asks.now.Load())
	gauge(descReaders, s.readers.now.Load())
	all, failed := s.epochs.Loads()
	counter(descLoads, all)
	counter(descLoadFaults, failed)
	states := map[string]int64{}
	for _, w := range s.epochs.Status() {
		states[w.State]++
	}
	for state, n := range states {
		gauge(descWorkspaces, n, state)
	}
	for _, n := range s.told() {
		counter(descTold, n.Sent, n.Name, "sent")
		counter(descTold, n.Failed, n.Name, "failed")
		counter(descTold, n.Dropped, n.Name, "dropped")
		gauge(descUntold, int64(n.Queued), n.Name)
	}
	store := s.ledger.Stats()
	gauge(descEvents, store.Head.Seq)
	gauge(descBytes, store.FileBytes, "database")
	gauge(descBytes, store.LogBytes, "log")
	gauge(descQueued, int64(store.Queued))
	counter(descCommits, store.Commits)
	counter(descChanges, store.Changes, "made")
	counter(descChanges, store.Refused, "refused")
	counter(descChanges, store.Failed, "failed")
	failing := int64(0)
	if stats.Failing {
		failing = 1
	}
	gauge(descFailing, failing)
}

var _ prometheus.Collector = (*gauges)(nil)
