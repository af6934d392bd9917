package codex

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness"
)

// The messages that a codec reads besides those that ask.
const (
	initialize      = "initialize"
	threadStart     = "thread/start"
	threadResume    = "thread/resume"
	threadFork      = "thread/fork"
	threadStarted   = "thread/started"
	turnStart       = "turn/start"
	turnSteer       = "turn/steer"
	turnInterrupt   = "turn/interrupt"
	turnCompleted   = "turn/completed"
	itemStarted     = "item/started"
	itemCompleted   = "item/completed"
	requestResolved = "serverRequest/resolved"
)

// needed are the notifications that the intake and the codec live on. A client
// may opt out of them; the server sends them all the same, and they end here.
var needed = []string{itemStarted, itemCompleted, threadStarted, turnCompleted, requestResolved}

const (
	// maxEnded is how many turns are remembered as ended.
	maxEnded = 1024
	// maxCalls is how many requests of the client may be without an answer while
	// theirs is of interest.
	maxCalls = 256
	// maxAnswered is how many answered questions are remembered, so that a second
	// answer to one is held back.
	maxAnswered = 1024
)

// Options are how a codec goes about it. The zero value is the cautious way.
type Options struct {
	// Silent keeps to itself why a request was denied. Else the agent is told with
	// a short message in its turn, so that it can choose another way.
	Silent bool
	// Strict refuses what the client asks for where that would have calls of the
	// agent run without being asked about; else there is a warning.
	Strict bool
	// Alone says that there is no user at the client: what only they could answer
	// is declined.
	Alone bool
}

// Codec is the [harness.Codec] of one connection to codex app-server. It is not
// safe for concurrent use; the loop sees to that.
type Codec struct {
	options Options
	in      Intake
	open    map[string]*question
	// answered are questions that have had their answer.
	answered bounded[string, struct{}]
	// ended are the turns that are over.
	ended bounded[turnKey, struct{}]
	// calls are the client's requests whose result is of interest, by id.
	calls bounded[string, struct{}]
	// hidden are notifications that the client has opted out of.
	hidden map[string]bool
	// person says that the client has promised a person who answers what only a
	// person may.
	person bool
	// own counts the requests that Regent puts to the server.
	own    int
	prefix string
	peek   peeker
}

type turnKey struct{ thread, turn string }

// question is one that is open.
type question struct {
	*Question
	turn turnKey
	// params are as they came, to tell a repetition from another question.
	params jsontext.Value
}

var _ harness.Codec = (*Codec)(nil)

// NewCodec returns the codec of a new connection.
func NewCodec(o Options) *Codec {
	c := &Codec{options: o, open: map[string]*question{}, hidden: map[string]bool{}, prefix: "regent-" + approval.NewID() + "-"}
	c.answered.limit, c.ended.limit, c.calls.limit = maxAnswered, maxEnded, maxCalls
	return c
}

// FromServer takes a message of the server: see [harness.Codec].
func (c *Codec) FromServer(message []byte) (harness.Step, error) {
	method, id, err := c.peek.look(message)
	if err != nil {
		return harness.Step{}, err
	}
	switch {
	case method == "" && len(id) == 0:
		return harness.Step{}, fmt.Errorf("%w: neither method nor id", ErrFrame)
	case method == "":
		return c.result(message, id)
	case len(id) > 0:
		return c.request(message)
	}
	step := harness.Step{Forward: message}
	if !slices.Contains(needed, method) {
		return step, nil
	}
	if !c.in.passing(message, method) {
		f, err := decodeFrame(message)
		if err != nil {
			return harness.Step{}, err
		}
		c.in.fromServer(f)
		switch method {
		case requestResolved:
			c.resolved(f.Params, &step)
		case turnCompleted:
			c.turnOver(f.Params, &step)
		}
	}
	if c.hidden[method] {
		step.Forward = nil
	}
	return step, nil
}

// result takes an answer of the server to the client, or to Regent.
func (c *Codec) result(message, id []byte) (harness.Step, error) {
	step := harness.Step{Forward: message}
	key, err := parseID(id)
	if err != nil {
		return harness.Step{}, err
	}
	if c.ours(string(key)) {
		// A turn that is over takes no more messages. Nothing follows from that.
		return harness.Step{}, nil
	}
	if _, waited := c.calls.values[string(key)]; !waited {
		return step, nil
	}
	c.calls.drop(string(key))
	f, err := decodeFrame(message)
	if err != nil {
		return harness.Step{}, err
	}
	c.in.fromServer(f)
	return step, nil
}

