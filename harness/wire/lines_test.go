package wire_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nothing() error { return nil }

// readAll reads until an error, which it returns.
func readAll(c harness.Conn) (messages []string, err error) {
	for {
		got, err := c.Read()
		if err != nil {
			return messages, err
		}
		if len(got) == 0 {
			return messages, errors.New("a Read without a message")
		}
		for _, m := range got {
			messages = append(messages, string(m))
		}
	}
}

// chunkings are ways in which the same bytes may come.
var chunkings = map[string]func(io.Reader) io.Reader{
	"at once":               func(r io.Reader) io.Reader { return r },
	"byte by byte":          iotest.OneByteReader,
	"half of what fits":     iotest.HalfReader,
	"the end with the rest": iotest.DataErrReader,
}

func TestLinesAreMessages(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"nothing is no message", "", nil},
		{"a line is a message", "{}\n", []string{"{}"}},
		{"CR belongs to the end of a line", "{\"a\":1}\r\n{\"b\":2}\r\n", []string{`{"a":1}`, `{"b":2}`}},
		{"CR within a line does not", "a\rb\n", []string{"a\rb"}},
		{"blank lines are passed over", "\n\r\n \t\n{}\n\n", []string{"{}"}},
		{"blanks around a message stay", " {} \n", []string{" {} "}},
		{"the last line needs no end", "{}\n[]", []string{"{}", "[]"}},
		{"a blank last line is none", "{}\n \r", []string{"{}"}},
		{"a message may be longer than any buffer", long + "\n{}\n" + long, []string{long, "{}", long}},
		{"what is no JSON is carried all the same", "\x00\xff\n", []string{"\x00\xff"}},
	} {
		for how, chunked := range chunkings {
			t.Run(tc.name+", "+how, func(t *testing.T) {
				c := wire.Lines(chunked(strings.NewReader(tc.in)), io.Discard, nothing)
				got, err := readAll(c)
				if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, io.EOF) {
					t.Errorf("then %v; (-want +got):\n%s", err, diff)
				}
				if _, err := c.Read(); !errors.Is(err, io.EOF) {
					t.Errorf("the next Read has %v, want EOF", err)
				}
			})
		}
	}
}

func TestLinesThatComeTogetherAreReadTogether(t *testing.T) {
	c := wire.Lines(strings.NewReader("a\nb\nc\nd"), io.Discard, nothing)
	for _, want := range [][]string{{"a", "b", "c"}, {"d"}} {
		got, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, texts(got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func texts(messages [][]byte) (s []string) {
	for _, m := range messages {
		s = append(s, string(m))
	}
	return s
}

func TestHalfALineBeforeAnErrorIsNoMessage(t *testing.T) {
	broken := errors.New("broken")
	c := wire.Lines(io.MultiReader(strings.NewReader("{}\n{\"decision\""), iotest.ErrReader(broken)), io.Discard, nothing)
	got, err := readAll(c)
	if diff := cmp.Diff([]string{"{}"}, got); diff != "" || !errors.Is(err, broken) {
		t.Errorf("then %v; (-want +got):\n%s", err, diff)
	}
}

func TestHalfALineBeforeCloseIsNoMessage(t *testing.T) {
	out, in := io.Pipe()
	c := wire.Lines(out, io.Discard, in.Close) // the reader sees an orderly end
	go func() {
		_, _ = in.Write([]byte("{}\n"))
		_, _ = in.Write([]byte(`{"decision"`))
		_ = c.Close()
	}()
	got, err := readAll(c)
	if diff := cmp.Diff([]string{"{}"}, got); diff != "" || !errors.Is(err, io.EOF) {
		t.Errorf("then %v; (-want +got):\n%s", err, diff)
	}
}

func TestALineThatIsTooLongEndsTheConnection(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []string
		err      error
	}{
		{"the bound itself is not too long", "12345678\r\n87654321", []string{"12345678", "87654321"}, io.EOF},
		{"one more is", "123456789\n", nil, wire.ErrTooLong},
		{"a line without an end is", strings.Repeat("x", 300<<10), nil, wire.ErrTooLong},
		{"the last line is", "a\n123456789", []string{"a"}, wire.ErrTooLong},
		{"messages before it count, and none after it", "a\nb\n123456789\nc\n", []string{"a", "b"}, wire.ErrTooLong},
		{"many short lines are not", strings.Repeat("12345678\n", 3), []string{"12345678", "12345678", "12345678"}, io.EOF},
	} {
		for how, chunked := range chunkings {
			t.Run(tc.name+", "+how, func(t *testing.T) {
				shut := 0
				c := wire.Lines(chunked(strings.NewReader(tc.in)), io.Discard, func() error { shut++; return nil })
				c.Limit(wire.Limits{Message: 8})
				got, err := readAll(c)
				if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.err) {
					t.Fatalf("then %v, want %v; (-want +got):\n%s", err, tc.err, diff)
				}
				if want := errors.Is(tc.err, wire.ErrTooLong); want != (shut == 1) {
					t.Errorf("closed %d times", shut)
				}
				if _, again := c.Read(); !errors.Is(again, tc.err) {
					t.Errorf("the next Read has %v, want %v", again, tc.err)
				}
			})
		}
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestAReaderThatReadsNothingIsGivenUp(t *testing.T) {
	if _, err := wire.Lines(idle{}, io.Discard, nothing).Read(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("%v, want ErrNoProgress", err)
	}
}

// calls keeps what was written with each call.
type calls struct {
	writes []string
	err    error
	short  bool
}

func (w *calls) Write(p []byte) (int, error) {
	w.writes = append(w.writes, string(p))
	if w.short {
		return len(p) - 1, w.err
	}
	return len(p), w.err
}

func TestMessagesAreWrittenInOneGo(t *testing.T) {
	w := &calls{}
	c := wire.Lines(strings.NewReader(""), w, nothing)
	for _, messages := range [][]string{{"a", "b"}, {"{\n \"c\": 1\n}"}} {
		var m [][]byte
		for _, s := range messages {
			m = append(m, []byte(s))
		}
		if err := c.Write(m...); err != nil {
			t.Fatal(err)
		}
	}
	// A message is one line whatever it was indented like.
	if diff := cmp.Diff([]string{"a\nb\n", "{  \"c\": 1 }\n"}, w.writes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// After half a message, the next one would be read as its rest.
func TestNothingFollowsAWriteThatFailed(t *testing.T) {
	for _, w := range []*calls{{err: errors.New("full")}, {short: true}, {short: true, err: errors.New("full")}} {
		want := w.err
		if want == nil {
			want = io.ErrShortWrite
		}
		shut := 0
		c := wire.Lines(strings.NewReader(""), w, func() error { shut++; return nil })
		if err := c.Write([]byte("a")); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		if err := c.Write([]byte("b")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the next Write has %v, want ErrClosedPipe", err)
		}
		if diff := cmp.Diff([]string{"a\n"}, w.writes); diff != "" || shut != 1 {
			t.Errorf("closed %d times; (-want +got):\n%s", shut, diff)
		}
	}
}

// fill writes to a peer that does not read until it fails, and says what with.
func fill(c harness.Conn) <-chan error {
	failed := make(chan error, 1)
	go func() {
		m := bytes.Repeat([]byte("x"), 100<<10)
		for {
			if err := c.Write(m); err != nil {
				failed <- err
				return
			}
		}
	}()
	return failed
}

func TestASlowPeerIsGivenUp(t *testing.T) {
	for name, writer := range slowWriters() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, end := writer()
				shut := 0
				c := wire.Lines(strings.NewReader(""), w, func() error { shut++; return nil })
				if err := <-fill(c); !errors.Is(err, wire.ErrSlow) || !strings.Contains(err.Error(), wire.MaxWrite.String()) {
					t.Errorf("%v, want ErrSlow after %s", err, wire.MaxWrite)
				}
				if err := c.Write([]byte("a")); !errors.Is(err, io.ErrClosedPipe) || shut != 1 {
					t.Errorf("the next Write has %v, want ErrClosedPipe; closed %d times", err, shut)
				}
				end()
			})
		})
	}
}

