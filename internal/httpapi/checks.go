package httpapi

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/guard/check"
	"tailscope/internal/query"
)

type checksInput struct {
	State  string   `query:"state" doc:"OK, WARNING, CRITICAL, UNKNOWN or PENDING; bad is all but OK and PENDING; any unless given"`
	Match  Selector `query:"match" doc:"PromQL matchers on the labels of checks, and on check, the name of the definition"`
	Q      string   `query:"q" doc:"part of a check's id or description"`
	Limit  Int      `query:"limit" doc:"checks to answer; 100 unless said otherwise"`
	Offset Int      `query:"offset" doc:"checks to pass over"`
}

type checkInput struct {
	ID    string   `query:"id" doc:"of the check, as the list of checks has it"`
	Start Time     `query:"start" doc:"beginning of the range, inclusive; a day before end unless said otherwise"`
	End   Time     `query:"end" doc:"end of the range, exclusive; now unless said otherwise"`
	Step  Duration `query:"step" doc:"distance of the points; such that there are about 300 unless said otherwise"`
}

type incidentsInput struct {
	Start Time   `query:"start" doc:"beginning of the range that it overlaps, inclusive; all time unless said otherwise"`
	End   Time   `query:"end" doc:"end of the range that it overlaps, exclusive; all time unless said otherwise"`
	Check string `query:"check" doc:"id of a check, or name of a definition: those of all its checks"`
	Kind  string `query:"kind" doc:"check (found by one) or marked (by somebody); both unless given"`
	Open  Bool   `query:"open" doc:"only those that last"`
	Limit Int    `query:"limit" doc:"the newest so many; 1000 unless said otherwise"`
}

const (
	checkPath       = "/api/v1/check"
	checksPath      = "/api/v1/checks"
	incidentsPath   = "/api/v1/incidents"
	maintenancePath = "/api/v1/maintenance"
)

func (s *server) registerChecks(a huma.API) {
	get(s, a, "checks", "What is guarded, the worst first", s.listChecks)
	get(s, a, "check", "A check over time, and why it is what it is", s.oneCheck)
	get(s, a, "incidents", "Times in which checks were not OK, and those that were marked", s.incidents)
	get(s, a, "maintenance", "Windows in which nobody is told", s.maintenance)
	s.registerCheckChanges(a)
}

// noChecks answers who names a check where there are none.
var noChecks = &query.Error{
	Code:    query.CodeNotFound,
	Message: "this server has no checks; name files of them under checks: in its configuration and start it again",
}

func (s *server) listChecks(ctx context.Context, in *checksInput) (*api.ChecksResponse, error) {
	r := check.ListRequest{State: in.State, Q: in.Q}
	name, ms, err := in.Match.Parse("match")
	if err != nil {
		return nil, err
	}
	r.Match = ms
	if name != "" {
		r.Match = append(r.Match, labels.MustNewMatcher(labels.MatchEqual, check.LabelCheck, name))
	}
	if r.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	if r.Offset, err = in.Offset.Parse("offset"); err != nil {
		return nil, err
	}
	if r.Offset < 0 {
		return nil, query.Invalid("offset", "offset is below 0; leave it out for the first checks")
	}
	if s.Checks == nil {
		return &api.ChecksResponse{
			Checks: []api.Check{}, Counts: map[string]int{}, Receivers: []api.CheckReceiver{}, Files: []string{},
			Lag: api.Float(math.NaN()), Now: api.UnixTime(s.Now()),
		}, nil
	}
	return s.Checks.List(ctx, r)
}

func (s *server) oneCheck(ctx context.Context, in *checkInput) (*api.CheckResponse, error) {
	r := check.GetRequest{ID: in.ID}
	err := s.named(in.ID)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	if r.End, err = in.End.Parse("end", now, now); err != nil {
		return nil, err
	}
	if r.Start, err = in.Start.Parse("start", now, r.End.Add(-24*time.Hour)); err != nil {
		return nil, err
	}
	if !r.End.After(r.Start) {
		return nil, query.Invalid("end", "end is not after start; write a later end or an earlier start")
	}
	if r.Step, err = in.Step.Parse("step"); err != nil {
		return nil, err
	}
	if in.Step != "" && r.Step <= 0 {
		return nil, query.Invalid("step", "a step of %s is not positive; write a duration such as 60s", in.Step)
	}
	return s.Checks.Get(ctx, r)
}

// named tells whether there may be a check of that id.
func (s *server) named(id string) error {
	if id == "" {
		return query.Invalid("id", `no check is named; write id=orders, or id=orders{operation="GET /a"} percent-encoded, as /api/v1/checks lists them`)
	}
	if s.Checks == nil {
		return noChecks
	}
	return nil
}

func (s *server) incidents(ctx context.Context, in *incidentsInput) (*api.IncidentsResponse, error) {
	now := s.Now()
	r := check.IncidentsRequest{Check: in.Check, Kind: in.Kind}
	var err error
	if r.Start, err = in.Start.Parse("start", now, time.Time{}); err != nil {
		return nil, err
	}
	if r.End, err = in.End.Parse("end", now, time.Time{}); err != nil {
		return nil, err
	}
	if !r.Start.IsZero() && !r.End.IsZero() && !r.End.After(r.Start) {
		return nil, query.Invalid("end", "end is not after start; write a later end or an earlier start")
	}
	if in.Kind != "" && in.Kind != "check" && in.Kind != "marked" {
		return nil, query.Invalid("kind", "there are no incidents of kind %s; write check or marked", quote(in.Kind))
	}
	if r.Open, err = in.Open.Parse("open"); err != nil {
		return nil, err
	}
	if r.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	if s.Checks == nil {
		return &api.IncidentsResponse{Incidents: []api.Incident{}}, nil
	}
	return s.Checks.Incidents(ctx, r)
}

func (s *server) maintenance(ctx context.Context, _ *nothing) (*api.MaintenanceResponse, error) {
	if s.Checks == nil {
		return &api.MaintenanceResponse{Windows: []api.Maintenance{}}, nil
	}
	return s.Checks.Maintenance(ctx)
}

// change registers what is done to checks: an answer, or nothing with status 204.
func change[I, O any](s *server, a huma.API, method, path, id, summary string, status int, do func(context.Context, *I) (*O, error)) {
	register(s, a, method, path, id, summary, status, func(ctx context.Context, in *I) (*body[O], error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, s.failed(ctx, id, err)
		}
		return &body[O]{out}, nil
	})
}

func remove[I any](s *server, a huma.API, path, id, summary string, do func(context.Context, *I) error) {
	register(s, a, http.MethodDelete, path, id, summary, http.StatusNoContent, func(ctx context.Context, in *I) (*nothing, error) {
		if err := do(ctx, in); err != nil {
			return nil, s.failed(ctx, id, err)
		}
		return &nothing{}, nil
	})
}
