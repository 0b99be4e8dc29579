package httpapi

import (
	"context"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

func (s *server) registerMark(a huma.API) {
	answerTo(s, a, "/api/v1/marks/{id}", "get-mark", "marks", "One mark, with all that was found at it", s.oneMark)
}

func (s *server) oneMark(ctx context.Context, in *api.MarkRequest) (*api.Mark, error) {
	all, err := store.AllMarks(ctx, s.Store)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.ID != in.ID {
			continue
		}
		out := m.API()
		if s.Verdicts != nil {
			if out.Verdict, err = s.Verdicts.Full(ctx, m); err != nil {
				return nil, err
			}
		}
		return &out, nil
	}
	return nil, &query.Error{Code: query.CodeNotFound, Field: "id", Message: "there is no mark " + quote(in.ID) + "; /api/v1/marks and tailscope mark list show those there are"}
}

// judged is a mark with its verdict, on the service alone if one is named.
func (s *server) judged(m store.Mark, service string) api.Mark {
	out := m.API()
	switch {
	case s.Verdicts == nil:
	case service != "":
		out.Verdict = s.Verdicts.Of(m, service)
	default:
		out.Verdict = s.Verdicts.Brief(m)
	}
	return out
}

// latestMarks gives each service the mark of the range that matters most to it:
// the last at which it changed, so that no later one hides it; else the last of
// its own, else the last of every service. Where no mark is of the range the
// last before it is taken.
func (s *server) latestMarks(ctx context.Context, services []api.Service, start, end time.Time) error {
	marks, err := store.Marks(ctx, s.Store, time.Unix(0, 0), end)
	if err != nil {
		return err
	}
	of := map[string][]int{} // by service, the oldest first; "" is every one
	for i, m := range marks {
		of[m.Service] = append(of[m.Service], i)
	}
	for i := range services {
		name, environment := services[i].Name, services[i].Environment
		own := slices.DeleteFunc(slices.Clone(of[name]), func(at int) bool { return !marks[at].Concerns(name, environment) })
		if at := s.latestMarkOf(marks, own, of[""], name, start); at >= 0 {
			m := s.judged(marks[at], name)
			services[i].LatestMark = withoutNil(&m)
		}
	}
	return nil
}

// latestMarkOf is the place of that mark of a service, -1 if there is none. Own
// and common are the places of those of the service and of every one.
func (s *server) latestMarkOf(marks []store.Mark, own, common []int, service string, start time.Time) int {
	last := func(of []int) int {
		if len(of) == 0 {
			return -1
		}
		return of[len(of)-1]
	}
	inside := func(at int) bool { return at >= 0 && !marks[at].Time.Before(start) }
	for i, j := own, common; s.Verdicts != nil; {
		at := max(last(i), last(j))
		if !inside(at) {
			break
		}
		switch s.judged(marks[at], service).Verdict.Verdict {
		case judge.Regression, judge.Mixed, judge.Improvement:
			return at
		}
		if at == last(i) {
			i = i[:len(i)-1]
		} else {
			j = j[:len(j)-1]
		}
	}
	if o := last(own); inside(o) {
		return o
	}
	if c := last(common); inside(c) {
		return c
	}
	return max(last(own), last(common))
}
