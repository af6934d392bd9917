package rego

// Internal: the table is seen by OPA alone.

import (
	"slices"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"pgregory.net/rapid"
)

// TestVirtualCacheIsLikeOPAs drives both with the same calls.
func TestVirtualCacheIsLikeOPAs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ours, theirs := newVirtualCache(), topdown.NewVirtualCache()
		defer ours.release()
		depth := 1
		ref := rapid.Custom(func(t *rapid.T) ast.Ref {
			r := ast.Ref{ast.DefaultRootDocument}
			for range rapid.IntRange(0, 3).Draw(t, "length") {
				switch rapid.IntRange(0, 2).Draw(t, "kind") {
				case 0:
					r = append(r, ast.StringTerm(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")))
				case 1:
					r = append(r, ast.IntNumberTerm(rapid.IntRange(0, 2).Draw(t, "number")))
				default:
					r = append(r, ast.ArrayTerm(ast.StringTerm(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "element"))))
				}
			}
			return r
		})
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			r := ref.Draw(t, "ref")
			switch rapid.IntRange(0, 9).Draw(t, "call") {
			case 0:
				ours.Push()
				theirs.Push()
				depth++
			case 1:
				if depth > 1 {
					ours.Pop()
					theirs.Pop()
					depth--
				}
			case 2, 3, 4:
				// A value is put once for each reference, as OPA does.
				if got, undefined := theirs.Get(r); got == nil && !undefined {
					var v *ast.Term
					if n := rapid.IntRange(0, 3).Draw(t, "value"); n > 0 {
						v = ast.IntNumberTerm(n)
					}
					// The caller goes on using its slice.
					scratch := slices.Clone(r)
					ours.Put(scratch, v)
					theirs.Put(scratch, v)
					scratch[0] = ast.StringTerm("overwritten")
				}
			default:
				want, wantUndefined := theirs.Get(r)
				got, gotUndefined := ours.Get(r)
				if want != got || wantUndefined != gotUndefined {
					t.Fatalf("Get(%v) = %v, %t; OPA's says %v, %t", r, got, gotUndefined, want, wantUndefined)
				}
			}
		}
		if len(ours.Keys()) != len(theirs.Keys()) {
			t.Fatalf("keys %v, OPA's %v", ours.Keys(), theirs.Keys())
		}
	})
}
