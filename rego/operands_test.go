package rego_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

func TestOperandsAreTheFilesThatACallRuns(t *testing.T) {
	t.Parallel()
	p := load(t, rego.Source{Settings: rego.DefaultSettings()})
	dir, err := filepath.EvalSymlinks(write(t, map[string]string{
		"build.sh": "make\n", "bin/x": "", "tools/gen.py": "", "tools/lib.py": "", "data.json": "{}", "x.js": "", "x.pl": "", "x.rb": "", "x.php": "", "x.lua": "", "x.R": "", "x.ts": "", "x.mk": "", "x.fish": "",
		"Main.java": "", "setup.js": "", "rc": "", "env/bin/python": "", "home/x.sh": "", "app/__main__.py": "", "web/index.js": "",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("build.sh", filepath.Join(dir, "link.sh")); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		// LED-10
		"sh build.sh": {"build.sh"},

		"./build.sh":                               {"build.sh"},
		"bin/x --flag":                             {"bin/x"},
		"~/x.sh":                                   {"home/x.sh"},
		`"$HOME"/x.sh`:                             {"home/x.sh"},
		"sh $HOME/x.sh":                            {"home/x.sh"},
		"./link.sh":                                {"build.sh"},
		"./gone.sh":                                {"gone.sh"},
		"bash -x build.sh data.json":               {"build.sh"},
		"bash -eux build.sh":                       {"build.sh"},
		"bash -eo pipefail build.sh":               {"build.sh"},
		"bash +x -o pipefail -- build.sh":          {"build.sh"},
		"bash --norc --rcfile ./rc build.sh":       {"build.sh", "rc"},
		"sh gone.sh":                               {"gone.sh"},
		"zsh build.sh":                             {"build.sh"},
		"fish x.fish":                              {"x.fish"},
		"sh < build.sh":                            {"build.sh"},
		"cat build.sh | sh":                        {"build.sh"},
		"cat build.sh | tail -1 | bash -s -- a":    {"build.sh"},
		"sh -c './build.sh && sh bin/x'":           {"bin/x", "build.sh"},
		"sh -c 'echo $0' build.sh":                 {},
		"bash <<< ./build.sh":                      {"build.sh"},
		". ./build.sh":                             {"build.sh"},
		"source build.sh arg":                      {"build.sh"},
		"python3 tools/gen.py data.json":           {"tools/gen.py"},
		"python3 -u -W ignore -X dev tools/gen.py": {"tools/gen.py"},
		"python3.12 -Bu tools/gen.py":              {"tools/gen.py"},
		"python3 -c 'import x' data.json":          {},
		"python3 -uc 'import x' data.json":         {},
		"python3 -m json.tool data.json":           {},
		"python3 < tools/gen.py":                   {"tools/gen.py"},
		"python3 - data.json < tools/gen.py":       {"tools/gen.py"},
		"cat data.json | python3 tools/gen.py":     {"tools/gen.py"},
		"cat data.json | python3 -c 'x'":           {},
		"python3 tools":                            {},
		"python3 app data.json":                    {"app/__main__.py"},
		"env/bin/python tools/gen.py":              {"env/bin/python", "tools/gen.py"},
		"node x.js data.json":                      {"x.js"},
		"node -r ./setup.js --no-warnings x.js":    {"setup.js", "x.js"},
		"node --require dotenv/config x.js":        {"dotenv/config", "x.js"},
		"node --import=./setup.js x.js":            {"setup.js", "x.js"},
		"node -e 1 x.js":                           {},
		"node --strange x.js data.json":            {"data.json", "x.js"},
		"node .":                                   {},
		"node ./web":                               {"web/index.js"},
		"deno run -A x.ts":                         {"x.ts"},
		"deno fmt x.ts":                            {},
		"perl x.pl data.json":                      {"x.pl"},
		"perl -I lib -Mstrict -w x.pl":             {"x.pl"},
		"perl -lne 'print' data.json":              {},
		"perl -0777 -pi.bak -e 's/a/b/' data.json": {},
		"perl -i.e x.pl":                           {"x.pl"},
		"ruby -I lib -r ./tools/gen.py -w x.rb":    {"tools/gen.py", "x.rb"},
		"ruby -ne 'puts' data.json":                {},
		"php -d a=b x.php":                         {"x.php"},
		"php -f x.php data.json":                   {"x.php"},
		"php -r 'echo 1;' x.php":                   {},
		"lua -e 'a=1' x.lua":                       {"x.lua"},
		"Rscript --vanilla x.R data.json":          {"x.R"},
		"java Main.java":                           {"Main.java"},
		"java Other":                               {},
		"cat data.json | java Main.java":           {"Main.java"},
		"cat Main.java | java -":                   {"Main.java"},
		"builtin source build.sh":                  {"build.sh"},
		"exec ./build.sh":                          {"build.sh"},
		"make -f x.mk all":                         {"x.mk"},
		"make all":                                 {},
		"go test -exec ./bin/x ./...":              {"bin/x"},

		"cd tools && python3 gen.py":                               {"tools/gen.py"},
		"cd tools; cd ..; ./build.sh":                              {"build.sh"},
		"(cd tools && python3 gen.py); ./build.sh":                 {"build.sh", "tools/gen.py"},
		"env A=1 ./build.sh":                                       {"build.sh"},
		"sudo timeout 5 sh ./build.sh":                             {"build.sh"},
		"nohup nice -n 5 bin/x &":                                  {"bin/x"},
		"find . -name a -exec bin/x {} +":                          {"bin/x"},
		"echo a | xargs -n1 sh build.sh":                           {"build.sh"},
		"x=$(./build.sh)":                                          {"build.sh"},
		"if ./build.sh; then python3 tools/gen.py; else bin/x; fi": {"bin/x", "build.sh", "tools/gen.py"},
		"sh build.sh && sh ./build.sh":                             {"build.sh"},

		// looked up by name, or not known
		"go build ./... && npm test": {},
		"/usr/bin/ls -l":             {},
		"/bin/sh build.sh":           {"build.sh"},
		`sh "$X"`:                    {},
		"sh *.sh":                    {},
		`"$X" build.sh`:              {},
		`cd "$X" && ./build.sh`:      {},
		"echo build.sh":              {},
		"cat build.sh":               {},
		"sh --version":               {},
	} {
		names := []string{}
		for _, name := range want {
			names = append(names, filepath.Join(dir, name))
		}
		r := command(text)
		r.Environment = &approval.Environment{Cwd: dir, Home: filepath.Join(dir, "home")}
		if diff := cmp.Diff(names, p.Operands(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string][]string{
		toolCall("run_command", `{"command": "sh build.sh", "cwd": "tools"}`):                   {"tools/build.sh"},
		toolCall("run_commands", `{"commands": ["sh build.sh", "cat data.json", "bin/x"]}`):     {"bin/x", "build.sh"},
		toolCall("write_file", `{"path": "build.sh"}`):                                          {},
		`"kind": "command", "command": {"argv": ["./build.sh", "a"]}`:                           {"build.sh"},
		`"kind": "command", "command": {"argv": ["python3", "tools/gen.py"]}`:                   {"tools/gen.py"},
		`"kind": "command", "command": {"argv": ["sh", "-c", "sh build.sh"]}`:                   {"build.sh"},
		`"kind": "file_change", "changes": [{"path": "build.sh", "operation": "update"}]`:       {},
		`"kind": "permissions", "permissions": {"file_system": {"write": ["build.sh"]}}`:        {},
		`"kind": "command", "command": {"text": "./build.sh"}, "environment": {"id": "remote"}`: {},
		`"kind": "command", "command": {"text": "sh 'build.sh"}`:                                {},
	} {
		names := []string{}
		for _, name := range want {
			names = append(names, filepath.Join(dir, name))
		}
		if diff := cmp.Diff(names, p.Operands(inProject(t, dir, text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
