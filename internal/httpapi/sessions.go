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

type sessionInput struct {
	ID string `path:"id" doc:"of the session, as the list of sessions has it"`
}

type sessionBody struct {
	ID      string `path:"id" doc:"of the session: letters, digits, dots, hyphens and underscores"`
	RawBody []byte `contentType:"application/json"`
}

const (
	sessionsPath = "/api/v1/sessions"
	sessionPath  = sessionsPath + "/{id}"

	writeReport = `write {"kind": "mirror", "name": "new cache", "service": "shop", "start": 1760000000, "mirror": {}}; a run of load has "bench", an experiment "experiment", a search for capacity "capacity", a simulation "simulation"`
	writeChange = `write {"share": 0.5}, {"paused": true}, {"stop": true} or {"shadows": {"candidate": {"using": 2}}}`
)

func (s *server) registerSessions(a huma.API) {
	get(s, a, "sessions", "The log book: mirror sessions, runs of load, experiments, searches for capacity, simulations", s.sessions)
	answerTo(s, a, sessionPath, "get-session", "sessions", "One session, as it was last reported", func(ctx context.Context, in *api.SessionRequest) (*api.Session, error) {
		return s.Sessions.Get(ctx, in.ID)
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
	answerTo(s, a, sessionPath+"/verdict", "get-session-verdict", "sessions", "What came of a mirror session, and how surely", s.sessionVerdict)
	item := a.OpenAPI().Paths[sessionPath]
	describeBody[api.SessionReport](a, item.Put, "SessionReport")
	describeBody[api.MirrorChange](a, item.Patch, "MirrorChange")
}

func (s *server) sessions(ctx context.Context, in *api.SessionsRequest) (*api.SessionsResponse, error) {
	now := s.Now()
	q := logbook.ListRequest{Kind: in.Kind, State: in.State, Search: strings.TrimSpace(in.Search), Limit: in.Limit}
	var err error
	if q.Start, err = Time(in.Start).Parse("start", now, time.Unix(0, 0)); err != nil {
		return nil, err
	}
	if q.End, err = Time(in.End).Parse("end", now, time.Unix(1<<40, 0)); err != nil {
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

func (s *server) sessionVerdict(ctx context.Context, in *api.SessionVerdictRequest) (*api.MirrorVerdictResponse, error) {
	now, q := s.Now(), logbook.VerdictRequest{ID: in.ID, Measures: in.Measures, Allow: strings.Join(in.Allow, ","), Limit: in.Limit}
	var err error
	if q.Start, err = Time(in.Start).Parse("start", now, time.Time{}); err != nil {
		return nil, err
	}
	if q.End, err = Time(in.End).Parse("end", now, time.Time{}); err != nil {
		return nil, err
	}
	return s.Sessions.Verdict(ctx, q)
}