func (c *Codec) ours(key string) bool {
	return strings.HasPrefix(text(jsontext.Value(key)), c.prefix)
}

// request takes a request of the server.
func (c *Codec) request(message []byte) (harness.Step, error) {
	f, err := decodeFrame(message)
	if err != nil {
		return harness.Step{}, err
	}
	q, err := c.in.fromServer(f)
	if err != nil {
		return harness.Step{}, err
	}
	if !ruled(q) {
		if c.options.Alone {
			return harness.Step{
				Back:    [][]byte{declined(q)},
				Warning: fmt.Sprintf("%s was declined: only a user of the client can answer it, and there is none", q.Method),
			}, nil
		}
		return harness.Step{Forward: message}, nil
	}
	key := string(q.ID)
	if before := c.open[key]; before != nil {
		if before.Method != q.Method || !bytes.Equal(before.params, f.Params) {
			return harness.Step{}, fmt.Errorf("%w: the id %s is that of another request, which is open", ErrFrame, key)
		}
		return harness.Step{}, nil
	}
	c.answered.drop(key)
	one := &question{Question: q, params: f.Params.Clone()}
	if s := q.Request.Session; s != nil {
		one.turn = turnKey{s.ID, s.TurnID}
	}
	ask := &harness.Question{Key: key, Shared: true, Request: q.Request, Problem: q.Problem, Message: message}
	if _, over := c.ended.values[one.turn]; over && one.turn.turn != "" {
		ask.Stale = "its turn was over before it was asked"
		q.Request.HumanOnly = true // no rule can allow what nobody waits for
	}
	// A client that has promised a person is shown what only a person may answer.
	if q.Request.HumanOnly && q.Problem == "" && c.person && ask.Stale == "" {
		ask.Show = true
	}
	c.open[key] = one
	return harness.Step{Ask: ask}, nil
}

// ruled says whether a request is one that Regent has answered. All others belong
// to the client's own user.
func ruled(q *Question) bool {
	switch q.Method {
	case commandApproval, fileApproval, permissionsApproval, legacyPatch, legacyCommand:
		return true
	case elicitation:
		return q.Request.Kind == approval.KindMCP
	default:
		return false
	}
}

// resolved takes the word of the server that a request of its own is settled.
func (c *Codec) resolved(params jsontext.Value, step *harness.Step) {
	var p struct {
		RequestID jsontext.Value `json:"requestId"`
	}
	if jsonv2.Unmarshal(params, &p) != nil {
		return
	}
	id, err := parseID(p.RequestID)
	if err != nil {
		return
	}
	key := string(id)
	_, heard := c.answered.values[key]
	step.Over = append(step.Over, harness.Over{Key: key, Heard: heard, Reason: "the server withdrew the request, or it was answered elsewhere"})
	c.close(key)
}

