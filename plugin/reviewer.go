package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/plugin/pluginpb"
	"github.com/regent-policy/regent/reviewer"
)

// Verdict is what a reviewer said of a request.
type Verdict = approval.Verdict

// The words of a verdict, for authors of plugins.
const (
	OutcomeAllow  = approval.VerdictAllow
	OutcomeDeny   = approval.VerdictDeny
	OutcomeUnsure = approval.VerdictUnsure
	OutcomeCancel = approval.VerdictCancel

	RiskLow      = approval.RiskLow
	RiskMedium   = approval.RiskMedium
	RiskHigh     = approval.RiskHigh
	RiskCritical = approval.RiskCritical
)

// ReviewFunc is a function that gives verdicts: see [reviewer.Reviewer] for what
// is expected of it. One that only returns an outcome and a rationale is enough.
type ReviewFunc func(ctx context.Context, q reviewer.Question) Verdict

// Review calls f.
func (f ReviewFunc) Review(ctx context.Context, q reviewer.Question) Verdict { return f(ctx, q) }

var _ reviewer.Reviewer = ReviewFunc(nil)

type argsKey struct{}

// Args are the args of the reviewer in the configuration that asks. They are there
// in the context that a plugin's reviewer is called with.
func Args(ctx context.Context) map[string]string {
	args, _ := ctx.Value(argsKey{}).(map[string]string)
	return maps.Clone(args)
}

// Reviewer is the role of a plugin that gives verdicts. Timeout and error are
// verdicts that a plugin does not give; they count as unsure, and so does whatever
// else is not one of the words.
func Reviewer(r reviewer.Reviewer) Role {
	return Role{kind: pluginpb.Kind_KIND_REVIEWER, register: func(s grpc.ServiceRegistrar) {
		pluginpb.RegisterReviewerServer(s, &reviewServer{reviewer: r})
	}}
}

// reviewServer is the plugin's side of a review.
type reviewServer struct {
	pluginpb.UnimplementedReviewerServer
	reviewer reviewer.Reviewer
}

func (s *reviewServer) Review(ctx context.Context, r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
	q := reviewer.Question{ID: r.GetId(), Workspace: r.GetWorkspace()}
	// Members that this version does not know are passed over: a newer host may
	// send some.
	if err := json.Unmarshal(r.GetRequest(), &q.Request); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "read the request: %v", err)
	}
	if q.Request == nil {
		return nil, status.Error(codes.InvalidArgument, "there is no request")
	}
	if len(r.GetRuling()) > 0 {
		if err := json.Unmarshal(r.GetRuling(), &q.Ruling); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "read the ruling: %v", err)
		}
	}
	v := s.reviewer.Review(context.WithValue(ctx, argsKey{}, r.GetArguments()), q)
	reply := &pluginpb.Verdict{
		Id:            r.GetId(),
		Outcome:       outcomes.number(v.Outcome),
		Risk:          risks.number(v.Risk),
		Authorization: authorizations.number(v.Authorization),
		Rationale:     v.Rationale,
	}
	if v.Outcome == approval.VerdictAllow {
		reply.Scope = scopes.number(v.Scope)
	}
	if u := v.Usage; u != nil {
		reply.Usage = &pluginpb.Usage{Model: u.Model, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CostUsd: u.CostUSD}
	}
	return reply, nil
}

// words are the names of the numbers of an enumeration. Number 0 is the word that
// says nothing.
type words[N ~int32, W ~string] map[N]W

