package evaluator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin/pluginpb"
	"github.com/regent-policy/regent/server/api"
)

// stopGrace is how long the program may take to end when it is told to.
const stopGrace = 3 * time.Second

// inherited are the variables that the program always sees, where they are set.
var inherited = []string{"HOME", "REGENT_HOME", "PATH", "TMPDIR", "SystemRoot", "USERPROFILE", "TEMP", "TMP"}

// Options say what a host loads. The zero value loads the regent of the PATH, with
// the user's own home.
type Options struct {
	// Program is the program regent; that of the PATH where it is empty.
	Program string
	// SHA256 is the digest of the program's file, in hexadecimal digits, as
	// sha256sum prints it. Where it is not empty, no other program is started.
	SHA256 string
	// Home is the user's own folder; $REGENT_HOME or ~/.regent where it is empty.
	Home string
	// Workspace is the workspace of calls that name none. [Evaluator.Evaluate] trusts
	// it, as regent check --workspace does; the daemon does if its owner has said so.
	Workspace string
	// Env are names of further variables that the program sees. It sees little of the
	// environment of the host, which often holds keys.
	Env []string
	// Stderr takes what the program writes to its standard error, one write at a
	// time; nil drops it.
	Stderr io.Writer
	// StartTimeout is how long it may take until it is ready; 20 seconds where it
	// is 0.
	StartTimeout time.Duration
	// Command takes the place of Program and what is made of Home and Workspace.
	Command []string
}

// Client is a program that was loaded. It is safe for concurrent use.
type Client struct {
	plugin *goplugin.Client
	calls  pluginpb.EvaluatorClient
	end    context.CancelFunc
	pid    int
	socket string
	once   sync.Once
}

var _ Evaluator = (*Client)(nil)

// Start loads the program, and returns when it is healthy. ctx bounds the start and
// nothing after it. Close ends the program.
//
// It should be a child of the process that runs the agent, with no shell in between:
// the daemon takes whoever started it for an agent, and what that process starts.
func Start(ctx context.Context, o Options) (*Client, error) {
	command := o.Command
	if len(command) == 0 {
		command = []string{cmp.Or(o.Program, "regent"), "plugin", "serve"}
		for name, value := range map[string]string{"--home": o.Home, "--workspace": o.Workspace} {
			if value != "" {
				command = append(command, name+"="+value)
			}
		}
	}
	life, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(life, command[0], command[1:]...)
	// Whoever holds what the program left behind does not hold up its end.
	cmd.WaitDelay = stopGrace
	cmd.Env = []string{}
	for _, name := range append(inherited[:len(inherited):len(inherited)], o.Env...) {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	config := &goplugin.ClientConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: map[int]goplugin.PluginSet{ProtocolVersion: {service: &bridge{}}},
		Cmd:              cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     cmp.Or(o.StartTimeout, 20*time.Second),
		Logger:           hclog.NewNullLogger(),
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)),
			// A question is asked once.
			grpc.WithDisableRetry(),
			grpc.WithDisableServiceConfig(),
		},
	}
	if o.SHA256 != "" {
		sum, err := hex.DecodeString(o.SHA256)
		if err != nil || len(sum) != sha256.Size {
			end()
			return nil, fmt.Errorf("load regent: %q is no SHA-256 digest", o.SHA256)
		}
		config.SecureConfig = &goplugin.SecureConfig{Checksum: sum, Hash: sha256.New()}
	}
	if o.Stderr != nil {
		// Before the first connection and after it, different goroutines write.
		said := &lockedWriter{w: o.Stderr}
		config.Stderr, config.SyncStderr = said, said
	}
	c := &Client{plugin: goplugin.NewClient(config), end: end}
	stop := context.AfterFunc(ctx, end)
	err := c.connect(ctx)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("load regent: %w", err)
	}
	return c, nil
}

func (c *Client) connect(ctx context.Context) error {
	address, err := c.plugin.Start()
	if err != nil {
		return err
	}
	if address.Network() == "unix" {
		c.socket = address.String()
	}
	if attached := c.plugin.ReattachConfig(); attached != nil {
		c.pid = attached.Pid
	}
	protocol, err := c.plugin.Client()
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense(service)
	if err != nil {
		return err
	}
	conn, ok := raw.(*grpc.ClientConn)
	if !ok {
		return fmt.Errorf("%w: it gave a %T for a connection", ErrReply, raw)
	}
	reply, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: goplugin.GRPCServiceName})
	if err != nil {
		return heard(ctx, err)
	}
	if s := reply.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("%w: its health is %v", ErrGone, s)
	}
	c.calls = pluginpb.NewEvaluatorClient(conn)
	return nil
}

