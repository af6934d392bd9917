package plugin_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin"
)

// TestFailuresOfOthers are recorded failures of other systems. PLG-02, a host that
// is killed, is TestPluginsEndWithAKilledHost.
func TestFailuresOfOthers(t *testing.T) {
	t.Run("PLG-01 a plugin prints before the handshake", func(t *testing.T) {
		h := host(t, plugin.Options{}.WithClock(newClock()))
		c := configuration(pinned(t, "chatters"), nil)
		s := h.Open(t.Context(), c.Plugins)
		defer s.Close()
		if status := h.Status()[0]; status.State != plugin.StateWaiting || !strings.Contains(status.Error, `"starting up..."`) {
			t.Errorf("status = %v", status)
		}
		if v := review(t, s, c, question("a1")); v.Outcome != approval.VerdictError {
			t.Errorf("verdict = %+v", v)
		}
	})

	// Nothing about a process is kept to find it by later, and what a plugin says of
	// its address is no reason to signal whoever is there.
	t.Run("PLG-03 the address is that of an unrelated process", func(t *testing.T) {
		stranger, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		hungUp := make(chan struct{})
		go func() {
			defer close(hungUp)
			for {
				conn, err := stranger.Accept()
				if err != nil {
					return
				}
				_ = conn.Close() // it does not speak to us
			}
		}()
		temp, err := os.MkdirTemp("", "plg") // a short path, as sockets need it
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(temp) // nothing is in it if the test passes
		h := plugin.NewHost(plugin.Options{TempDir: temp}.WithClock(newClock()))
		c := configuration(pinned(t, "line", "1|1|tcp|"+stranger.Addr().String()+"|grpc|"+ownCertificate(t)), nil)
		s := h.Open(t.Context(), c.Plugins)
		if err := s.Err(); err == nil {
			t.Error("a stranger was taken for the plugin")
		}
		if v := review(t, s, c, question("a1")); v.Outcome != approval.VerdictError {
			t.Errorf("verdict = %+v", v)
		}
		s.Close()
		h.Close()
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		// The stranger, this process, is well, and is spoken to no more.
		if err := stranger.Close(); err != nil {
			t.Error(err)
		}
		<-hungUp
	})

	t.Run("PLG-04 a plugin crashes again and again", func(t *testing.T) {
		clock := newClock()
		h := host(t, plugin.Options{}.WithClock(clock))
		c := configuration(pinned(t, "brief"), nil)
		s := h.Open(t.Context(), c.Plugins)
		defer s.Close()
		asked, passed := 0, -1
		awaitState(t, h, func(list []plugin.Status) bool {
			if list[0].State != plugin.StateWaiting || list[0].Retry == nil || list[0].Restarts == passed {
				return list[0].State == plugin.StateDisabled
			}
			for range 20 {
				if v := review(t, s, c, question("a1")); v.Outcome != approval.VerdictError || !strings.Contains(v.Rationale, "it is waiting") {
					t.Fatalf("verdict = %+v", v)
				}
				asked++
			}
			if restarts := h.Status()[0].Restarts; restarts != list[0].Restarts {
				t.Fatalf("asking it started it: %d restarts, and %d before", restarts, list[0].Restarts)
			}
			passed = list[0].Restarts
			for n := range plugin.GiveUpAfter {
				clock.passed(plugin.Backoff(n + 1))
			}
			return false
		})
		if status := h.Status()[0]; status.Restarts != plugin.GiveUpAfter-1 || asked == 0 {
			t.Errorf("%d calls, status = %v", asked, status)
		}
	})
}
