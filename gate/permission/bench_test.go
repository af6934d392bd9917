package permission_test

import (
	"fmt"
	"testing"

	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/gate/permission/permissiontest"
)

// policyOf has n denied paths and n denied patterns below what it allows.
func policyOf(n int) permission.Profile {
	p := permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{
		permission.Literal("/", permission.Read), permission.Literal("/workspace/app", permission.Write),
	}}}
	for i := range n {
		p.FileSystem.Entries = append(p.FileSystem.Entries,
			permission.Literal(fmt.Sprintf("/home/dev/.secret%d", i), permission.Deny),
			permission.DenyGlob(fmt.Sprintf("/workspace/app/**/*.key%d", i)))
	}
	return p
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 100} {
		b.Run(fmt.Sprintf("denies=%d", 2*n), func(b *testing.B) {
			policy := policyOf(n)
			b.ReportAllocs()
			for b.Loop() {
				permission.Decide(policy, permission.Write, "/workspace/app/src/main.go", permissiontest.Tree{})
			}
		})
	}
}

func BenchmarkIntersectAll(b *testing.B) {
	for _, n := range []int{10, 100} {
		b.Run(fmt.Sprintf("denies=%d", 2*n), func(b *testing.B) {
			requested, granted := policyOf(n), policyOf(n/2)
			b.ReportAllocs()
			for b.Loop() {
				permission.IntersectAll(requested, granted, permission.Everything())
			}
		})
	}
}
