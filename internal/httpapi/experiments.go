package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/experiment/logbook"
)

type experimentsInput struct {
	Kind  string `query:"kind" doc:"mirror, bench, experiment, capacity or simulation; every kind unless given"`
	State string `query:"state" doc:"running, ended or lost; any unless given"`
	Q     string `query:"q" doc:"words that all are in its name, hypothesis, objective, variable, settings, layouts, service, headline or id"`
	Start Time   `query:"start" doc:"beginning of the range that it overlaps, inclusive; all time unless said otherwise"`
	End   Time   `query:"end" doc:"end of the range that it overlaps, exclusive; all time unless said otherwise"`
	Limit Int    `query:"limit" doc:"the most that are answered: those that run, then the latest; 1,000 unless said otherwise"`
}

type experimentInput struct {
	ID string `path:"id" doc:"of the experiment, as the list of experiments has it"`
}

type experimentBody struct {
	ID      string `path:"id" doc:"of the experiment: letters, digits, dots, hyphens and underscores"`
	RawBody []byte `contentType:"application/json"`
}

type verdictInput struct {
	ID       string `path:"id" doc:"of the experiment, as the list of experiments has it"`
	Start    Time   `query:"start" doc:"beginning of what is judged, inclusive; that of the experiment unless said otherwise"`
	End      Time   `query:"end" doc:"end of what is judged, exclusive; that of the experiment unless said otherwise"`
	Measures List   `query:"measures" doc:"only these: ratio, p50, p75, p90, p95, p99, p99.9, mean, errors, first_byte, bytes"`
	Limit    Int    `query:"limit" doc:"the most operations, and tenants, that are answered; 20 unless said otherwise"`
}

const (
	experimentsPath = "/api/v1/experiments"
	experimentPath  = experimentsPath + "/{id}"

	writeReport = `write {"kind": "mirror", "name": "new cache", "service": "shop", "start": 1760000000, "mirror": {}}; a run of load has "bench", an experiment "trial", a search for capacity "capacity", a simulation "simulation"`
	writeChange = `write {"share": 0.5}, {"paused": true}, {"stop": true} or {"shadows": {"candidate": {"using": 2}}}`
)

func (s *server) registerExperiments(a huma.API) {
	get(s, a, "experiments", "The log book: mirror sessions, runs of load, experiments, searches for capacity, simulations", s.experiments)
	register(s, a, http.MethodGet, experimentPath, "get-experiment", "One experiment, as it was last reported", http.StatusOK,
		func(ctx context.Context, in *experimentInput) (*body[api.Experiment], error) {
			x, err := s.Experiments.Get(ctx, in.ID)
			return answered(ctx, s, x, err)
		})
	register(s, a, http.MethodPut, experimentPath, "put-experiment", "Report the state of an experiment", http.StatusOK,
		func(ctx context.Context, in *experimentBody) (*body[api.ExperimentReply], error) {
			var p api.ExperimentReport
			if err := decodeStrict(in.RawBody, &p, "report", writeReport); err != nil {
				return nil, s.failed(ctx, "experiments", err)
			}
			reply, err := s.Experiments.Report(ctx, in.ID, p)
			return answered(ctx, s, &reply, err)
		})
	register(s, a, http.MethodPatch, experimentPath, "patch-experiment", "Change a mirror session that runs, or stop any experiment", http.StatusOK,
		func(ctx context.Context, in *experimentBody) (*body[api.MirrorChange], error) {
			var c api.MirrorChange
			if err := decodeStrict(in.RawBody, &c, "change", writeChange); err != nil {
				return nil, s.failed(ctx, "experiments", err)
			}
			all, err := s.Experiments.Change(ctx, in.ID, c)
			return answered(ctx, s, all, err)
		})
	register(s, a, http.MethodDelete, experimentPath, "delete-experiment", "Forget an experiment that has ended", http.StatusNoContent,
		func(ctx context.Context, in *experimentInput) (*nothing, error) {
			if err := s.Experiments.Forget(ctx, in.ID); err != nil {
				return nil, s.failed(ctx, "experiments", err)
			}
			return &nothing{}, nil
		})
	register(s, a, http.MethodGet, experimentPath+"/verdict", "get-experiment-verdict", "What came of a mirror session, and how surely", http.StatusOK,
		func(ctx context.Context, in *verdictInput) (*body[api.MirrorVerdictResponse], error) {
			out, err := s.experimentVerdict(ctx, in)
			return answered(ctx, s, out, err)
		})
	item := a.OpenAPI().Paths[experimentPath]
	describeBody[api.ExperimentReport](a, item.Put, "ExperimentReport")
	describeBody[api.MirrorChange](a, item.Patch, "MirrorChange")
}

func (s *server) experiments(ctx context.Context, in *experimentsInput) (*api.ExperimentsResponse, error) {
	now := s.Now()
	q := logbook.ListRequest{Kind: in.Kind, State: in.State, Search: strings.TrimSpace(in.Q)}
	var err error
	if q.Start, err = in.Start.Parse("start", now, time.Unix(0, 0)); err != nil {
		return nil, err
	}
	if q.End, err = in.End.Parse("end", now, time.Unix(1<<40, 0)); err != nil {
		return nil, err
	}
	if q.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	return s.Experiments.List(ctx, q)
}

// answered is what register wants of an answer, or of why there is none.
func answered[T any](ctx context.Context, s *server, out *T, err error) (*body[T], error) {
	if err != nil {
		return nil, s.failed(ctx, "experiments", err)
	}
	return &body[T]{out}, nil
}

func (s *server) experimentVerdict(ctx context.Context, in *verdictInput) (*api.MirrorVerdictResponse, error) {
	now, q := s.Now(), logbook.VerdictRequest{ID: in.ID}
	var err error
	if q.Start, err = in.Start.Parse("start", now, time.Time{}); err != nil {
		return nil, err
	}
	if q.End, err = in.End.Parse("end", now, time.Time{}); err != nil {
		return nil, err
	}
	if q.Measures, err = in.Measures.Names("measures"); err != nil {
		return nil, err
	}
	if q.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	return s.Experiments.Verdict(ctx, q)
}
