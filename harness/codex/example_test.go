package codex_test

import (
	"fmt"

	"github.com/regent-policy/regent/harness/codex"
)

// The files of a patch stand in another message than the question about it.
func Example() {
	var in codex.Intake
	for _, message := range []string{
		`{"method":"item/started","params":{"threadId":"t1","turnId":"u1","item":{"type":"fileChange","id":"call-1",
			"changes":[{"path":"/w/a.txt","kind":{"type":"delete"},"diff":"bye"}]}}}`,
		`{"id":0,"method":"item/fileChange/requestApproval","params":{"threadId":"t1","turnId":"u1","itemId":"call-1"}}`,
	} {
		q, err := in.Message([]byte(message))
		if err != nil {
			fmt.Println(err)
			return
		}
		if q != nil {
			fmt.Println(q.ID, q.Request.Kind, q.Request.Changes[0].Operation, q.Request.Changes[0].Path)
		}
	}
	// Output:
	// 0 file_change delete /w/a.txt
}
