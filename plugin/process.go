package plugin

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/regent-policy/regent/plugin/pluginpb"
)

const (
	// maxHello is the longest first line. A handshake with a certificate in it has
	// less than 2 KiB.
	maxHello = 16 << 10
	// stopGrace is how long a plugin may take to end when it is told to, and
	// readGrace how long output is read after its end: a process that left the
	// plugin's group may hold it open.
	stopGrace = 3 * time.Second
	readGrace = 200 * time.Millisecond
)

// program is what is started, and what one process differs from another by.
type program struct {
	name    string
	command []string
	// digest is that of the file when the configuration was read; the pin, where
	// there is one. "" where the file could not be read.
	digest string
	pinned bool
	// env are the variables that it sees, with their values.
	env []string
}

// process is one run of a program, connected to.
type process struct {
	*run
	client      *goplugin.Client
	conn        *grpc.ClientConn
	description *pluginpb.Description
}

// launchOptions are the parts of the host that a start needs.
type launchOptions struct {
	log     *slog.Logger
	clock   clock
	tempDir string
	timeout time.Duration
}

// launch starts a program and returns when it is healthy and has said what it is.
// The errors wrap [ErrChecksum], [ErrHandshake] or [ErrVersion], or are those of the
// system; nothing is left of the process then. ctx ends it early.
func launch(ctx context.Context, p program, o launchOptions) (*process, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("it was not ready within %v", o.timeout))
	defer cancel()
	out := newOutput(o.log, o.clock, p.name)
	r := newRun(p, out)
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: map[int]goplugin.PluginSet{ProtocolVersion: {service: &bridge{}}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
			r.cmd.Env = append(r.cmd.Env, cmd.Env...)
			return r, nil
		},
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: o.tempDir},
		// The context is what ends the wait.
		StartTimeout: o.timeout + time.Minute,
		SyncStdout:   out.stream("stdout"),
		SyncStderr:   out.stream("stderr"),
		Logger:       hclog.NewNullLogger(),
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxReply)),
			// A question is asked once, and a plugin has no say in how.
			grpc.WithDisableRetry(),
			grpc.WithDisableServiceConfig(),
		},
	})
	started := &process{run: r, client: client}
	stop := context.AfterFunc(ctx, r.kill)
	defer stop()
	err := started.connect(ctx)
	if err == nil && ctx.Err() == nil {
		return started, nil
	}
	r.kill()
	started.clear()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if fault := r.fault.Load(); fault != nil {
		err = *fault
	}
	if said := out.last(); said != "" {
		err = fmt.Errorf("%w; it wrote: %s", err, said)
	}
	return nil, err
}

func (p *process) connect(ctx context.Context) error {
	if _, err := p.client.Start(); err != nil {
		return errors.New(clean(err.Error(), 300))
	}
	protocol, err := p.client.Client()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	raw, err := protocol.Dispense(service)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	p.conn = raw.(*grpc.ClientConn)
	if err := p.healthy(ctx); err != nil {
		return err
	}
	d, err := pluginpb.NewPluginClient(p.conn).Describe(ctx, &pluginpb.DescribeRequest{})
	if err != nil {
		return fmt.Errorf("describe: %w", brief(err))
	}
	if d.GetName() == "" || d.GetVersion() == "" || len(d.GetKinds()) == 0 {
		return fmt.Errorf("describe: %w: name, version and kinds are needed", ErrReply)
	}
	p.description = d
	return nil
}

// healthy asks whether the plugin can be asked.
func (p *process) healthy(ctx context.Context) error {
	reply, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: goplugin.GRPCServiceName})
	if err != nil {
		return fmt.Errorf("check its health: %w", brief(err))
	}
	if s := reply.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("check its health: it is %v", s)
	}
	return nil
}

// stop asks the process to end, ends it, and returns when nothing is left of it.
func (p *process) stop() {
	p.ask()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-p.ended:
	case <-grace.C:
	}
	p.kill()
	p.clear()
}

// clear frees what go-plugin holds. It is called after kill: go-plugin's own way to
// stop a process waits for an answer of it, for ever if it was stopped.
func (p *process) clear() {
	if p.started.Load() {
		<-p.ended
	}
	p.client.Kill()
	p.reading.Wait()
}

