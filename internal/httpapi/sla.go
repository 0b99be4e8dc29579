package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/observe/sla"
	"tailscope/internal/query"
)

type putTargetInput struct {
	RawBody []byte `contentType:"application/json"`
}

type deleteTargetInput struct {
	Service   string `query:"service" doc:"the service whose target to remove"`
	Operation string `query:"operation" doc:"its operation, if the target is of one"`
}

func (s *server) registerSLA(a huma.API) {
	get(s, a, "apdex", "Apdex of services and operations", s.apdex)
	get(s, a, "sla", "A service by day, week or month", s.sla)
	get(s, a, "apdex-targets", "What satisfies a user", func(ctx context.Context, _ *nothing) (*api.ApdexTargetsResponse, error) {
		set, err := s.targets.All(ctx)
		if err != nil {
			return nil, err
		}
		return set.Response(), nil
	})
	const path = "/api/v1/apdex-targets"
	register(s, a, http.MethodPut, path, "put-apdex-target", "Set a target", http.StatusOK,
		func(ctx context.Context, in *putTargetInput) (*body[api.ApdexTarget], error) {
			t, err := decodeTarget(in.RawBody)
			if err == nil {
				err = s.targets.Put(ctx, *t)
			}
			if err != nil {
				return nil, s.failed(ctx, "apdex-targets", err)
			}
			return &body[api.ApdexTarget]{t}, nil
		})
	describeBody[api.ApdexTarget](a, a.OpenAPI().Paths[path].Put, "ApdexTarget")
	register(s, a, http.MethodDelete, path, "delete-apdex-target", "Remove a target", http.StatusNoContent,
		func(ctx context.Context, in *deleteTargetInput) (*nothing, error) {
			if err := s.targets.Delete(ctx, in.Service, in.Operation); err != nil {
				return nil, s.failed(ctx, "apdex-targets", err)
			}
			return &nothing{}, nil
		})
}

func decodeTarget(raw []byte) (*api.ApdexTarget, error) {
	var t api.ApdexTarget
	if err := decodeStrict(raw, &t, "target", `write {"service": "checkout", "t": 0.3}`); err != nil {
		return nil, err
	}
	return &t, nil
}

func (s *server) apdex(ctx context.Context, in *api.ApdexRequest) (*api.ApdexResponse, error) {
	sel, err := s.requests(in.Requests)
	if err != nil {
		return nil, err
	}
	r := sla.ApdexRequest{Selection: sel, T: in.T, Now: s.Now(), Newest: s.Seconds}
	if r.Grid, err = grid(in.Grid); err != nil {
		return nil, err
	}
	switch strings.TrimSpace(in.By) {
	case "", "service":
	case "operation":
		r.ByOperation = true
	default:
		return nil, query.Invalid("by", "cannot score by %s; write operation, or leave by out for services", quote(in.By))
	}
	if r.Overlay, err = overlay(in.EarlierDay); err != nil {
		return nil, err
	}
	return sla.Apdex(ctx, s.Store, s.targets, r)
}

func (s *server) sla(ctx context.Context, in *api.SLARequest) (*api.SLAResponse, error) {
	now := s.Now()
	end, err := Time(in.End).Parse("end", now, now)
	if err != nil {
		return nil, err
	}
	sel, err := s.requests(api.Requests{Match: in.Match, Start: unixParameter(end.Unix() - 1), End: unixParameter(end.Unix())})
	if err != nil {
		return nil, err
	}
	sel.End = end
	r := sla.ReportRequest{Selection: sel, Now: now, Period: in.Period, Count: in.Count, Zone: in.Zone, Objective: in.Objective, Under: in.Under, T: in.T}
	if r.Quantiles, err = parseQuantiles(in.Quantiles); err != nil {
		return nil, err
	}
	out, err := sla.Report(ctx, s.Store, s.targets, r)
	if err != nil {
		return nil, err
	}
	sel.Start, sel.End = time.Unix(out.All.Start, 0), time.Unix(out.All.End, 0)
	if text, err := query.Together(ctx, s.Store, sel); err == nil && text != "" {
		out.Notes = append(out.Notes, text)
	}
	return out, nil
}

func unixParameter(t int64) api.Time { return api.Time(strconv.FormatInt(t, 10)) }

// requests is a selection of requests, which are of one family.
func (s *server) requests(in api.Requests) (query.Selection, error) {
	sel, err := s.selection(api.Selection{Match: in.Match, Start: in.Start, End: in.End})
	if err == nil && sel.Family != "" {
		return sel, query.Invalid("match", "requests are spans: leave the name %s out of match", quote(sel.Family))
	}
	return sel, err
}

// one reads the one positive number that a parameter holds, 0 if it is empty. The
// unit may be empty.
func (l List) one(field, unit, example string) (float64, error) {
	all, err := l.Floats(field)
	if err != nil {
		return 0, query.Invalid(field, "%s is not a number; write one such as %s", quote(string(l)), example)
	}
	if len(all) == 0 {
		return 0, nil
	}
	if len(all) > 1 || all[0] <= 0 {
		if unit != "" {
			unit = " of " + unit
		}
		return 0, query.Invalid(field, "%s must be one positive number%s, such as %s", field, unit, example)
	}
	return all[0], nil
}
