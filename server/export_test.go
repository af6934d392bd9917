package server

import "time"

// Patience has a server wait less long than it does otherwise.
func (s *Server) Patience(body, write, heartbeat time.Duration) {
	s.bodyTime, s.writeTime, s.heartbeat = body, write, heartbeat
}

// Routes are all calls, as METHOD /path.
func Routes() []string {
	var all []string
	for _, r := range routes {
		all = append(all, r.method+" "+r.path)
	}
	return all
}
