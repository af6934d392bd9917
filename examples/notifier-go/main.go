// Command notifier-go is a notifier in Go: it appends what it is told to the file
// that its first argument names, a line of JSON each. A notice that is sent again
// has the id of the first.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"

	"github.com/regent-policy/regent/plugin"
)

func main() {
	plugin.Serve(plugin.Info{Name: "notifier-go", Version: "1.0.0"}, plugin.Notifier(notify))
}

// writing keeps lines whole: several notices may come at a time.
var writing sync.Mutex

func notify(_ context.Context, n plugin.Notice) error {
	if len(os.Args) < 2 {
		return errors.New("the command names no file to write to")
	}
	line, err := json.Marshal(map[string]any{"id": n.ID, "event": n.Event, "notification": n.Notification})
	if err != nil {
		return err
	}
	writing.Lock()
	defer writing.Unlock()
	f, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
