package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseQuestions(t *testing.T) {
	const ls = `{"kind":"command","command":{"text":"ls"}}`
	tests := []struct {
		name    string
		input   string
		several bool
		// want has one entry for each question: its line, and its error.
		want []string
	}{
		{"one request on a line", ls + "\n", false, []string{"1"}},
		{"one request on several lines", "\n{\n \"kind\": \"command\",\n \"command\": {\"text\": \"ls\"}\n}\n", false, []string{"2"}},
		{"a byte order mark is no part of it", "\ufeff" + ls, false, []string{"1"}},
		{"several requests", ls + "\n\n" + ls + "\n", true, []string{"1", "3"}},
		{
			"a faulty line leaves the others alone", ls + "\n{\"kind\":\n" + ls, true,
			[]string{"1", "in:2: malformed request: /kind: not valid JSON: the text ends too early", "3"},
		},
		{
			"a fault names the line of its member", "{\n \"kind\": \"command\",\n \"command\": {\n  \"text\": \"ls\",\n  \"txet\": 1\n }\n}", false,
			[]string{"in:5: malformed request: /command/txet: unknown field"},
		},
		{
			"a missing member is named by what lacks it", "{\n \"kind\": \"tool\",\n \"tool\": {\n  \"server\": \"x\"\n }\n}", false,
			[]string{"in:3: malformed request: /tool/name: is missing"},
		},
		{
			"a request that breaks off is one fault", "{\n \"kind\": \"command\",\n \"command\": {\n", false,
			[]string{"in:3: malformed request: /command: not valid JSON: the text ends too early"},
		},
		{"an array is not JSON lines", "[" + ls + "]", false, []string{"in:1: malformed request"}},
		{"a name given twice", `{"kind":"command","kind":"tool","command":{"text":"ls"}}`, false, []string{"in:1: malformed request: /kind: the name is given twice"}},
		{"text that is no JSON", "ls -l\n", false, []string{"in:1: malformed request: not valid JSON"}},
		{"a bare value", "null", false, []string{"in:1: malformed request"}},
		{"text among requests", ls + "\nnonsense\n", true, []string{"1", "in:2: malformed request: not valid JSON"}},
		{
			"a frame asks, others are passed over",
			`{"id":1,"result":{"userAgent":"lab/0.171.0 (x)"}}` + "\n" + `{"method":"thread/started","params":{}}` + "\n" +
				`{"method":"item/commandExecution/requestApproval","id":0,"params":{"command":"ls","cwd":"/w"}}`,
			true,
			[]string{"3"},
		},
		{"one frame on several lines", "{\n\"dir\": \"s2c\",\n\"frame\": {\"id\": 7, \"method\": \"x\", \"params\": {}}\n}", true, []string{"1"}},
		{"requests among frames", ls + "\n" + `{"method":"thread/started"}`, true, []string{"1"}},
		{"a frame that is none", `{"method":"x","id":{}}`, true, []string{"in:1: malformed frame"}},
		{"a reply among requests is a fault", ls + "\n" + `{"id":1,"result":{}}`, true, []string{"1", "in:2: malformed request: /id: unknown field"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, err := parseQuestions("in", []byte(tt.input))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, q := range found.all {
				text := fmt.Sprint(q.line)
				if q.err != nil {
					text = q.err.Error()
					// The words after the place are the decoder's.
					if i < len(tt.want) && strings.HasPrefix(text, tt.want[i]) {
						text = tt.want[i]
					}
				} else if q.request == nil {
					text = "neither request nor error"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
			if found.several != tt.several {
				t.Errorf("several = %t, want %t", found.several, tt.several)
			}
		})
	}
	for _, empty := range []string{"", " \n\n"} {
		if _, err := parseQuestions("in", []byte(empty)); err == nil || !strings.Contains(err.Error(), "holds no request") {
			t.Errorf("parseQuestions(%q) error = %v, want one that says there is no request", empty, err)
		}
	}
}

func FuzzParseQuestions(f *testing.F) {
	f.Add([]byte("{\"kind\":\"command\",\"command\":{\"text\":\"ls\"}}\n{\"kind\":"))
	f.Add([]byte(`{"dir":"s2c","frame":{"method":"x","id":0,"params":{}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := parseQuestions("in", data)
		if err != nil {
			return
		}
		for _, q := range found.all {
			if (q.err == nil) == (q.request == nil) {
				t.Errorf("line %d: request %v, error %v", q.line, q.request, q.err)
			}
			if q.line < 1 {
				t.Errorf("line %d", q.line)
			}
		}
	})
}
