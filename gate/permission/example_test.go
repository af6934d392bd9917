package permission_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/regent-policy/regent/gate/permission"
)

func ExampleNewRequest() {
	var asked permission.Profile
	if err := json.Unmarshal([]byte(`{"file_system": {"write": ["build", "~/.cache/tool/"]}}`), &asked); err != nil {
		log.Fatal(err)
	}
	env := permission.Environment{ID: "local", Cwd: "/workspace/app", Home: "/home/dev"}
	// Unseen makes the example independent of the links on this machine.
	request, err := permission.NewRequest(asked, env, permission.Unseen())
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range request.Permissions.FileSystem.Entries {
		fmt.Println(e)
	}
	// Output:
	// write /home/dev/.cache/tool
	// write /workspace/app/build
}

func ExampleRequest_Settle() {
	env := permission.Environment{ID: "local", Cwd: "/workspace/app"}
	asked := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
		permission.Literal("build", permission.Write),
	}}}
	request, err := permission.NewRequest(asked, env, permission.Unseen())
	if err != nil {
		log.Fatal(err)
	}
	answer := permission.Response{
		Permissions: permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
			permission.Literal("/workspace", permission.Write),
		}}},
		Scope: permission.Session,
	}
	ceiling := permission.Ceiling{Permissions: permission.Everything(), Scope: permission.Turn}
	settled, err := request.Settle(answer, ceiling, permission.Unseen())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(settled.Scope, settled.Permissions.FileSystem.Entries[0].Path.Path, settled.OverGrant)
	for _, d := range settled.Dropped {
		fmt.Println(d)
	}
	// Output:
	// turn /workspace/app/build true
	// granted write /workspace: wider than the request
	// granted scope session: wider than the ceiling
}

func ExampleIntersect() {
	requested := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
		permission.Literal("/workspace/app", permission.Write),
		permission.Literal("/workspace/app/secrets", permission.Deny),
	}}}
	granted := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
		permission.Literal("/workspace", permission.Read),
	}}}
	for _, e := range permission.Intersect(requested, granted).FileSystem.Entries {
		fmt.Println(e)
	}
	// Output:
	// read /workspace/app
	// deny /workspace/app/secrets
}

func ExampleDecide() {
	policy := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
		permission.Literal("/workspace/app", permission.Write),
		permission.DenyGlob("/workspace/app/**/.env"),
	}}}
	for _, path := range []string{"/workspace/app/main.go", "/workspace/app/svc/.env", "/etc/hosts"} {
		ruling := permission.Decide(policy, permission.Read, path, nil)
		fmt.Printf("%s: %s\n", path, ruling.Outcome)
	}
	// Output:
	// /workspace/app/main.go: allow
	// /workspace/app/svc/.env: deny
	// /etc/hosts: not covered
}