// turnOver takes the end of a turn, with which everything that it asked is over.
func (c *Codec) turnOver(params jsontext.Value, step *harness.Step) {
	var p struct {
		ThreadID string `json:"threadId"`
		Turn     struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"turn"`
	}
	if jsonv2.Unmarshal(params, &p) != nil || p.Turn.ID == "" {
		return
	}
	turn := turnKey{p.ThreadID, p.Turn.ID}
	c.ended.put(turn, struct{}{})
	reason := "its turn is over"
	if p.Turn.Status == "interrupted" {
		reason = "its turn was interrupted"
	}
	for _, key := range slices.Sorted(maps.Keys(c.open)) {
		if c.open[key].turn == turn {
			step.Over = append(step.Over, harness.Over{Key: key, Reason: reason})
			c.close(key)
		}
	}
}

func (c *Codec) close(key string) { delete(c.open, key) }

// FromClient takes a message of the client: see [harness.Codec].
func (c *Codec) FromClient(message []byte) (harness.Step, error) {
	method, id, err := c.peek.look(message)
	if err != nil {
		return harness.Step{}, err
	}
	if method == "" {
		return c.reply(message, id)
	}
	step := harness.Step{Forward: message}
	if len(id) == 0 {
		return step, nil
	}
	switch method {
	case initialize, threadStart, threadResume, threadFork, turnStart:
	default:
		why := weakening(method, nil)
		if why == "" {
			return step, nil
		}
		return c.weakened(message, id, why), nil
	}
	f, err := decodeFrame(message)
	if err != nil {
		return harness.Step{}, err
	}
	if why := weakening(method, f.Params); why != "" {
		if step = c.weakened(message, id, why); step.Forward == nil {
			return step, nil
		}
	}
	key, err := parseID(f.ID)
	if err != nil {
		return harness.Step{}, err
	}
	c.calls.put(string(key), struct{}{})
	switch method {
	case initialize:
		step.Forward, err = c.initialize(f)
	case turnStart:
		c.in.client(f)
	}
	return step, err
}

// weakened is what becomes of a request of the client that would have calls run
// unasked.
func (c *Codec) weakened(message, id []byte, why string) harness.Step {
	if !c.options.Strict {
		return harness.Step{Forward: message, Warning: "the client asked for something that Regent will not be asked about: " + why}
	}
	return harness.Step{
		Back:    [][]byte{refusal(id, "refused by Regent: "+why)},
		Warning: "refused what the client asked for: " + why,
	}
}

// reply takes an answer of the client. What was asked of Regent it does not
// answer, unless its user was shown the question.
func (c *Codec) reply(message, id []byte) (harness.Step, error) {
	key, err := parseID(id)
	if err != nil {
		return harness.Step{}, err
	}
	if _, done := c.answered.values[string(key)]; done {
		return harness.Step{}, nil
	}
	q := c.open[string(key)]
	if q == nil {
		return harness.Step{Forward: message}, nil
	}
	f, err := decodeFrame(message)
	if err != nil {
		return harness.Step{}, err
	}
	reply, err := chosen(q.Question, f)
	if err != nil {
		return harness.Step{Warning: fmt.Sprintf("the client's answer to request %s is not understood and counts for nothing: %v", key, err)}, nil
	}
	return harness.Step{Chosen: &harness.Choice{Key: string(key), Reply: reply}}, nil
}

// initialize has the server tell all there is to know. Without experimentalApi,
// an answer would grant permissions that the question does not mention
// (0.156.1 and 0.171.0).
func (c *Codec) initialize(f frame) ([]byte, error) {
	var params map[string]jsontext.Value
	if err := jsonv2.Unmarshal(f.Params, &params); err != nil {
		return nil, fmt.Errorf("%w: initialize: %w", ErrFrame, err)
	}
	capabilities := map[string]jsontext.Value{}
	if raw := params["capabilities"]; !null(raw) {
		if err := jsonv2.Unmarshal(raw, &capabilities); err != nil {
			return nil, fmt.Errorf("%w: initialize: capabilities: %w", ErrFrame, err)
		}
	}
	c.person = capabilities["requiredHumanApproval"].Kind() == 't'
	capabilities["experimentalApi"] = jsontext.Value("true")
	// Whoever decides through Regent what only a person may is one.
	capabilities["requiredHumanApproval"] = jsontext.Value("true")
	if raw := capabilities["optOutNotificationMethods"]; !null(raw) {
		var out []string
		if err := jsonv2.Unmarshal(raw, &out); err != nil {
			return nil, fmt.Errorf("%w: initialize: optOutNotificationMethods: %w", ErrFrame, err)
		}
		kept := make([]string, 0, len(out))
		for _, method := range out {
			if slices.Contains(needed, method) {
				c.hidden[method] = true
				continue
			}
			kept = append(kept, method)
		}
		text, err := jsonv2.Marshal(kept)
		if err != nil {
			return nil, err
		}
		capabilities["optOutNotificationMethods"] = text
	}
	text, err := jsonv2.Marshal(capabilities, jsonv2.Deterministic(true))
	if err != nil {
		return nil, err
	}
	params["capabilities"] = text
	text, err = jsonv2.Marshal(params, jsonv2.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return call(f.ID, initialize, text)
}

// call is a request.
func call(id jsontext.Value, method string, params jsontext.Value) ([]byte, error) {
	return jsonv2.Marshal(struct {
		ID     jsontext.Value `json:"id"`
		Method string         `json:"method"`
		Params jsontext.Value `json:"params"`
	}{id, method, params})
}

// ownID is the id of a request that Regent makes. No client's can be the same.
func (c *Codec) ownID() jsontext.Value {
	c.own++
	return jsontext.Value(`"` + c.prefix + strconv.Itoa(c.own) + `"`)
}

// refusal is an error for whoever asked.
func refusal(id []byte, message string) []byte {
	text, err := jsonv2.Marshal(struct {
		ID    jsontext.Value `json:"id"`
		Error struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}{jsontext.Value(id), struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{-32600, message}})
	if err != nil {
		// The id has been read before, and the message is plain text.
		return []byte(`{"error":{"code":-32600,"message":"refused by Regent"}}`)
	}
	return text
}
