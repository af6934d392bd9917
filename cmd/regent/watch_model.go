package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
)

// settleTime is how long a request that came up by itself takes no answer: the
// key that is being pressed was meant for another one.
const settleTime = time.Second

// Bounds of a screen and of what is typed into it.
const (
	minColumns, minRows = 40, 12
	maxReason           = 500
)

// watchMode is what the keys are for.
type watchMode int

const (
	modeBrowse watchMode = iota
	modeConfirm
	modeReason
	modeProof
)

// answerOrder is an answer that a person has confirmed.
type answerOrder struct {
	id       string
	revision int64
	decision api.Decision
}

// watchModel is what the live view shows and how keys change it. It does
// nothing itself: an answer is handed out as an order.
type watchModel struct {
	now           time.Time
	columns, rows int
	who           string
	// trouble says why the queue may be old; empty while it is not.
	trouble string
	// said is the last thing to tell, and alarmed that it matters.
	said    string
	alarmed bool

	// queue are the requests that wait, the oldest first.
	queue    []approval.Record
	selected string
	// came is when the selected request came up by itself; zero where it was
	// chosen.
	came time.Time
	// first is the first line of it that is shown, and seen how many lines from
	// its first one have been on the screen, of the revision and width in seenOf.
	first, seen int
	seenOf      string
	lines, page int
	wide        bool
	// body is the selected request in lines of the screen's width.
	body []row

	mode   watchMode
	choice int
	reason string
	typed  string // what is being typed
	// order is the answer that needs a proof, or that is on its way.
	order  *answerOrder
	prover string
	busy   bool
}

// tell says something in the line above the keys.
func (m *watchModel) tell(alarmed bool, format string, args ...any) {
	m.said, m.alarmed = printable(fmt.Sprintf(format, args...)), alarmed
}

func (m *watchModel) index() int {
	return slices.IndexFunc(m.queue, func(r approval.Record) bool { return r.ID == m.selected })
}

// current is the selected request, nil where there is none.
func (m *watchModel) current() *approval.Record {
	if i := m.index(); i >= 0 {
		return &m.queue[i]
	}
	return nil
}

// choose selects a request. by itself says that nobody did.
func (m *watchModel) choose(id string, byItself bool) {
	if m.selected == id {
		return
	}
	m.selected, m.first, m.reason = id, 0, ""
	m.came = time.Time{}
	if byItself {
		m.came = m.now
	}
	if m.mode != modeBrowse {
		m.leave()
	}
}

// leave drops what was being typed or confirmed.
func (m *watchModel) leave() {
	m.mode, m.typed, m.choice = modeBrowse, "", 0
	if !m.busy {
		m.order = nil
	}
}

// older is the order of the queue.
func older(a, b approval.Record) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	return strings.Compare(a.ID, b.ID)
}

// replace takes all requests that wait.
func (m *watchModel) replace(all []approval.Record) {
	before := m.current()
	m.queue = nil
	for _, r := range all {
		if r.State == approval.Pending {
			m.queue = append(m.queue, r)
		}
	}
	slices.SortFunc(m.queue, older)
	if after := m.current(); before != nil && after != nil && before.Revision != after.Revision {
		m.changed()
	}
	m.settle()
}

// put takes one request as it is now.
func (m *watchModel) put(r approval.Record) {
	if r.State != approval.Pending {
		m.remove(r.ID, "")
		return
	}
	i := slices.IndexFunc(m.queue, func(q approval.Record) bool { return q.ID == r.ID })
	switch {
	case i < 0:
		at, _ := slices.BinarySearchFunc(m.queue, r, older)
		m.queue = slices.Insert(m.queue, at, r)
		m.settle()
	case m.queue[i].Revision < r.Revision:
		m.queue[i] = r
		if r.ID == m.selected {
			m.changed()
		}
	}
}

// changed is for a selected request that is not what was read.
func (m *watchModel) changed() {
	m.first = 0
	if m.mode != modeBrowse {
		m.leave()
	}
	m.tell(true, "the rules changed, and with them this request: read it again")
}

