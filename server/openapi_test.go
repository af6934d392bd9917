package server_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/server"
	"github.com/regent-policy/regent/server/api"
)

var update = flag.Bool("update", false, "write what the tests compare with")

// call says what a route takes and gives.
type call struct {
	summary, text string
	// body is an example of the type that is taken, and answers those that are
	// given, nil for an answer without a body.
	body    any
	answers map[int]any
	// media is that of an answer that is not JSON.
	media  string
	params []param
	// codes are the errors besides those of every call.
	codes []api.Code
}

type param struct {
	in, name, text string
	required, many bool
	schema         map[string]any
}

var (
	text    = map[string]any{"type": "string"}
	ident   = map[string]any{"type": "string", "minLength": 1, "maxLength": api.MaxIDBytes}
	integer = map[string]any{"type": "integer", "minimum": 0}
)

func anyOf[S ~string](of []S) map[string]any {
	return map[string]any{"type": "string", "enum": of}
}

var (
	ifMatch = param{in: "header", name: "If-Match", text: "The revision that was read, in quotes. A change without it is a 428, and one of an older revision a 412 with the record as it is now.", required: true, schema: map[string]any{"type": "string", "pattern": `^"[1-9][0-9]*"$`}}
	record  = param{in: "path", name: "id", text: "The record.", required: true, schema: text}
	session = param{in: "path", name: "session", text: "The session, by the id that its host gave it.", required: true, schema: ident}
	turn    = param{in: "path", name: "turn", text: "The turn.", required: true, schema: ident}
	callID  = param{in: "path", name: "call", text: "The call, by an id of which there is one in its session.", required: true, schema: ident}
	host    = param{in: "query", name: "instance", text: "The instance that opened the session.", required: true, schema: text}
	name    = param{in: "path", name: "name", text: "The instance: one process of a native host.", required: true, schema: text}
)

var (
	bodies  = []api.Code{api.TooLarge, api.UnsupportedMedia, api.Timeout}
	ledgers = []api.Code{api.LedgerFull, api.LedgerDamaged}
	asks    = slices.Concat(bodies, ledgers, []api.Code{api.MalformedRequest, api.Overloaded})
	changes = slices.Concat(bodies, ledgers, []api.Code{api.NotFound, api.Conflict, api.Expired, api.Lost, api.Instance, api.Invalid})
	hosts   = slices.Concat(ledgers, []api.Code{api.NoSession, api.Instance, api.Lost})
	proofs  = []api.Code{api.StepUp, api.WrongProof, api.NotEnrolled, api.TooManyProofs}
	// every call can end like this.
	every = []api.Code{api.BadRequest, api.Unauthorized, api.Forbidden, api.UnknownPrincipal, api.CrossOrigin, api.Internal, api.Stopping}
)

