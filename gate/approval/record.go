package approval

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/permission"
)

// Record is the durable form of one request and of all that came of it. Its
// JSON form is what the API, the command line and an export show. All times are
// UTC in whole milliseconds; the zero time means that it has not happened.
//
// A Record is a value: the transitions return the next one and leave theirs as
// it was. What its pointers and slices hold is never changed once it is made.
type Record struct {
	// ID is random and tells nothing about the request.
	ID string `json:"id"`
	// Revision counts the transitions, from 1.
	Revision int64 `json:"revision"`
	State    State `json:"state"`
	// Workspace is the folder that the request belongs to, "" for none.
	Workspace string `json:"workspace,omitempty"`
	// Run is the execution that asked, and Instance the process of it that
	// waits. Another instance can do nothing with this record.
	Run      string `json:"run,omitempty"`
	Instance string `json:"instance"`
	// Request is what was asked, with secrets masked as well as [Redact] can.
	// It is for people to read; what runs is what the asking host holds.
	Request *Request `json:"request"`
	// Masked lists the parts of Request in which something was masked, as JSON
	// Pointers.
	Masked []string `json:"masked,omitempty"`
	// Digest names the exact action, secrets included: see [Digest].
	Digest string `json:"digest"`
	// Operands are the files that the action runs, as they were when it was asked
	// about. The digest does not bind what they hold; these do.
	Operands []Operand `json:"operands,omitempty"`
	// Ruling holds effects, the rules that fired, the reasons and the epoch. A
	// new epoch replaces it while the request waits. Texts in it are masked too.
	Ruling Ruling `json:"ruling"`
	// Reviewers are those who may be asked, as they were configured at the time.
	Reviewers []ReviewerIdentity `json:"reviewers,omitempty"`
	// Options are the answers to choose from, each verbatim JSON, in the order
	// in which they were offered. A secret in them is masked, so the one who
	// sends the answer takes the original at [Record.OptionIndex].
	Options []json.RawMessage `json:"options"`
	// Decision is nil until there is one. It never changes after that.
	Decision *Decision `json:"decision,omitempty"`
	// Shadow are the verdicts of reviewers that were asked beside the others. They
	// had no part in the decision, and are noted when there is one or none will be.
	Shadow []Verdict `json:"shadow,omitempty"`
	// Closing says why the record ended; nil while it has not.
	Closing *Closing `json:"closing,omitempty"`
	// Created is when the request was taken in, and Updated when the last
	// transition was made.
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// Deadline is when an unanswered request expires. Nothing moves it.
	Deadline time.Time `json:"deadline"`
	// ReviewDeadline is when reviewers are no longer waited for.
	ReviewDeadline time.Time `json:"review_deadline,omitzero"`
	// Writing is when the answer was about to be written to the harness.
	Writing time.Time `json:"writing,omitzero"`
	// Fenced is when an action was let start on the strength of the record. That
	// happens once.
	Fenced time.Time `json:"fenced,omitzero"`
	// Lease is until when the instance is known to live. It belongs to the
	// instance, so renewing it is no transition of the record.
	Lease time.Time `json:"lease,omitzero"`
}

// ReviewerIdentity is a reviewer as it was configured when it was asked.
type ReviewerIdentity struct {
	Name string `json:"name"`
	// Fingerprint is the SHA-256 of its configuration without credentials.
	Fingerprint string `json:"fingerprint"`
}

// Operand is a file that an action runs: a script, or a program that is named by
// its path.
type Operand struct {
	Path string `json:"path"`
	// SHA256 is that of what the file held, in lower-case hexadecimal.
	SHA256 string `json:"sha256,omitempty"`
	// Problem says why there is no SHA256: the file is missing, too large or no
	// regular file. Two operands with a problem are never known to be the same.
	Problem string `json:"problem,omitempty"`
}

// validate refuses an operand with neither a hash nor a problem, which would
// later be equal to any other of that kind.
func (o Operand) validate() error {
	switch {
	case o.Path == "" || !utf8.ValidString(o.Path):
		return fmt.Errorf("%w: an operand with the path %q", ErrInvalid, o.Path)
	case (o.SHA256 == "") == (o.Problem == ""):
		return fmt.Errorf("%w: the operand %s needs a SHA-256 or a problem, and not both", ErrInvalid, o.Path)
	case o.SHA256 != "" && !sha256Hex(o.SHA256):
		return fmt.Errorf("%w: the operand %s has no SHA-256 in lower-case hexadecimal", ErrInvalid, o.Path)
	}
	return nil
}

func sha256Hex(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == sha256.Size && strings.ToLower(s) == s
}