// remove drops a request that waits no more. why is for people, empty where they
// know.
func (m *watchModel) remove(id, why string) {
	i := slices.IndexFunc(m.queue, func(q approval.Record) bool { return q.ID == id })
	if i < 0 {
		return
	}
	what := recordLine(&m.queue[i])
	m.queue = slices.Delete(m.queue, i, i+1)
	if id == m.selected {
		if why != "" {
			m.tell(false, "%s: %s", why, what)
		}
		next := ""
		if len(m.queue) > 0 {
			next = m.queue[min(i, len(m.queue)-1)].ID
		}
		m.choose(next, true)
	}
}

// settle selects something where nothing is.
func (m *watchModel) settle() {
	if m.index() >= 0 {
		return
	}
	next := ""
	if len(m.queue) > 0 {
		next = m.queue[0].ID
	}
	m.choose(next, true)
}

// heard takes an event about a request that waits no more.
func (m *watchModel) heard(e *approval.Event) {
	why := string(e.State)
	if e.Outcome != "" {
		why = string(e.Outcome)
	}
	if e.By != "" {
		why += " by " + e.By
	}
	m.remove(e.ID, why)
}

// optionKeys are the keys for options, in their order; none of them does
// anything else.
const optionKeys = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// press takes a key. It returns an order where one was confirmed, and true to
// end.
func (m *watchModel) press(k key) (order *answerOrder, quit bool) {
	if k.name == keyInterrupt {
		return nil, true
	}
	if k.pasted && m.mode != modeReason && m.mode != modeProof {
		m.tell(true, "pasted text answers nothing")
		return nil, false
	}
	switch m.mode {
	case modeReason, modeProof:
		return m.enter(k), false
	case modeConfirm:
		return m.confirm(k), false
	default:
		return nil, m.browse(k)
	}
}

func (m *watchModel) browse(k key) (quit bool) {
	m.said, m.alarmed = "", false
	switch {
	case k.name == keyUp || k.char == 'k':
		m.step(-1)
	case k.name == keyDown || k.char == 'j':
		m.step(1)
	case k.name == keyPageDown || k.char == ' ':
		m.scroll(max(m.page-1, 1))
	case k.name == keyPageUp || k.char == 'b':
		m.scroll(-max(m.page-1, 1))
	case k.name == keyHome:
		m.scroll(-m.lines)
	case k.name == keyEnd:
		m.scroll(m.lines)
	case k.name == keyEnter:
		m.wide = !m.wide && m.current() != nil
	case k.name == keyEscape:
		m.wide = false
	case k.name != keyRune:
	case k.char == 'q':
		return true
	case k.char == 'r' && m.current() != nil:
		m.mode, m.typed = modeReason, m.reason
	case strings.ContainsRune(optionKeys, k.char):
		m.pick(strings.IndexRune(optionKeys, k.char))
	}
	return false
}

// step selects the next request, or the one before.
func (m *watchModel) step(by int) {
	if len(m.queue) == 0 {
		return
	}
	m.choose(m.queue[min(max(m.index()+by, 0), len(m.queue)-1)].ID, false)
	m.came = time.Time{}
}

func (m *watchModel) scroll(by int) {
	m.first = min(max(m.first+by, 0), max(m.lines-m.page, 0))
}

// pick takes up an option, to be confirmed.
func (m *watchModel) pick(i int) {
	r := m.current()
	if r == nil || i >= len(r.Options) {
		return
	}
	meaning, _ := approval.OptionMeaning(r.Options[i])
	switch {
	case m.busy:
		m.tell(true, "an answer is on its way")
	case m.trouble != "":
		m.tell(true, "what is shown may be old: %s", m.trouble)
	case !m.came.IsZero() && m.now.Sub(m.came) < settleTime:
		m.tell(true, "this request has just come up: read it, then answer")
	case meaning.Outcome == approval.OutcomeAllow && m.seen < m.lines:
		m.tell(true, "%s below have not been on the screen: space shows them, then answer", plural(m.lines-m.seen, "line"))
	default:
		m.mode, m.choice = modeConfirm, i
	}
}

