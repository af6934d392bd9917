// Package plugin runs the programs of others that take part in decisions, and is
// what such programs are written with. A [Host] starts them, each in a process of
// its own, and gives them out as reviewers, notifiers and harnesses; [Serve] is the
// main function of one. What they say to each other is in package pluginpb.
//
// A plugin only proposes. Whatever keeps it from giving a usable answer is an error
// that has a person asked, and never a permission.
package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin/pluginpb"
)

// ProtocolVersion is the version of the protocol in package pluginpb that this
// package speaks, on both sides.
const ProtocolVersion = 1

// MaxReply is the largest message that a plugin may send, in bytes.
const MaxReply = 64 << 10

// maxRequest is the largest message that is sent to a plugin. gRPC servers take
// 4 MiB unless they say otherwise.
const maxRequest = 3 << 20

var (
	// ErrChecksum means that a plugin's program is not the one that the
	// configuration pins, or that was there when the configuration was read. It is
	// not started. Find out who changed it; "regent plugin add" pins the new one.
	ErrChecksum = errors.New("not the program that is pinned")
	// ErrHandshake means that a program did not begin as a plugin does, with one
	// line that says where it is reached. See docs/plugins.md.
	ErrHandshake = errors.New("no handshake")
	// ErrVersion means that a plugin speaks another version of the protocol. Build
	// it with a version of package plugin that speaks this one.
	ErrVersion = errors.New("another version of the protocol")
	// ErrUnavailable means that a plugin does not run now, or is not asked for a
	// while because it failed. The status of the host says why. Ask a person.
	ErrUnavailable = errors.New("plugin is not available")
	// ErrRetired means that the configuration that a plugin belongs to is no longer
	// in force. Ask under the one that is.
	ErrRetired = errors.New("the plugin's configuration is no longer in force")
	// ErrKind means that a plugin is not of the kind that it is used as.
	ErrKind = errors.New("plugin is of another kind")
	// ErrReply means that a plugin gave an answer that cannot be used.
	ErrReply = errors.New("unusable answer")
)

// Kind is what a plugin can be used as.
type Kind string

// The kinds.
const (
	KindReviewer Kind = "reviewer"
	KindNotifier Kind = "notifier"
	KindHarness  Kind = "harness"
)

var kinds = map[pluginpb.Kind]Kind{
	pluginpb.Kind_KIND_REVIEWER: KindReviewer,
	pluginpb.Kind_KIND_NOTIFIER: KindNotifier,
	pluginpb.Kind_KIND_HARNESS:  KindHarness,
}

// handshake keeps a plugin from being started by hand and left wondering. It is
// no secret.
var handshake = goplugin.HandshakeConfig{
	MagicCookieKey:   "REGENT_PLUGIN",
	MagicCookieValue: "8d2f6a4e-regent-plugin",
}

// stdinHeld is the variable that tells a plugin that its standard input ends when
// its host does.
const stdinHeld = "REGENT_PLUGIN_STDIN"

// service is the name under which go-plugin knows all that a plugin serves.
const service = "regent"

// bridge hands the connection through go-plugin.
type bridge struct {
	goplugin.NetRPCUnsupportedPlugin
	register func(s *grpc.Server)
}

var _ goplugin.GRPCPlugin = (*bridge)(nil)

func (b *bridge) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	b.register(s)
	return nil
}

func (b *bridge) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// Sum is the SHA-256 digest of a plugin's program, in hexadecimal digits: what the
// configuration pins.
func Sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() // it was only read
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file", path)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// clean makes the text of a plugin fit to be shown in one line: secrets are masked
// as far as they are known, whatever does not print is shown by its code, and it
// has limit characters at most.
func clean(s string, limit int) string {
	// Masks are costly on long text, and none of it is shown.
	if most := 8 * limit; len(s) > most {
		s = s[:most]
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(approval.RedactText(strings.TrimSpace(s)), "\uFFFD") {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return approval.FirstCharacters(b.String(), limit)
}
