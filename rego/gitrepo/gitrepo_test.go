package gitrepo_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/rego/gitrepo"
)

const plainConfig = `[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
[remote "origin"]
	url = https://example.com/x.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
	remote = origin
	merge = refs/heads/main
`

// tree makes files below a new folder; names that end in a slash are folders. The
// value "gitlink:NAME" takes an index from testdata.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		full := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(full, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		if index, ok := strings.CutPrefix(text, "testdata:"); ok {
			b, err := os.ReadFile(filepath.Join("testdata", index))
			must(t, err)
			text = string(b)
		}
		must(t, os.WriteFile(full, []byte(text), 0o644))
	}
	return root
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// repo is a plain repository at prefix, with more files or other texts.
func repo(prefix string, more map[string]string) map[string]string {
	files := map[string]string{
		prefix + "HEAD": "ref: refs/heads/main\n", prefix + "config": plainConfig,
		prefix + "objects/": "", prefix + "refs/": "",
	}
	for name, text := range more {
		files[name] = text
	}
	return files
}

// without removes the root of a test from reports.
func without(root string, r gitrepo.Report) gitrepo.Report {
	r.GitDir = strings.TrimPrefix(r.GitDir, root)
	for i := range r.Reasons {
		r.Reasons[i] = strings.ReplaceAll(r.Reasons[i], root, "")
	}
	return r
}