// confirm gives an order, if the key says so and nothing else.
func (m *watchModel) confirm(k key) *answerOrder {
	r, choice := m.current(), m.choice
	m.leave()
	if k.name != keyRune || k.char != 'y' || r == nil {
		m.tell(false, "nothing was answered")
		return nil
	}
	return m.send(&answerOrder{
		id: r.ID, revision: r.Revision,
		decision: api.Decision{Option: r.Options[choice], Reason: m.reason},
	})
}

func (m *watchModel) send(order *answerOrder) *answerOrder {
	m.order, m.busy = order, true
	m.tell(false, "sending the answer")
	return order
}

// enter edits what is being typed.
func (m *watchModel) enter(k key) *answerOrder {
	switch k.name {
	case keyEscape:
		m.leave()
		m.tell(false, "nothing was answered")
	case keyBackspace:
		if m.typed != "" {
			_, n := utf8.DecodeLastRuneInString(m.typed)
			m.typed = m.typed[:len(m.typed)-n]
		}
	case keyEnter:
		if m.mode == modeReason {
			m.reason = strings.TrimSpace(m.typed)
			m.leave()
			return nil
		}
		order, proof := m.order, m.typed
		m.leave()
		if proof == "" || order == nil {
			m.tell(false, "nothing was answered")
			return nil
		}
		order.decision.Proof = proof
		return m.send(order)
	case keyRune:
		if len(m.typed) < maxReason && (unicode.IsPrint(k.char) || m.mode == modeProof && !unicode.IsControl(k.char)) {
			m.typed += string(k.char)
		}
	}
	return nil
}

// done takes what came of an order. prover is whose proof is needed.
func (m *watchModel) done(order *answerOrder, r *approval.Record, err error, prover string) {
	m.busy = false
	order.decision.Proof = ""
	m.order = nil
	if err == nil {
		m.remove(r.ID, "")
		outcome := r.State
		if r.Decision != nil {
			outcome = approval.State(r.Decision.Outcome)
		}
		m.tell(false, "%s: %s", outcome, recordLine(r))
		return
	}
	refusal, ok := errors.AsType[*api.Error](err)
	if ok && refusal.Code == api.StepUp && m.selected == order.id {
		m.mode, m.typed, m.order, m.prover = modeProof, "", order, prover
		return
	}
	m.tell(true, "not answered: %s", err)
	if ok && refusal.Record != nil {
		said := m.said
		m.put(*refusal.Record)
		m.said, m.alarmed = said, true
	}
}

// frame is the screen, a row for each of the terminal's.
func (m *watchModel) frame() []row {
	if m.columns < minColumns || m.rows < minRows {
		rows := []row{{text: fmt.Sprintf("the terminal is %dx%d; make it %dx%d", m.columns, m.rows, minColumns, minRows), style: styleAlert}}
		return padded(rows, m.rows)
	}
	rows := []row{m.title()}
	queue := 0
	if !m.wide {
		queue = min(len(m.queue), max(3, (m.rows-5)/3))
		rows = append(rows, m.list(queue)...)
	}
	m.page = m.rows - len(rows) - 3 // the rule, and two rows below
	m.measure()
	rows = append(rows, row{text: m.rule(), style: styleQuiet})
	rows = append(rows, padded(m.details(), m.page)...)
	return append(rows, m.message(), row{text: m.keys(), style: styleQuiet})
}

func padded(rows []row, n int) []row {
	for len(rows) < n {
		rows = append(rows, row{})
	}
	return rows[:max(n, 0)]
}

func (m *watchModel) title() row {
	text := fmt.Sprintf("regent  %d waiting", len(m.queue))
	if m.who != "" {
		text += "  as " + printable(m.who)
	}
	if m.trouble != "" {
		return row{text: text + "  " + printable(m.trouble), style: styleAlert}
	}
	return row{text: text, style: styleTitle}
}