// Outcome is what a decision means, whatever words the harness has for it.
type Outcome string

// The outcomes.
const (
	OutcomeAllow Outcome = "allow"
	OutcomeDeny  Outcome = "deny"
	// OutcomeCancel denies and ends the turn or run.
	OutcomeCancel Outcome = "cancel"
)

// Source says what kind of thing decided.
type Source string

// The sources.
const (
	SourceRule     Source = "rule"
	SourceReviewer Source = "reviewer"
	SourceHuman    Source = "human"
	// SourceGrant is what was granted to the turn or the session before, or an
	// acceptance for the session.
	SourceGrant Source = "grant"
	// SourceAuto is a mode of the configuration that accepts by itself.
	SourceAuto Source = "auto"
	// SourceTimeout is a wait that ended where no human could be asked.
	SourceTimeout Source = "timeout"
)

// Decision is the outcome of a request.
type Decision struct {
	// Option is one of the record's options, verbatim.
	Option  json.RawMessage `json:"option"`
	Outcome Outcome         `json:"outcome"`
	Source  Source          `json:"source"`
	// By is the id of the rule, the name of the reviewer or the principal. Only
	// auto and timeout may leave it out.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Settlement is what was granted, what was dropped and whether the answer
	// went beyond the request. It is nil where no permissions were asked for.
	Settlement *permission.Settlement `json:"settlement,omitempty"`
	// Verdicts are those that a decision after a review rests on.
	Verdicts []Verdict `json:"verdicts,omitempty"`
	// Rules are the verdict rules that fired on them and are enforced, and Observed
	// those that only warn or shadow.
	Rules    []Match `json:"rules,omitempty"`
	Observed []Match `json:"observed,omitempty"`
	// At is set by the transition.
	At time.Time `json:"at"`
}

