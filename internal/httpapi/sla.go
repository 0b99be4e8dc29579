package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/observe/sla"
	"tailscope/internal/query"
)

type apdexInput struct {
	Match Selector `query:"match"`
	Start Time     `query:"start" doc:"beginning of the range, inclusive; six hours before end unless said otherwise"`
	End   Time     `query:"end" doc:"end of the range, exclusive; now unless said otherwise"`
	Grid
	Overlay
	T  List   `query:"t" doc:"seconds that satisfy a user, for every row; each row's own target unless given"`
	By string `query:"by" doc:"operation scores every operation by itself"`
}

type slaInput struct {
	Match     Selector `query:"match"`
	Period    string   `query:"period" doc:"day, week or month; week unless said otherwise"`
	Count     Int      `query:"count" doc:"periods to answer; 7 days, 8 weeks or 6 months unless said otherwise"`
	TZ        string   `query:"tz" doc:"time zone in which days begin, such as Europe/Berlin; UTC unless said otherwise"`
	End       Time     `query:"end" doc:"the last period is the one before this moment, or that holds it; now unless said otherwise"`
	Objective List     `query:"objective" doc:"share of requests, between 0 and 1, that should be good: not failed, and no slower than under"`
	Under     List     `query:"under" doc:"seconds within which a good request is answered"`
	T         List     `query:"t" doc:"seconds that satisfy a user; the target of the service or operation unless given"`
	Q         List     `query:"q" doc:"quantiles between 0 and 1, parted by commas; 0.5,0.95,0.99 unless said otherwise"`
}

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

func (s *server) apdex(ctx context.Context, in *apdexInput) (*api.ApdexResponse, error) {
	sel, err := s.requests(in.Match, in.Start, in.End)
	if err != nil {
		return nil, err
	}
	r := sla.ApdexRequest{Selection: sel}
	if r.Grid, err = in.Grid.parse(); err != nil {
		return nil, err
	}
	if r.T, err = in.T.one("t", "0.5"); err != nil {
		return nil, err
	}
	switch strings.TrimSpace(in.By) {
	case "", "service":
	case "operation":
		r.ByOperation = true
	default:
		return nil, query.Invalid("by", "cannot score by %s; write operation, or leave by out for services", quote(in.By))
	}
	if r.Overlay, err = in.Overlay.parse(); err != nil {
		return nil, err
	}
	return sla.Apdex(ctx, s.Store, s.targets, r)
}

func (s *server) sla(ctx context.Context, in *slaInput) (*api.SLAResponse, error) {
	now := s.Now()
	end, err := in.End.Parse("end", now, now)
	if err != nil {
		return nil, err
	}
	sel, err := s.requests(in.Match, Time(strconv.FormatInt(end.Unix()-1, 10)), Time(strconv.FormatInt(end.Unix(), 10)))
	if err != nil {
		return nil, err
	}
	sel.End = end
	r := sla.ReportRequest{Selection: sel, Now: now, Period: in.Period, Zone: in.TZ}
	if r.Count, err = in.Count.Parse("count"); err != nil {
		return nil, err
	}
	if r.Objective, err = in.Objective.one("objective", "0.99"); err != nil {
		return nil, err
	}
	if r.Under, err = in.Under.one("under", "0.5"); err != nil {
		return nil, err
	}
	if r.T, err = in.T.one("t", "0.5"); err != nil {
		return nil, err
	}
	if r.Quantiles, err = query.ParseQuantiles(string(in.Q), defaultQuantiles); err != nil {
		return nil, err
	}
	return sla.Report(ctx, s.Store, s.targets, r)
}

// requests is a selection of requests, which are of one family.
func (s *server) requests(match Selector, start, end Time) (query.Selection, error) {
	sel, err := (&Selection{Match: match, Start: start, End: end}).parse(s.Now())
	if err == nil && sel.Family != "" {
		return sel, query.Invalid("match", "requests are spans: leave the name %s out of match", quote(sel.Family))
	}
	return sel, err
}

// one reads the one positive number that a parameter holds; 0 if it is empty.
func (l List) one(field, example string) (float64, error) {
	all, err := l.Floats(field)
	if err != nil {
		return 0, query.Invalid(field, "%s is not a number; write one such as %s", quote(string(l)), example)
	}
	if len(all) == 0 {
		return 0, nil
	}
	if len(all) > 1 || all[0] <= 0 {
		return 0, query.Invalid(field, "%s must be one positive number, such as %s", field, example)
	}
	return all[0], nil
}
