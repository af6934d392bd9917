package approval_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
)

func TestRedactText(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a pair after -u and a user in a URL", `curl -u key-123456:x https://user:pw@example.com/v1`, `curl -u [redacted] https://[redacted]@example.com/v1`},
		{"a pair glued to -u", `curl -ukey:x h`, `curl -u[redacted] h`},
		{"a pair in quotes after --user", `curl --user "me:my pass" h`, `curl --user "[redacted]" h`},
		{"a pair after --user=", `curl --user=me:pw h`, `curl --user=[redacted] h`},
		{"-u among other letters", `curl -su me:pw h`, `curl -su [redacted] h`},
		{"-u of git is shown", `git push -u origin main:main`, `git push -u origin main:main`},
		{"a user and a group are shown", `docker run -u 0:0 img`, `docker run -u 0:0 img`},
		{"-p of mysql", `mysql -uroot -phunter2 db`, `mysql -uroot -p[redacted] db`},
		{"-p of sshpass", `sshpass -p hunter2 ssh host`, `sshpass -p [redacted] ssh host`},
		{"-p of a login", `docker login -u me -p hunter2 registry`, `docker login -u me -p [redacted] registry`},
		{"-p of mkdir is shown", `mkdir -p /etc/x`, `mkdir -p /etc/x`},
		{"-p of ssh is shown", `ssh -p 22 host`, `ssh -p 22 host`},
		{"--password", `tool --password hunter2 x`, `tool --password [redacted] x`},
		{"--password=", `tool --password=hunter2 x`, `tool --password=[redacted] x`},
		{"--token in quotes", `tool --token 'abc def' x`, `tool --token '[redacted]' x`},
		{"--api-key", `tool --api-key k1`, `tool --api-key [redacted]`},
		{"--password-stdin takes nothing", `docker login --password-stdin registry`, `docker login --password-stdin registry`},
		{"a file with a token is shown", `tool --token-file /run/x --secret-name=web`, `tool --token-file /run/x --secret-name=web`},
		{"a variable that is set", `AWS_SECRET_ACCESS_KEY=abc/def+g aws s3 ls`, `AWS_SECRET_ACCESS_KEY=[redacted] aws s3 ls`},
		{"a variable that is used is shown", `tool --token $TOKEN --password "$PW"`, `tool --token $TOKEN --password "$PW"`},
		{"a folder is no password", `PWD=/w ls`, `PWD=/w ls`},
		{"a query", `https://h/x?a=1&access_token=abc&b=2`, `https://h/x?a=1&access_token=[redacted]&b=2`},
		{"YAML", "user: sam\npassword: hunter2\nport: 1", "user: sam\npassword: [redacted]\nport: 1"},
		{"JSON in a text", `{"user":"sam","api_key":"abc","n":1}`, `{"user":"sam","api_key":"[redacted]","n":1}`},
		{"JSON in quotes", `"{\"clientSecret\":\"abc\",\"n\":1}"`, `"{\"clientSecret\":\"[redacted]\",\"n\":1}"`},
		{"a header", `curl -H "Authorization: Bearer abc.def" h`, `curl -H "Authorization: Bearer [redacted]" h`},
		{"a header with its own scheme", `curl -H 'Authorization: abc' h`, `curl -H 'Authorization: [redacted]' h`},
		{"a header with a key", `curl -H "X-Api-Key: abc" h`, `curl -H "X-Api-Key: [redacted]" h`},
		{"cookies", `curl -H "Cookie: a=1; b=2" h`, `curl -H "Cookie: [redacted]; b=[redacted]" h`},
		{"a token of GitHub", `echo ghp_0123456789abcdefghijABCDEFGHIJ012345`, `echo [redacted]`},
		{"a key of AWS", `echo AKIAIOSFODNN7EXAMPLE`, `echo [redacted]`},
		{"a JSON web token", `x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-_d y`, `x [redacted] y`},
		{"a private key", "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEAabcdefgh\nabc=\n-----END RSA PRIVATE KEY-----\nrm x", "-----BEGIN RSA PRIVATE KEY-----[redacted]\n-----END RSA PRIVATE KEY-----\nrm x"},
		{"a URL of its own with odd characters", `postgres://me:p&a;s@s@db/x`, `postgres://[redacted]@db/x`},
		{"a URL without a user", `https://example.com/@scope/pkg`, `https://example.com/@scope/pkg`},
		{"words about keys", `press the key: any key`, `press the key: any key`},
		{"counts of tokens", `max_tokens=100 token_count=7`, `max_tokens=100 token_count=7`},
		{"nothing", ``, ``},
		// What would run has to be seen, whatever stands around it.
		{"a second command", `tool --password=x;rm -rf /`, `tool --password=[redacted];rm -rf /`},
		{"a command in a value", `tool --password="$(rm -rf /)"`, `tool --password="$(rm -rf /)"`},
		{"a command in a value of its own", "tool --token `rm -rf /`", "tool --token `rm -rf /`"},
		{"a command in a pair", `curl -u "me:$(rm -rf /)" h`, `curl -u "me:$(rm -rf /)" h`},
		{"a command in a header", `curl -H "Authorization: $(rm -rf /)" h`, `curl -H "Authorization: $(rm -rf /)" h`},
		{"a command in cookies", `curl -H Cookie: a=1; rm -rf /`, `curl -H Cookie: [redacted]; rm -rf /`},
		{"a command in a URL", `curl https://a;rm -rf /@x`, `curl https://a;rm -rf /@x`},
		{"a command after a private key", "-----BEGIN PRIVATE KEY-----\nrm -rf / important\n", "-----BEGIN PRIVATE KEY-----\nrm -rf / important\n"},
		{"a quote that never ends", `it's --password x; rm -rf /`, `it's --password [redacted]; rm -rf /`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := approval.RedactText(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := approval.RedactText(got); again != got {
				t.Errorf("masked twice: %q, once: %q", again, got)
			}
			if whole := approval.RedactTextWhole(tt.text); whole != got {
				t.Errorf("with every expression %q, with those that are wanted %q", whole, got)
			}
		})
	}
}