// run is a process before and apart from any connection. It is go-plugin's runner.
type run struct {
	program program
	out     *output
	cmd     *exec.Cmd
	// stdin is never written to. It ends with the host, however that ends.
	stdin *os.File
	// hello is the first line, for go-plugin, which reads it as standard output.
	hello   *io.PipeReader
	greet   *io.PipeWriter
	reading sync.WaitGroup
	started atomic.Bool
	// ended is closed when the process has ended and is reaped.
	ended chan struct{}
	// fault is why the process cannot be used, if that showed before it was
	// connected to.
	fault atomic.Pointer[error]

	mu sync.Mutex
	// killed and reaped keep a signal from a process that is not ours: one that was
	// not started any more, or that has the number of ours now.
	killed, reaped bool
	status         string
}

var _ runner.Runner = (*run)(nil)

func newRun(p program, out *output) *run {
	r := &run{program: p, out: out, ended: make(chan struct{})}
	r.hello, r.greet = io.Pipe()
	r.cmd = &exec.Cmd{
		Path: p.command[0], Args: p.command, Dir: filepath.Dir(p.command[0]),
		Env: append([]string{stdinHeld + "=held"}, p.env...),
	}
	return r
}

func (r *run) fail(err error) error {
	r.fault.CompareAndSwap(nil, &err)
	return err
}

// Start starts the process. No shell takes part, and it sees nothing of our
// environment but what it was given.
func (r *run) Start(context.Context) error {
	if err := r.verify(); err != nil {
		return r.fail(err)
	}
	if err := own(r.cmd); err != nil {
		return r.fail(err)
	}
	var ours, theirs [3]*os.File
	release := func(files [3]*os.File) {
		for _, f := range files {
			if f != nil {
				_ = f.Close()
			}
		}
	}
	for i := range ours {
		reader, writer, err := os.Pipe()
		if err != nil {
			release(ours)
			release(theirs)
			return r.fail(err)
		}
		ours[i], theirs[i] = reader, writer
		if i == 0 {
			ours[i], theirs[i] = writer, reader
		}
	}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	started := make(chan error, 1)
	go func() {
		// The system ends the process when the thread that started it ends, so this
		// one is kept for as long as the process lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		r.mu.Lock()
		if r.killed {
			r.mu.Unlock()
			started <- errors.New("it was stopped before it started")
			return
		}
		err := r.cmd.Start()
		r.started.Store(err == nil)
		r.mu.Unlock()
		started <- err
		if err == nil {
			r.wait(ours)
		}
	}()
	err := <-started
	release(theirs)
	if err != nil {
		release(ours)
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err
		}
		return r.fail(fmt.Errorf("start %s: %w", r.program.command[0], err))
	}
	r.stdin = ours[0]
	r.reading.Go(func() { r.readStdout(ours[1]) })
	r.reading.Go(func() { r.out.read("stderr", ours[2]) })
	return nil
}

// verify compares the program with the digest that it had, or was to have.
func (r *run) verify() error {
	sum, err := Sum(r.program.command[0])
	switch {
	case err != nil:
		return fmt.Errorf("read the program: %w", err)
	case sum == r.program.digest:
		return nil
	case r.program.pinned:
		return fmt.Errorf("%w: %s has SHA-256 %s, and the configuration says %s", ErrChecksum, r.program.command[0], sum, r.program.digest)
	default:
		return fmt.Errorf("%w: %s has changed since the configuration was read", ErrChecksum, r.program.command[0])
	}
}

// wait reaps the process, with whatever it left behind in its group.
func (r *run) wait(ours [3]*os.File) {
	pid := r.cmd.Process.Pid
	awaitEnd(pid)
	r.mu.Lock()
	killGroup(pid)
	_ = r.cmd.Wait() // the state tells
	r.reaped, r.status = true, r.cmd.ProcessState.String()
	r.mu.Unlock()
	for _, f := range ours[1:] {
		_ = f.SetReadDeadline(time.Now().Add(readGrace))
	}
	_ = ours[0].Close()
	// Nothing of it is to come any more, and go-plugin waits for the end of it.
	_ = r.greet.Close()
	close(r.ended)
}

