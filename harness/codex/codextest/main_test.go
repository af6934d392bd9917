package codextest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/regent-policy/regent/harness/codex/codextest"
)

func TestMain(m *testing.M) {
	if codextest.PlayMCP() {
		return
	}
	goleak.VerifyTestMain(m)
}