// One token of each shape is found though most expressions are passed over.
func TestEveryShapeIsLookedFor(t *testing.T) {
	long := strings.Repeat("a1B2c3D4e5", 7)
	upper := strings.ToUpper(long)
	hex := strings.Repeat("a1b2c3d4", 8)
	for _, token := range []string{
		"ghp_" + long, "gho_" + long, "ghu_" + long, "ghs_" + long, "ghr_" + long, "github_pat_" + long,
		"glpat-" + long, "glrt-" + long, "gldt-" + long, "glcbt-" + long, "glptt-" + long,
		"xoxa-" + long, "xoxb-" + long, "xoxe-" + long, "xoxo-" + long, "xoxp-" + long, "xoxr-" + long, "xoxs-" + long, "xapp-" + long,
		"sk-" + long, "sk_live_" + long, "rk_test_" + long, "whsec_" + long,
		"AKIA" + upper, "ASIA" + upper, "AIza" + long[:35], "ya29." + long, "GOCSPX-" + long, "npm_" + long, "pypi-" + long, "hf_" + long,
		"dckr_pat_" + long, "hvs." + long, "hvb." + long, "hvr." + long, "doo_v1_" + hex, "dop_v1_" + hex, "dor_v1_" + hex,
		"shpat_" + hex[:32], "shpca_" + hex[:32], "shppa_" + hex[:32], "shpss_" + hex[:32], "SG." + long + "." + long,
		"lin_api_" + long, "AGE-SECRET-KEY-1" + upper, "eyJ" + long + ".eyJ" + long + "." + long,
	} {
		text := "run " + token + " now"
		got, whole := approval.RedactText(text), approval.RedactTextWhole(text)
		if got != whole || strings.Contains(got, token) {
			t.Errorf("%s: %q, with every expression %q", token, got, whole)
		}
	}
}

