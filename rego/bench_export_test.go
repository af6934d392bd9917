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
	set, input := stock(b, 100)
	body, err := json.Marshal(map[string]any{"input": input})
	if err != nil {
		b.Fatal(err)
	}
	return "http://" + startServer(b, opa, set) + "/v1/data/regent/route", body
}

// StockFiles are the policies of the reference decision for a stock OPA, with so
// many rules of the workspace, and its finished input.
func StockFiles(b *testing.B, rules int) (dir string, input []byte) {
	b.Helper()
	set, value := stock(b, rules)
	input, err := json.Marshal(value)
	if err != nil {
		b.Fatal(err)
	}
	return stockFiles(b, set), input
}

func stock(b *testing.B, rules int) (set *assembled, input any) {
	b.Helper()
	set, err := assemble(referenceSource(b, rules, 0))
	if err != nil {
		b.Fatal(err)
	}
	p := referencePolicy(b, rules, 0)
	value, err := p.facts.input(referenceRequest(b)).value(p.asked)
	if err != nil {
		b.Fatal(err)
	}
	if input, err = inputJSON(value); err != nil {
		b.Fatal(err)
	}
	return set, input
}