// list are the requests around the selected one.
func (m *watchModel) list(n int) []row {
	start := min(max(m.index()-n/2, 0), len(m.queue)-n)
	rows := make([]row, 0, n)
	for i := start; i < start+n; i++ {
		r := &m.queue[i]
		text, style := "  ", stylePlain
		if r.ID == m.selected {
			text, style = "> ", styleSelected
		}
		left := r.Deadline.Sub(m.now).Truncate(time.Second)
		text += fmt.Sprintf("%-8s %s", max(left, 0), recordLine(r))
		rows = append(rows, row{text, style})
	}
	return rows
}

// rule divides the queue from the request below, and says where in both one is.
func (m *watchModel) rule() string {
	text := "--"
	if i := m.index(); i >= 0 {
		text = fmt.Sprintf("-- %d of %d ", i+1, len(m.queue))
		if m.lines > m.page {
			text += fmt.Sprintf("-- lines %d to %d of %d ", m.first+1, min(m.first+m.page, m.lines), m.lines)
		}
	}
	return text + strings.Repeat("-", max(m.columns-utf8.RuneCountInString(text), 0))
}

// measure lays out the selected request, and notes which of its lines are on the
// screen.
func (m *watchModel) measure() {
	m.body = m.body[:0]
	r := m.current()
	if r == nil {
		m.lines, m.first = 0, 0
		return
	}
	for i, line := range recordSheet(r, m.now, true) {
		style := stylePlain
		if i == 0 {
			style = styleTitle
		}
		for _, part := range wrap(line, m.columns, sheetLabels+1) {
			m.body = append(m.body, row{part, style})
		}
	}
	m.lines = len(m.body)
	m.first = min(m.first, max(m.lines-m.page, 0))
	if of := fmt.Sprint(r.ID, " ", r.Revision, " ", m.columns); of != m.seenOf {
		m.seenOf, m.seen = of, 0
	}
	if m.first <= m.seen {
		m.seen = max(m.seen, min(m.first+m.page, m.lines))
	}
}

func (m *watchModel) details() []row {
	if m.lines == 0 && m.trouble == "" {
		return []row{{}, {text: "  nothing waits for an answer"}}
	}
	return m.body[m.first:min(m.first+m.page, m.lines)]
}

// message is the row in which something is asked or told.
func (m *watchModel) message() row {
	switch m.mode {
	case modeConfirm:
		option := m.current().Options[m.choice]
		return row{text: fmt.Sprintf("answer %s (%s)? y answers, any other key does not", printable(oneLine(option)), optionText(m.current().Request.Kind, option)), style: styleAlert}
	case modeReason:
		return row{text: "reason: " + tail(printable(m.typed), m.columns-12) + "_"}
	case modeProof:
		who := m.prover
		if who != "" {
			who = " of " + printable(who)
		}
		return row{text: "passphrase or code" + who + " (not shown): _"}
	}
	if m.said != "" {
		style := stylePlain
		if m.alarmed {
			style = styleAlert
		}
		return row{m.said, style}
	}
	if m.reason != "" {
		return row{text: "reason: " + printable(m.reason)}
	}
	return row{}
}

// tail is the end of a text, as much as fits.
func tail(text string, columns int) string {
	runes := []rune(text)
	used := 0
	for i := len(runes) - 1; i >= 0; i-- {
		if used += cells(runes[i]); used > columns {
			return string(runes[i+1:])
		}
	}
	return text
}

// keys says what can be pressed.
func (m *watchModel) keys() string {
	switch m.mode {
	case modeConfirm:
		return "y answer  any other key: back"
	case modeReason:
		return "enter keep  esc back"
	case modeProof:
		return "enter answer  esc back"
	}
	text := "q quit"
	if r := m.current(); r != nil {
		var picks []string
		for i, option := range r.Options[:min(len(r.Options), len(optionKeys))] {
			picks = append(picks, fmt.Sprintf("%c %s", optionKeys[i], optionName(option)))
		}
		text = strings.Join(picks, "  ") + "  r reason  enter details  space more  " + text
	}
	return text
}

// optionName is an option in a word.
func optionName(option json.RawMessage) string {
	var word string
	if json.Unmarshal(option, &word) == nil {
		return fit(printable(word), 20)
	}
	return fit(printable(oneLine(option)), 20)
}
