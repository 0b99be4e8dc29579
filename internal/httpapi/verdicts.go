package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

type markInput struct {
	ID string `path:"id" doc:"of the mark, as the list of marks has it"`
}

func (s *server) registerMark(a huma.API) {
	register(s, a, http.MethodGet, "/api/v1/marks/{id}", "get-mark", "One mark, with all that was found at it", http.StatusOK,
		func(ctx context.Context, in *markInput) (*body[api.Mark], error) {
			m, err := s.oneMark(ctx, in.ID)
			if err != nil {
				return nil, s.failed(ctx, "marks", err)
			}
			return &body[api.Mark]{m}, nil
		})
}

func (s *server) oneMark(ctx context.Context, id string) (*api.Mark, error) {
	all, err := s.Store.Marks(ctx, time.Unix(0, 0), time.Unix(latestMark, 0))
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.ID != id {
			continue
		}
		out := apiMark(m)
		if s.Verdicts != nil {
			if out.Verdict, err = s.Verdicts.Full(ctx, m); err != nil {
				return nil, err
			}
		}
		return &out, nil
	}
	return nil, &query.Error{Code: query.CodeNotFound, Field: "id", Message: "there is no mark " + quote(id) + "; /api/v1/marks and tailscope mark list show those there are"}
}

// judged is a mark with its verdict, on the service alone if one is named.
func (s *server) judged(m store.Mark, service string) api.Mark {
	out := apiMark(m)
	switch {
	case s.Verdicts == nil:
	case service != "":
		out.Verdict = s.Verdicts.Of(m, service)
	default:
		out.Verdict = s.Verdicts.Brief(m)
	}
	return out
}

// latestMarks gives each service the last mark before end that concerns it.
func (s *server) latestMarks(ctx context.Context, services []api.Service, end time.Time) error {
	marks, err := s.Store.Marks(ctx, time.Unix(0, 0), end)
	if err != nil {
		return err
	}
	latest := map[string]int{} // by service; "" is every one
	for i, m := range marks {
		latest[m.Service] = i
	}
	for i := range services {
		of := &services[i]
		at, found := latest[of.Name]
		if every, ok := latest[""]; ok && (!found || every > at) {
			at, found = every, true
		}
		if found {
			m := s.judged(marks[at], of.Name)
			of.LatestMark = &m
		}
	}
	return nil
}
