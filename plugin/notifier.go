package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/regent-policy/regent/plugin/pluginpb"
)

// Notice is something that happened.
type Notice struct {
	// ID is that of the notice: one that is sent twice has one id.
	ID string
	// Event is the kind of event: pending, decided, closed or notice.
	Event string
	// Notification tells the rest, as a JSON object with a member version.
	Notification json.RawMessage
}

// Notifier is the role of a plugin that is told what happens. notify is called by
// several callers at a time, and ends soon after ctx does.
func Notifier(notify func(ctx context.Context, n Notice) error) Role {
	return Role{kind: pluginpb.Kind_KIND_NOTIFIER, register: func(s grpc.ServiceRegistrar) {
		pluginpb.RegisterNotifierServer(s, &notifyServer{notify: notify})
	}}
}

type notifyServer struct {
	pluginpb.UnimplementedNotifierServer
	notify func(ctx context.Context, n Notice) error
}

func (s *notifyServer) Notify(ctx context.Context, n *pluginpb.Notice) (*pluginpb.NotifyReply, error) {
	notice := Notice{ID: n.GetId(), Event: n.GetEvent(), Notification: n.GetNotification()}
	if err := s.notify(ctx, notice); err != nil {
		return nil, err
	}
	return &pluginpb.NotifyReply{}, nil
}

// Notify tells the plugin of that name once. An error means that it may not have
// heard of it, and wraps [ErrUnavailable] or [ErrRetired] where it was not tried;
// ctx ends it early.
func (s *Set) Notify(ctx context.Context, name string, n Notice) error {
	message := &pluginpb.Notice{Id: n.ID, Event: n.Event, Notification: n.Notification}
	if size := proto.Size(message); size > maxRequest {
		return fmt.Errorf("plugin %s: the notice has %d bytes, more than the %d that plugins are told", name, size, maxRequest)
	}
	i, err := s.instance(name)
	if err != nil {
		return err
	}
	err = i.call(ctx, KindNotifier, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pluginpb.NewNotifierClient(conn).Notify(ctx, message)
		return err
	})
	if err != nil && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}
