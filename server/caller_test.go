package server_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
	"github.com/regent-policy/regent/server/credential"
)

// plays has another process make calls, and returns what it says of them.
func (d *daemon) plays(steps ...string) []string {
	d.Helper()
	cmd := process(d.socket, steps...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		d.Fatalf("%v: %v", steps, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestWhoAsksIsAnAgent(t *testing.T) {
	d := start(t, setup{})
	record, answer := d.pending(loner("make x"))
	id := record.ID

	t.Run("another process of the user is the local administrator", func(t *testing.T) {
		got := d.plays("check", "list", "read="+id, "status", "metrics", "workspaces", "health", "openapi")
		want := []string{"check ok", "list ok", "read ok", "status local 1", "metrics ok", "workspaces ok", "health ok", "openapi ok"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("it may (-want +got):\n%s", diff)
		}
	})
	forbidden := []string{
		"list", "read=" + id, "decide=" + id, "decide-as=" + id, "cancel=" + id, "reconcile=" + id,
		"trust=/w", "untrust=/w", "confirm=e", "events", "workspaces", "epoch=e", "metrics", "status-as",
	}
	var refused []string
	for _, step := range forbidden {
		name, _, _ := strings.Cut(step, "=")
		refused = append(refused, name+" forbidden")
	}
	for name, before := range map[string][]string{
		"one that has asked only asks":                                {"ask"},
		"one that an agent started only asks":                         {"ask", "child"},
		"one that an agent started through another one only asks too": {"ask", "child", "child"},
	} {
		t.Run(name, func(t *testing.T) {
			got := d.plays(append(append(before, "check", "ask", "status", "health", "openapi"), forbidden...)...)
			want := append([]string{"ask ok", "check ok", "ask ok", "status agent 0", "health ok", "openapi ok"}, refused...)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("it may (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a process that somebody asks for is an agent, and so is who asked", func(t *testing.T) {
		// The first process calls nothing itself; its child asks for it.
		got := d.plays("child", "ask-for-parent", "list", "child", "list")
		if diff := cmp.Diff([]string{"ask-for-parent ok", "list forbidden", "list forbidden"}, got); diff != "" {
			t.Errorf("it may (-want +got):\n%s", diff)
		}
	})
	t.Run("a process that the caller has started is an agent, and the caller is none", func(t *testing.T) {
		got := d.plays("check-for-child", "pause", "list")
		if diff := cmp.Diff([]string{"pause ok", "list forbidden", "its parent's list ok"}, got); diff != "" {
			t.Errorf("it may (-want +got):\n%s", diff)
		}
	})
	t.Run("one who has left its connection to another cannot be told, so it is an agent", func(t *testing.T) {
		if diff := cmp.Diff([]string{"list 200", "list 403"}, d.plays("leave")); diff != "" {
			t.Errorf("it may (-want +got):\n%s", diff)
		}
	})
	t.Run("what the daemon descends from is no agent", func(t *testing.T) {
		got := d.plays("ask-for-parent", "ask-for-init", "list")
		if diff := cmp.Diff([]string{"ask-for-parent agent_pid", "ask-for-init agent_pid", "list ok"}, got); diff != "" {
			t.Errorf("it may (-want +got):\n%s", diff)
		}
	})
	t.Run("a process that is no ancestor is no agent", func(t *testing.T) {
		q := question("ls")
		q.AgentPID = 1 << 22 // beyond what a system of this size has
		if _, err := d.Ask(t.Context(), q); code(t, err) != api.AgentPID {
			t.Errorf("to ask for it is %v, want %s", err, api.AgentPID)
		}
	})
	if r, err := d.Read(t.Context(), id); err != nil || r.State != approval.Pending {
		t.Fatalf("the request is %s, %v; want that no agent has touched it", r.State, err)
	}
	if _, err := d.Decide(t.Context(), id, 1, api.Decision{Option: deny}); err != nil {
		t.Fatal(err)
	}
	<-answer
}

func TestStreamEndsWhenItsReaderIsAnAgent(t *testing.T) {
	d := start(t, setup{before: func(s *server.Server) { s.Patience(10*time.Second, 10*time.Second, 5*time.Millisecond) }})
	if diff := cmp.Diff([]string{"follow-and-ask forbidden"}, d.plays("follow-and-ask")); diff != "" {
		t.Errorf("it may (-want +got):\n%s", diff)
	}
}

func TestLocalAdministratorSpeaksAsAnother(t *testing.T) {
	d := start(t, setup{})
	members, first := d.pending(question("make x"))
	other := question("make y")
	other.Request.Session, other.Request.Subject = &approval.Session{ID: "s2"}, nil
	others, second := d.pending(other)
	for name, test := range map[string]struct {
		as     string
		sees   int
		mine   api.Code // what answering the request of their session comes to
		theirs api.Code
	}{
		"an owner answers in their sessions":         {"user:olga", 2, "", api.Forbidden},
		"a member sees their sessions":               {"user:mia", 1, api.Forbidden, api.NotFound},
		"an observer sees everything":                {"user:otto", 2, api.Forbidden, api.Forbidden},
		"nobody else is known":                       {"user:nina", -1, api.UnknownPrincipal, api.UnknownPrincipal},
		"local is no name":                           {"local", -1, api.UnknownPrincipal, api.UnknownPrincipal},
		"an agent sees and answers nothing, as ever": {"agent:a", -2, api.Forbidden, api.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			c := d.As(test.as)
			page, err := c.List(t.Context(), approval.Query{})
			switch {
			case test.sees == -1 && code(t, err) == api.UnknownPrincipal:
			case test.sees == -2 && code(t, err) == api.Forbidden:
			case err != nil || len(page.Records) != test.sees:
				t.Errorf("%s sees %d, %v; want %d", test.as, len(page.Records), err, test.sees)
			}
			// A stale revision shows who may answer, and answers nothing.
			for r, want := range map[*approval.Record]api.Code{&members: test.mine, &others: test.theirs} {
				if want == "" {
					want = api.Conflict
				}
				if _, err := c.Decide(t.Context(), r.ID, 9, api.Decision{Option: deny}); code(t, err) != want {
					t.Errorf("the answer to %s is %v, want %s", r.Request.Command.Text, err, want)
				}
			}
		})
	}
	if _, err := d.As("user:otto").Ask(t.Context(), question("ls")); code(t, err) != api.Forbidden {
		t.Errorf("an observer who asks gets %v, want %s", err, api.Forbidden)
	}
	decided, err := d.As("user:olga").Decide(t.Context(), members.ID, 1, api.Decision{Option: deny})
	if err != nil || decided.Decision.By != "user:olga" {
		t.Errorf("the decision is %+v, %v; want one by user:olga", decided.Decision, err)
	}
	if _, err := d.Decide(t.Context(), others.ID, 1, api.Decision{Option: deny}); err != nil {
		t.Error(err)
	}
	<-first
	<-second
}

func TestTokens(t *testing.T) {
	d := start(t, setup{})
	record, answer := d.pending(question("make x"))
	without, err := client.New("http://"+d.tcp, "")
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	wrong, err := client.New("http://"+d.tcp, "regent_"+strings.Repeat("a", 52))
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	for name, c := range map[string]*client.Client{"no token": without, "a token that was never issued": wrong} {
		_, err := c.Status(t.Context())
		_, healthErr := c.Health(t.Context())
		_, checkErr := c.Check(t.Context(), question("ls"))
		for _, err := range []error{err, healthErr, checkErr} {
			if code(t, err) != api.Unauthorized {
				t.Errorf("with %s there is %v, want %s", name, err, api.Unauthorized)
			}
		}
	}
	agent, owner := d.bearer("agent:codex"), d.bearer("user:olga")
	for name, c := range map[string]*client.Client{"owner": owner, "agent": agent} {
		s, err := c.Status(t.Context())
		if err != nil || s.Principal.Role != name {
			t.Errorf("the %s is %+v, %v", name, s.Principal, err)
		}
	}
	if _, err := agent.List(t.Context(), approval.Query{}); code(t, err) != api.Forbidden {
		t.Errorf("an agent who lists gets %v, want %s", err, api.Forbidden)
	}
	if a, err := agent.Ask(t.Context(), question("rm x")); err != nil || a.Outcome != approval.OutcomeDeny {
		t.Errorf("an agent who asks has %+v, %v; want an answer", a, err)
	}
	if _, err := owner.As("user:mia").Status(t.Context()); code(t, err) != api.Forbidden {
		t.Errorf("a token that speaks as another gets %v, want %s", err, api.Forbidden)
	}
	q := question("ls")
	q.AgentPID = os.Getpid()
	if _, err := owner.Ask(t.Context(), q); code(t, err) != api.AgentPID {
		t.Errorf("a process over TCP is %v, want %s", err, api.AgentPID)
	}
	// Who is in no configuration any more has a token for nothing.
	if _, err := d.bearer("user:nina").Status(t.Context()); code(t, err) != api.UnknownPrincipal {
		t.Errorf("the token of nobody gets %v, want %s", err, api.UnknownPrincipal)
	}
	if _, err := owner.Decide(t.Context(), record.ID, 1, api.Decision{Option: deny}); err != nil {
		t.Error(err)
	}
	<-answer
	tokens, err := d.tokens.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tokens {
		if err := d.tokens.Revoke(one.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := owner.Status(t.Context()); code(t, err) != api.Unauthorized {
		t.Errorf("a token that was revoked gets %v, want %s", err, api.Unauthorized)
	}
}

func TestPagesOfOtherOriginsMayNotCall(t *testing.T) {
	d := start(t, setup{})
	token, _, err := d.tokens.Create("user:olga", "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(d.tcp, ":")
	for name, test := range map[string]struct {
		host   string
		header http.Header
		ok     bool
	}{
		"no page":                           {d.tcp, nil, true},
		"localhost":                         {"localhost:" + port, nil, true},
		"IPv6":                              {"[::1]:" + port, nil, true},
		"a page of the daemon's":            {d.tcp, http.Header{"Origin": {"http://" + d.tcp}, "Sec-Fetch-Site": {"same-origin"}}, true},
		"typed into the address bar":        {d.tcp, http.Header{"Sec-Fetch-Site": {"none"}}, true},
		"another name for this machine":     {"rebound.example.com", nil, false},
		"a name that looks like loopback":   {"127.0.0.1.example.com:" + port, nil, false},
		"a page of another origin":          {d.tcp, http.Header{"Origin": {"https://example.com"}}, false},
		"a page of another port":            {d.tcp, http.Header{"Origin": {"http://127.0.0.1:1"}}, false},
		"a page without an origin":          {d.tcp, http.Header{"Origin": {"null"}}, false},
		"an empty origin":                   {d.tcp, http.Header{"Origin": {""}}, false},
		"two origins":                       {d.tcp, http.Header{"Origin": {"http://" + d.tcp, "https://example.com"}}, false},
		"an image on another site":          {d.tcp, http.Header{"Sec-Fetch-Site": {"cross-site"}}, false},
		"a page of the same site":           {d.tcp, http.Header{"Sec-Fetch-Site": {"same-site"}}, false},
		"what no browser sends, cautiously": {d.tcp, http.Header{"Sec-Fetch-Site": {"other"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.tcp+"/v1/status", nil)
			if err != nil {
				t.Fatal(err)
			}
			for key, values := range test.header {
				r.Header[key] = values
			}
			r.Host = test.host
			r.Header.Set("Authorization", "Bearer "+token)
			response, text := d.raw("tcp", d.tcp, r)
			if ok := response.StatusCode == http.StatusOK; ok != test.ok || !ok && !strings.Contains(string(text), string(api.CrossOrigin)) {
				t.Errorf("the answer is %s %s; want ok: %t", response.Status, text, test.ok)
			}
			for key := range response.Header {
				if strings.HasPrefix(key, "Access-Control-") {
					t.Errorf("the answer has %s, and no origin has leave", key)
				}
			}
		})
	}
	t.Run("a preflight is refused", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, "http://"+d.tcp+"/v1/check", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "https://example.com")
		r.Header.Set("Access-Control-Request-Method", "POST")
		if response, _ := d.raw("tcp", d.tcp, r); response.StatusCode != http.StatusForbidden {
			t.Errorf("the answer is %s, want 403", response.Status)
		}
	})
	t.Run("the socket refuses pages too", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "https://example.com")
		if response, _ := d.raw("unix", d.socket, r); response.StatusCode != http.StatusForbidden {
			t.Errorf("the answer is %s, want 403", response.Status)
		}
	})
}

func TestAnswersThatAllowNeedProof(t *testing.T) {
	clock := time.Now()
	d := start(t, setup{proofs: true, now: func() time.Time { return clock }, principals: people + ", step_up: true}\n"})
	const passphrase = "correct horse battery staple"
	if err := d.stepUp.EnrollPassphrase(credential.Local, passphrase); err != nil {
		t.Fatal(err)
	}
	s, err := d.Status(t.Context())
	if err != nil || s.Principal.Prover != credential.Local {
		t.Fatalf("the caller proves themselves as %q, %v; want %q", s.Principal.Prover, err, credential.Local)
	}
	record, answer := d.pending(question("make x"))
	decide := func(c *client.Client, revision int64, proof string) error {
		_, err := c.Decide(t.Context(), record.ID, revision, api.Decision{Option: allow, Proof: proof})
		return err
	}
	if err := decide(d.Client, 1, ""); code(t, err) != api.StepUp {
		t.Errorf("without proof there is %v, want %s", err, api.StepUp)
	}
	// A proof is not looked at for an answer that cannot count.
	if err := decide(d.Client, 9, "wrong"); code(t, err) != api.Conflict {
		t.Errorf("a stale answer is %v, want %s", err, api.Conflict)
	}
	if err := decide(d.As("user:olga"), 1, passphrase); code(t, err) != api.NotEnrolled {
		t.Errorf("the proof of another is %v, want %s", err, api.NotEnrolled)
	}
	for range 5 {
		if err := decide(d.Client, 1, "wrong"); code(t, err) != api.WrongProof {
			t.Errorf("a wrong proof is %v, want %s", err, api.WrongProof)
		}
	}
	err = decide(d.Client, 1, passphrase)
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.TooManyProofs || e.RetryAfter < 1 {
		t.Errorf("after five wrong ones the right one is %v, want %s and when to try again", err, api.TooManyProofs)
	}
	// To trust a workspace may allow more than any answer.
	if _, err := d.Trust(t.Context(), api.Trust{Dir: d.home}); code(t, err) != api.StepUp {
		t.Errorf("to trust without proof is %v, want %s", err, api.StepUp)
	}
	if err := d.Confirm(t.Context(), api.Confirmation{Epoch: "e"}); code(t, err) != api.StepUp {
		t.Errorf("to confirm without proof is %v, want %s", err, api.StepUp)
	}
	if r, err := d.Read(t.Context(), record.ID); err != nil || r.State != approval.Pending {
		t.Fatalf("the request is %s, %v; want pending", r.State, err)
	}
	clock = clock.Add(time.Minute)
	if err := decide(d.Client, 1, passphrase); err != nil {
		t.Errorf("the right proof is refused: %v", err)
	}
	if got := <-answer; got.Outcome != approval.OutcomeAllow {
		t.Errorf("the one who asked hears %+v, want that it is allowed", got)
	}
	if text := d.log.String(); strings.Contains(text, passphrase) {
		t.Error("the log has the passphrase")
	}
}

func TestRefusingNeedsNoProof(t *testing.T) {
	d := start(t, setup{proofs: true, principals: people + ", step_up: true}\n"})
	record, answer := d.pending(question("make x"))
	if _, err := d.Decide(t.Context(), record.ID, 1, api.Decision{Option: deny}); err != nil {
		t.Errorf("to refuse is refused: %v", err)
	}
	if got := <-answer; got.Outcome != approval.OutcomeDeny {
		t.Errorf("the one who asked hears %+v, want that it is denied", got)
	}
}