func BenchmarkRedactText(b *testing.B) {
	const text = "cd /workspace/app && git fetch --all --prune && for f in $(git diff --name-only HEAD~1 | grep -E '\\.go$'); do gofmt -l \"$f\" >> /tmp/out.txt; done && make -j4 test"
	for b.Loop() {
		if approval.RedactText(text) != text {
			b.Fatal("masked")
		}
	}
}

func TestRedactRequest(t *testing.T) {
	r := request(t, `{"kind":"mcp","reason":"use token=abc",
		"tool":{"name":"http","server":"web","description":"send password=abc","arguments":{
			"url":"https://me:pw@h/x","n":9007199254740993,"password":12345,"max_tokens":100,"z":{"a/b":{"apiKey":["one","two"]}},
			"headers":[{"name":"X-Api-Key","value":"abc"},{"name":"Accept","value":"*/*"}],"argv":["mysql","-p","-psecret","--token","abc"]}},
		"command":{"argv":["curl","-u","me:pw","https://h"]},
		"changes":[{"path":"token=abc","operation":"add","diff":"+API_TOKEN=abc"}],
		"options":["accept",{"always":["curl","--token","abc"]}]}`)
	before, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := approval.Digest(r)
	if err != nil {
		t.Fatal(err)
	}
	masked, where, err := approval.Redact(r)
	if err != nil {
		t.Fatal(err)
	}
	const arguments = `{"url":"https://[redacted]@h/x","n":9007199254740993,"password":"[redacted]","max_tokens":100,"z":{"a/b":{"apiKey":["[redacted]","[redacted]"]}},` +
		`"headers":[{"name":"X-Api-Key","value":"[redacted]"},{"name":"Accept","value":"*/*"}],"argv":["mysql","-p","-p[redacted]","--token","[redacted]"]}`
	for _, c := range []struct{ name, want, got string }{
		{"arguments", arguments, string(masked.Tool.Arguments)},
		{"reason", "use token=[redacted]", masked.Reason},
		{"description", "send password=[redacted]", masked.Tool.Description},
		{"argv", "curl -u [redacted] https://h", strings.Join(masked.Command.Argv, " ")},
		{"a diff", "+API_TOKEN=[redacted]", masked.Changes[0].Diff},
		{"a path is shown", "token=abc", masked.Changes[0].Path},
		{"an option", `{"always":["curl","--token","[redacted]"]}`, string(masked.Options[1])},
		{"where", strings.Join([]string{
			"/tool/arguments/url", "/tool/arguments/password", "/tool/arguments/z/a~1b/apiKey/0", "/tool/arguments/z/a~1b/apiKey/1",
			"/tool/arguments/headers/0/value", "/tool/arguments/argv/2", "/tool/arguments/argv/4", "/tool/description",
			"/command/argv/2", "/changes/0/diff", "/reason", "/options/1/always/2",
		}, "\n"), strings.Join(where, "\n")},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	after, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Errorf("the request itself changed: %s", after)
	}
	if again, err := approval.Digest(r); err != nil || again != digest {
		t.Errorf("the digest changed: %s, %v", again, err)
	}
}

func TestRedactDoesNotStoreWhatItCannotLookAt(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 200) + `"hunter2"` + strings.Repeat(`}`, 200)
	r := request(t, `{"kind":"tool","tool":{"name":"x","arguments":`+deep+`}}`)
	masked, where, err := approval.Redact(r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(masked.Tool.Arguments), "hunter2") || len(where) != 1 {
		t.Errorf("arguments = %s, masked at %v", masked.Tool.Arguments, where)
	}
}