// calls describe every route.
var calls = map[string]call{
	"POST /v1/requests": {
		summary: "Ask whether a call may run",
		text:    "Waits for the answer, or with wait=false returns at once what is not decided yet. To close the connection withdraws the request. Whoever asks counts as an agent from then on. Only the outcome allow is permission: an error is none.",
		body:    api.Question{}, answers: map[int]any{200: api.Answer{}, 202: api.Answer{}},
		params: []param{{in: "query", name: "wait", text: "Whether to wait for the answer.", schema: map[string]any{"type": "boolean", "default": true}}},
		codes:  slices.Concat(asks, []api.Code{api.AgentPID, api.Instance, api.Lost}),
	},
	"POST /v1/check": {
		summary: "Say what would become of a call", text: "Nothing is recorded and nobody is asked.",
		body: api.Question{}, answers: map[int]any{200: approval.Ruling{}}, codes: slices.Concat(asks, []api.Code{api.AgentPID}),
	},
	"GET /v1/requests/{id}/answer": {
		summary: "Poll for the answer to a request", text: "202 is that there is none yet. Each poll is a sign of life of the instance.",
		answers: map[int]any{200: api.Answer{}, 202: api.Answer{}},
		params: []param{
			record,
			{in: "query", name: "instance", text: "The instance that asked, as the first answer named it.", required: true, schema: text},
			{in: "query", name: "wait", text: "How many seconds to wait for the answer.", schema: map[string]any{"type": "integer", "minimum": 0, "maximum": api.MaxWait, "default": 0}},
		},
		codes: slices.Concat(ledgers, []api.Code{api.NotFound, api.Instance, api.Lost, api.Overloaded}),
	},
	"GET /v1/approvals": {
		summary: "List records, the newest first", text: "Those that the caller may see. A page can hold fewer than there are, and go on all the same.",
		answers: map[int]any{200: approval.Page{}},
		params: []param{
			{in: "query", name: "before", text: "List what is older than this record.", schema: text},
			{in: "query", name: "limit", text: "The size of the page; 0 is the largest.", schema: map[string]any{"type": "integer", "minimum": 0, "maximum": approval.MaxPage, "default": 0}},
			{in: "query", name: "state", text: "List those in one of these states.", many: true, schema: anyOf(approval.States)},
			{in: "query", name: "workspace", text: "List those of this workspace.", schema: text},
			{in: "query", name: "run", text: "List those of this run.", schema: text},
			{in: "query", name: "session", text: "List those of this session.", schema: text},
			{in: "query", name: "instance", text: "List those of this instance.", schema: text},
		},
		codes: []api.Code{api.NotFound, api.LedgerDamaged},
	},
	"GET /v1/approvals/{id}": {
		summary: "Read a record", text: "Its ETag is the revision.",
		answers: map[int]any{200: approval.Record{}, 304: nil},
		params:  []param{record, {in: "header", name: "If-None-Match", text: "Revisions that are known, in quotes.", schema: text}},
		codes:   []api.Code{api.NotFound, api.LedgerDamaged},
	},
	"POST /v1/approvals/{id}/decision": {
		summary: "Answer a request", text: "The option is one of the record's, verbatim. Nobody answers what they asked themselves, and no agent answers anything.",
		body: api.Decision{}, answers: map[int]any{200: approval.Record{}}, params: []param{record, ifMatch},
		codes: slices.Concat(changes, proofs, []api.Code{api.RevisionRequired, api.NotOffered, api.Denied, api.Overloaded}),
	},
	"POST /v1/approvals/{id}/cancel": {
		summary: "Withdraw a request for a person",
		body:    api.Reason{}, answers: map[int]any{200: approval.Record{}}, params: []param{record, ifMatch},
		codes: slices.Concat(changes, []api.Code{api.RevisionRequired}),
	},
	"POST /v1/approvals/{id}/reconcile": {
		summary: "End a record whose answer may or may not have been heard", text: "A person has looked, and says what they found.",
		body: api.Reason{}, answers: map[int]any{200: approval.Record{}}, params: []param{record, ifMatch},
		codes: slices.Concat(changes, []api.Code{api.RevisionRequired}),
	},
	"POST /v1/approvals/{id}/withdraw": {
		summary: "Withdraw a request for the instance that asked",
		body:    api.Withdrawal{}, answers: map[int]any{200: api.Progress{}}, params: []param{record}, codes: changes,
	},
	"POST /v1/approvals/{id}/fence": {
		summary: "Let an action start", text: "Asked right before it starts, and granted once. Anything but 200 is no.",
		body: api.Fence{}, answers: map[int]any{200: api.Progress{}}, params: []param{record},
		codes: slices.Concat(changes, []api.Code{api.Digest, api.NotAllowed, api.Used, api.Operand}),
	},
	"POST /v1/approvals/{id}/mark": {
		summary: "Note how far an answer has come",
		body:    api.Mark{}, answers: map[int]any{200: api.Progress{}}, params: []param{record}, codes: changes,
	},
	"PUT /v1/instances/{name}": {
		summary: "Give a sign of life", text: "An instance that is not heard of for 30 s is gone, and what it asked with it.",
		answers: map[int]any{200: api.Lease{}}, params: []param{name}, codes: slices.Concat(ledgers, []api.Code{api.Instance, api.Lost}),
	},
	"DELETE /v1/instances/{name}": {
		summary: "End an instance", text: "What it asked is closed.",
		answers: map[int]any{204: nil}, params: []param{name}, codes: slices.Concat(ledgers, []api.Code{api.Instance}),
	},
	"PUT /v1/sessions/{session}": {
		summary: "Open a session", text: "It lives no longer than its instance. Whoever opens it counts as an agent from then on.",
		body: api.SessionSpec{}, answers: map[int]any{201: api.Session{}}, params: []param{session},
		codes: slices.Concat(bodies, ledgers, []api.Code{api.AgentPID, api.Exists, api.Instance, api.Lost, api.Overloaded}),
	},
	"GET /v1/sessions/{session}": {
		summary: "Describe a session to its host",
		answers: map[int]any{200: api.Session{}}, params: []param{session, host}, codes: hosts,
	},
	"DELETE /v1/sessions/{session}": {
		summary: "End a session", text: "What waits in it is cancelled, and what it was granted is gone.",
		answers: map[int]any{204: nil}, params: []param{session, host}, codes: []api.Code{api.NoSession},
	},
	"GET /v1/sessions": {
		summary: "List the sessions that are open", text: "Those that the caller may see.",
		answers: map[int]any{200: api.Sessions{}},
	},
	"PUT /v1/sessions/{session}/turns/{turn}": {
		summary: "Open a turn", text: "Others may be open beside it.",
		body: api.TurnSpec{}, answers: map[int]any{201: api.Turn{}}, params: []param{session, turn},
		codes: slices.Concat(bodies, hosts, []api.Code{api.Exists, api.Overloaded}),
	},
	"DELETE /v1/sessions/{session}/turns/{turn}": {
		summary: "End a turn", text: "What waits in it is cancelled, and what it was granted is gone. That it is over already is no error.",
		answers: map[int]any{200: api.Turn{}}, params: []param{session, turn, host}, codes: slices.Concat(hosts, []api.Code{api.NoTurn}),
	},
	"GET /v1/sessions/{session}/turns/{turn}/tools": {
		summary: "List the tools to offer to the model of a turn",
		answers: map[int]any{200: api.Tools{}}, params: []param{session, turn, host}, codes: slices.Concat(hosts, []api.Code{api.NoTurn}),
	},
	"PUT /v1/sessions/{session}/turns/{turn}/calls/{call}": {
		summary: "Make a call",
		text:    "Waits for what becomes of it, or with wait=false returns soon what is not settled yet. To close the connection of a call that is waited for cancels it. Only the outcome allow lets it start: an error does not. A call of the tool request_permissions is one for permissions, and faults in its arguments are for the model.",
		body:    api.CallSpec{}, answers: map[int]any{200: api.Call{}, 202: api.Call{}},
		params: []param{session, turn, callID, {in: "query", name: "wait", text: "Whether to wait for the answer.", schema: map[string]any{"type": "boolean", "default": true}}},
		codes:  slices.Concat(bodies, hosts, []api.Code{api.MalformedRequest, api.NoTurn, api.TurnOver, api.Exists, api.Overloaded}),
	},
	"GET /v1/sessions/{session}/calls/{call}": {
		summary: "Poll for what becomes of a call", text: "202 is that there is no answer yet. Each poll is a sign of life of the instance.",
		answers: map[int]any{200: api.Call{}, 202: api.Call{}},
		params: []param{
			session, callID, host,
			{in: "query", name: "wait", text: "How many seconds to wait for the answer.", schema: map[string]any{"type": "integer", "minimum": 0, "maximum": api.MaxWait, "default": 0}},
		},
		codes: slices.Concat(hosts, []api.Code{api.NoCall, api.Overloaded}),
	},
	"POST /v1/sessions/{session}/calls/{call}/cancel": {
		summary: "Cancel a call for its host", text: "One that is settled stays as it is.",
		body: api.Withdrawal{}, answers: map[int]any{200: api.Call{}}, params: []param{session, callID},
		codes: slices.Concat(bodies, hosts, []api.Code{api.NoCall, api.Settled}),
	},
	"POST /v1/sessions/{session}/calls/{call}/response": {
		summary: "Respond to a request for permissions", text: "The answer of a person, by the call that asked. Without permissions it refuses. One that belongs to nothing that waits changes nothing, and is made known as a notice. What is granted is in the record's decision.",
		body: api.Response{}, answers: map[int]any{200: approval.Record{}},
		params: []param{session, callID, {in: "header", name: ifMatch.name, text: "The revision that was read, in quotes. Where it is given, a response to an older one is a 412 with the record as it is now.", schema: ifMatch.schema}},
		codes:  slices.Concat(changes, proofs, []api.Code{api.NoSession, api.Unmatched, api.Denied, api.Unplaced}),
	},
	"GET /v1/grants": {
		summary: "List what sessions hold beyond their configuration", text: "Of the sessions that the caller may see.",
		answers: map[int]any{200: api.Grants{}},
		params:  []param{{in: "query", name: "session", text: "List what this session and its turns hold.", schema: text}},
	},
	"DELETE /v1/grants/{id}": {
		summary: "Revoke a grant or an acceptance", text: "It counts for no call from then on.",
		answers: map[int]any{204: nil}, codes: []api.Code{api.NoGrant},
		params: []param{{in: "path", name: "id", text: "The grant or acceptance.", required: true, schema: text}},
	},
	"GET /v1/events": {
		summary: "Follow what happens", media: "text/event-stream",
		text:    "Server-sent events: first one named open; then approval, with the number of the event for its id and an ApprovalEvent for its data; notice, with a Notice; and error, with a Failure, as the last. A member hears of the records that they may see only. No event holds what was requested.",
		answers: map[int]any{200: ""},
		params: []param{
			{in: "query", name: "after", text: "Begin after the event of this number; without it, with what happens from now on.", schema: integer},
			{in: "header", name: "Last-Event-ID", text: "The same, as browsers send it when they connect again. It counts before the parameter.", schema: text},
		},
		codes: []api.Code{api.Ahead, api.Overloaded, api.LedgerDamaged},
	},
	"GET /v1/workspaces": {
		summary: "Tell how workspaces stand, and which are trusted",
		answers: map[int]any{200: api.Workspaces{}},
	},
	"POST /v1/workspaces/trust": {
		summary: "Let a workspace do more than tighten",
		body:    api.Trust{}, answers: map[int]any{200: api.Trusted{}},
		codes: slices.Concat(bodies, proofs, []api.Code{api.NoWorkspace, api.Unfit}),
	},
	"POST /v1/workspaces/untrust": {
		summary: "Take the trust in a workspace back",
		body:    api.Trust{}, answers: map[int]any{200: api.Trusted{}}, codes: slices.Concat(bodies, []api.Code{api.NoWorkspace}),
	},
	"POST /v1/workspaces/confirm": {
		summary: "Put in force what waits for confirmation",
		body:    api.Confirmation{}, answers: map[int]any{204: nil}, codes: slices.Concat(bodies, proofs, []api.Code{api.MovedOn}),
	},
	"GET /v1/epochs/{id}": {
		summary: "Show a set of rules that is loaded",
		answers: map[int]any{200: api.Epoch{}},
		params:  []param{{in: "path", name: "id", text: "The fingerprint of the rules, as rulings have it.", required: true, schema: text}},
		codes:   []api.Code{api.NoEpoch},
	},
	"GET /v1/status": {
		summary: "Tell how the daemon is, and who the caller is to it",
		answers: map[int]any{200: api.Status{}},
	},
	"GET /v1/health": {
		summary: "Tell whether the daemon can do its work",
		answers: map[int]any{200: api.Health{}, 503: api.Health{}},
	},
	"GET /v1/openapi.json": {summary: "Show this document", answers: map[int]any{200: map[string]any{}}},
	"GET /metrics":         {summary: "Show what is counted, for Prometheus", media: "text/plain", answers: map[int]any{200: ""}},
}

