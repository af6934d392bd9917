package reviewer

import (
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/regent-policy/regent/gate/approval"
)

// ruled is the part of a ruling that reviewers are told.
type ruled struct {
	Route    approval.Route    `json:"route"`
	Effects  []approval.Effect `json:"effects"`
	External bool              `json:"external"`
	ReadOnly bool              `json:"read_only"`
	Reasons  []string          `json:"reasons"`
	Rules    []approval.Match  `json:"rules"`
}

func ruledOf(r *approval.Ruling) ruled {
	return ruled{r.Route, r.Effects, r.External, r.ReadOnly, r.Reasons, r.Rules}
}

// encode is what a program reads. Nothing of a request reaches it in another
// way: what an agent wrote is text inside of JSON strings, and no word of a command
// line or variable. Version changes when a member changes its meaning; members may
// be added.
func encode(q Question) ([]byte, error) {
	if q.Request == nil {
		return nil, errNoRequest
	}
	input, err := jsonv2.Marshal(struct {
		Version   int               `json:"version"`
		ID        string            `json:"id"`
		Workspace string            `json:"workspace"`
		Request   *approval.Request `json:"request"`
		Ruling    ruled             `json:"ruling"`
	}{1, q.ID, q.Workspace, q.Request, ruledOf(&q.Ruling)})
	if err != nil {
		return nil, fmt.Errorf("tell the reviewer: %w", err)
	}
	return append(input, '\n'), nil
}

var errNoRequest = errors.New("tell the reviewer: there is no request")
