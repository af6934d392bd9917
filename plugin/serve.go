package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/regent-policy/regent/plugin/pluginpb"
)

// Info says what a plugin is.
type Info struct {
	// Name and Version are the plugin's own. Both are needed.
	Name, Version string
	// ArgumentsSchema is a JSON Schema of the arguments that the plugin takes from
	// the configuration. It may be left out.
	ArgumentsSchema json.RawMessage
}

// Role is something that a plugin can be used as: see [Reviewer], [Notifier] and
// [Harness].
type Role struct {
	kind     pluginpb.Kind
	register func(s grpc.ServiceRegistrar)
}

// Serve is the main function of a plugin. It serves the roles until the host has
// no more use for the plugin, or is gone, and does not return then. A program that
// was not started by a host says so and exits.
//
// Standard output belongs to the handshake until the host has connected. From then
// on whatever is written to it and to standard error goes into the host's log.
func Serve(info Info, roles ...Role) {
	if err := check(info, roles); err != nil {
		exit(err)
	}
	if os.Getenv(handshake.MagicCookieKey) != handshake.MagicCookieValue {
		exit(fmt.Errorf("%s is a plugin of Regent, which starts it; see regent plugin add --help", info.Name))
	}
	if os.Getenv(stdinHeld) != "" {
		go func() {
			// Nothing is ever written there. The end is all that can come.
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshake,
		VersionedPlugins: map[int]goplugin.PluginSet{
			ProtocolVersion: {service: &bridge{register: func(s *grpc.Server) { register(s, info, roles) }}},
		},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(options, recovering...)...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
	os.Exit(0)
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

func check(info Info, roles []Role) error {
	switch {
	case info.Name == "" || info.Version == "":
		return errors.New("serve a plugin: Info has no name or no version")
	case info.ArgumentsSchema != nil && !json.Valid(info.ArgumentsSchema):
		return errors.New("serve a plugin: Info.ArgumentsSchema is no JSON")
	case len(roles) == 0:
		return errors.New("serve a plugin: no role is given")
	}
	for i, r := range roles {
		if r.register == nil || slices.ContainsFunc(roles[:i], func(other Role) bool { return other.kind == r.kind }) {
			return fmt.Errorf("serve a plugin: role %d is empty or is given twice", i+1)
		}
	}
	return nil
}

func register(s grpc.ServiceRegistrar, info Info, roles []Role) {
	d := &pluginpb.Description{Name: info.Name, Version: info.Version, ArgumentsSchema: info.ArgumentsSchema}
	for _, r := range roles {
		d.Kinds = append(d.Kinds, r.kind)
		r.register(s)
	}
	pluginpb.RegisterPluginServer(s, &describer{description: d})
}

type describer struct {
	pluginpb.UnimplementedPluginServer
	description *pluginpb.Description
}

func (d *describer) Describe(context.Context, *pluginpb.DescribeRequest) (*pluginpb.Description, error) {
	return d.description, nil
}

// recovering makes of a panic an error of one call. The others go on.
var recovering = []grpc.ServerOption{
	grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
		defer recovered(info.FullMethod, &err)
		return handle(ctx, request)
	}),
	grpc.ChainStreamInterceptor(func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		defer recovered(info.FullMethod, &err)
		return handle(server, stream)
	}),
}

func recovered(method string, err *error) {
	if fault := recover(); fault != nil {
		fmt.Fprintf(os.Stderr, "%s: panic: %v\n%s", method, fault, debug.Stack())
		*err = status.Errorf(codes.Internal, "the plugin panicked: %v", fault)
	}
}