// PID is the process of the program.
func (c *Client) PID() int { return c.pid }

// Close ends the program, and returns when it has ended. What is being asked is
// withdrawn.
func (c *Client) Close() {
	c.once.Do(func() {
		// A program that is stopped or hangs would be waited for without end.
		force := time.AfterFunc(stopGrace, c.end)
		c.plugin.Kill()
		force.Stop()
		c.end()
		if c.socket != "" {
			_ = os.Remove(c.socket) // one that was killed leaves it behind
		}
	})
}

// Describe implements [Evaluator].
func (c *Client) Describe(ctx context.Context) (Description, error) {
	d, err := c.calls.Describe(ctx, &pluginpb.EvaluatorDescribeRequest{})
	if err != nil {
		return Description{}, heard(ctx, err)
	}
	return Description{
		Name: d.GetName(), Version: d.GetVersion(), Home: d.GetHome(), Workspace: d.GetWorkspace(), Daemon: d.GetDaemon(),
	}, nil
}

// Evaluate implements [Evaluator].
func (c *Client) Evaluate(ctx context.Context, q Question) (approval.Ruling, error) {
	request, err := asked(q)
	if err != nil {
		return approval.Ruling{}, err
	}
	reply, err := c.calls.Evaluate(ctx, &pluginpb.EvaluateRequest{Request: request, Workspace: q.Workspace, Folder: q.Folder})
	if err != nil {
		return approval.Ruling{}, heard(ctx, err)
	}
	ruling, err := decoded[approval.Ruling](reply.GetRuling())
	if err != nil {
		return approval.Ruling{}, err
	}
	switch ruling.Route {
	case approval.RouteSkip, approval.RouteAllow, approval.RouteDeny, approval.RouteReview, approval.RouteAsk:
		return ruling, nil
	default:
		return approval.Ruling{}, fmt.Errorf("%w: it has the route %.40q", ErrReply, ruling.Route)
	}
}

// Ask implements [Evaluator].
func (c *Client) Ask(ctx context.Context, q Question) (api.Answer, error) {
	request, err := asked(q)
	if err != nil {
		return api.Answer{}, err
	}
	reply, err := c.calls.Ask(ctx, &pluginpb.AskRequest{Request: request, Workspace: q.Workspace, Folder: q.Folder})
	if err != nil {
		return api.Answer{}, heard(ctx, err)
	}
	answer, err := decoded[api.Answer](reply.GetAnswer())
	if err != nil {
		return api.Answer{}, err
	}
	switch answer.Outcome {
	case approval.OutcomeAllow, approval.OutcomeDeny, approval.OutcomeCancel:
		return answer, nil
	default:
		return api.Answer{}, fmt.Errorf("%w: it has the outcome %.40q", ErrReply, answer.Outcome)
	}
}

// Answer implements [Evaluator].
func (c *Client) Answer(ctx context.Context, d Decision) (approval.Record, error) {
	message := &pluginpb.AnswerRequest{Id: d.ID, Revision: d.Revision, Option: d.Option, Reason: d.Reason, Proof: d.Proof}
	if d.Grant != nil {
		grant, err := jsonv2.Marshal(d.Grant)
		if err != nil {
			return approval.Record{}, fmt.Errorf("encode the grant: %w", err)
		}
		message.Grant = grant
	}
	reply, err := c.calls.Answer(ctx, message)
	if err != nil {
		return approval.Record{}, heard(ctx, err)
	}
	record, err := decoded[approval.Record](reply.GetRecord())
	if err == nil && record.ID != d.ID {
		return approval.Record{}, fmt.Errorf("%w: it is about record %.80q", ErrReply, record.ID)
	}
	return record, err
}

// lockedWriter is a writer for several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func asked(q Question) ([]byte, error) {
	if q.Request == nil {
		return nil, errors.New("ask regent: there is no request")
	}
	request, err := jsonv2.Marshal(q.Request)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return request, nil
}

// decoded reads an answer. With an error there is none, not even half of one.
func decoded[T any](text []byte) (T, error) {
	var answer, none T
	if err := jsonv2.Unmarshal(text, &answer); err != nil {
		return none, fmt.Errorf("%w: %w", ErrReply, err)
	}
	return answer, nil
}
