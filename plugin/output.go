package plugin

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// maxLine is how much of a line that a plugin writes is logged, in characters.
	maxLine = 2000
	// linesPerSecond and linesAtOnce bound how fast a plugin may fill our log. What
	// is beyond is counted and dropped.
	linesPerSecond = 50
	linesAtOnce    = 200
	// maxLast is how much of what a plugin wrote last is told when it fails, in
	// characters.
	maxLast = 300
)

// output brings what a process writes into our log.
type output struct {
	log   *slog.Logger
	clock clock

	mu      sync.Mutex
	budget  float64
	filled  time.Time
	dropped int
	said    string
}

func newOutput(log *slog.Logger, c clock, plugin string) *output {
	return &output{log: log.With("plugin", plugin), clock: c, budget: linesAtOnce, filled: c.Now()}
}

// read logs what comes from a file until its end, and closes it.
func (o *output) read(stream string, f io.ReadCloser) {
	w := o.stream(stream)
	// A deadline ends it, too: what comes after the end of a process is not its own.
	_, _ = io.Copy(w, f)
	w.flush()
	_ = f.Close()
}

// stream makes a writer of lines.
func (o *output) stream(name string) *lineWriter { return &lineWriter{out: o, stream: name} }

// lineWriter cuts what is written to it into lines. It never fails, and keeps no
// more of a line than is shown.
type lineWriter struct {
	out    *output
	stream string

	mu   sync.Mutex
	line []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written := len(p)
	for len(p) > 0 {
		advance, token, _ := bufio.ScanLines(p, false)
		if advance == 0 {
			w.keep(p)
			break
		}
		w.keep(token)
		w.end()
		p = p[advance:]
	}
	return written, nil
}

func (w *lineWriter) keep(part []byte) {
	// Characters have four bytes at most, and masks look at more than is shown.
	if room := 8*maxLine - len(w.line); room > 0 {
		w.line = append(w.line, part[:min(room, len(part))]...)
	}
}

func (w *lineWriter) end() {
	w.out.say(w.stream, string(w.line))
	w.line = w.line[:0]
}

func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.line) > 0 {
		w.end()
	}
}

// say logs a line while there is a budget for it.
func (o *output) say(stream, line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	o.mu.Lock()
	now := o.clock.Now()
	o.budget = min(linesAtOnce, o.budget+now.Sub(o.filled).Seconds()*linesPerSecond)
	o.filled = now
	if o.budget < 1 {
		o.dropped++
		o.mu.Unlock()
		return
	}
	o.budget--
	dropped := o.dropped
	o.dropped = 0
	message := clean(line, maxLine)
	if stream == "stderr" {
		o.said = message
	}
	o.mu.Unlock()
	if dropped > 0 {
		o.log.Warn("plugin wrote more than is logged", "dropped_lines", dropped)
	}
	o.log.Log(context.Background(), levelOf(line), "plugin wrote", "stream", stream, "line", message)
}

// last is what it wrote to standard error last.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return clean(o.said, maxLast)
}

// levelOf is the level of a line in the JSON of hclog or of slog. Any other line is
// information. The line itself is logged as it is: it may say more than we know to
// take out of it.
func levelOf(line string) slog.Level {
	var entry struct {
		Level  string `json:"level"`
		HLevel string `json:"@level"`
	}
	if line[0] != '{' || json.Unmarshal([]byte(line), &entry) != nil {
		return slog.LevelInfo
	}
	switch strings.ToLower(entry.Level + entry.HLevel) {
	case "trace", "debug":
		return slog.LevelDebug
	case "warn", "warning":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