// drawer makes schemas from Go types, with their comments.
type drawer struct {
	*testing.T
	closed, open *jsonschema.Reflector
	schemas      map[string]json.RawMessage
}

func newDrawer(t *testing.T) *drawer {
	t.Helper()
	d := &drawer{T: t, schemas: map[string]json.RawMessage{}}
	for _, r := range []**jsonschema.Reflector{&d.closed, &d.open} {
		*r = &jsonschema.Reflector{Anonymous: true, Namer: named, Mapper: d.mapped}
		for _, dir := range []string{"server/api", "gate/approval", "gate/permission"} {
			if err := (*r).AddGoComments("github.com/regent-policy/regent", dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Answers gain fields in later versions.
	d.open.AllowAdditionalProperties = true
	return d
}

// named keeps types of one name apart.
func named(typ reflect.Type) string {
	switch {
	case strings.HasSuffix(typ.PkgPath(), "/approval"):
		return "Approval" + typ.Name()
	case strings.HasSuffix(typ.PkgPath(), "/permission"):
		return "Permission" + typ.Name()
	default:
		return typ.Name()
	}
}

func (d *drawer) mapped(typ reflect.Type) *jsonschema.Schema {
	words := func(of ...any) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Enum: of} }
	switch typ {
	case reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{} // any value
	case reflect.TypeFor[time.Duration]():
		d.Fatal("a duration has no unit on the wire")
	case reflect.TypeFor[approval.State]():
		var all []any
		for _, s := range approval.States {
			all = append(all, s)
		}
		return words(all...)
	case reflect.TypeFor[approval.Outcome]():
		return words("allow", "deny", "cancel")
	case reflect.TypeFor[permission.Scope]():
		return words("once", "turn", "session")
	case reflect.TypeFor[permission.Profile]():
		return d.profile()
	case reflect.TypeFor[permission.Network]():
		return d.part(d.profile(), "network")
	case reflect.TypeFor[permission.Entry]():
		return d.part(d.part(d.profile(), "file_system"), "entries").Items
	}
	return nil
}

// profile is the schema of a profile, which has a form of its own on the wire.
func (d *drawer) profile() *jsonschema.Schema {
	d.Helper()
	s := &jsonschema.Schema{}
	if err := json.Unmarshal(permission.Schema(), s); err != nil {
		d.Fatal(err)
	}
	s.Version, s.ID = "", ""
	return s
}

func (d *drawer) part(of *jsonschema.Schema, name string) *jsonschema.Schema {
	d.Helper()
	s, ok := of.Properties.Get(name)
	if !ok {
		d.Fatalf("the schema of a profile has no %s", name)
	}
	return s
}

// refer puts a type among the schemas, and returns a reference to it.
func (d *drawer) refer(v any, r *jsonschema.Reflector) map[string]any {
	d.Helper()
	raw, err := json.Marshal(r.Reflect(v))
	if err != nil {
		d.Fatal(err)
	}
	raw = bytes.ReplaceAll(raw, []byte(`"#/$defs/`), []byte(`"#/components/schemas/`))
	var s struct {
		Ref  string                     `json:"$ref"`
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		d.Fatal(err)
	}
	for key, schema := range s.Defs {
		if d.schemas[key] == nil {
			d.schemas[key] = schema
		}
	}
	if s.Ref == "" {
		d.Fatalf("no schema for %T", v)
	}
	return map[string]any{"$ref": s.Ref}
}

func (d *drawer) content(media string, v any, r *jsonschema.Reflector) map[string]any {
	d.Helper()
	switch v.(type) {
	case string:
		return map[string]any{media: map[string]any{"schema": text}}
	case map[string]any:
		return map[string]any{"application/json": map[string]any{"schema": map[string]any{"type": "object"}}}
	default:
		return map[string]any{"application/json": map[string]any{"schema": d.refer(v, r)}}
	}
}

func (d *drawer) operation(route string, c call) map[string]any {
	d.Helper()
	method, path, _ := strings.Cut(route, " ")
	id := strings.NewReplacer("/v1", "", "{", "", "}", "", ".json", "").Replace(path)
	op := map[string]any{"operationId": strings.ToLower(method) + strings.ReplaceAll(id, "/", "_"), "summary": c.summary}
	if c.text != "" {
		op["description"] = c.text
	}
	if c.body != nil {
		op["requestBody"] = map[string]any{"required": true, "content": d.content("", c.body, d.closed)}
	}
	params := []any{}
	for _, p := range c.params {
		one := map[string]any{"in": p.in, "name": p.name, "description": p.text, "schema": p.schema}
		if p.required {
			one["required"] = true
		}
		if p.many {
			one["schema"], one["explode"] = map[string]any{"type": "array", "items": p.schema}, true
		}
		params = append(params, one)
	}
	params = append(params, map[string]any{"$ref": "#/components/parameters/principal"})
	op["parameters"] = params
	responses := map[string]any{}
	for status, answer := range c.answers {
		one := map[string]any{"description": http.StatusText(status)}
		if answer != nil {
			one["content"] = d.content(c.media, answer, d.open)
		}
		responses[strconv.Itoa(status)] = one
	}
	byStatus := map[int][]string{}
	for _, code := range slices.Concat(every, c.codes) {
		byStatus[code.Status()] = append(byStatus[code.Status()], string(code))
	}
	for status, codes := range byStatus {
		slices.Sort(codes)
		one := map[string]any{
			"description": "Code " + strings.Join(slices.Compact(codes), ", ") + ".", "content": d.content("", api.Failure{}, d.open),
		}
		if before, ok := responses[strconv.Itoa(status)].(map[string]any); ok {
			// Health answers 503 in a form of its own.
			schemas := []any{}
			for _, content := range []any{before["content"], one["content"]} {
				schemas = append(schemas, content.(map[string]any)["application/json"].(map[string]any)["schema"])
			}
			one["content"] = map[string]any{"application/json": map[string]any{"schema": map[string]any{"oneOf": schemas}}}
		}
		responses[strconv.Itoa(status)] = one
	}
	op["responses"] = responses
	return op
}

func TestOpenAPI(t *testing.T) {
	t.Chdir("..") // comments are looked up by the path of their package
	d := newDrawer(t)
	paths := map[string]map[string]any{}
	for _, route := range server.Routes() {
		c, ok := calls[route]
		if !ok {
			t.Errorf("%s is not described", route)
			continue
		}
		method, path, _ := strings.Cut(route, " ")
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		for rest := path; strings.Contains(rest, "{"); {
			_, rest, _ = strings.Cut(rest, "{")
			var variable string
			variable, rest, _ = strings.Cut(rest, "}")
			if !slices.ContainsFunc(c.params, func(p param) bool { return p.in == "path" && p.name == variable }) {
				t.Errorf("%s does not describe {%s}", route, variable)
			}
		}
		paths[path][strings.ToLower(method)] = d.operation(route, c)
	}
	for route := range calls {
		if !slices.Contains(server.Routes(), route) {
			t.Errorf("%s is described and not there", route)
		}
	}
	for _, v := range []any{approval.Event{}, api.Notice{}, api.Open{}} {
		d.refer(v, d.open) // the data of events
	}
	document := map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "Regent", "version": "1", "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "What AI agents may do. On the daemon's Unix socket the calling process tells who calls; over TCP, which is off unless it is configured, a bearer token does.",
		},
		"servers":  []any{map[string]any{"url": "http://127.0.0.1:7340", "description": "The address of server.http."}},
		"security": []any{map[string]any{}, map[string]any{"token": []any{}}},
		"paths":    paths,
		"components": map[string]any{
			"schemas":         d.schemas,
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}},
			"parameters": map[string]any{"principal": map[string]any{
				"in": "header", "name": api.HeaderPrincipal, "schema": text,
				"description": "On the socket: speak as this principal of the configuration, with no more than that one's rights. Agents may not.",
			}},
		},
	}
	var got bytes.Buffer
	encoder := json.NewEncoder(&got)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(document); err != nil {
		t.Fatal(err)
	}
	const file = "server/openapi.json"
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s is not what the routes and types say; go test ./server -run TestOpenAPI -update writes it (-want +got):\n%s", file, diff)
	}
}

