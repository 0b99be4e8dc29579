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
	get(s, a, "maintenance", "Windows in which no notifications are sent", s.maintenance)
	s.registerCheckChanges(a)
}

// noChecks answers who names a check where there are none.
var noChecks = &query.Error{
	Code:    query.CodeNotFound,
	Message: "this server has no checks; name files of them under checks: in its configuration and start it again",
}

func (s *server) listChecks(ctx context.Context, in *api.ChecksRequest) (*api.ChecksResponse, error) {
	r := check.ListRequest{State: in.State, Q: in.Search, Limit: in.Limit, Offset: in.Offset}
	name, ms, err := Selector(in.Match).Parse("match")
	if err != nil {
		return nil, err
	}
	r.Match = ms
	if name != "" {
		r.Match = append(r.Match, labels.MustNewMatcher(labels.MatchEqual, check.LabelCheck, name))
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

func (s *server) oneCheck(ctx context.Context, in *api.CheckRequest) (*api.CheckResponse, error) {
	r := check.GetRequest{ID: in.ID, Step: in.Step}
	err := s.named(in.ID)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	if r.End, err = Time(in.End).Parse("end", now, now); err != nil {
		return nil, err
	}
	if r.Start, err = Time(in.Start).Parse("start", now, r.End.Add(-24*time.Hour)); err != nil {
		return nil, err
	}
	if !r.End.After(r.Start) {
		return nil, query.Invalid("end", "end is not after start; write a later end or an earlier start")
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

func (s *server) incidents(ctx context.Context, in *api.IncidentsRequest) (*api.IncidentsResponse, error) {
	now := s.Now()
	r := check.IncidentsRequest{Check: in.Check, Kind: in.Kind, Open: in.Open, Limit: in.Limit}
	var err error
	if r.Start, err = Time(in.Start).Parse("start", now, time.Time{}); err != nil {
		return nil, err
	}
	if r.End, err = Time(in.End).Parse("end", now, time.Time{}); err != nil {
		return nil, err
	}
	if !r.Start.IsZero() && !r.End.IsZero() && !r.End.After(r.Start) {
		return nil, query.Invalid("end", "end is not after start; write a later end or an earlier start")
	}
	if in.Kind != "" && in.Kind != "check" && in.Kind != "marked" {
		return nil, query.Invalid("kind", "there are no incidents of kind %s; write check or marked", quote(in.Kind))
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
