package shell_test

import (
	"testing"

	"github.com/regent-policy/regent/rego/shell"
)

// everyday is about as long as the longer commands that agents send.
const everyday = `cd services/api && git status --short && git diff --stat HEAD~1 -- internal cmd | head -40
for f in internal/*.go; do
  if grep -q "TODO(sam)" "$f"; then echo "== $f"; sed -n '1,40p' "$f"; fi
done 2>/dev/null
LC_ALL=C sort -u names.txt | uniq -c | sort -rn | head -20 > /tmp/counts.txt
find . -name '*.log' -not -path './vendor/*' -mtime +7 -exec rm -f {} +
timeout 60 go test -run 'TestParse|TestWords' ./internal/... 2>&1 | tail -n 50 || exit 1
curl -fsS -H "Authorization: Bearer $TOKEN" https://example.com/api/v1/items?limit=10 | jq -r '.items[].name'
bash -lc 'ls src | wc -l' && echo "done: $(date +%s)"
`

func BenchmarkParse(b *testing.B) {
	for name, text := range map[string]string{
		"short":    "git status --short",
		"pipeline": "rg -n 'foo|bar && baz > qux' src | head -20",
		"everyday": everyday,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				shell.Parse(shell.Bash, text)
			}
		})
	}
}

func BenchmarkParseArgv(b *testing.B) {
	argv := []string{"bash", "-lc", "ls src | wc -l"}
	b.ReportAllocs()
	for b.Loop() {
		shell.ParseArgv(argv)
	}
}