// slowWriters are writers that nobody reads behind. The end lets go of what is
// stuck in them.
func slowWriters() map[string]func() (w io.Writer, end func()) {
	return map[string]func() (io.Writer, func()){
		"behind a writer with deadlines": func() (io.Writer, func()) {
			a, b := net.Pipe()
			return a, func() { _, _ = a.Close(), b.Close() }
		},
		"behind a writer without": func() (io.Writer, func()) {
			r, w := io.Pipe()
			return w, func() { _ = r.Close() }
		},
	}
}

// Standard output cannot be closed, and still a client that does not read must
// not keep the process.
func TestCloseLetsGoOfAWriteThatNothingElseEnds(t *testing.T) {
	for name, writer := range slowWriters() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, end := writer()
				c := wire.Lines(strings.NewReader(""), w, nothing)
				failed := fill(c)
				synctest.Wait()
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				select {
				case err := <-failed:
					if !errors.Is(err, io.ErrClosedPipe) {
						t.Errorf("%v, want ErrClosedPipe", err)
					}
				default:
					t.Error("a Write waits on")
				}
				if err := c.Write([]byte("late")); !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("a late Write has %v, want ErrClosedPipe", err)
				}
				end()
			})
		})
	}
}

// The messages are the lines, however they come.
func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"id\":1}\r\n\n{\"id\":2}"), uint16(3), uint16(40))
	f.Add([]byte("a\nb\n\r\r\n \t\nc\r"), uint16(1), uint16(2))
	f.Add([]byte("0123456789\n"), uint16(7), uint16(9))
	f.Add(bytes.Repeat([]byte("x"), 70<<10), uint16(1000), uint16(0))
	f.Fuzz(func(t *testing.T, in []byte, step, most uint16) {
		limit := int(most) + 1
		var want []string
		wantErr := io.EOF
		for line := range bytes.SplitSeq(in, []byte{'\n'}) {
			line = bytes.TrimSuffix(line, []byte{'\r'})
			if len(line) > limit {
				wantErr = wire.ErrTooLong
				break
			}
			if len(bytes.Trim(line, " \t\r")) > 0 {
				want = append(want, string(line))
			}
		}
		for how, chunked := range chunkings {
			c := wire.Lines(chunked(&stepReader{in: in, step: int(step) + 1}), io.Discard, nothing)
			c.Limit(wire.Limits{Message: limit})
			got, err := readAll(c)
			if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, wantErr) {
				t.Errorf("%s: then %v, want %v; (-want +got):\n%s", how, err, wantErr, diff)
			}
		}
	})
}

// stepReader returns step bytes at most.
type stepReader struct {
	in   []byte
	step int
}

func (r *stepReader) Read(p []byte) (int, error) {
	if len(r.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.in[:min(r.step, len(r.in))])
	r.in = r.in[n:]
	return n, nil
}
