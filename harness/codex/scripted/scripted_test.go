package scripted_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/harness/codex/scripted"
)

// peer does what Codex does: it asks the model.
type peer struct {
	testing.TB
	model  *scripted.Server
	client *http.Client
}

func listen(t testing.TB) peer {
	t.Helper()
	model, err := scripted.Listen()
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		model.Close()
		model.Close() // twice is as good as once
		transport.CloseIdleConnections()
	})
	return peer{TB: t, model: model, client: &http.Client{Transport: transport}}
}

func (p peer) post(ctx context.Context, body string, header map[string]string) (status int, answer string, err error) {
	p.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.model.URL()+"/responses", strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := p.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// conversation is what Codex sends after users have said something.
func conversation(said ...string) string {
	input := []any{map[string]any{"type": "message", "role": "developer", "content": []any{map[string]any{"type": "input_text", "text": "be good"}}}}
	for _, text := range said {
		input = append(input, map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": text}}})
	}
	text, err := jsonv2.Marshal(map[string]any{"model": "gpt-5.5", "input": input})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// items are the output items of an answer, as JSON with sorted members.
func (p peer) items(answer string) []string {
	p.Helper()
	var items, kinds []string
	lines := bufio.NewScanner(strings.NewReader(answer))
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct {
			Type string         `json:"type"`
			Item map[string]any `json:"item"`
		}
		if err := jsonv2.Unmarshal([]byte(data), &event); err != nil {
			p.Fatalf("%s: %v", data, err)
		}
		kinds = append(kinds, event.Type)
		if event.Item != nil {
			text, err := jsonv2.Marshal(event.Item, jsonv2.Deterministic(true))
			if err != nil {
				p.Fatal(err)
			}
			items = append(items, string(text))
		}
	}
	if n := len(kinds); n < 2 || kinds[0] != "response.created" || kinds[n-1] != "response.completed" {
		p.Fatalf("the events %v are no response", kinds)
	}
	return items
}

// ask asks the model and returns the one message that it says.
func (p peer) ask(body string, header map[string]string) string {
	p.Helper()
	status, answer, err := p.post(p.Context(), body, header)
	if err != nil || status != http.StatusOK {
		p.Fatalf("status %d, %v: %s", status, err, answer)
	}
	items := p.items(answer)
	if len(items) != 1 {
		p.Fatalf("it says %v", items)
	}
	var message struct {
		Type    string `json:"type"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := jsonv2.Unmarshal([]byte(items[0]), &message); err != nil || message.Type != "message" || len(message.Content) != 1 {
		p.Fatalf("%s is no message: %v", items[0], err)
	}
	return message.Content[0].Text
}

func say(text string) scripted.Step { return scripted.Say(scripted.Message(text)) }

func TestAScriptBelongsToThePromptThatWasSaidLast(t *testing.T) {
	p := listen(t)
	p.model.Script("one", say("1.1"), say("1.2"))
	p.model.Script("two", say("2.1"))
	p.model.Script("", say("any"))
	for _, step := range []struct {
		said []string
		want string
	}{
		{[]string{"one"}, "1.1"},
		{[]string{"one", "two"}, "2.1"},
		{[]string{"one", "a reason that was steered in"}, "1.2"},
		{[]string{"one"}, "done"},
		{[]string{"one", "two"}, "done"},
		{[]string{"three"}, "any"},
		{[]string{"three"}, "done"},
		{nil, "done"},
	} {
		if got := p.ask(conversation(step.said...), nil); got != step.want {
			t.Errorf("after %q it says %q, want %q", step.said, got, step.want)
		}
	}
	var counts []int
	for _, prompt := range []string{"one", "two", ""} {
		counts = append(counts, len(p.model.Requests(prompt)))
	}
	if diff := cmp.Diff([]int{3, 2, 3}, counts); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestWhatIsAskedOnTheSideTakesNoStep(t *testing.T) {
	title := map[string]string{"X-Codex-Turn-Metadata": `{"request_kind":"turn","thread_source":"thread_title"}`}
	guardian := map[string]string{"X-Openai-Subagent": "guardian"}
	for name, test := range map[string]struct {
		header       map[string]string
		review, want string
	}{
		"a title":                       {title, "", `{"title":"Scripted"}`},
		"a review that nobody scripted": {guardian, "", `{"outcome":"deny","rationale":"nobody has scripted a review"}`},
		"a review":                      {guardian, `{"outcome":"allow"}`, `{"outcome":"allow"}`},
		"another subagent":              {map[string]string{"X-Openai-Subagent": "compact"}, `{"outcome":"allow"}`, "done"},
		"a summary":                     {map[string]string{"X-Codex-Turn-Metadata": `{"request_kind":"compact"}`}, "", "done"},
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(t)
			p.model.Script("one", say("1.1"))
			if test.review != "" {
				p.model.Review(test.review)
			}
			if got := p.ask(conversation("one"), test.header); got != test.want {
				t.Errorf("it says %s, want %s", got, test.want)
			}
			if n, m := len(p.model.Requests("one")), len(p.model.Asides()); n != 0 || m != 1 {
				t.Errorf("%d requests and %d on the side", n, m)
			}
			turn := map[string]string{"X-Codex-Turn-Metadata": `{"request_kind":"turn","thread_source":"user","thread_id":"T","turn_id":"U"}`}
			if got := p.ask(conversation("one"), turn); got != "1.1" {
				t.Errorf("after it, it says %s", got)
			}
			one, err := p.model.Wait(t.Context(), "one", 1)
			if err != nil {
				t.Fatal(err)
			}
			if one.Thread != "T" || one.Turn != "U" || one.Side {
				t.Errorf("the request is of %q, %q, on the side: %v", one.Thread, one.Turn, one.Side)
			}
		})
	}
}

const outputs = `{"input":[
	{"type":"message","role":"user","content":[{"type":"input_text","text":"please "},{"type":"input_text","text":"go"}]},
	{"type":"function_call_output","call_id":"a","output":"Process running with session ID 7241\n"},
	{"type":"custom_tool_call_output","call_id":"b","output":[{"type":"input_text","text":"patched"}]},
	{"type":"function_call_output","call_id":"c","output":{"odd":true}},
	{"type":"reasoning","summary":[]}]}`

func TestAStepKnowsWhatTheModelWasTold(t *testing.T) {
	p := listen(t)
	seen := make(chan *scripted.Request, 1)
	step := scripted.Look(func(r *scripted.Request) []scripted.Item {
		seen <- r
		return []scripted.Item{scripted.Message("it said " + r.Output("b"))}
	})
	p.model.Script("please go", step)
	if got := p.ask(outputs, nil); got != "it said patched" {
		t.Errorf("it says %q", got)
	}
	r := <-seen
	session, running := r.Session("a")
	_, other := r.Session("b")
	got := []any{r.Prompt, r.Output("c"), r.Output("d"), session, running, other, string(r.Body) == outputs}
	if diff := cmp.Diff([]any{"please go", `{"odd":true}`, "", 7241, true, false, true}, got); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
}

func TestEachItemIsWhatCodexReads(t *testing.T) {
	network := map[string]any{"network": map[string]any{"enabled": true}}
	for name, test := range map[string]struct {
		item scripted.Item
		want string
	}{
		"exec":      {scripted.Exec("c", "ls"), `{"arguments":"{\"cmd\":\"ls\"}","call_id":"c","name":"exec_command","type":"function_call"}`},
		"escalated": {scripted.Escalated("c", "ls"), `{"arguments":"{\"cmd\":\"ls\",\"justification\":\"the task needs it\",\"sandbox_permissions\":\"require_escalated\"}","call_id":"c","name":"exec_command","type":"function_call"}`},
		"terminal":  {scripted.Terminal("c", "cat", 9), `{"arguments":"{\"cmd\":\"cat\",\"justification\":\"the task needs it\",\"sandbox_permissions\":\"require_escalated\",\"tty\":true,\"yield_time_ms\":9}","call_id":"c","name":"exec_command","type":"function_call"}`},
		"with permissions": {
			scripted.WithPermissions("c", "ls", network),
			`{"arguments":"{\"additional_permissions\":{\"network\":{\"enabled\":true}},\"cmd\":\"ls\",\"justification\":\"the task needs it\",\"sandbox_permissions\":\"with_additional_permissions\"}","call_id":"c","name":"exec_command","type":"function_call"}`,
		},
		"permissions": {
			scripted.Permissions("c", network),
			`{"arguments":"{\"environment_id\":\"local\",\"permissions\":{\"network\":{\"enabled\":true}},\"reason\":\"the task needs it\"}","call_id":"c","name":"request_permissions","type":"function_call"}`,
		},
		"mcp":                {scripted.MCP("c", "lab", "look", nil), `{"arguments":"{}","call_id":"c","name":"look","namespace":"mcp__lab","type":"function_call"}`},
		"write_stdin":        {scripted.WriteStdin("c", 3, "y\n"), `{"arguments":"{\"chars\":\"y\\n\",\"session_id\":3}","call_id":"c","name":"write_stdin","type":"function_call"}`},
		"patch":              {scripted.Patch("c", "*** Begin Patch\n"), `{"call_id":"c","input":"*** Begin Patch\n","name":"apply_patch","type":"custom_tool_call"}`},
		"message":            {scripted.Message("hi"), `{"content":[{"text":"hi","type":"output_text"}],"id":"response-1-0","role":"assistant","type":"message"}`},
		"any other item":     {scripted.Item{"type": "reasoning"}, `{"type":"reasoning"}`},
		"a call without one": {scripted.Exec("", "ls"), `{"arguments":"{\"cmd\":\"ls\"}","call_id":"response-1-0","name":"exec_command","type":"function_call"}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(t)
			p.model.Script("one", scripted.Say(test.item))
			status, answer, err := p.post(t.Context(), conversation("one"), nil)
			if err != nil || status != http.StatusOK {
				t.Fatalf("status %d, %v: %s", status, err, answer)
			}
			if diff := cmp.Diff([]string{test.want}, p.items(answer)); diff != "" {
				t.Errorf("item (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeReadTakesNoStep(t *testing.T) {
	for name, test := range map[string]struct {
		body   string
		header map[string]string
		want   int
	}{
		"not JSON":        {`{`, nil, http.StatusBadRequest},
		"no input":        {`{}`, nil, http.StatusBadRequest},
		"an item of text": {`{"input":["hi"]}`, nil, http.StatusBadRequest},
		"bad metadata":    {conversation("one"), map[string]string{"X-Codex-Turn-Metadata": `{`}, http.StatusBadRequest},
		"compressed":      {conversation("one"), map[string]string{"Content-Encoding": "zstd"}, http.StatusUnsupportedMediaType},
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(t)
			p.model.Script("one", say("1.1"))
			if status, answer, err := p.post(t.Context(), test.body, test.header); err != nil || status != test.want {
				t.Errorf("status %d, %v: %s", status, err, answer)
			}
			if got := p.ask(conversation("one"), nil); got != "1.1" {
				t.Errorf("after it, it says %q", got)
			}
		})
	}
}

func TestWhatNoJSONCanSayIsAnError(t *testing.T) {
	p := listen(t)
	p.model.Script("one", scripted.Say(scripted.Item{"type": make(chan int)}))
	if status, answer, err := p.post(t.Context(), conversation("one"), nil); err != nil || status != http.StatusInternalServerError {
		t.Errorf("status %d, %v: %s", status, err, answer)
	}
}

func TestAStepIsHeldUntilItsGateOpens(t *testing.T) {
	p := listen(t)
	gate := make(chan struct{})
	p.model.Script("one", say("1.1").After(gate), say("1.2"))
	answered := make(chan string)
	go func() { answered <- p.ask(conversation("one"), nil) }()
	if _, err := p.model.Wait(t.Context(), "one", 1); err != nil {
		t.Fatal(err)
	}
	if got := p.ask(conversation("one"), nil); got != "1.2" {
		t.Errorf("the second request is told %q", got)
	}
	close(gate)
	if got := <-answered; got != "1.1" {
		t.Errorf("the first request is told %q", got)
	}
}

func TestAHeldStepEndsWithItsRequestAndWithTheModel(t *testing.T) {
	p := listen(t)
	never := make(chan struct{})
	p.model.Script("one", say("1.1").After(never), say("1.2").After(never))
	ended := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, _, err := p.post(ctx, conversation("one"), nil)
		ended <- err
	}()
	if _, err := p.model.Wait(t.Context(), "one", 1); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a request that is given up ends with %v", err)
	}
	go func() {
		_, answer, err := p.post(t.Context(), conversation("one"), nil)
		if err == nil && answer == "" {
			err = io.ErrUnexpectedEOF
		}
		ended <- err
	}()
	if _, err := p.model.Wait(t.Context(), "one", 2); err != nil {
		t.Fatal(err)
	}
	p.model.Close()
	if err := <-ended; err == nil {
		t.Error("a model that has ended has answered")
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	p := listen(t)
	enough := errors.New("enough")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(enough)
	if _, err := p.model.Wait(ctx, "one", 1); !errors.Is(err, enough) {
		t.Errorf("it ends with %v", err)
	}
}
