package wire_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/wire"
)

// delta is as large as most of what a server says.
var delta = append(bytes.Repeat([]byte("x"), 300), '}')

// endless is a stream of messages that never ends.
type endless struct{ line []byte }

func (e endless) Read(p []byte) (n int, err error) {
	for len(p)-n >= len(e.line) {
		n += copy(p[n:], e.line)
	}
	return n, nil
}

func TestLinesAreReadAndWrittenWithoutAllocations(t *testing.T) {
	c := wire.Lines(endless{append(delta, '\n')}, io.Discard, nothing)
	defer func() { _ = c.Close() }()
	if n := testing.AllocsPerRun(100, func() {
		if messages, err := c.Read(); err != nil || len(messages) < 100 {
			t.Fatalf("%d messages, %v", len(messages), err)
		}
	}); n > 0 {
		t.Errorf("a Read allocates %v times", n)
	}
	a, b := unixPair(t)
	go func() { _, _ = io.Copy(io.Discard, b) }()
	w := wire.Lines(a, a, a.Close)
	messages := [][]byte{delta, delta, delta}
	if n := testing.AllocsPerRun(100, func() {
		if err := w.Write(messages...); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a Write allocates %v times", n)
	}
}

// BenchmarkMessages is the time of one message from end to end: over a connection,
// and over two with a relay between them, as a proxy is. MB/s of the two are what to
// compare.
func BenchmarkMessages(b *testing.B) {
	for _, name := range []string{"lines", "from server to client on a unix socket", "from server to client on a port"} {
		pair := pairs(b)[name]
		b.Run(name+"/direct", func(b *testing.B) {
			from, to := pair(b)
			flood(b, from, to)
		})
		b.Run(name+"/relay", func(b *testing.B) {
			from, in := pair(b)
			out, to := pair(b)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for {
					messages, err := in.Read()
					if err != nil || out.Write(messages...) != nil {
						return
					}
				}
			}()
			flood(b, from, to)
			_ = in.Close()
			<-ended
		})
	}
}

func flood(b *testing.B, from, to harness.Conn) {
	b.SetBytes(int64(len(delta)))
	b.ReportAllocs()
	b.ResetTimer()
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < b.N && err == nil; i++ {
			err = from.Write(delta)
		}
		written <- err
	}()
	for n := 0; n < b.N; {
		messages, err := to.Read()
		if err != nil {
			b.Fatal(err)
		}
		n += len(messages)
	}
	b.StopTimer()
	if err := <-written; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkEcho is the time of a message there and back, with nothing else under
// way.
func BenchmarkEcho(b *testing.B) {
	for name, pair := range pairs(b) {
		if name == "lines of pipes" { // which lead one way
			continue
		}
		b.Run(name, func(b *testing.B) {
			near, far := pair(b)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for {
					messages, err := far.Read()
					if err != nil || far.Write(messages...) != nil {
						return
					}
				}
			}()
			b.ReportAllocs()
			for b.Loop() {
				if err := near.Write(delta); err != nil {
					b.Fatal(err)
				}
				if _, err := near.Read(); err != nil {
					b.Fatal(err)
				}
			}
			_ = near.Close()
			<-ended
		})
	}
}