func TestInspect(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		dir   string
		want  gitrepo.Report
	}{
		{
			"a fresh clone is inert",
			repo(".git/", map[string]string{"src/": ""}), "src",
			gitrepo.Report{Inert: true, GitDir: "/.git"},
		},
		{
			"a monitor program is named with its line",
			repo(".git/", map[string]string{".git/config": "[core]\n\tbare = false\n\tfsmonitor = ./hook\n"}), "",
			gitrepo.Report{Reasons: []string{"core.fsmonitor at /.git/config:3"}, GitDir: "/.git"},
		},
		{
			"a monitor that is switched off is inert",
			repo(".git/", map[string]string{".git/config": "[core]\nfsmonitor = false\n"}), "",
			gitrepo.Report{Inert: true, GitDir: "/.git"},
		},
		{
			"a monitor without a value is switched on",
			repo(".git/", map[string]string{".git/config": "[core]\nfsmonitor\n"}), "",
			gitrepo.Report{Reasons: []string{"core.fsmonitor at /.git/config:2"}, GitDir: "/.git"},
		},
		{
			"drivers, filters, includes, aliases, pagers and helpers count",
			repo(".git/", map[string]string{".git/config": `[diff "doc"]
	textconv = ./helper
[filter "x"] clean = ./helper
[include] path = ../more
[includeIf "gitdir:/"] path = ../more
[Alias] st = status
[core] pager = ./p
[pager] log = ./p
[credential] helper = ./h
[gpg] program = ./g
[remote "o"] promisor = true
[extensions] partialClone = o
[core] hooksPath = .h
`}), "",
			gitrepo.Report{Reasons: []string{
				"diff.doc.textconv at /.git/config:2", "filter.x.clean at /.git/config:3", "include.path at /.git/config:4",
				"includeif.gitdir:/.path at /.git/config:5", "alias.st at /.git/config:6", "core.pager at /.git/config:7",
				"pager.log at /.git/config:8", "credential.helper at /.git/config:9", "gpg.program at /.git/config:10",
				"remote.o.promisor at /.git/config:11", "extensions.partialclone at /.git/config:12",
				"core.hookspath at /.git/config:13",
			}, GitDir: "/.git"},
		},
		{
			"what git would refuse cannot be told, but what stands before still counts",
			repo(".git/", map[string]string{".git/config": "[core]\nfsmonitor = x\n[core\n"}), "",
			gitrepo.Report{
				Unknown: true,
				Reasons: []string{"/.git/config:3: section header is not understood", "core.fsmonitor at /.git/config:2"},
				GitDir:  "/.git",
			},
		},
		{
			"no configuration at all is odd",
			map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/": ""},
			"",
			gitrepo.Report{Unknown: true, Reasons: []string{"/.git/config: no such file or directory"}, GitDir: "/.git"},
		},
		{
			"the configuration of a worktree counts, and that of its repository",
			repo(".git/", map[string]string{
				".git/config":                       "[core]\nfsmonitor = a\n",
				".git/worktrees/w/HEAD":             "ref: refs/heads/w\n",
				".git/worktrees/w/commondir":        "../..\n",
				".git/worktrees/w/config.worktree":  "[core]\nfsmonitor = b\n",
				"w/.git":                            "gitdir: ../.git/worktrees/w\n",
				".git/worktrees/w/not-a-repository": "",
			}), "w",
			gitrepo.Report{Reasons: []string{
				"core.fsmonitor at /.git/config:2", "core.fsmonitor at /.git/worktrees/w/config.worktree:2",
			}, GitDir: "/.git/worktrees/w"},
		},
		{
			"a bare repository in the folder itself is found before the one above",
			repo("inner/", map[string]string{
				"inner/config": "[core]\nfsmonitor = x\n", ".git/HEAD": "ref: refs/heads/main\n", ".git/config": plainConfig,
				".git/objects/": "", ".git/refs/": "",
			}), "inner",
			gitrepo.Report{Reasons: []string{"core.fsmonitor at /inner/config:2"}, GitDir: "/inner"},
		},
		{
			"a folder that only looks like a repository cannot hide the one above",
			repo(".git/", map[string]string{
				"sub/HEAD": "nothing\n", "sub/objects/": "", "sub/refs/": "", "sub/config": plainConfig,
				".git/config": "[core]\nfsmonitor = x\n",
			}), "sub",
			gitrepo.Report{Unknown: true, Reasons: []string{"/sub/HEAD is not understood"}},
		},
		{
			"an empty .git cannot be told",
			map[string]string{".git/": ""},
			"",
			gitrepo.Report{Unknown: true, Reasons: []string{"/.git is not a repository"}},
		},
		{
			"a .git file that is no pointer cannot be told",
			map[string]string{".git": "elsewhere"},
			"",
			gitrepo.Report{Unknown: true, Reasons: []string{`/.git does not start with "gitdir: "`}},
		},
		{
			"submodules that are not checked out are inert",
			repo(".git/", map[string]string{".git/index": "testdata:index-v2"}), "",
			gitrepo.Report{Inert: true, GitDir: "/.git"},
		},
		{
			"the configuration of a submodule counts",
			repo(".git/", map[string]string{
				".git/index": "testdata:index-v2", "sub/.git/HEAD": "ref: refs/heads/main\n", "sub/.git/objects/": "", "sub/.git/refs/": "",
				"sub/.git/config": "[core]\nfsmonitor = x\n",
			}), "",
			gitrepo.Report{Reasons: []string{"core.fsmonitor at /sub/.git/config:2"}, GitDir: "/.git"},
		},
		{
			"an inert submodule is inert",
			repo(".git/", map[string]string{
				".git/index": "testdata:index-v4", "sub/.git/HEAD": "ref: refs/heads/main\n", "sub/.git/objects/": "", "sub/.git/refs/": "",
				"sub/.git/config": plainConfig,
			}), "",
			gitrepo.Report{Inert: true, GitDir: "/.git"},
		},
		{
			"an index that is not understood may name submodules",
			repo(".git/", map[string]string{".git/index": "DIRC\x00\x00\x00\x02\x00\x00\x00\x01"}), "",
			gitrepo.Report{Unknown: true, Reasons: []string{"/.git/index: index is not understood"}, GitDir: "/.git"},
		},
		{
			"a folder that is missing cannot be told",
			map[string]string{},
			"gone",
			gitrepo.Report{Unknown: true, Reasons: []string{"folder cannot be read: /gone: no such file or directory"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, tt.files)
			got, err := gitrepo.Inspect(filepath.Join(root, tt.dir))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, without(root, got)); diff != "" {
				t.Errorf("Inspect (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInspectRefusesARelativeFolder(t *testing.T) {
	if r, err := gitrepo.Inspect("src"); err == nil || r.Inert {
		t.Errorf("Inspect(src) = %+v, %v; want an error", r, err)
	}
}

func TestInspectReaderHooks(t *testing.T) {
	root := tree(t, repo(".git/", map[string]string{
		".git/hooks/pre-commit": "#!/bin/sh\n", ".git/hooks/post-index-change": "#!/bin/sh\n",
	}))
	must(t, os.Chmod(filepath.Join(root, ".git/hooks/pre-commit"), 0o755))
	inspect := func() gitrepo.Report {
		t.Helper()
		r, err := gitrepo.Inspect(root)
		must(t, err)
		return without(root, r)
	}
	if r := inspect(); !r.Inert {
		t.Errorf("a hook that is not executable counts: %v", r.Reasons)
	}
	must(t, os.Chmod(filepath.Join(root, ".git/hooks/post-index-change"), 0o755))
	want := gitrepo.Report{Reasons: []string{"hook /.git/hooks/post-index-change"}, GitDir: "/.git"}
	if diff := cmp.Diff(want, inspect()); diff != "" {
		t.Errorf("executable hook (-want +got):\n%s", diff)
	}
}

func TestInspectDoesNotWaitForAPipe(t *testing.T) {
	files := repo(".git/", nil)
	delete(files, ".git/config")
	root := tree(t, files)
	must(t, syscall.Mkfifo(filepath.Join(root, ".git/config"), 0o644))
	r, err := gitrepo.Inspect(root)
	must(t, err)
	want := gitrepo.Report{Unknown: true, Reasons: []string{"/.git/config is not a regular file"}, GitDir: "/.git"}
	if diff := cmp.Diff(want, without(root, r)); diff != "" {
		t.Errorf("Inspect (-want +got):\n%s", diff)
	}
}

func TestInspectLimitsWhatItReads(t *testing.T) {
	root := tree(t, repo(".git/", map[string]string{".git/config": strings.Repeat("#\n", 200_000)}))
	r, err := gitrepo.Inspect(root)
	must(t, err)
	want := gitrepo.Report{Unknown: true, Reasons: []string{"/.git/config is larger than 262144 bytes"}, GitDir: "/.git"}
	if diff := cmp.Diff(want, without(root, r)); diff != "" {
		t.Errorf("Inspect (-want +got):\n%s", diff)
	}
}

func TestInspectFollowsLinksToTheFolder(t *testing.T) {
	files := repo("real/.git/", map[string]string{"real/.git/config": "[core]\nfsmonitor = x\n"})
	for name, text := range repo(".git/", nil) {
		files[name] = text
	}
	root := tree(t, files)
	must(t, os.Symlink(filepath.Join(root, "real"), filepath.Join(root, "link")))
	r, err := gitrepo.Inspect(filepath.Join(root, "link"))
	must(t, err)
	want := gitrepo.Report{Reasons: []string{"core.fsmonitor at /real/.git/config:2"}, GitDir: "/real/.git"}
	if diff := cmp.Diff(want, without(root, r)); diff != "" {
		t.Errorf("Inspect (-want +got):\n%s", diff)
	}
}