var (
	outcomes = words[pluginpb.Outcome, approval.VerdictOutcome]{
		pluginpb.Outcome_OUTCOME_UNSPECIFIED: approval.VerdictUnsure,
		pluginpb.Outcome_OUTCOME_ALLOW:       approval.VerdictAllow,
		pluginpb.Outcome_OUTCOME_DENY:        approval.VerdictDeny,
		pluginpb.Outcome_OUTCOME_UNSURE:      approval.VerdictUnsure,
		pluginpb.Outcome_OUTCOME_CANCEL:      approval.VerdictCancel,
	}
	risks = words[pluginpb.Risk, approval.Risk]{
		pluginpb.Risk_RISK_UNSPECIFIED: "",
		pluginpb.Risk_RISK_LOW:         approval.RiskLow,
		pluginpb.Risk_RISK_MEDIUM:      approval.RiskMedium,
		pluginpb.Risk_RISK_HIGH:        approval.RiskHigh,
		pluginpb.Risk_RISK_CRITICAL:    approval.RiskCritical,
	}
	authorizations = words[pluginpb.Authorization, approval.Authorization]{
		pluginpb.Authorization_AUTHORIZATION_UNSPECIFIED: "",
		pluginpb.Authorization_AUTHORIZATION_UNKNOWN:     approval.AuthorizationUnknown,
		pluginpb.Authorization_AUTHORIZATION_LOW:         approval.AuthorizationLow,
		pluginpb.Authorization_AUTHORIZATION_MEDIUM:      approval.AuthorizationMedium,
		pluginpb.Authorization_AUTHORIZATION_HIGH:        approval.AuthorizationHigh,
	}
	scopes = words[pluginpb.Scope, permission.Scope]{
		pluginpb.Scope_SCOPE_UNSPECIFIED: "",
		pluginpb.Scope_SCOPE_ONCE:        permission.Once,
		pluginpb.Scope_SCOPE_TURN:        permission.Turn,
		pluginpb.Scope_SCOPE_SESSION:     permission.Session,
	}
)

// number is that of a word, 0 where it is none.
func (w words[N, W]) number(word W) N {
	for number, known := range w {
		if known == word && number != 0 {
			return number
		}
	}
	return 0
}

func (w words[N, W]) word(what string, number N) (W, error) {
	word, ok := w[number]
	if !ok {
		return "", fmt.Errorf("%w: %s %d is not known", ErrReply, what, number)
	}
	return word, nil
}

// remote is the host's side: a reviewer that is a plugin.
type remote struct {
	plugin  *instance
	name    string
	args    map[string]string
	timeout time.Duration
}

var _ reviewer.Reviewer = (*remote)(nil)

// Review asks the plugin once.
func (r *remote) Review(ctx context.Context, q reviewer.Question) approval.Verdict {
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("no answer within %v", r.timeout))
	defer cancel()
	v, err := r.review(ctx, q)
	switch {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		v = approval.Verdict{Outcome: approval.VerdictTimeout, Rationale: "the review took too long: " + context.Cause(ctx).Error()}
	case ctx.Err() != nil:
		v = approval.Verdict{Outcome: approval.VerdictError, Rationale: "the review was cancelled: " + context.Cause(ctx).Error()}
	case err != nil:
		v = approval.Verdict{Outcome: approval.VerdictError, Rationale: err.Error()}
	}
	v.Reviewer = r.name
	return v
}

func (r *remote) review(ctx context.Context, q reviewer.Question) (v approval.Verdict, err error) {
	request, err := r.encode(q)
	if err != nil {
		return v, fmt.Errorf("plugin %s: tell it: %w", r.plugin.name, err)
	}
	err = r.plugin.call(ctx, KindReviewer, func(ctx context.Context, conn *grpc.ClientConn) error {
		reply, err := pluginpb.NewReviewerClient(conn).Review(ctx, request)
		if err != nil {
			return err
		}
		v, err = read(reply, q)
		return err
	})
	return v, err
}

func (r *remote) encode(q reviewer.Question) (*pluginpb.ReviewRequest, error) {
	if q.Request == nil {
		return nil, errors.New("there is no request")
	}
	request, err := json.Marshal(q.Request)
	if err != nil {
		return nil, err
	}
	ruling, err := json.Marshal(struct {
		Route    approval.Route      `json:"route"`
		Effects  []approval.Effect   `json:"effects"`
		External bool                `json:"external"`
		ReadOnly bool                `json:"read_only"`
		Reasons  []string            `json:"reasons"`
		Rules    []approval.Match    `json:"rules"`
		Ceiling  *permission.Ceiling `json:"ceiling,omitempty"`
	}{
		q.Ruling.Route, q.Ruling.Effects, q.Ruling.External, q.Ruling.ReadOnly, q.Ruling.Reasons, q.Ruling.Rules, q.Ruling.Ceiling,
	})
	if err != nil {
		return nil, err
	}
	message := &pluginpb.ReviewRequest{
		Id: q.ID, Reviewer: r.name, Workspace: q.Workspace, Request: request, Ruling: ruling, Arguments: r.args,
	}
	if size := proto.Size(message); size > maxRequest {
		return nil, fmt.Errorf("the request has %d bytes, more than the %d that plugins are told", size, maxRequest)
	}
	return message, nil
}

