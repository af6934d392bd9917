package approval_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// someHash is the SHA-256 of nothing.
const someHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func request(t testing.TB, text string) *approval.Request {
	t.Helper()
	r, err := approval.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func draft(t testing.TB) approval.Draft {
	t.Helper()
	return approval.Draft{
		Request: request(t, full),
		Ruling: approval.Ruling{
			Route: approval.RouteReview, Effects: []approval.Effect{approval.EffectNetwork}, Epoch: "e1",
			Deadlines: approval.Deadlines{ReviewSeconds: 30, RequestSeconds: 600},
		},
		Instance: "i1", Workspace: "/w",
	}
}

// pending is a new record whose instance lives for an hour.
func pending(t testing.TB) approval.Record {
	t.Helper()
	r, err := approval.New(draft(t), noon)
	if err != nil {
		t.Fatal(err)
	}
	r.Lease = noon.Add(time.Hour)
	return r
}

func TestNewFillsInWhatFollows(t *testing.T) {
	d := draft(t)
	r, err := approval.New(d, noon.Add(1234567*time.Nanosecond))
	if err != nil {
		t.Fatal(err)
	}
	at := noon.Add(time.Millisecond)
	if !r.Created.Equal(at) || !r.Updated.Equal(at) || !r.Deadline.Equal(at.Add(10*time.Minute)) || !r.ReviewDeadline.Equal(at.Add(30*time.Second)) {
		t.Errorf("created %v, updated %v, deadline %v, review until %v", r.Created, r.Updated, r.Deadline, r.ReviewDeadline)
	}
	if len(r.ID) < 26 || r.Revision != 1 || r.State != approval.Pending || r.Instance != "i1" || len(r.Options) != 3 {
		t.Errorf("record = %+v", r)
	}
	d.Ruling.Deadlines.ReviewSeconds = 6000
	if r, err = approval.New(d, noon); err != nil || !r.ReviewDeadline.Equal(r.Deadline) {
		t.Errorf("a review until %v outlasts the request, %v", r.ReviewDeadline, err)
	}
	d.Request.Options = nil
	if r, err = approval.New(d, noon); err != nil || cmp.Diff(approval.NativeOptions, r.Options) != "" {
		t.Errorf("options = %s, %v", r.Options, err)
	}
}

func TestNewRefusesHalfADraft(t *testing.T) {
	tests := []struct {
		name   string
		change func(*approval.Draft)
		want   error
	}{
		{"no request", func(d *approval.Draft) { d.Request = nil }, approval.ErrInvalid},
		{"a malformed request", func(d *approval.Draft) { d.Request.Kind = "wish" }, approval.ErrRequest},
		{"no instance", func(d *approval.Draft) { d.Instance = "" }, approval.ErrInvalid},
		{"no epoch", func(d *approval.Draft) { d.Ruling.Epoch = "" }, approval.ErrInvalid},
		{"no time to wait", func(d *approval.Draft) { d.Ruling.Deadlines.RequestSeconds = 0 }, approval.ErrInvalid},
		{"an operand without a path", func(d *approval.Draft) { d.Operands = []approval.Operand{{SHA256: someHash}} }, approval.ErrInvalid},
		{"an operand whose path is not UTF-8", func(d *approval.Draft) {
			d.Operands = []approval.Operand{{Path: "/w/\xff", SHA256: someHash}}
		}, approval.ErrInvalid},
		{"an operand of which nothing is known", func(d *approval.Draft) { d.Operands = []approval.Operand{{Path: "/w/x"}} }, approval.ErrInvalid},
		{"an operand with a hash and a problem", func(d *approval.Draft) {
			d.Operands = []approval.Operand{{Path: "/w/x", SHA256: someHash, Problem: "too large"}}
		}, approval.ErrInvalid},
		{"an operand with half a hash", func(d *approval.Draft) {
			d.Operands = []approval.Operand{{Path: "/w/x", SHA256: someHash[:32]}}
		}, approval.ErrInvalid},
		{"an operand with a hash in capitals", func(d *approval.Draft) {
			d.Operands = []approval.Operand{{Path: "/w/x", SHA256: strings.ToUpper(someHash)}}
		}, approval.ErrInvalid},
		{"an operand with a hash of other letters", func(d *approval.Draft) {
			d.Operands = []approval.Operand{{Path: "/w/x", SHA256: strings.Repeat("g", 64)}}
		}, approval.ErrInvalid},
		{"arguments with two readings", func(d *approval.Draft) {
			d.Request.Tool = &approval.Tool{Name: "x", Arguments: json.RawMessage(`{"a":1,"a":2}`)}
		}, approval.ErrRequest},
		{"text that is not UTF-8", func(d *approval.Draft) { d.Request.Command.Text = "rm \xff" }, approval.ErrRequest},
		{"an option that is not JSON", func(d *approval.Draft) { d.Request.Options = []json.RawMessage{json.RawMessage(`{`)} }, approval.ErrRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := draft(t)
			tt.change(&d)
			if _, err := approval.New(d, noon); !errors.Is(err, tt.want) {
				t.Errorf("err = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestOperandsAreKeptAsTheyWere(t *testing.T) {
	d := draft(t)
	want := []approval.Operand{{Path: "/w/build.sh", SHA256: someHash}, {Path: "/w/gone.sh", Problem: "missing"}}
	d.Operands = slices.Clone(want)
	r, err := approval.New(d, noon)
	if err != nil {
		t.Fatal(err)
	}
	d.Operands[0].SHA256 = strings.Repeat("0", 64)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var stored approval.Record
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, stored.Operands); diff != "" {
		t.Errorf("operands (-want +got):\n%s", diff)
	}
	same, err := approval.New(draft(t), noon)
	if err != nil || same.Digest != r.Digest {
		t.Errorf("operands are part of the digest: %v", err)
	}
}

func TestOptionsStayApartWhenSecretsAreMasked(t *testing.T) {
	d := draft(t)
	d.Request.Options = []json.RawMessage{json.RawMessage(`{"token":"one"}`), json.RawMessage(`{"token":"two"}`)}
	r, err := approval.New(d, noon)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range r.Options {
		if strings.Contains(string(o), "one") || strings.Contains(string(o), "two") || r.OptionIndex(o) != i {
			t.Errorf("option %d is %s, found at %d", i, o, r.OptionIndex(o))
		}
	}
}

func TestDigestNamesTheExactAction(t *testing.T) {
	const base = `{"kind":"command","command":{"text":"a"},"tool":{"name":"exec","arguments":{"n":9007199254740993,"s":"é"}},` +
		`"environment":{"id":"local","cwd":"/w"},"changes":[{"path":"p","operation":"add","diff":"+x"}]}`
	of := func(text string) string {
		d, err := approval.Digest(request(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := of(base)
	tests := []struct {
		name, from, to string
		same           bool
	}{
		{"white space in arguments", `"n":9007199254740993,`, "\"n\" : 9007199254740993 ,\n", true},
		{"the order of arguments", `"n":9007199254740993,"s":"é"`, `"s":"é","n":9007199254740993`, true},
		{"an escape in arguments", `"é"`, `"\u00e9"`, true},
		{"what the agent says", `"kind":"command"`, `"kind":"command","reason":"please"`, true},
		{"who asks", `"kind":"command"`, `"kind":"command","session":{"id":"s"},"subject":{"id":"x"},"options":["yes"]`, true},
		{"the text of the command", `"text":"a"`, `"text":"b"`, false},
		{"the shell", `"text":"a"`, `"text":"a","shell":"sh"`, false},
		{"an argument vector", `"text":"a"`, `"argv":["a"]`, false},
		{"a number past the precision of floats", `9007199254740993`, `9007199254740992`, false},
		{"an argument", `"s":"é"`, `"s":"e"`, false},
		{"the tool", `"name":"exec"`, `"name":"exec2"`, false},
		{"the server", `"name":"exec"`, `"name":"exec","server":"m"`, false},
		{"the kind", `"kind":"command"`, `"kind":"tool"`, false},
		{"the environment", `"id":"local"`, `"id":"other"`, false},
		{"the working folder", `"cwd":"/w"`, `"cwd":"/w2"`, false},
		{"a change", `"+x"`, `"+y"`, false},
		{"a folder for later writes", `"kind":"command"`, `"kind":"command","grant_root":"/w"`, false},
		{"an escalation", `"kind":"command"`, `"kind":"command","escalated":true`, false},
		{"more permissions", `"kind":"command"`, `"kind":"command","permissions":{"network":{"enabled":true}}`, false},
		{"a host", `"kind":"command"`, `"kind":"command","network":{"host":"h"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(base, tt.from, tt.to, 1)
			if text == base {
				t.Fatal("the case changes nothing")
			}
			if got := of(text); (got == want) != tt.same {
				t.Errorf("same digest: %v, want %v", got == want, tt.same)
			}
		})
	}
}

func TestRecordSurvivesJSON(t *testing.T) {
	r := pending(t)
	ok := permission.Settlement{Permissions: permission.Everything(), Scope: permission.Turn, OverGrant: true}
	r, err := r.Decide(r.From(), approval.Decision{
		Option: json.RawMessage(`"accept"`), Outcome: approval.OutcomeAllow, Source: approval.SourceHuman, By: "user:sam", Settlement: &ok,
	}, noon)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again approval.Record
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	second, err := json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(second)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
