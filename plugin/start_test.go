package plugin_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin"
)

// TestPluginsThatDoNotStart: each is an error that says what is wrong, a line of the
// status, and a verdict that has a person asked.
func TestPluginsThatDoNotStart(t *testing.T) {
	certificate := strings.Repeat("QUJD", 20)
	for _, test := range []struct {
		name   string
		plugin func(t *testing.T) config.Plugin
		is     error
		words  string
	}{
		{"a file that is missing", func(*testing.T) config.Plugin {
			return config.Plugin{Command: []string{"/nowhere/acme"}}
		}, os.ErrNotExist, "no such file"},
		{"a folder", func(t *testing.T) config.Plugin {
			return config.Plugin{Command: []string{t.TempDir()}}
		}, nil, "is no regular file"},
		{"a file that is no program", func(t *testing.T) config.Plugin {
			path := filepath.Join(t.TempDir(), "acme")
			if err := os.WriteFile(path, []byte("\x7fELF nonsense"), 0o755); err != nil {
				t.Fatal(err)
			}
			return config.Plugin{Command: []string{path}}
		}, syscall.ENOEXEC, "exec format error"},
		{"a program that is not the one that is pinned", func(t *testing.T) config.Plugin {
			p := pinned(t, "good")
			p.SHA256 = strings.Repeat("0", 64)
			return p
		}, plugin.ErrChecksum, "and the configuration says 0000"},
		{"one that prints before the handshake", func(t *testing.T) config.Plugin {
			return pinned(t, "chatters")
		}, plugin.ErrHandshake, `the first line on its standard output is "starting up..."`},
		{"control characters in the first line", func(t *testing.T) config.Plugin {
			return pinned(t, "line", "\x1b[2Jhello")
		}, plugin.ErrHandshake, `\\u001b[2Jhello`},
		{"a first line without an end", func(t *testing.T) config.Plugin {
			return pinned(t, "endless")
		}, plugin.ErrHandshake, "has more than 16384 bytes"},
		{"one that exits at once", func(t *testing.T) config.Plugin {
			return pinned(t, "exits")
		}, plugin.ErrHandshake, "it wrote: no licence"},
		{"another version of the protocol", func(t *testing.T) config.Plugin {
			return pinned(t, "line", "1|2|unix|/tmp/x|grpc|"+certificate)
		}, plugin.ErrVersion, `the plugin speaks version "2", and this host version 1`},
		{"another core version", func(t *testing.T) config.Plugin {
			return pinned(t, "line", "2|1|unix|/tmp/x|grpc|"+certificate)
		}, plugin.ErrHandshake, "1 is the only core version"},
		{"net/rpc", func(t *testing.T) config.Plugin {
			return pinned(t, "line", "1|1|unix|/tmp/x|netrpc|"+certificate)
		}, plugin.ErrHandshake, "only grpc is spoken"},
		{"no certificate", func(t *testing.T) config.Plugin {
			return pinned(t, "line", "1|1|unix|/tmp/x|grpc|")
		}, plugin.ErrHandshake, "there is no certificate in it"},
		{"an address on another machine", func(t *testing.T) config.Plugin {
			return pinned(t, "line", "1|1|tcp|192.0.2.1:80|grpc|"+certificate)
		}, plugin.ErrHandshake, "is no address of this machine's loopback"},
		{"a certificate that is none", func(t *testing.T) config.Plugin {
			return pinned(t, "line", "1|1|unix|/tmp/x|grpc|"+certificate)
		}, plugin.ErrHandshake, "its certificate is no X.509 certificate in DER"},
		{"an address where nobody is", func(t *testing.T) config.Plugin {
			return pinned(t, "line", "1|1|unix|/nowhere/socket|grpc|"+ownCertificate(t))
		}, nil, "dial unix /nowhere/socket"},
		{"one that says nothing", func(t *testing.T) config.Plugin {
			return pinned(t, "silent")
		}, nil, "it was not ready within 2s"},
		{"one that says nothing and does not mind being told to end", func(t *testing.T) config.Plugin {
			return pinned(t, "stubborn")
		}, nil, "it was not ready within 2s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := host(t, plugin.Options{StartTimeout: 2 * time.Second}.WithClock(newClock()))
			if test.words != "it was not ready within 2s" {
				h = host(t, plugin.Options{}.WithClock(newClock()))
			}
			c := configuration(test.plugin(t), nil)
			s := h.Open(t.Context(), c.Plugins)
			defer s.Close()
			err := s.Err()
			if !errors.Is(err, plugin.ErrUnavailable) || (test.is != nil && !errors.Is(err, test.is)) || !strings.Contains(err.Error(), test.words) {
				t.Errorf("Err = %v, want %v with %q", err, test.is, test.words)
			}
			v := review(t, s, c, question("a1"))
			if v.Outcome != approval.VerdictError || !strings.Contains(v.Rationale, "plugin acme: plugin is not available: it is waiting") {
				t.Errorf("verdict = %+v", v)
			}
			list := h.Status()
			if len(list) != 1 || list[0].State != plugin.StateWaiting || list[0].PID != 0 || list[0].Retry == nil ||
				!strings.Contains(list[0].String(), test.words) || strings.ContainsAny(list[0].String(), "\x1b\n") {
				t.Errorf("status = %+v", list)
			}
		})
	}
}