// read makes a verdict of what a plugin answered. A wider grant than could be given
// is no slip that is put right: whoever answers so was not asked this question.
func read(reply *pluginpb.Verdict, q reviewer.Question) (v approval.Verdict, err error) {
	if reply.GetId() != q.ID {
		return v, fmt.Errorf("%w: it is for request %q, and %q was asked", ErrReply, clean(reply.GetId(), 80), q.ID)
	}
	if v.Outcome, err = outcomes.word("outcome", reply.GetOutcome()); err != nil {
		return approval.Verdict{}, err
	}
	if v.Risk, err = risks.word("risk", reply.GetRisk()); err != nil {
		return approval.Verdict{}, err
	}
	if v.Authorization, err = authorizations.word("authorization", reply.GetAuthorization()); err != nil {
		return approval.Verdict{}, err
	}
	scope, err := scopes.word("scope", reply.GetScope())
	if err != nil {
		return approval.Verdict{}, err
	}
	v.Rationale = approval.FirstCharacters(approval.RedactText(reply.GetRationale()), reviewer.MaxRationale)
	v.Usage = usage(reply.GetUsage())
	if v.Outcome != approval.VerdictAllow {
		return v, nil
	}
	v.Scope = scope
	if ceiling := q.Ruling.Ceiling; ceiling != nil && scope != "" && !scope.Within(ceiling.Scope) {
		return approval.Verdict{}, fmt.Errorf("%w: it allows for the scope %s, and %s is the most that policy lets anyone grant", ErrReply, scope, ceiling.Scope)
	}
	part, err := grant(reply.GetPermissions(), q.Request)
	if err != nil {
		return approval.Verdict{}, err
	}
	if part {
		return unsure(v, "would allow a part of what is asked for"), nil
	}
	if contradicts(v) {
		return unsure(v, fmt.Sprintf("would allow this at risk_level %s with user_authorization %s, where a person has to decide",
			v.Risk, cmp.Or(v.Authorization, approval.AuthorizationUnknown))), nil
	}
	return v, nil
}

// grant tells whether permissions are less than what is asked for.
func grant(permissions []byte, request *approval.Request) (part bool, err error) {
	if len(permissions) == 0 {
		return false, nil
	}
	var granted permission.Profile
	if err := json.Unmarshal(permissions, &granted); err != nil {
		return false, fmt.Errorf("%w: permissions are no profile: %s", ErrReply, clean(err.Error(), 200))
	}
	var requested permission.Profile
	if request.Permissions != nil {
		requested = *request.Permissions
	}
	if !permission.Covers(requested, granted) {
		return false, fmt.Errorf("%w: it grants more than is asked for", ErrReply)
	}
	return !permission.Covers(granted, requested), nil
}

// contradicts tells whether a verdict allows what its own words speak against.
func contradicts(v approval.Verdict) bool {
	switch v.Risk {
	case "", approval.RiskLow, approval.RiskMedium:
		return false
	case approval.RiskHigh:
		return v.Authorization != approval.AuthorizationHigh
	default:
		return true
	}
}

func unsure(v approval.Verdict, said string) approval.Verdict {
	v.Outcome, v.Scope = approval.VerdictUnsure, ""
	said = "the reviewer " + said
	if v.Rationale != "" {
		said += "; it says: " + v.Rationale
	}
	v.Rationale = approval.FirstCharacters(said, reviewer.MaxRationale)
	return v
}

// usage leaves out what cannot be: reports add these numbers up.
func usage(u *pluginpb.Usage) *approval.Usage {
	cost := u.GetCostUsd()
	if u == nil || u.GetInputTokens() < 0 || u.GetOutputTokens() < 0 || cost < 0 || math.IsNaN(cost) || math.IsInf(cost, 0) {
		return nil
	}
	return &approval.Usage{
		Model: clean(u.GetModel(), 100), InputTokens: u.GetInputTokens(), OutputTokens: u.GetOutputTokens(), CostUSD: cost,
	}
}
