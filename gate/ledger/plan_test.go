package ledger

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
)

// TestPlansReadNoMoreThanTheyNeed is internal because the statements are. It asks
// SQLite how it would run them, which no number of rows makes slower to test.
func TestPlansReadNoMoreThanTheyNeed(t *testing.T) {
	db := opened(t, Options{})
	live := []approval.State{approval.Pending, approval.Decided, approval.Sent}
	list := func(q approval.Query) func() (string, []any) {
		return func() (string, []any) { return listing(q, 1<<40, 101) }
	}
	fixed := func(query string, args ...any) func() (string, []any) {
		return func() (string, []any) { return query, args }
	}
	// A table is read by its key n, from the newest, where there is no condition.
	const byState, byWorkspace, bySession = "approvals_state (state=? AND n<?)", "approvals_workspace (workspace=? AND n<?)", "approvals_session (session=? AND n<?)"
	tests := []struct {
		name  string
		query func() (string, []any)
		want  []string
	}{
		{"the newest", list(approval.Query{}), []string{"a USING INTEGER PRIMARY KEY (rowid<?)"}},
		{"one state", list(approval.Query{States: live[:1]}), []string{byState}},
		{"several states", list(approval.Query{States: live}), []string{byState, byState, byState}},
		{"what is live in a workspace", list(approval.Query{States: live[:1], Workspace: "/w"}), []string{byState}},
		{"what is live in a session", list(approval.Query{States: live[:1], Session: "s"}), []string{byState}},
		{"what is live in a run", list(approval.Query{States: live[:1], Run: "r"}), []string{byState}},
		{"what is over in a workspace", list(approval.Query{States: []approval.State{approval.Resolved}, Workspace: "/w"}), []string{byWorkspace}},
		{"what is over in a session", list(approval.Query{States: []approval.State{approval.Lost}, Workspace: "/w", Session: "s"}), []string{bySession}},
		{"a workspace", list(approval.Query{Workspace: "/w"}), []string{byWorkspace}},
		{"a session", list(approval.Query{Session: "s"}), []string{bySession}},
		{"a session in a workspace", list(approval.Query{Session: "s", Workspace: "/w"}), []string{bySession}},
		{"what is past its deadline", fixed(dueQuery, 1, 1), []string{"approvals_due (deadline_ms<?)"}},
		{"leases that end", fixed(endLeases, false, 1), []string{"leases_open (until_ms>?)"}},
		{"leases that are over", fixed(endedQuery, 1), []string{"leases_open (until_ms>? AND until_ms<?)"}},
		{"what an instance left", fixed(orphanQuery, "i", 1), []string{"approvals_state (state=?)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			query, args := tt.query()
			rows, err := db.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := rows.Close(); err != nil {
					t.Error(err)
				}
			}()
			var plan, uses []string
			for rows.Next() {
				var id, parent, unused int
				var detail string
				if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
					t.Fatal(err)
				}
				plan = append(plan, detail)
				if strings.HasPrefix(detail, "SCAN") || strings.Contains(detail, "TEMP B-TREE") {
					t.Errorf("the plan has %q", detail)
				}
				if strings.HasPrefix(detail, "SEARCH") && !strings.HasPrefix(detail, "SEARCH l USING PRIMARY KEY (instance=?)") {
					uses = append(uses, detail)
				}
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(tt.want, uses, func(want, got string) bool { return strings.HasSuffix(got, want) }) {
				t.Errorf("searches %q, want %q; the whole plan is\n%s", uses, tt.want, strings.Join(plan, "\n"))
			}
		})
	}
}

func TestWhatIsHeldIsBounded(t *testing.T) {
	h := &held{}
	id := func(i int) string { return fmt.Sprintf("r%d", i) }
	keep := func(i, size int, state approval.State) {
		h.keep(&tx{made: map[string]*entry{id(i): {r: approval.Record{ID: id(i), State: state}, size: size}}})
	}
	check := func(what string, records, bytes int) {
		t.Helper()
		sum := 0
		for _, e := range h.records {
			sum += e.size
		}
		if len(h.records) != records || h.bytes != bytes || sum != bytes {
			t.Errorf("%s: %d records of %d bytes, counted as %d; want %d of %d", what, len(h.records), sum, h.bytes, records, bytes)
		}
	}
	for i := range 2 * heldRecords {
		keep(i, 100, approval.Pending)
	}
	check("many", heldRecords, heldRecords*100)
	if _, ok := h.records[id(2*heldRecords-1)]; !ok {
		t.Error("the newest is not held")
	}
	keep(2*heldRecords-1, 150, approval.Decided)
	check("one that grew", heldRecords, heldRecords*100+50)
	keep(2*heldRecords-1, 200, approval.Resolved)
	check("one that is over", heldRecords-1, (heldRecords-1)*100)
	h.drop()
	for i := range 100 {
		keep(i, heldBytes/32, approval.Pending)
	}
	check("large", 32, heldBytes)
	h.drop()
	keep(1, heldBytes/32+1, approval.Pending)
	check("one that is too large", 0, 0)
	keep(1, 10, approval.Pending)
	keep(1, heldBytes, approval.Pending)
	check("one that grew too large", 0, 0)
	h.drop()
	for i := range 3 * heldLeases {
		h.lease(id(i), approval.Record{}.Lease)
	}
	if len(h.leases) > heldLeases {
		t.Errorf("%d leases are held", len(h.leases))
	}
}

func opened(t *testing.T, options Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "runtime.db"), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
