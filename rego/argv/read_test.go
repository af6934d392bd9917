package argv_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/rego/argv"
	"github.com/regent-policy/regent/rego/shell"
)

// read reads a shell text and returns its commands.
func read(t testing.TB, table *argv.Table, text string) []argv.Node {
	t.Helper()
	facts := shell.Parse(shell.Bash, text)
	return table.ReadAll(&facts)
}

// one reads a shell text of one command.
func one(t testing.TB, table *argv.Table, text string) argv.Node {
	t.Helper()
	nodes := read(t, table, text)
	if len(nodes) != 1 {
		t.Fatalf("%s: %d commands, want 1", text, len(nodes))
	}
	return nodes[0]
}

func TestReadOneCommand(t *testing.T) {
	table := load(t)
	tests := []struct {
		name, text string
		want       argv.Node
	}{
		{
			"letters of a cluster are options of their own", "sort -nru -k2 a.txt",
			argv.Node{
				Program: "sort", Args: []string{"-nru", "-k2", "a.txt"}, Flags: []string{"-n", "-r", "-u", "-k"},
				Operands: []string{"a.txt"}, Uses: []string{"sort"}, Reads: []argv.Path{{Word: "a.txt"}},
			},
		},
		{
			"a value glued to a cluster is a path", "sort -uoout a.txt",
			argv.Node{
				Program: "sort", Args: []string{"-uoout", "a.txt"}, Flags: []string{"-u", "-o"},
				Operands: []string{"a.txt"}, Uses: []string{"sort"}, Reads: []argv.Path{{Word: "a.txt"}},
				Writes: []argv.Path{{Word: "out"}},
			},
		},
		{
			"sub-commands have options of their own, and the folder applies", "git -C sub remote -v",
			argv.Node{
				Program: "git", Args: []string{"-C", "sub", "remote", "-v"}, Flags: []string{"-C", "-v"},
				Subcommand: []string{"remote"}, Uses: []string{"git remote"}, Repositories: []argv.Repository{{Dir: "sub"}},
			},
		},
		{
			"a program in a system folder goes by its base name", "/usr/bin/sort -u",
			argv.Node{Program: "sort", Name: "/usr/bin/sort", Args: []string{"-u"}, Flags: []string{"-u"}, Uses: []string{"sort"}},
		},
		{
			"a program elsewhere is another one, read by custom alone", "./sort --output=x -ab y",
			argv.Node{
				Program: "sort", Name: "./sort", Args: []string{"--output=x", "-ab", "y"},
				Flags: []string{"--output", "-ab", "-a", "-b"}, Operands: []string{"y"}, Standing: argv.StandingPath,
				Problems: []string{"program named by a path outside the system folders: ./sort"},
			},
		},
		{
			"an unlisted program is read by custom alone", "frob -x --long=1 -- -y",
			argv.Node{
				Program: "frob", Args: []string{"-x", "--long=1", "--", "-y"}, Flags: []string{"-x", "--long"},
				Operands: []string{"-y"}, Standing: argv.StandingUnlisted, Problems: []string{"unlisted program frob"},
			},
		},
		{
			"a program that is not known yet has no name", `"$cmd" x`,
			argv.Node{
				Name: "$cmd", Args: []string{"x"}, Operands: []string{"x"}, Standing: argv.StandingDynamic,
				Problems: []string{"the program cannot be told: $cmd"},
			},
		},
		{
			"redirections name files, copies of descriptors do not", "cat <in >out 2>&1",
			argv.Node{
				Program: "cat", Uses: []string{"cat"}, Reads: []argv.Path{{Word: "in"}}, Writes: []argv.Path{{Word: "out"}},
				Redirects: []argv.Redirect{
					{Op: "<", Mode: "read", Target: "in"},
					{Op: ">", Mode: "write", Target: "out"},
					{Op: ">&", FD: "2", Mode: "none"},
				},
				Stdin: "file",
			},
		},
		{
			"an assignment alone lasts", "x=$HOME",
			argv.Node{Assigns: []argv.Assign{{Name: "x", Value: "$HOME", Kind: "parameter", Bare: true}}},
		},
		{
			"a value that one command prints is told apart", "x=$(pwd)",
			argv.Node{Assigns: []argv.Assign{{Name: "x", Value: "$(pwd)", Kind: argv.KindSubstitution, Bare: true}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := read(t, table, tt.text)[0]
			got.Line, got.Column, got.Text = 0, 0, ""
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

// TestFlagsServeRules states what a rule that looks for an option can rely on: no
// spelling hides it.
func TestFlagsServeRules(t *testing.T) {
	table := load(t)
	tests := []struct{ text, flag string }{
		{"git push --force", "--force"},
		{"git push -f", "-f"},
		{"git push -uf origin main", "-f"},
		{"git push origin main -f", "-f"},
		{"git push --forc origin", "--force"},
		{"git push --force-with-lease=x", "--force-with-lease"},
		{"git -C sub push --force", "--force"},
		{"rm -rf x", "-r"},
		{"rm x -fr", "-r"},
		{"rm --recur x", "--recursive"},
		{"sort --outp=x y", "--output"},
		{"find . -delete", "-delete"},
		{"docker run --privileged -it x", "--privileged"},
		{"docker run -itd x", "-d"},
		{"kubectl delete --all pods", "--all"},
		{"terraform apply -auto-approve", "-auto-approve"},
		{"terraform apply --auto-approve", "-auto-approve"},
		{"npm publish --access=public", "--access"},
		{"curl -sSLo x https://example.com", "-o"},
		{"tar xzf a.tgz", "-x"},
		{"frob -fu", "-u"},
		{"frob -fu", "-fu"},
		{"frob --force=x", "--force"},
		{"./frob -x", "-x"},
		{"env git push --force", "--force"},
		{"sudo rm -r x", "-r"},
		{"bash -c 'git push -f'", "-f"},
	}
	for _, tt := range tests {
		t.Run(tt.text+" "+tt.flag, func(t *testing.T) {
			for _, n := range read(t, table, tt.text) {
				if slices.Contains(n.Flags, tt.flag) {
					return
				}
			}
			t.Errorf("%s: no command has %s: %+v", tt.text, tt.flag, read(t, table, tt.text))
		})
	}
}

func TestPathsAreSortedByUse(t *testing.T) {
	table := load(t)
	path := func(words ...string) (paths []argv.Path) {
		for _, w := range words {
			paths = append(paths, argv.Path{Word: w})
		}
		return paths
	}
	tree := func(words ...string) (paths []argv.Path) {
		for _, w := range words {
			paths = append(paths, argv.Path{Word: w, Tree: true})
		}
		return paths
	}
	tests := []struct {
		text          string
		reads, writes []argv.Path
	}{
		{"cat a b", path("a", "b"), nil},
		{"cat -", nil, nil},
		{"ls", path("."), nil},
		{"grep -r x src", tree("src"), nil},
		{"grep x", nil, nil},
		{"grep -r x", tree("."), nil},
		{"grep -e x a", path("a"), nil},
		{"rg x", tree("."), nil},
		{"find src docs -name x", tree("src", "docs"), nil},
		{"find -name x", tree("."), nil},
		{"cp a b c", path("a", "b"), path("c")},
		{"cp -r a b", tree("a"), tree("b")},
		{"mv a b", nil, tree("a", "b")},
		{"rm -rf a b", nil, tree("a", "b")},
		{"rm a", nil, path("a")},
		{"chmod -R u+x a", nil, tree("a")},
		{"chmod -x a", nil, path("a")},
		{"uniq a b", path("a"), path("b")},
		{"tee a b", nil, path("a", "b")},
		{"sed -i s/a/b/ x", path("x"), path("x")},
		{"sed -n 'r in' x", path("in", "x"), nil},
		{"sed 'w out' x", path("x"), path("out")},
		{"tar -tf a", path("a"), nil},
		{"tar czf a src", nil, path("a")},
		{"dd if=a of=b", path("a"), path("b")},
		{"curl -o a https://example.com", nil, path("a")},
		{"curl -o - https://example.com", nil, nil},
		{"sort -T d -o a b", path("b"), path("d", "a")},
		{"git log --output=x", nil, path("x")},
		{"cat ~/x", []argv.Path{{Word: "~/x", Kind: argv.PathHome}}, nil},
		{`cat "$HOME/x"`, []argv.Path{{Word: "~/x", Kind: argv.PathHome}}, nil},
		{`cat "$PWD/x" ${PWD}`, []argv.Path{{Word: "./x"}, {Word: "."}}, nil},
		{`cat "$PWDX/x"`, []argv.Path{{Word: "$PWDX/x", Kind: argv.PathUnknown}}, nil},
		{"cat src/*.go", []argv.Path{{Word: "src/*.go", Kind: argv.PathGlob}}, nil},
		{`rm "$x"`, nil, []argv.Path{{Word: "$x", Kind: argv.PathUnknown}}},
		{"jq --slurpfile v a . b", path("a", "b"), nil},
		{"scp a host:b", path("a"), nil},
		{"rsync -a a b", path("a"), path("b")},
		{"> x", nil, path("x")},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			n := read(t, table, tt.text)[0]
			if diff := cmp.Diff(tt.reads, n.Reads); diff != "" {
				t.Errorf("%s reads (-want +got):\n%s", tt.text, diff)
			}
			if diff := cmp.Diff(tt.writes, n.Writes); diff != "" {
				t.Errorf("%s writes (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

func TestPlacesElsewhere(t *testing.T) {
	table := load(t)
	tests := []struct {
		text        string
		hosts, urls []string
	}{
		{"ssh me@host ls", []string{"me@host"}, nil},
		{"scp a host:b", []string{"host"}, nil},
		{"curl https://example.com/x", nil, []string{"https://example.com/x"}},
		{"git clone https://example.com/x", nil, []string{"https://example.com/x"}},
		{"git clone git@host:x", []string{"git@host"}, nil},
		{"git push origin main", nil, nil},
		{"git remote add o https://example.com/x", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			n := one(t, table, tt.text)
			if !cmp.Equal(tt.hosts, n.Hosts) || !cmp.Equal(tt.urls, n.URLs) {
				t.Errorf("%s: hosts %v, URLs %v; want %v, %v", tt.text, n.Hosts, n.URLs, tt.hosts, tt.urls)
			}
		})
	}
}

// TestScripts states what is found in scripts and what is not understood; the
// first problem is enough.
func TestScripts(t *testing.T) {
	table := load(t)
	tests := []struct {
		text, uses, problem string
	}{
		{`sed -n '1,80p' f`, "sed", ""},
		{`sed 's/[^,]*,//g; s|a|b|2p' f`, "sed", ""},
		{`sed '/[[:space:]]$/d' f`, "sed", ""},
		{`sed '1e id' f`, "sed using e", ""},
		{`sed 's/a/b/gpe' f`, "sed using s///e", ""},
		{`sed '/a\/e/p' f`, "sed", ""},
		{`sed 's/[/]/x/w out' f`, "sed", "brackets are read in more than one way"},
		{"sed 'a\\\nw x' f", "sed", ""},
		{"sed 'a\\\\\\\nw x' f", "sed", "inserted text is read in more than one way"},
		{`sed '1~2d;$!{/a/I,+3p};\,x,q5' f`, "sed", ""},
		{`sed -n '2,~4l 5; y/a\/b/cd/; t end; : end' f`, "sed", ""},
		{`sed '\,x,e id' f`, "sed using e", ""},
		{`sed '1~2!e' f`, "sed using e", ""},
		{`sed '+xp' f`, "sed", "address is not understood"},
		{`sed '1' f`, "sed", "command is missing"},
		{"sed 's/a\nb/' f", "sed", "line ends inside an expression"},
		{`sed 's' f`, "sed", "expression is not understood"},
		{`sed 'w' f`, "sed", "file is missing"},
		{`sed 's/[a\]]/x/' f`, "sed", "brackets are read in more than one way"},
		{`sed 's/a' f`, "sed", "expression does not end"},
		{`sed '1,p' f`, "sed", "address is not understood"},
		{`sed 'pw x' f`, "sed", "goes on in an unknown way"},
		{`sed 'k' f`, "sed", "command k is not understood"},
		{`awk '$3 > 5 && /a|b/ {print $1 / 2}' f`, "awk", ""},
		{`awk '{print $1 | "sh"}' f`, "awk using |", ""},
		{`awk 'BEGIN {1system("id")}'`, "awk using system", ""},
		{`awk '{print $1, /"/, "x" > "f"}' f`, "awk", ""},
		{`awk 'if (1) /"/; print "x" > "f" #"' f`, "awk", "slash is read in more than one way"},
		{"awk 'BEGIN {x = 1; # \" > |\n print x \\\n }'", "awk", ""},
		{`awk '{print $1, $2 > "/dev/stderr"; y = $3 > 5}' f`, "awk", ""},
		{`awk '{while ((getline line < "f") > 0) n++; x /= 2; print n++ , --x}'`, "awk", ""},
		{`awk '/[[:alpha:]]|[]x]|[^]y]/ {if ($1 ~ /a\/b/) next}' f`, "awk", ""},
		{`awk '{x++ /2/ 3}' f`, "awk", "slash is read in more than one way"},
		{`awk '/a' f`, "awk", "expression does not end"},
		{`awk '{print \x}' f`, "awk", "a backslash outside of text"},
		{`awk '{print > f}' f`, "awk", ""},
		{`awk '/[/]/' f`, "awk", "brackets are read in more than one way"},
		{`awk '{getline x < f}' f`, "awk", "getline reads a file"},
		{`awk 'BEGIN {ARGV[1] = "x"}' f`, "awk", "ARGV names files"},
		{`awk '@include "x"' f`, "awk", "character @ is not understood"},
		{`awk '{print "a' f`, "awk", "text does not end"},
		{`jq 'include "m"; .' f`, "jq using include", ""},
		{`jq '.include' f`, "jq", ""},
		{`yq 'load("x")' f`, "yq using load", ""},
		{`git -c core.pager=less log`, "git using setting", ""},
		{`git -c color.ui=always log`, "git log", ""},
		{`git log --format='%h %GK'`, "git log using %G", ""},
		{`git -c core.pager=cat log`, "git log", ""},
		{`git -c core.fsmonitor=false status`, "git status", ""},
		{`git -c core.fsmonitor status`, "git using setting", ""},
		{`[[ a == b ]]`, "[[", ""},
		{`[[ 3 -gt 1 ]]`, "[[ using -gt", ""},
		{`date +%F`, "date", ""},
		{`date 01010000`, "date using set", ""},
		{`read -r line`, "read", ""},
		{`read PATH`, "read using special", ""},
		{`read cdpath`, "read using special", ""},
		{`sysctl a.b=1`, "sysctl using set", ""},
		{`test -v x`, "test using -v", ""},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			n := read(t, table, tt.text)[0]
			if !slices.Contains(n.Uses, tt.uses) {
				t.Errorf("%s uses %q, want %q among them", tt.text, n.Uses, tt.uses)
			}
			switch {
			case tt.problem == "" && len(n.Problems) > 0:
				t.Errorf("%s: %q, want no problems", tt.text, n.Problems)
			case tt.problem != "" && (len(n.Problems) == 0 || !strings.Contains(n.Problems[0], tt.problem)):
				t.Errorf("%s: %q, want %q", tt.text, n.Problems, tt.problem)
			}
		})
	}
}

func TestSubscriptsOfTest(t *testing.T) {
	facts := shell.ParseArgv([]string{"test", "-n", "a[$(id)]"})
	want := []string{"script of test: a subscript may hold a command"}
	if diff := cmp.Diff(want, load(t).ReadAll(&facts)[0].Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestProblemsNameTheirCause(t *testing.T) {
	table := load(t)
	tests := []struct{ text, want string }{
		{"sort --outp=x", "abbreviated option --outp of sort"},
		{"sort -Z x", "unlisted option -Z of sort"},
		{"sort --frob x", "unlisted option --frob of sort"},
		{"sort --unique=x y", "option --unique of sort takes no value"},
		{"sort -k", "option -k of sort lacks its value"},
		{"sort -k --output=x y", "value of -k looks like an option: --output=x"},
		{`cat "$x"`, "operand of cat cannot be told: $x"},
		{"cat $(ls)", "word cannot be told: $(ls)"},
		{"sort *", "pattern may match a file named like an option of sort: *"},
		{"find . -name -del*", "pattern may match a file named like an option of find: -del*"},
		{"uniq a*", "pattern may be several operands of uniq: a*"},
		{"nm *.o", "operand of nm may hold more options: *.o"},
		{"uname x", "more operands than uname is known to take: x"},
		{"git frob", "unlisted sub-command git frob"},
		{"git $x", "the sub-command of git cannot be told: $x"},
		{"cat < $x", "target of < cannot be told: $x"},
		{"tar tf host:x", "archive may be on another machine: host:x"},
		{"sed p -e q f", "script of sed after an operand"},
		{"find . -exec ls", "command without its end"},
		{"head -n $n f", "value of -n cannot be told: $n"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			n := read(t, table, tt.text)[0]
			if !slices.Contains(n.Problems, tt.want) {
				t.Errorf("%s: %q, want %q among them", tt.text, n.Problems, tt.want)
			}
		})
	}
}

func TestStyles(t *testing.T) {
	table := load(t)
	tests := []struct {
		text     string
		flags    []string
		operands []string
		problems []string
	}{
		{"go env -json GOPATH", []string{"-json"}, []string{"GOPATH"}, nil},
		{"go env --json=true GOPATH", []string{"-json"}, []string{"GOPATH"}, nil},
		{"go doc -src=false x", []string{"-src"}, []string{"x"}, nil},
		{"gofmt -r a x.go", []string{"-r"}, []string{"x.go"}, nil},
		{"gofmt -r=a x.go", []string{"-r"}, []string{"x.go"}, nil},
		{"gofmt -frob x.go", []string{"-frob"}, []string{"x.go"}, []string{"unlisted option -frob of gofmt"}},
		{"dd if=a bs=1 x", []string{"if", "bs"}, []string{"x"}, []string{"more operands than dd is known to take: x"}},
		{"dd frob=a", []string{"frob"}, nil, []string{"unlisted option frob of dd"}},
		{"tar tvf a", []string{"-t", "-v", "-f"}, nil, nil},
		{"tar -tv -f a b", []string{"-t", "-v", "-f"}, []string{"b"}, nil},
		{"ps aux", []string{"-a", "-u", "-x"}, nil, nil},
		{"echo -n -x", []string{"-n"}, []string{"-x"}, nil},
		{"tr a -d", nil, []string{"a", "-d"}, nil},
		{"head -5 a", nil, []string{"a"}, nil},
		{"javac -cp a B.java", []string{"-cp", "-c", "-p"}, []string{"a", "B.java"}, nil},
		{"find . -D=x", []string{"-D"}, []string{"."}, nil},
		{"grep --include=*.go x a", []string{"--include"}, []string{"x", "a"}, nil},
		{`rg "--glob=$x" y`, []string{"--glob"}, []string{"y"}, nil},
		{"rg --file=*.txt y", []string{"--file"}, []string{"y"}, []string{"value of --file cannot be told: *.txt"}},
		{"rg --pre=*.sh y", []string{"--pre"}, []string{"y"}, nil},
		{"sort -k -f x", []string{"-k"}, []string{"x"}, nil},
		{"sort -k -fo x", []string{"-k"}, []string{"x"}, []string{"value of -k looks like an option: -fo"}},
		{"jq --arg=x .", []string{"--arg"}, []string{"."}, []string{"option --arg of jq takes two words"}},
		{"find a* -name *.go", []string{"-name"}, []string{"a*"}, nil},
		{"node --version", []string{"--version"}, nil, nil},
		{"go version", nil, []string{"version"}, nil},
		{"command -v ls cat", []string{"-v"}, []string{"ls", "cat"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			n := read(t, table, tt.text)[0]
			if !cmp.Equal(tt.flags, n.Flags) || !cmp.Equal(tt.operands, n.Operands) || !cmp.Equal(tt.problems, n.Problems) {
				t.Errorf("%s: flags %q, operands %q, problems %q; want %q, %q, %q",
					tt.text, n.Flags, n.Operands, n.Problems, tt.flags, tt.operands, tt.problems)
			}
		})
	}
}

// TestReadAlone holds that a command without its surroundings is judged with care.
func TestReadAlone(t *testing.T) {
	table := load(t)
	ls := shell.Command{Words: []shell.Word{{Value: "ls", Kind: shell.Literal}}, Line: 1, Column: 1}
	if n := table.Read(&ls); len(n.Problems) > 0 || n.Program != "ls" {
		t.Errorf("ls: %+v", n)
	}
	ls.OpenEnded = true
	if n := table.Read(&ls); len(n.Problems) == 0 {
		t.Error("ls with operands from elsewhere has no problem")
	}
	env := shell.Command{Words: []shell.Word{{Value: "env", Kind: shell.Literal}, {Value: "ls", Kind: shell.Literal}}}
	if n := table.Read(&env); len(n.Problems) == 0 {
		t.Error("env ls alone has no problem")
	}
}

func TestUnknownFolderMattersForRelativePaths(t *testing.T) {
	table := load(t)
	tests := []struct {
		text string
		want bool
	}{
		{`cd "$x"; cat a`, true},
		{`cd "$x"; ls`, true},
		{`cd "$x"; cat a > b`, true},
		{`cd "$x"; echo a`, false},
		{`cd "$x"; cat /etc/hosts`, false},
		{`cd "$x"; cat ~/a`, false},
		{`cd a; cat b`, false},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			nodes := read(t, table, tt.text)
			got := nodes[len(nodes)-1].Problems
			if (len(got) > 0) != tt.want {
				t.Errorf("%s: problems %q, want some: %v", tt.text, got, tt.want)
			}
		})
	}
}

// TestFedOperands states when operands that come from another command are fine.
func TestFedOperands(t *testing.T) {
	table := load(t)
	tests := []struct {
		name, text string
		fine       bool
	}{
		{"find names files below its folders", `find . -exec cat {} \;`, true},
		{"so do its other clauses", `find . -exec cat {} \; -exec wc -l {} +`, true},
		{"a name from find is no option", `find . -exec sort {} \;`, true},
		{"a name from find is no script", `find . -exec sed -n {} x \;`, false},
		{"fd adds the name at the end", `fd -x cat`, true},
		{"names through a pipe", `find . | xargs cat`, true},
		{"names through filters of lines", `find . | grep go | sort | head -3 | xargs cat`, true},
		{"names that git lists", `git ls-files | xargs wc -l`, true},
		{"names of files that match", `grep -rl x . | xargs cat`, true},
		{"text needs no file", `cat x | xargs echo`, true},
		{"a list may name any file", `cat x | xargs cat`, false},
		{"no pipe at all", `xargs cat`, false},
		{"words may be options", `find . | xargs sort`, false},
		{"find may print other text", `find . -printf x | xargs cat`, false},
		{"parts of names are other names", `find . | grep -o x | xargs cat`, false},
		{"the end of a name is another name", `find . | tail -c 9 | xargs cat`, false},
		{"a filter with a file of its own", `find . | sort - x | xargs cat`, false},
		{"a program that changes lines", `find . | tr a b | xargs cat`, false},
		{"several commands on the left", `{ find .; cat x; } | xargs cat`, false},
		{"find beside the pipe", `find . ; cat x | xargs cat`, false},
		{"find that cannot be told", `find "$x" | xargs cat`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nodes := read(t, table, tt.text)
			last := nodes[len(nodes)-1]
			if !last.OpenEnded && len(nodes) > 1 {
				t.Fatalf("%s: the last command is %+v", tt.text, last)
			}
			if fine := len(last.Problems) == 0; fine != tt.fine {
				t.Errorf("%s: problems %q, want it to be fine: %v", tt.text, last.Problems, tt.fine)
			}
		})
	}
}

func TestStartedCommandHasToFollow(t *testing.T) {
	table := load(t)
	facts := shell.Facts{Commands: []shell.Command{{Words: []shell.Word{
		{Value: "env", Kind: shell.Literal}, {Value: "ls", Kind: shell.Literal},
	}}}}
	want := []string{"the command that env starts cannot be told"}
	if diff := cmp.Diff(want, table.ReadAll(&facts)[0].Problems); diff != "" {
		t.Errorf("a starter alone (-want +got):\n%s", diff)
	}
	facts.Commands = append(facts.Commands, shell.Command{
		Words: []shell.Word{{Value: "ls", Kind: shell.Literal}}, Via: []string{"env"},
	})
	if got := table.ReadAll(&facts)[0].Problems; len(got) > 0 {
		t.Errorf("a starter with its command has problems %q", got)
	}
}

func TestJoin(t *testing.T) {
	table := load(t)
	tests := []struct {
		name, text, cwd, home string
		dir                   string
		repository            argv.Repository
	}{
		{"nothing said", "git status", "/w/app", "/h", "/w/app", argv.Repository{Dir: "/w/app"}},
		{"below", "cd sub && git status", "/w/app", "/h", "/w/app/sub", argv.Repository{Dir: "/w/app/sub"}},
		{"-C on top", "cd sub && git -C x status", "/w/app", "/h", "/w/app/sub", argv.Repository{Dir: "/w/app/sub/x"}},
		{"-C twice", "git -C a -C b status", "/w", "/h", "/w", argv.Repository{Dir: "/w/a/b"}},
		{"-C absolute", "git -C /x status", "/w", "/h", "/w", argv.Repository{Dir: "/x"}},
		{"-C at home", "git -C ~/x status", "/w", "/h", "/w", argv.Repository{Dir: "/h/x"}},
		{"-C with a quoted tilde", "git -C '~/x' status", "/w", "/h", "/w", argv.Repository{Dir: "/w/./~/x"}},
		{"home unknown", "git -C ~/x status", "/w", "", "/w", argv.Repository{Unknown: true}},
		{"-C unknown", `git -C "$x" status`, "/w", "/h", "/w", argv.Repository{Unknown: true}},
		{"links are for who opens the folder", "git -C a/.. status", "/w", "/h", "/w", argv.Repository{Dir: "/w/a/.."}},
		{"start unknown", "git status", "", "/h", "", argv.Repository{Unknown: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nodes := read(t, table, tt.text)
			argv.Join(nodes, tt.cwd, tt.home)
			n := nodes[len(nodes)-1]
			if n.Dir != tt.dir || n.DirUnknown != (tt.dir == "") {
				t.Errorf("%s: folder %q, unknown %v; want %q", tt.text, n.Dir, n.DirUnknown, tt.dir)
			}
			if diff := cmp.Diff([]argv.Repository{tt.repository}, n.Repositories); diff != "" {
				t.Errorf("%s: repositories (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

func TestSummarizeSaysEachThingOnce(t *testing.T) {
	table := load(t)
	got := argv.Summarize(read(t, table, "x=1; cat a >b 2>/dev/null; cat c >b; frob; sort -o d; echo >/dev/tcp/h/1"))
	want := argv.Summary{
		Uses:     []string{"cat", "echo", "sort"},
		Standing: argv.StandingUnlisted,
		Writes:   []argv.Path{{Word: "b"}, {Word: "d"}},
		Assigns:  []argv.Assign{{Name: "x", Value: "1", Bare: true}},
		Sockets:  []string{"/dev/tcp/h/1"},
		Problems: []string{"unlisted program frob"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Summarize (-want +got):\n%s", diff)
	}
}

// TestReadAllocates holds the cost of reading an ordinary call.
func TestReadAllocates(t *testing.T) {
	table := load(t)
	facts := shell.Parse(shell.Bash, ordinary)
	if n := len(facts.Commands); n != 15 {
		t.Fatalf("the call has %d commands", n)
	}
	allocs := testing.AllocsPerRun(100, func() {
		nodes := table.ReadAll(&facts)
		argv.Join(nodes, "/w/app", "/home/dev")
		argv.Summarize(nodes)
	})
	if allocs > 200 {
		t.Errorf("%v allocations for 15 commands, want at most 200", allocs)
	}
}

const ordinary = `cd src && git status --short && git log --oneline -5 | head -3; ls -la docs; cat go.mod | grep -v '^//' |
sort -u | head -20; find . -name '*.go' -not -path './vendor/*' -print | wc -l; rg -n 'TODO|FIXME' --type go . | cut -d: -f1 |
uniq -c; sed -n '1,80p' main.go`

func BenchmarkReadAll(b *testing.B) {
	table := load(b)
	facts := shell.Parse(shell.Bash, ordinary)
	b.ReportAllocs()
	for b.Loop() {
		nodes := table.ReadAll(&facts)
		argv.Join(nodes, "/w/app", "/home/dev")
		argv.Summarize(nodes)
	}
}

func FuzzReadAll(f *testing.F) {
	for _, text := range []string{
		ordinary, "sed 's/a/b/w x' y", "awk '{print > \"x\"}' y", "tar xzf a", "find . -exec cat {} +", "git -C x -c a=b log",
		"xargs -I{} sh -c '{}'", "env A=1 ls", "dd if=a of=b", "ps aux", "x=1 > y", "cat ~/x $HOME *", "ip a s", "jq --arg a",
	} {
		f.Add(text)
	}
	table := load(f)
	f.Fuzz(func(t *testing.T, text string) {
		facts := shell.Parse(shell.Bash, text)
		nodes := table.ReadAll(&facts)
		if len(nodes) != len(facts.Commands) {
			t.Fatalf("%d nodes for %d commands", len(nodes), len(facts.Commands))
		}
		argv.Join(nodes, "/w", "/h")
		for i, n := range nodes {
			words := len(facts.Commands[i].Words)
			if words > 0 && len(n.Args) != words-1 {
				t.Errorf("command %d has %d words and %d arguments", i, words, len(n.Args))
			}
			if words > 0 && len(n.Uses) == 0 && len(n.Problems) == 0 {
				t.Errorf("nothing is said of command %d: %+v", i, n)
			}
			for _, use := range n.Uses {
				if table.Data()[use] == nil {
					t.Errorf("key %q is not in the data", use)
				}
			}
		}
		if _, err := json.Marshal(nodes); err != nil {
			t.Error(err)
		}
	})
}
