package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/reviewer"
)

// notifier makes what tells a notifier of the configuration.
func (h *Hub) notifier(c config.Notifier) (Notifier, error) {
	switch c.Kind {
	case config.NotifierWebhook:
		return newWebhook(c)
	case config.NotifierCommand:
		return command{reviewer.Program{Command: c.Command, Env: c.Env}}, nil
	case config.NotifierDesktop:
		return findDesktop()
	case config.NotifierPlugin:
		if h.options.Plugin == nil {
			return nil, fmt.Errorf("%w: no plugins are run here", ErrUnavailable)
		}
		n, err := h.options.Plugin(c.Plugin)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return n, nil
	default:
		return nil, fmt.Errorf("%w: kind %q is not known", ErrUnavailable, c.Kind)
	}
}

// command starts a program for each notification, which is its standard input.
// What it writes to standard output is no matter.
type command struct{ program reviewer.Program }

// Notify implements [Notifier]. A program that fails is not started again for the
// same: it may have told half of it.
func (c command) Notify(ctx context.Context, n Notification) error {
	text, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode a notification: %w", err)
	}
	_, err = c.program.Run(ctx, text)
	return err
}

// desktop shows notifications to the user that the daemon runs as.
type desktop struct{ way desktopWay }

// desktopWay is a program that shows a title and a text.
type desktopWay struct {
	path string
	// before are the arguments before title and text.
	before []string
	// markup says that the text is read as markup.
	markup bool
}

// desktopEnv is how such a program finds the desktop.
var desktopEnv = []string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"}

// desktopWays are where the systems keep them. They are not looked up in PATH,
// like no program that the daemon starts.
var desktopWays = []desktopWay{
	{path: "/usr/bin/notify-send", before: []string{"--app-name=Regent", "--"}, markup: true},
	{path: "/usr/local/bin/notify-send", before: []string{"--app-name=Regent", "--"}, markup: true},
	{path: "/run/current-system/sw/bin/notify-send", before: []string{"--app-name=Regent", "--"}, markup: true},
	// The texts are arguments of a script that never changes.
	{path: "/usr/bin/osascript", before: []string{
		"-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run",
	}},
}

func findDesktop() (Notifier, error) {
	var looked []string
	for _, way := range desktopWays {
		if info, err := os.Stat(way.path); err == nil && info.Mode().IsRegular() {
			return desktop{way}, nil
		}
		looked = append(looked, way.path)
	}
	return nil, fmt.Errorf("%w: no program shows notifications here; looked for %s", ErrUnavailable, strings.Join(looked, ", "))
}

// markup is what has a meaning in the text of a notification, as the Desktop
// Notifications Specification 1.2 has it. An agent would else put links there.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Notify implements [Notifier].
func (d desktop) Notify(ctx context.Context, n Notification) error {
	title, text := desktopText(n)
	if d.way.markup {
		text = markup.Replace(text)
	}
	words := append([]string{d.way.path}, d.way.before...)
	_, err := reviewer.Program{Command: append(words, title, text), Env: desktopEnv}.Run(ctx, nil)
	return err
}

// desktopText is what people see of a notification. The title never begins with
// what could be an option.
func desktopText(n Notification) (title, text string) {
	var lines []string
	switch n.Event {
	case config.NotifyPending:
		title = "Regent: an answer is needed"
	case config.NotifyDecided:
		title = fmt.Sprintf("Regent: %s by %s", n.Outcome, n.Source)
	case config.NotifyClosed:
		title = "Regent: " + string(n.State)
	default:
		title = "Regent: " + string(n.Topic)
	}
	for _, one := range []string{n.Summary, n.Reason, n.Answer} {
		if one != "" {
			lines = append(lines, one)
		}
	}
	if len(lines) == 0 { // notify-send wants a text
		lines = []string{line(n.Workspace)}
	}
	return title, strings.Join(lines, "\n")
}

var (
	_ Notifier = (*webhook)(nil)
	_ Notifier = command{}
	_ Notifier = desktop{}
)
