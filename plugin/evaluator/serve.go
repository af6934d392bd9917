package evaluator

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin/pluginpb"
	"github.com/regent-policy/regent/server/api"
)

// parentEvery is how often is looked whether the host is still there. Its end also
// ends its connection, and with that what it asked; this ends the process.
const parentEvery = time.Second

// Serve serves e to the host that has started this process, and returns when the
// host has no more use for it or is gone, or when ctx ends. It is an [ErrNotLoaded]
// or [ErrInsecure] where no host has, or not as it has to.
//
// Standard output belongs to the handshake. From the first connection on whatever
// is written to os.Stdout and os.Stderr goes to the host.
func Serve(ctx context.Context, e Evaluator) error {
	switch {
	case os.Getenv(handshake.MagicCookieKey) != handshake.MagicCookieValue:
		return ErrNotLoaded
	case os.Getenv(clientCert) == "":
		// go-plugin would serve whoever finds the socket.
		return ErrInsecure
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		parent := os.Getppid()
		look := time.NewTicker(parentEvery)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				if os.Getppid() != parent {
					cancel()
				}
			}
		}
	}()
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: handshake,
		VersionedPlugins: map[int]goplugin.PluginSet{
			ProtocolVersion: {service: &bridge{register: func(s *grpc.Server) {
				pluginpb.RegisterEvaluatorServer(s, &server{evaluator: e})
			}}},
		},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			s := grpc.NewServer(append(options, grpc.MaxRecvMsgSize(maxQuestion), grpc.ChainUnaryInterceptor(recovering))...)
			context.AfterFunc(ctx, s.Stop)
			return s
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
	return nil
}

// recovering makes of a panic an error of one call. The others go on.
func recovering(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			fmt.Fprintf(os.Stderr, "%s: panic: %v\n%s", info.FullMethod, fault, debug.Stack())
			reply, err = nil, status.Errorf(codes.Internal, "regent panicked: %v", fault)
		}
	}()
	return handle(ctx, request)
}

// server is the program's side.
type server struct {
	pluginpb.UnimplementedEvaluatorServer
	evaluator Evaluator
}

func (s *server) Describe(ctx context.Context, _ *pluginpb.EvaluatorDescribeRequest) (*pluginpb.EvaluatorDescription, error) {
	d, err := s.evaluator.Describe(ctx)
	if err != nil {
		return nil, told(ctx, err)
	}
	return &pluginpb.EvaluatorDescription{
		Name: d.Name, Version: d.Version, Home: d.Home, Workspace: d.Workspace, Daemon: d.Daemon,
	}, nil
}

func (s *server) Evaluate(ctx context.Context, r *pluginpb.EvaluateRequest) (*pluginpb.EvaluateReply, error) {
	q, err := question(r)
	if err != nil {
		return nil, told(ctx, err)
	}
	ruling, err := s.evaluator.Evaluate(ctx, q)
	text, err := encoded(ruling, err)
	if err != nil {
		return nil, told(ctx, err)
	}
	return &pluginpb.EvaluateReply{Ruling: text}, nil
}

func (s *server) Ask(ctx context.Context, r *pluginpb.AskRequest) (*pluginpb.AskReply, error) {
	q, err := question(r)
	if err != nil {
		return nil, told(ctx, err)
	}
	answer, err := s.evaluator.Ask(ctx, q)
	text, err := encoded(answer, err)
	if err != nil {
		return nil, told(ctx, err)
	}
	return &pluginpb.AskReply{Answer: text}, nil
}

func (s *server) Answer(ctx context.Context, r *pluginpb.AnswerRequest) (*pluginpb.AnswerReply, error) {
	d := Decision{ID: r.GetId(), Revision: r.GetRevision(), Decision: api.Decision{Reason: r.GetReason(), Proof: r.GetProof()}}
	switch {
	case d.ID == "":
		return nil, told(ctx, &api.Error{Code: api.BadRequest, Message: "the id is missing", Pointer: "/id"})
	case d.Revision < 1:
		return nil, told(ctx, &api.Error{Code: api.RevisionRequired, Message: "the revision is missing", Hint: "say at which revision the record was read", Pointer: "/revision"})
	case !json.Valid(r.GetOption()):
		return nil, told(ctx, &api.Error{Code: api.BadRequest, Message: "the option is missing or no JSON", Pointer: "/option"})
	}
	d.Option = r.GetOption()
	if grant := r.GetGrant(); len(grant) > 0 {
		if err := jsonv2.Unmarshal(grant, &d.Grant, jsonv2.RejectUnknownMembers(true)); err != nil {
			return nil, told(ctx, &api.Error{Code: api.BadRequest, Message: fmt.Sprintf("the grant is not what an answer takes: %v", err), Pointer: "/grant"})
		}
	}
	record, err := s.evaluator.Answer(ctx, d)
	text, err := encoded(record, err)
	if err != nil {
		return nil, told(ctx, err)
	}
	return &pluginpb.AnswerReply{Record: text}, nil
}

// question reads what both kinds of questions have.
func question(r interface {
	GetRequest() []byte
	GetWorkspace() string
	GetFolder() string
},
) (Question, error) {
	q := Question{Workspace: r.GetWorkspace(), Folder: r.GetFolder()}
	for name, path := range map[string]string{"workspace": q.Workspace, "folder": q.Folder} {
		if path != "" && !filepath.IsAbs(path) {
			return q, &api.Error{Code: api.BadRequest, Message: fmt.Sprintf("the %s %.100q is not absolute", name, path), Pointer: "/" + name}
		}
	}
	var err error
	q.Request, err = approval.Decode(r.GetRequest())
	return q, err
}

// encoded is an answer as JSON, unless err says that there is none.
func encoded(answer any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	text, err := jsonv2.Marshal(answer)
	if err == nil && len(text) > maxReply-api.MaxEnvelopeBytes {
		err = fmt.Errorf("the answer has %d bytes, more than can be told", len(text))
	}
	return text, err
}
