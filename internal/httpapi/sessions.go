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

type sessionsInput struct {
	Kind  string `query:"kind" doc:"mirror, bench, experiment, capacity or simulation; every kind unless given"`
	State string `query:"state" doc:"running, ended or lost; any unless given"`
	Q     string `query:"q" doc:"words that all are in its name, hypothesis, objective, variable, settings, layouts, service, headline or id"`
	Start Time   `query:"start" doc:"beginning of the range that it overlaps, inclusive; all time unless said otherwise"`
	End   Time   `query:"end" doc:"end of the range that it overlaps, exclusive; all time unless said otherwise"`
	Limit Int    `query:"limit" doc:"the most that are answered: those that run, then the latest; 1,000 unless said otherwise"`
}

type sessionInput struct {
	ID string `path:"id" doc:"of the session, as the list of sessions has it"`
}

type sessionBody struct {
	ID      string `path:"id" doc:"of the session: letters, digits, dots, hyphens and underscores"`
	RawBody []byte `contentType:"application/json"`
}

type verdictInput struct {
	ID       string `path:"id" doc:"of the session, as the list of sessions has it"`
	Start    Time   `query:"start" doc:"beginning of what is judged, inclusive; that of the session unless said otherwise"`
	End      Time   `query:"end" doc:"end of what is judged, exclusive; that of the session unless said otherwise"`
	Measures List   `query:"measures" doc:"only these: ratio, p50, p75, p90, p95, p99, p99.9, mean, errors, first_byte, bytes"`
	Limit    Int    `query:"limit" doc:"the most operations, and tenants, that are answered; 20 unless said otherwise"`
}

const (
	sessionsPath = "/api/v1/sessions"
	sessionPath  = sessionsPath + "/{id}"

	writeReport = `write {"kind": "mirror", "name": "new cache", "service": "shop", "start": 1760000000, "mirror": {}}; a run of load has "bench", an experiment "experiment", a search for capacity "capacity", a simulation "simulation"`
	writeChange = `write {"share": 0.5}, {"paused": true}, {"stop": true} or {"shadows": {"candidate": {"using": 2}}}`
)

func (s *server) registerSessions(a huma.API) {
	get(s, a, "sessions", "The log book: mirror sessions, runs of load, experiments, searches for capacity, simulations", s.sessions)
	register(s, a, http.MethodGet, sessionPath, "get-session", "One session, as it was last reported", http.StatusOK,
		func(ctx context.Context, in *sessionInput) (*body[api.Session], error) {
			x, err := s.Sessions.Get(ctx, in.ID)
			return answered(ctx, s, x, err)
		})
	register(s, a, http.MethodPut, sessionPath, "put-session", "Report the state of a session", http.StatusOK,
		func(ctx context.Context, in *sessionBody) (*body[api.SessionReply], error) {
			var p api.SessionReport
			if err := decodeStrict(in.RawBody, &p, "report", writeReport); err != nil {
				return nil, s.failed(ctx, "sessions", err)
			}
			reply, err := s.Sessions.Report(ctx, in.ID, p)
			return answered(ctx, s, &reply, err)
		})
	register(s, a, http.MethodPatch, sessionPath, "patch-session", "Change a mirror session that runs, or stop any session", http.StatusOK,
		func(ctx context.Context, in *sessionBody) (*body[api.MirrorChange], error) {
			var c api.MirrorChange
			if err := decodeStrict(in.RawBody, &c, "change", writeChange); err != nil {
				return nil, s.failed(ctx, "sessions", err)
			}
			all, err := s.Sessions.Change(ctx, in.ID, c)
			return answered(ctx, s, all, err)
		})
	register(s, a, http.MethodDelete, sessionPath, "delete-session", "Forget a session that has ended", http.StatusNoContent,
		func(ctx context.Context, in *sessionInput) (*nothing, error) {
			if err := s.Sessions.Forget(ctx, in.ID); err != nil {
				return nil, s.failed(ctx, "sessions", err)
			}
			return &nothing{}, nil
		})
	register(s, a, http.MethodGet, sessionPath+"/verdict", "get-session-verdict", "What came of a mirror session, and how surely", http.StatusOK,
		func(ctx context.Context, in *verdictInput) (*body[api.MirrorVerdictResponse], error) {
			out, err := s.sessionVerdict(ctx, in)
			return answered(ctx, s, out, err)
		})
	item := a.OpenAPI().Paths[sessionPath]
	describeBody[api.SessionReport](a, item.Put, "SessionReport")
	describeBody[api.MirrorChange](a, item.Patch, "MirrorChange")
}

func (s *server) sessions(ctx context.Context, in *sessionsInput) (*api.SessionsResponse, error) {
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
	return s.Sessions.List(ctx, q)
}

// answered is what register wants of an answer, or of why there is none.
func answered[T any](ctx context.Context, s *server, out *T, err error) (*body[T], error) {
	if err != nil {
		return nil, s.failed(ctx, "sessions", err)
	}
	return &body[T]{out}, nil
}

func (s *server) sessionVerdict(ctx context.Context, in *verdictInput) (*api.MirrorVerdictResponse, error) {
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
	return s.Sessions.Verdict(ctx, q)
}
