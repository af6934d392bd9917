package codex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/wire"
)

// Proxy governs a codex app-server: it stands between the server and its clients,
// and has the questions about approvals answered by an [harness.Asker].
type Proxy struct {
	// Asker has the answers.
	Asker harness.Asker
	// Workspace names the folder to rule by; the nearest one above a call is found
	// where it is empty. Folder is where the agent is, for a question that does not
	// say where its call runs.
	Workspace, Folder string
	// Options are how a connection is spoken on.
	Options Options
	// Show has every question that waits for a person shown in the client as well,
	// whose user answers as By.
	Show bool
	By   gate.Principal
	// Observe hears of every question, from several goroutines; nil where nobody
	// listens.
	Observe func(harness.Event)
	// Log takes what goes wrong; nil discards it.
	Log *slog.Logger
}

func (p *Proxy) loop() *harness.Loop {
	return &harness.Loop{
		Asker: p.Asker, New: func() harness.Codec { return NewCodec(p.Options) },
		Workspace: p.Workspace, Folder: p.Folder, Show: p.Show, By: p.By, Observe: p.Observe, Log: p.Log,
	}
}

// Connect carries messages between one client and one server until either hangs
// up or ctx ends. It closes both.
func (p *Proxy) Connect(ctx context.Context, client, server harness.Conn) error {
	return p.loop().Run(ctx, client, server)
}

// Serve serves the clients of l in front of a server that listens, each on a
// connection of its own, until ctx or the server ends. It closes l. The error is
// nil if ctx ended.
func (p *Proxy) Serve(ctx context.Context, l *wire.Listener, server *Process) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	log := p.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	loop := p.loop()
	var clients, watch sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	watch.Go(func() {
		select {
		case <-server.Done():
			cancel(fmt.Errorf("codex app-server ended: %w", server.Ended()))
		case <-ctx.Done():
		}
	})
	var err error
	for {
		var client *wire.WebConn
		if client, err = l.Accept(); err != nil {
			break
		}
		clients.Go(func() {
			upstream, err := server.Dial(ctx)
			if err != nil {
				_ = client.Close()
				log.Error("a client could not be connected to codex app-server", "error", err)
				return
			}
			if err := loop.Run(ctx, client, upstream); err != nil {
				log.Warn("a connection ended", "error", err)
			}
		})
	}
	if ctx.Err() != nil {
		if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	cancel(nil)
	clients.Wait()
	watch.Wait()
	return err
}
