// Package evaluator is Regent as a plugin: a host of agents loads the program regent
// and asks it about calls, over gRPC and HashiCorp's go-plugin. [Start] is for hosts
// in Go; hosts in other languages speak regent_evaluator.proto in package pluginpb.
// [Serve] is the side of the program.
//
// Only an answer of [Evaluator.Ask] whose outcome is allow is permission. An error is
// none, whatever it is, and neither is a ruling.
package evaluator

import (
	"context"
	"errors"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

// ProtocolVersion is the version of the protocol of regent_evaluator.proto that
// this package speaks, on both sides.
const ProtocolVersion = 1

var (
	// ErrNoDaemon means that what was asked for needs the daemon of the home, and
	// that none runs. Start one with regent serve.
	ErrNoDaemon = errors.New("no daemon is running")
	// ErrGone means that the program that was loaded has ended or does not answer.
	// What was being asked is not permitted. Close the client and start another.
	ErrGone = errors.New("the evaluator is gone")
	// ErrReply means that the program gave an answer that cannot be used.
	ErrReply = errors.New("unusable answer")
	// ErrNotLoaded means that a process is to serve that no host has started for
	// that.
	ErrNotLoaded = errors.New("this is for hosts of agents, which start it as a plugin")
	// ErrInsecure means that a host does not ask for mutual TLS. Set AutoMTLS in the
	// configuration of its go-plugin client.
	ErrInsecure = errors.New("the host has to use mutual TLS (PLUGIN_CLIENT_CERT is not set)")
)

// Evaluator says what policy says of calls, and gets decisions about them. Both
// sides have it: the program implements it, and [Client] is one that goes to the
// program. It is safe for concurrent use.
//
// Errors that the daemon or the program foresees are an *api.Error, which wraps
// those of package approval; [ErrNoDaemon] is the other one that is to be expected.
type Evaluator interface {
	// Describe says what was loaded.
	Describe(ctx context.Context) (Description, error)
	// Evaluate says who must answer a call, and why. Nothing is recorded, and nobody
	// is asked. Where policies do not load, the ruling says ask and has a failure.
	Evaluate(ctx context.Context, q Question) (approval.Ruling, error)
	// Ask returns when a call is decided. When ctx ends first the question is
	// withdrawn. Where no daemon runs policy alone decides: what it leaves to a
	// reviewer or a person is denied, and nothing is recorded.
	Ask(ctx context.Context, q Question) (api.Answer, error)
	// Answer decides what waits at the daemon, and returns the record as it is then.
	// The daemon has to let the program answer: one that asked, or whose host did,
	// is an agent, and agents answer nothing.
	Answer(ctx context.Context, d Decision) (approval.Record, error)
}

// Description is what a host has loaded.
type Description struct {
	// Name and Version are those of the program.
	Name, Version string
	// Home is the user's own folder.
	Home string
	// Workspace is that of calls which name none; "" where the nearest one above
	// their cwd counts.
	Workspace string
	// Daemon tells whether a daemon of the home answers now.
	Daemon bool
}

// Question is a call that is asked about.
type Question struct {
	Request *approval.Request
	// Workspace is the folder of the workspace to rule by, absolute. Where it is
	// empty, that of the [Description] counts, or else the nearest one above the
	// call's cwd.
	Workspace string
	// Folder is where the host is, absolute, for a request that does not say where it
	// runs. Where it is empty, that is where the program runs.
	Folder string
}

// Decision answers a record that was read at a revision.
type Decision struct {
	ID       string
	Revision int64
	api.Decision
}

// handshake keeps the program from being started by hand and left wondering. It is
// no secret, and another than that of Regent's own plugins.
var handshake = goplugin.HandshakeConfig{
	MagicCookieKey:   "REGENT_EVALUATOR",
	MagicCookieValue: "3b7c91d2-regent-evaluator",
}

const (
	// service is the name under which go-plugin knows what is served.
	service = "evaluator"
	// clientCert is the variable in which a go-plugin client with AutoMTLS tells its
	// certificate.
	clientCert = "PLUGIN_CLIENT_CERT"
	// maxQuestion is the largest message that the program takes, and maxReply the
	// largest that the host does. A record holds its request and more.
	maxQuestion = approval.MaxRequestBytes + api.MaxEnvelopeBytes
	maxReply    = 4 * approval.MaxRequestBytes
)

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
