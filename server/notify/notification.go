package notify

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
)

// Version is that of the form of a [Notification]. Fields are added without a new
// one, so readers pass over what they do not know.
const Version = 1

const (
	// MaxSummary is the longest summary, in characters.
	MaxSummary = 200
	// MaxRequest is the largest request that goes along, in bytes of JSON.
	MaxRequest = 64 << 10
	// maxLooked is how much of a text is looked at for a line of it, in bytes.
	maxLooked = 64 << 10
)

// Notification is one thing that a notifier is told, as it is told. What Regent
// knows to be a secret is masked in it. What an agent wrote, the summary and the
// request among it, is never to be trusted, nor run.
type Notification struct {
	Version int `json:"version"`
	// ID is the same each time that one notification is told, and no other has it.
	ID    string               `json:"id"`
	Event config.NotifierEvent `json:"event"`
	// At is when it happened.
	At time.Time `json:"at"`

	// Record, Revision and State are those of the approval. They and what follows
	// are missing from a notice.
	Record   string         `json:"record,omitempty"`
	Revision int64          `json:"revision,omitempty,omitzero"`
	State    approval.State `json:"state,omitempty"`
	// Workspace is the folder that it belongs to; a notice may have one too.
	Workspace string `json:"workspace,omitempty"`
	Run       string `json:"run,omitempty"`
	Session   string `json:"session,omitempty"`
	Turn      string `json:"turn,omitempty"`
	Call      string `json:"call,omitempty"`
	// Subject is who asks, and OnBehalfOf for whom.
	Subject    string `json:"subject,omitempty"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"`

	Kind     approval.Kind     `json:"kind,omitempty"`
	Effects  []approval.Effect `json:"effects,omitempty"`
	External bool              `json:"external,omitempty,omitzero"`
	Route    approval.Route    `json:"route,omitempty"`
	// Deadline is when a request that waits expires.
	Deadline time.Time `json:"deadline,omitzero"`
	// Outcome, Source and By are those of a decision.
	Outcome approval.Outcome `json:"outcome,omitempty"`
	Source  approval.Source  `json:"source,omitempty"`
	By      string           `json:"by,omitempty"`
	// Answer is the command by which a person looks at a request that waits.
	Answer string `json:"answer,omitempty"`
	// Topic is what a notice is about, and Epoch the rules that it is about.
	Topic gate.NoticeKind `json:"topic,omitempty"`
	Epoch string          `json:"epoch,omitempty"`

	// Summary is a line about what is asked, or what a notice says, of at most
	// [MaxSummary] characters that can all be seen. With details none it is missing.
	Summary string `json:"summary,omitempty"`
	// Reason is why it was decided or ended, in a line like the summary.
	Reason string `json:"reason,omitempty"`
	// Request is what was asked, as it is recorded, with details request alone.
	Request json.RawMessage `json:"request,omitempty"`
	// RequestOmitted says that the request is larger than [MaxRequest].
	RequestOmitted bool `json:"request_omitted,omitempty,omitzero"`
}

// within returns n with no more than the details have.
func (n Notification) within(details config.NotifierDetails) Notification {
	switch details {
	case config.DetailsRequest:
	case config.DetailsSummary:
		n.Request, n.RequestOmitted = nil, false
	default:
		n.Summary, n.Reason, n.Request, n.RequestOmitted = "", "", nil, false
	}
	return n
}

func idOf(record string, revision int64, event config.NotifierEvent) string {
	return fmt.Sprintf("%s.%d.%s", record, revision, event)
}

// ofEvent is what an event of the ledger says by itself.
func ofEvent(e *approval.Event, event config.NotifierEvent) Notification {
	return Notification{
		Version: Version, ID: idOf(e.ID, e.Revision, event), Event: event, At: e.At.UTC(),
		Record: e.ID, Revision: e.Revision, State: e.State, Workspace: e.Workspace,
		Outcome: e.Outcome, Source: e.Source, By: e.By,
	}
}

// ofNotice is a notice. Its number is that of one process, so the id has the time.
func ofNotice(n *gate.Notice) Notification {
	return Notification{
		Version: Version, ID: fmt.Sprintf("notice.%d.%d", n.At.UnixMilli(), n.Seq), Event: config.NotifyNotice, At: n.At.UTC(),
		Workspace: n.Workspace, Topic: n.Kind, Epoch: n.Epoch, Summary: line(n.Message),
	}
}

// about adds what the record has. With whole the request goes along.
func (n *Notification) about(r *approval.Record, whole bool) {
	n.Run = r.Run
	n.Effects, n.External, n.Route = r.Ruling.Effects, r.Ruling.External, r.Ruling.Route
	q := r.Request
	if q == nil {
		return
	}
	n.Kind, n.Summary = q.Kind, summary(q)
	if s := q.Session; s != nil {
		n.Session, n.Turn, n.Call = s.ID, s.TurnID, s.CallID
	}
	if s := q.Subject; s != nil {
		n.Subject, n.OnBehalfOf = s.ID, s.OnBehalfOf
	}
	if whole {
		text, err := json.Marshal(q)
		n.RequestOmitted = err != nil || len(text) > MaxRequest
		if !n.RequestOmitted {
			n.Request = text
		}
	}
}

// summary says in a line what a request asks. It names the tool and not its
// arguments, which can be all of a file.
func summary(r *approval.Request) string {
	var what string
	switch {
	case r.Command != nil:
		what = r.Command.Line()
	case r.Kind == approval.KindFileChange:
		what = changesText(r.Changes)
	case r.Kind == approval.KindNetwork && r.Network != nil:
		what = r.Network.Host
		if r.Network.Port != 0 {
			what += ":" + strconv.Itoa(r.Network.Port)
		}
	case r.Kind == approval.KindPermissions && r.Permissions != nil:
		what = r.Permissions.String()
	case r.Tool != nil:
		what = strings.TrimSpace(r.Tool.Server + " " + r.Tool.Name)
	}
	return line(string(r.Kind) + ": " + what)
}

func changesText(changes []approval.Change) string {
	if len(changes) == 0 {
		return "the content is not known"
	}
	text := changes[0].Operation + " " + changes[0].Path
	if more := len(changes) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// line makes the text of others fit to be read in one line: secrets masked, cut
// short, and what cannot be seen shown by its code.
func line(text string) string {
	// A command can be of megabytes, and what is shown is near its beginning. It is
	// masked before it is cut short, since a mask has to see all of a secret.
	text = approval.RedactText(text[:min(len(text), maxLooked)])
	var b strings.Builder
	length := 0
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		shown := text[:size]
		switch {
		case r == utf8.RuneError && size == 1:
			shown = fmt.Sprintf(`\x%02x`, text[0])
		case !unicode.IsPrint(r):
			shown = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		}
		length += utf8.RuneCountInString(shown)
		if length > MaxSummary || length == MaxSummary && size < len(text) {
			b.WriteString("…")
			break
		}
		b.WriteString(shown)
		text = text[size:]
	}
	return b.String()
}
