package rego_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

// BenchmarkHook is goals 3 and 4: a whole hook, from the start of its process to
// the end, beside a spawned OPA that evaluates the same policies and the finished
// input, and beside a program that does nothing. It stands here for the reason that
// [BenchmarkDaemon] does.
//
// The call is one that the hook lets pass, as most are: such a call is not in the
// ledger. What a refusal costs on top is told beside.
func BenchmarkHook(b *testing.B) {
	if b.N > 1 {
		b.Skip("one pass measures all rounds")
	}
	// As cmd/regent does, unless the user says otherwise.
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(400))
	}
	dir := b.TempDir()
	hello, hook := filepath.Join(dir, "hello"), filepath.Join(dir, "regent-hook")
	if err := os.WriteFile(hello+".go", []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"hello\") }\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	for to, source := range map[string]string{hello: hello + ".go", hook: "github.com/regent-policy/regent/cmd/regent-hook"} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("build %s: %v\n%s", source, err, out)
		}
	}
	var request approval.Request
	if err := json.Unmarshal(rego.ReferenceRequest(b), &request); err != nil {
		b.Fatal(err)
	}
	few, project := serve(b, 100)
	many, large := serve(b, 1100)
	passes := contender{hook, []string{"codex", "--home", few}, event(b, project, request.Command.Text), ""}
	passesMany := contender{hook, []string{"codex", "--home", many}, event(b, large, request.Command.Text), ""}
	refuses := contender{hook, []string{"codex", "--home", few}, event(b, project, "git push -f"), "force push"}

	everyday := contender{hook, []string{"codex", "--home", few}, event(b, project, "ls -l docs"), ""}
	medians := take(b, 101, contender{hello, nil, "", "hello"}, everyday, passes, refuses)
	ratio := float64(medians[1]) / float64(medians[0])
	b.ReportMetric(ratio, "x-hello-world")
	b.ReportMetric(0, "ns/op")
	fmt.Printf("goal 4: whole hook / a program of Go that says hello: %.2fx, wanted <= 1.8x (%s and %s); with the script of the reference decision: %.2fx; one that refuses, which is recorded: %.2fx; a test holds its size\n",
		ratio, short(medians[1]), short(medians[0]), float64(medians[2])/float64(medians[0]), float64(medians[3])/float64(medians[0]))

	opa := os.Getenv("REGENT_BENCH_OPA")
	if opa == "" {
		b.Log("goal 3 is not measured: REGENT_BENCH_OPA names no opa binary; `make bench` builds one")
		return
	}
	spawned := func(rules int) contender {
		files, input := rego.StockFiles(b, rules)
		return contender{opa, []string{"eval", "--stdin-input", "--data", files, "data.regent.route.decision"}, string(input), `"route":`}
	}
	medians = take(b, 21, passes, spawned(100), passesMany, spawned(1100))
	ratio, with := float64(medians[1])/float64(medians[0]), float64(medians[3])/float64(medians[2])
	b.ReportMetric(ratio, "x-opa-eval")
	b.ReportMetric(with, "x-opa-eval-1000-rules")
	fmt.Printf("goal 3: opa eval / whole hook: %.2fx, wanted >= 6x (%s and %s); with 1,000 more rules: %.2fx, wanted >= 15x (%s and %s)\n",
		ratio, short(medians[1]), short(medians[0]), with, short(medians[3]), short(medians[2]))
}

func short(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// event is what Codex says of a script.
func event(b *testing.B, cwd, script string) string {
	b.Helper()
	text, err := json.Marshal(map[string]any{
		"session_id": "s1", "turn_id": "t1", "tool_use_id": "c1", "cwd": cwd, "hook_event_name": "PreToolUse",
		"tool_name": "Bash", "tool_input": map[string]string{"command": script},
	})
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// turnsVar makes the test binary another process that runs programs in turn. A
// daemon that is in the process which starts the hooks takes that for no agent, and
// has to find out about each hook anew.
const turnsVar = "REGENT_TEST_REGO_TURNS"

// turns are programs that run one after the other, so many times.
type turns struct {
	Rounds     int
	Contenders []contender
}

// contender is a program, and what its output must contain; "" is that there must
// be none.
type contender struct {
	Program string
	Args    []string
	Stdin   string
	Want    string
}

// take has another process run programs in turn, so many times, and returns the
// median time of each.
func take(b *testing.B, rounds int, contenders ...contender) []time.Duration {
	b.Helper()
	text, err := json.Marshal(turns{rounds, contenders})
	if err != nil {
		b.Fatal(err)
	}
	at := filepath.Join(b.TempDir(), "turns.json")
	if err := os.WriteFile(at, text, 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), turnsVar+"="+at)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var medians []time.Duration
	if err == nil {
		err = json.Unmarshal(out, &medians)
	}
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return medians
}

// takeTurns is what that process does.
func takeTurns(at string) error {
	text, err := os.ReadFile(at)
	if err != nil {
		return err
	}
	var t turns
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	times := make([][]time.Duration, len(t.Contenders))
	for range t.Rounds {
		for i, c := range t.Contenders {
			cmd := exec.Command(c.Program, c.Args...)
			cmd.Stdin = strings.NewReader(c.Stdin)
			began := time.Now()
			out, err := cmd.Output()
			times[i] = append(times[i], time.Since(began))
			if err != nil || !bytes.Contains(out, []byte(c.Want)) || c.Want == "" && len(out) > 0 {
				return fmt.Errorf("%s says %q, %w; want %q", c.Program, out, err, c.Want)
			}
		}
	}
	medians := make([]time.Duration, len(times))
	for i := range times {
		slices.Sort(times[i])
		medians[i] = times[i][len(times[i])/2]
	}
	return json.NewEncoder(os.Stdout).Encode(medians)
}
