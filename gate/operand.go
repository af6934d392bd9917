package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/regent-policy/regent/gate/approval"
)

// Bounds of what is read of the files that an action runs.
const (
	maxOperands     = 32
	maxOperandBytes = 64 << 20
)

// ErrOperand means that a file which the action runs is no longer the one that
// was looked at. The approval does not count for what stands there now: ask
// anew.
var ErrOperand = errors.New("a file that the action runs has changed since it was asked about")

// operands are the files that an action runs, as they are now.
func (s *Standing) operands(r *approval.Request) []approval.Operand {
	if s.Epoch == nil {
		return nil
	}
	var out []approval.Operand
	for i, path := range s.Epoch.Policy.Operands(r) {
		if i == maxOperands {
			break
		}
		out = append(out, operand(path))
	}
	return out
}

// unchanged is an [ErrOperand] that names the first of the files which is not as
// it was.
func unchanged(operands []approval.Operand) error {
	for _, was := range operands {
		if now := operand(was.Path); now != was {
			return fmt.Errorf("%w: %s", ErrOperand, was.Path)
		}
	}
	return nil
}

// operand is a file with the digest of what it holds, or why there is none.
func operand(path string) approval.Operand {
	o := approval.Operand{Path: path}
	// A pipe would keep whoever opens it waiting.
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		o.Problem = "missing"
		return o
	case err != nil:
		o.Problem = "unreadable"
		return o
	case !info.Mode().IsRegular():
		o.Problem = "no regular file"
		return o
	case info.Size() > maxOperandBytes:
		o.Problem = fmt.Sprintf("larger than %d MiB", maxOperandBytes>>20)
		return o
	}
	f, err := os.Open(path)
	if err != nil {
		o.Problem = "unreadable"
		return o
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxOperandBytes+1)); err != nil {
		o.Problem = "unreadable"
		return o
	}
	o.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return o
}