// TestUnpinnedProgramIsThatOfTheConfiguration: a restart must not start what nobody
// has loaded a configuration with.
func TestUnpinnedProgramIsThatOfTheConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acme")
	script := func(mode string) {
		text := "#!/bin/sh\nexec '" + strings.Join(self(t, "good", mode), "' '") + "'\n"
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script("one")
	clock := newClock()
	h := host(t, plugin.Options{}.WithClock(clock))
	c := configuration(config.Plugin{Command: []string{path}}, nil)
	before := h.Open(t.Context(), c.Plugins)
	defer before.Close()
	if v := review(t, before, c, question("a1")); v.Rationale != "one" {
		t.Fatalf("verdict = %+v", v)
	}
	if status := h.Status()[0]; status.Pinned || !strings.Contains(status.String(), "not pinned") {
		t.Errorf("status = %v", status)
	}
	script("two")
	after := h.Open(t.Context(), c.Plugins)
	defer after.Close()
	if v := review(t, after, c, question("a2")); v.Rationale != "two" {
		t.Errorf("the new configuration has %+v, want the program as it was when it was read", v)
	}
	if v := review(t, before, c, question("a3")); v.Rationale != "one" {
		t.Errorf("the old configuration has %+v, want its own program", v)
	}
	// One that breaks under the old configuration is not replaced by the new program.
	for _, s := range h.Status() {
		if s.SHA256 != h.Status()[0].SHA256 {
			continue
		}
		if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	awaitState(t, h, func(list []plugin.Status) bool {
		for _, s := range list {
			if strings.Contains(s.Error, "has changed since the configuration was read") {
				return true
			}
		}
		return list[0].State == plugin.StateRunning && list[0].Restarts > 0
	})
}

// ownCertificate is one in the form of a handshake.
func ownCertificate(t testing.TB) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawStdEncoding.EncodeToString(der)
}

func TestCheckHello(t *testing.T) {
	certificate := ownCertificate(t)
	for _, test := range []struct {
		line string
		ok   bool
	}{
		{"1|1|unix|/tmp/plugin1|grpc|" + certificate, true},
		{"1|1|tcp|127.0.0.1:1234|grpc|" + certificate, true},
		{"1|1|tcp|[::1]:1234|grpc|" + certificate, true},
		{"1|1|unix|/tmp/plugin1|grpc|" + certificate + "|true", true},
		{"", false},
		{"1|1|unix|/tmp/plugin1", false},
		{"1|1|tcp|localhost:1234|grpc|" + certificate, false},
		{"1|1|tcp|0.0.0.0:1234|grpc|" + certificate, false},
		{"1|1|udp|127.0.0.1:1|grpc|" + certificate, false},
		{"1|1|unix|/tmp/plugin1|grpc|" + certificate + "==", false},
		{"1|1|unix|/tmp/plugin1|grpc|QUJD", false},
		{" 1|1|unix|/tmp/plugin1|grpc|" + certificate, false},
	} {
		if err := plugin.CheckHello(test.line); (err == nil) != test.ok {
			t.Errorf("%q: %v", test.line, err)
		}
	}
}

func FuzzCheckHello(f *testing.F) {
	f.Add("1|1|unix|/tmp/plugin1|grpc|QUJD")
	f.Add("\x1b]0;title\x07|||||")
	f.Fuzz(func(t *testing.T, line string) {
		if err := plugin.CheckHello(line); err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) {
			t.Errorf("%q", err)
		}
	})
}