// Closing tells who ended a record, and why.
type Closing struct {
	Reason string    `json:"reason"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
}

// Draft is what a new record is made from.
type Draft struct {
	// Request is the request as it came. New keeps a masked copy only.
	Request *Request
	Ruling  Ruling
	// Instance is the process that waits for the answer.
	Instance  string
	Workspace string
	Reviewers []ReviewerIdentity
	// Operands are the files that the action runs, each with a SHA-256 or with
	// the problem that there was with it.
	Operands []Operand
}

// NativeOptions are offered where a request brings no options of its own.
var NativeOptions = []json.RawMessage{json.RawMessage(`"allow"`), json.RawMessage(`"deny"`), json.RawMessage(`"cancel"`)}

// New makes the pending record of a request, with a fresh id. It fails with
// [ErrRequest] if the request is malformed and with [ErrInvalid] if the draft
// lacks an instance, an epoch or a time to wait, or has a malformed operand.
func New(d Draft, at time.Time) (Record, error) {
	at = Instant(at)
	if d.Request == nil {
		return Record{}, fmt.Errorf("%w: no request", ErrInvalid)
	}
	if err := d.Request.Validate(); err != nil {
		return Record{}, err
	}
	switch {
	case d.Instance == "":
		return Record{}, fmt.Errorf("%w: no instance", ErrInvalid)
	case d.Ruling.Epoch == "":
		return Record{}, fmt.Errorf("%w: no epoch", ErrInvalid)
	case d.Ruling.Deadlines.RequestSeconds <= 0:
		return Record{}, fmt.Errorf("%w: no time to wait", ErrInvalid)
	}
	for _, o := range d.Operands {
		if err := o.validate(); err != nil {
			return Record{}, err
		}
	}
	digest, err := Digest(d.Request)
	if err != nil {
		return Record{}, err
	}
	masked, where, err := Redact(d.Request)
	if err != nil {
		return Record{}, err
	}
	options, err := offered(d.Request.Options)
	if err != nil {
		return Record{}, err
	}
	// What the record offers is held once: the copy in the request is dropped.
	masked.Options = nil
	r := Record{
		ID:        NewID(),
		Revision:  1,
		State:     Pending,
		Workspace: d.Workspace,
		Instance:  d.Instance,
		Request:   masked,
		Masked:    where,
		Digest:    digest,
		Operands:  slices.Clone(d.Operands),
		Ruling:    redactRuling(d.Ruling),
		Reviewers: slices.Clone(d.Reviewers),
		Options:   options,
		Created:   at,
		Updated:   at,
		Deadline:  at.Add(time.Duration(d.Ruling.Deadlines.RequestSeconds) * time.Second),
	}
	if d.Request.Run != nil {
		r.Run = d.Request.Run.ID
	}
	r.ReviewDeadline = r.reviewUntil(d.Ruling, at)
	return r, nil
}

// reviewUntil bounds a review that starts at an instant; it never outlasts the
// request.
func (r Record) reviewUntil(ruling Ruling, at time.Time) time.Time {
	if ruling.Route != RouteReview {
		return time.Time{}
	}
	until := at.Add(time.Duration(ruling.Deadlines.ReviewSeconds) * time.Second)
	if until.After(r.Deadline) {
		return r.Deadline
	}
	return until
}

// offered makes the options of a record from those of a request. Masking must
// not make two answers look the same, since one of them would be unreachable.
func offered(options []json.RawMessage) ([]json.RawMessage, error) {
	if len(options) == 0 {
		return slices.Clone(NativeOptions), nil
	}
	var out, exact []json.RawMessage
	for i, o := range options {
		c, err := canonical(o)
		if err != nil {
			return nil, &RequestError{Pointer: fmt.Sprintf("/options/%d", i), Message: plain(err)}
		}
		shown, touched, err := redactValue(jsontext.Value(o))
		if err != nil {
			return nil, &RequestError{Pointer: fmt.Sprintf("/options/%d", i), Message: plain(err)}
		}
		if touched {
			for j, before := range out {
				if sameJSON(before, json.RawMessage(shown)) && !bytes.Equal(exact[j], c) {
					shown = jsontext.Value(fmt.Sprintf(`"option %d: %s"`, i+1, mask))
				}
			}
		}
		out, exact = append(out, json.RawMessage(shown)), append(exact, json.RawMessage(c))
	}
	return out, nil
}

// OptionIndex returns the place of an answer among the options, or -1. White
// space and the order of members do not matter; everything else does.
func (r Record) OptionIndex(option json.RawMessage) int {
	return slices.IndexFunc(r.Options, func(o json.RawMessage) bool { return sameJSON(o, option) })
}

func sameJSON(one, two json.RawMessage) bool {
	c1, err1 := canonical(one)
	c2, err2 := canonical(two)
	return err1 == nil && err2 == nil && bytes.Equal(c1, c2)
}

// NewID returns an id of more than 128 random bits. Ids from a clock collide,
// and an approval then attaches to another call.
func NewID() string { return strings.ToLower(rand.Text()) }

// Instant is t as records hold it: UTC, in whole milliseconds.
func Instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Digest names the exact action of a request: the SHA-256, in hexadecimal, of
// the canonical JSON of kind, tool, arguments, command, changes, environment id
// and cwd, and of the host, the permissions, the escalation and the folder that
// are asked for. What the agent says about the call has no part in it.
//
// Two requests with one digest ask for the same; numbers are compared as they
// are written, so that no two of them fall together. What a command's files
// hold is not in the request, hence not bound: see [Record.Operands]. A request that has no single
// reading (a name given twice, invalid UTF-8) is an [ErrRequest].
func Digest(r *Request) (string, error) {
	type tool struct {
		Name      string          `json:"name"`
		Server    string          `json:"server,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}
	action := struct {
		Kind        Kind                `json:"kind"`
		Tool        *tool               `json:"tool,omitempty"`
		Command     *Command            `json:"command,omitempty"`
		Changes     []Change            `json:"changes,omitempty"`
		GrantRoot   string              `json:"grant_root,omitempty"`
		Network     *Network            `json:"network,omitempty"`
		Permissions *permission.Profile `json:"permissions,omitempty"`
		Escalated   bool                `json:"escalated,omitzero"`
		Environment string              `json:"environment,omitempty"`
		Cwd         string              `json:"cwd,omitempty"`
	}{
		Kind: r.Kind, Command: r.Command, Changes: r.Changes, GrantRoot: r.GrantRoot, Network: r.Network,
		Permissions: r.Permissions, Escalated: r.Escalated,
	}
	if r.Tool != nil {
		action.Tool = &tool{r.Tool.Name, r.Tool.Server, r.Tool.Arguments}
	}
	if r.Environment != nil {
		action.Environment, action.Cwd = r.Environment.ID, r.Environment.Cwd
	}
	text, err := jsonv2.Marshal(action)
	if err != nil {
		return "", decodeError(err)
	}
	text, err = canonical(text)
	if err != nil {
		return "", decodeError(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// canonical is RFC 8785 but for numbers, which keep their spelling: as float64
// 9007199254740993 and 9007199254740992 would be one.
func canonical(text []byte) ([]byte, error) {
	v := jsontext.Value(bytes.Clone(text))
	if err := v.Format(jsontext.ReorderRawObjects(true)); err != nil {
		return nil, err
	}
	return v, nil
}
