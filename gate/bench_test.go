package gate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
)

// manyRules are 1,000 rules in one file. Two of them fire for "rm x", and say
// which writing of the file they are from.
func manyRules(version string) string {
	var b strings.Builder
	b.WriteString("package home.rules.many\n")
	for i := range 998 {
		fmt.Fprintf(&b, "\n# METADATA\n# custom: {id: R-%d}\ndeny contains \"no\" if input.request.command.text == \"rm %d\"\n", i, i)
	}
	for _, id := range []string{"FIRST", "LAST"} {
		fmt.Fprintf(&b, "\n# METADATA\n# custom: {id: %s}\ndeny contains %q if input.request.command.text == \"rm x\"\n", id, version)
	}
	return b.String()
}

// BenchmarkReloadUnderLoad measures what a caller notices of reloads of 1,000
// rules: 16 callers rule without pause while the file is replaced again and
// again, in turns with rounds without reloads. Each ruling has to come from one
// writing of the file.
func BenchmarkReloadUnderLoad(b *testing.B) {
	const callers, rounds, reloads = 16, 3, 2
	home := files(b, map[string]string{
		"config.yaml":        "version: 1\npolicy: {evaluation_timeout_ms: 10000}\npermissions: {mode: manual}\n",
		"policies/many.rego": manyRules("even"),
	})
	feed := &gate.Feed{}
	epochs := gate.OpenEpochs(b.Context(), gate.EpochsOptions{Home: home, Feed: feed, Watch: config.WatcherOptions{Debounce: 5 * time.Millisecond}})
	defer epochs.Close()
	var failed, mixed atomic.Int64
	versions := map[string]string{} // by epoch; written before the callers start
	note := func(version string) {
		q := in("/", "rm x")
		r := epochs.Of(b.Context(), q).Standing().Rule(b.Context(), q.Request)
		if len(r.Rules) != 2 || r.Rules[0].Message != version {
			b.Fatalf("%s is not in force: %+v", version, r)
		}
		versions[r.Epoch] = version
	}
	swap := func(version string) {
		before := epochs.Home().Standing()
		path := filepath.Join(home, "policies/many.rego")
		if err := os.WriteFile(path+".tmp", []byte(manyRules(version)), 0o644); err != nil {
			b.Fatal(err)
		}
		if err := os.Rename(path+".tmp", path); err != nil {
			b.Fatal(err)
		}
		<-before.Replaced()
	}
	note("even")
	swap("odd")
	note("odd")
	swap("even")

	var spent time.Duration // by the reloads of the last round
	round := func(with bool) (p50 time.Duration) {
		var stop atomic.Bool
		times := make([][]time.Duration, callers)
		var wait sync.WaitGroup
		for i := range callers {
			wait.Go(func() {
				q := in("/", "rm x")
				for !stop.Load() {
					begin := time.Now()
					r := epochs.Of(b.Context(), q).Standing().Rule(b.Context(), q.Request)
					times[i] = append(times[i], time.Since(begin))
					switch {
					case r.Failure != nil || r.Route != approval.RouteDeny || len(r.Rules) != 2:
						failed.Add(1)
					case r.Rules[0].Message != r.Rules[1].Message || versions[r.Epoch] != r.Rules[0].Message:
						mixed.Add(1)
					}
				}
			})
		}
		if with {
			begin := time.Now()
			for i := range reloads {
				swap([]string{"odd", "even"}[i%2])
			}
			spent = time.Since(begin)
		} else {
			time.Sleep(spent)
		}
		stop.Store(true)
		wait.Wait()
		all := slices.Concat(times...)
		slices.Sort(all)
		return all[len(all)/2]
	}
	var ratios []float64
	for b.Loop() {
		for range rounds {
			busy := round(true)
			quiet := round(false)
			ratios = append(ratios, busy.Seconds()/quiet.Seconds())
		}
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-p50-vs-no-reload")
	b.ReportMetric(float64(failed.Load()), "failed")
	b.ReportMetric(float64(mixed.Load()), "mixed")
	b.ReportMetric(spent.Seconds()*1000/reloads, "ms/reload")
	b.ReportMetric(0, "ns/op")
	if failed.Load()+mixed.Load() > 0 {
		b.Errorf("%d failed, %d of mixed epochs", failed.Load(), mixed.Load())
	}
}

// workspaces makes n projects with a rule each.
func workspaces(t testing.TB, n int) []string {
	t.Helper()
	content := map[string]string{}
	var dirs []string
	for i := range n {
		name := fmt.Sprintf("p%d", i)
		content[name+"/.regent/config.yaml"] = "version: 1\npolicy: {evaluation_timeout_ms: 10000}\n"
		content[name+"/.regent/policies/one.rego"] = strings.Replace(fmt.Sprintf(homeDeny, name), "home.rules", "rules", 1)
		dirs = append(dirs, name)
	}
	root := files(t, content)
	for i := range dirs {
		dirs[i] = filepath.Join(root, dirs[i])
	}
	return dirs
}

// bytesPerWorkspace is what docs/daemon.md promises for a workspace with a few
// rules, its watch included.
const bytesPerWorkspace = 2 << 20

func TestManyWorkspaces(t *testing.T) {
	if testing.Short() {
		t.Skip("loads many workspaces")
	}
	const n = manyWorkspaces
	dirs := workspaces(t, n)
	h := keep(t, map[string]string{"config.yaml": mode("manual")})
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for _, dir := range dirs {
		h.want(dir, filepath.Base(dir), approval.RouteDeny)
	}
	grown := heap() - before
	if len(h.Status()) != n+1 {
		t.Errorf("%d loaded", len(h.Status()))
	}
	t.Logf("%d workspaces take %d MiB", n, grown>>20)
	if grown > n*bytesPerWorkspace {
		t.Errorf("%d workspaces take %d MiB, more than %d", n, grown>>20, n*bytesPerWorkspace>>20)
	}
	for _, dir := range dirs { // each still by its own rules
		h.want(dir, filepath.Base(dir), approval.RouteDeny)
		h.want(dir, "make", approval.RouteAsk)
	}
}