// documented holds what a daemon has answered in a test to its description.
func documented(t testing.TB, s *server.Server) {
	t.Helper()
	answered, err := s.Answered()
	if err != nil {
		t.Fatal(err)
	}
	for route, statuses := range answered {
		if route == "none" {
			continue
		}
		c, ok := calls[route]
		if !ok {
			t.Errorf("%s is not described", route)
		}
		for _, status := range statuses {
			of := func(code api.Code) bool { return fmt.Sprint(code.Status()) == status }
			n, err := strconv.Atoi(status)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := c.answers[n]; !ok && !slices.ContainsFunc(slices.Concat(every, c.codes), of) {
				t.Errorf("%s answers %s, which is not described", route, status)
			}
		}
	}
}

func TestOpenAPIIsServed(t *testing.T) {
	d := start(t, setup{})
	got, err := d.OpenAPI(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		OpenAPI string                                `json:"openapi"`
		Paths   map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(got, &document); err != nil {
		t.Fatal(err)
	}
	var routes []string
	for path, methods := range document.Paths {
		for method := range methods {
			routes = append(routes, strings.ToUpper(method)+" "+path)
		}
	}
	want := server.Routes()
	slices.Sort(want)
	slices.Sort(routes)
	if diff := cmp.Diff(want, routes); diff != "" || document.OpenAPI != "3.1.0" {
		t.Errorf("OpenAPI %s has the calls (-want +got):\n%s", document.OpenAPI, diff)
	}
}

func TestEveryCodeIsDescribed(t *testing.T) {
	var described []api.Code
	for _, c := range calls {
		described = append(described, c.codes...)
	}
	described = append(described, every...)
	for _, code := range api.Codes() {
		switch code {
		case api.NoRoute, api.MethodNotAllowed: // of no call
		default:
			if !slices.Contains(described, code) {
				t.Errorf("no call can end with %s", code)
			}
		}
	}
}
