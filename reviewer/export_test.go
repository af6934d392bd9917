package reviewer

import "bytes"

// Parse is for the fuzzer: a process for each answer takes too long.
var Parse = parse

// Evidence is what a model is shown: a review for each takes too long.
func Evidence(q Question, limit int) (text []byte, full int, cut bool, err error) {
	e, err := newEvidence(q, limit)
	return e.text, e.full, e.cut, err
}

// Reply is the text of what a provider sent, by the name of its interface.
func Reply(name string, streams bool, data []byte) (string, error) {
	d := map[string]dialect{"responses": responses, "chat completions": chatCompletions, "messages": messages}[name]
	if !streams {
		r, err := d.read(data)
		return r.text, err
	}
	m := model{dialect: d}
	r, err := m.events(bytes.NewReader(data), "")
	return r.text, err
}