func TestRulingsAreMaskedInRecords(t *testing.T) {
	d := draft(t)
	const text = "it sends password=hunter2"
	d.Ruling.Reasons, d.Ruling.Context = []string{text}, []string{text}
	d.Ruling.Rules, d.Ruling.Observed = []approval.Match{{ID: "A", Message: text}}, []approval.Match{{ID: "B", Message: text}}
	d.Ruling.Failure = &approval.Failure{Kind: "evaluation", Message: text}
	d.Ruling.Verdicts = []approval.Verdict{{Reviewer: "model", Outcome: approval.VerdictUnsure, Rationale: text}}
	r, err := approval.New(d, noon)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "hunter2") {
		t.Errorf("stored: %s", out)
	}
	if d.Ruling.Reasons[0] != text || d.Ruling.Rules[0].Message != text || d.Ruling.Failure.Message != text || d.Ruling.Verdicts[0].Rationale != text {
		t.Error("the ruling itself changed")
	}
}

func TestWhatAReviewerSaysIsMaskedInDecisions(t *testing.T) {
	r := pending(t)
	const text = "it sends password=hunter2 to the host"
	d := approval.Decision{
		Option: json.RawMessage(`"decline"`), Outcome: approval.OutcomeDeny, Source: approval.SourceReviewer, By: "model", Reason: text,
		Verdicts: []approval.Verdict{{
			Reviewer: "model", Outcome: approval.VerdictDeny, Risk: approval.RiskHigh, Rationale: text,
			Members: []approval.Verdict{{Reviewer: "member", Outcome: approval.VerdictDeny, Rationale: text}},
		}},
		Rules: []approval.Match{{ID: "A", Message: text}}, Observed: []approval.Match{{ID: "B", Message: text}},
	}
	r, err := r.Decide(r.From(), d, noon)
	if err != nil {
		t.Fatal(err)
	}
	const masked = "it sends password=[redacted] to the host"
	want := []approval.Verdict{{
		Reviewer: "model", Outcome: approval.VerdictDeny, Risk: approval.RiskHigh, Rationale: masked,
		Members: []approval.Verdict{{Reviewer: "member", Outcome: approval.VerdictDeny, Rationale: masked}},
	}}
	if diff := cmp.Diff(want, r.Decision.Verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if r.Decision.Reason != masked || r.Decision.Rules[0].Message != masked || r.Decision.Observed[0].Message != masked {
		t.Errorf("reason = %q, rules %+v and %+v", r.Decision.Reason, r.Decision.Rules, r.Decision.Observed)
	}
	if d.Verdicts[0].Rationale != text || d.Verdicts[0].Members[0].Rationale != text || d.Rules[0].Message != text {
		t.Error("the verdict itself changed")
	}
}

func FuzzRedact(f *testing.F) {
	f.Add(`curl -u key-123456:x https://user:pw@example.com/v1`, `{"password":"x","a":[1,{"b":null}]}`)
	f.Add("-----BEGIN PRIVATE KEY-----\nabc=", `{"argv":["mysql","-p"]}`)
	f.Add(`a://b@c@d it's "x --token`, `{"a":{"name":"token","value":true}}`)
	f.Fuzz(func(t *testing.T, text, arguments string) {
		r := &approval.Request{Kind: approval.KindCommand, Command: &approval.Command{Text: text}, Tool: &approval.Tool{Name: "x", Arguments: json.RawMessage(arguments)}}
		before := *r.Tool
		masked, _, err := approval.Redact(r)
		if err != nil {
			return
		}
		if !json.Valid(masked.Tool.Arguments) && len(arguments) > 0 {
			t.Errorf("%s became %s", arguments, masked.Tool.Arguments)
		}
		if again := approval.RedactText(masked.Command.Text); again != masked.Command.Text {
			t.Errorf("masked twice: %q, once: %q", again, masked.Command.Text)
		}
		if whole := approval.RedactTextWhole(text); whole != masked.Command.Text {
			t.Errorf("with every expression %q, with those that are wanted %q", whole, masked.Command.Text)
		}
		if string(before.Arguments) != arguments || r.Command.Text != text {
			t.Error("the request changed")
		}
	})
}
