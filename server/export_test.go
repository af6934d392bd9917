package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Patience has a server wait less long than it does otherwise.
func (s *Server) Patience(body, write, heartbeat time.Duration) {
	s.bodyTime, s.writeTime, s.heartbeat = body, write, heartbeat
}

// Room bounds the bodies that a server has in memory.
func (s *Server) Room(bytes int64) { s.held.most = bytes }

// Hooks bounds the hooks that are served at once.
func (s *Server) Hooks(most int64) { s.hooks.most = most }

// Routes are all calls, as METHOD /path.
func Routes() []string {
	var all []string
	for _, r := range routes {
		all = append(all, r.method+" "+r.path)
	}
	return all
}

// Answered tells, for each route that was called, which statuses it had.
func (s *Server) Answered() (map[string][]string, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(s.metrics.answered); err != nil {
		return nil, err
	}
	families, err := registry.Gather()
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			all[labels["route"]] = append(all[labels["route"]], labels["status"])
		}
	}
	return all, nil
}
