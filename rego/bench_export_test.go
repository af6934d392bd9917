package rego

import (
	"encoding/json"
	"testing"
)

// ReferencePolicies are the files of the reference decision, with n more rules.
var ReferencePolicies = referencePolicies

// ReferenceRequest is the request of the reference decision, as JSON.
func ReferenceRequest(b *testing.B) []byte {
	b.Helper()
	raw, err := json.Marshal(referenceRequest(b))
	if err != nil {
		b.Fatal(err)
	}
	return raw
}

// StockServer runs a stock OPA with the reference decision, and returns where it
// answers and what to send there.
func StockServer(b *testing.B, opa string) (url string, body []byte) {
	b.Helper()
	set, err := assemble(referenceSource(b, 100, 0))
	if err != nil {
		b.Fatal(err)
	}
	p := referencePolicy(b, 100, 0)
	value, err := p.facts.input(referenceRequest(b)).value(p.asked)
	if err != nil {
		b.Fatal(err)
	}
	input, err := inputJSON(value)
	if err != nil {
		b.Fatal(err)
	}
	if body, err = json.Marshal(map[string]any{"input": input}); err != nil {
		b.Fatal(err)
	}
	return "http://" + startServer(b, opa, set) + "/v1/data/regent/route", body
}
