package server

import (
	"errors"
	"testing"

	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/peer"
)

// Internal: no test can have processes of other users.
func TestProcessesOfOtherUsersAreRefused(t *testing.T) {
	s := &Server{uid: 1000}
	for name, test := range map[string]struct {
		uid int
		err error
		ok  bool
	}{
		"the daemon's user": {1000, nil, true},
		"root":              {0, nil, true},
		"another user":      {1001, nil, false},
		// Whoever cannot be told is an agent already.
		"one who cannot be told": {1001, peer.ErrUnknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.ours(&caller{local: true, process: peer.Process{UID: test.uid}, err: test.err})
			if e, ok := errors.AsType[*api.Error](err); (err == nil) != test.ok || err != nil && (!ok || e.Code != api.Forbidden) {
				t.Errorf("the caller is %v, want ok: %t", err, test.ok)
			}
		})
	}
}