// readStdout hands the first line to go-plugin if it is a handshake that will do,
// and logs the others.
func (r *run) readStdout(f *os.File) {
	reader := bufio.NewReaderSize(f, maxHello)
	line, err := reader.ReadSlice('\n')
	if err == nil || (errors.Is(err, io.EOF) && len(line) > 0) {
		err = checkHello(string(bytes.TrimSpace(line)))
	} else if errors.Is(err, bufio.ErrBufferFull) {
		err = fmt.Errorf("%w: the first line on its standard output has more than %d bytes: %q", ErrHandshake, maxHello, clean(string(line), 100))
	} else {
		err = fmt.Errorf("%w: it ended its standard output without a line", ErrHandshake)
	}
	if err != nil {
		_ = r.fail(err)
		_ = r.greet.CloseWithError(io.EOF)
		r.kill()
	} else if _, err := r.greet.Write(line); err != nil {
		r.kill() // nobody reads any more
	}
	r.out.read("stdout", struct {
		io.Reader
		io.Closer
	}{reader, f})
}

// checkHello tells what is wrong with a first line. go-plugin checks some of it,
// too, and in other words; that there is a certificate it does not.
func checkHello(line string) error {
	parts := strings.Split(line, "|")
	shown := clean(line, 100)
	if len(parts) < 5 {
		return fmt.Errorf("%w: the first line on its standard output is %q; nothing may be written there before the handshake", ErrHandshake, shown)
	}
	if parts[0] != strconv.Itoa(goplugin.CoreProtocolVersion) {
		return fmt.Errorf("%w: the handshake %q starts with %q, and %d is the only core version there is", ErrHandshake, shown, clean(parts[0], 20), goplugin.CoreProtocolVersion)
	}
	if parts[1] != strconv.Itoa(ProtocolVersion) {
		return fmt.Errorf("%w: the plugin speaks version %q, and this host version %d", ErrVersion, clean(parts[1], 20), ProtocolVersion)
	}
	switch parts[2] {
	case "unix":
	case "tcp":
		host, _, err := net.SplitHostPort(parts[3])
		if ip := net.ParseIP(host); err != nil || !ip.IsLoopback() {
			return fmt.Errorf("%w: %q is no address of this machine's loopback", ErrHandshake, clean(parts[3], 100))
		}
	default:
		return fmt.Errorf("%w: the network is %q; use unix or tcp", ErrHandshake, clean(parts[2], 20))
	}
	if parts[4] != string(goplugin.ProtocolGRPC) {
		return fmt.Errorf("%w: the plugin speaks %q; only grpc is spoken", ErrHandshake, clean(parts[4], 20))
	}
	if len(parts) < 6 || parts[5] == "" {
		return fmt.Errorf("%w: there is no certificate in it; the plugin has to answer to PLUGIN_CLIENT_CERT", ErrHandshake)
	}
	der, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil {
		return fmt.Errorf("%w: its certificate is not in base64 without padding", ErrHandshake)
	}
	// go-plugin takes none for the roots of the system where it reads none here.
	if _, err := x509.ParseCertificate(der); err != nil || len(parts[5]) <= 50 {
		return fmt.Errorf("%w: its certificate is no X.509 certificate in DER", ErrHandshake)
	}
	return nil
}

// ask tells the process to end.
func (r *run) ask() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started.Load() && !r.reaped {
		_ = r.stdin.Close()
		terminate(r.cmd.Process.Pid)
	}
}

// kill ends the process and its group, and keeps it from being started.
func (r *run) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.started.Load() && !r.reaped {
		killGroup(r.cmd.Process.Pid)
	}
}

// state says how the process ended.
func (r *run) state() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *run) Wait(context.Context) error {
	if r.started.Load() {
		<-r.ended
	}
	return nil
}

func (r *run) Kill(context.Context) error {
	r.kill()
	return nil
}

func (r *run) Diagnose(context.Context) string { return "" }

func (r *run) Stdout() io.ReadCloser { return r.hello }

// Stderr is read by ourselves.
func (r *run) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

func (r *run) Name() string { return r.program.name }

func (r *run) ID() string { return r.program.name }

func (r *run) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

func (r *run) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
