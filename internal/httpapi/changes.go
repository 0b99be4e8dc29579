package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/compare/changes"
	"tailscope/internal/judge/marks"
	"tailscope/internal/series"
)

type postChangeInput struct {
	RawBody []byte `contentType:"application/json"`
}

func (s *server) registerChanges(a huma.API) {
	const path = "/api/v1/changes"
	get(s, a, "changes", "Moments at which requests changed", s.findChanges)
	register(s, a, http.MethodPost, path, "post-change", "Confirm a change as a mark, or dismiss it", http.StatusOK,
		func(ctx context.Context, in *postChangeInput) (*body[api.ChangeDecided], error) {
			var out *api.ChangeDecided
			d, err := decodeDecision(in.RawBody)
			if err == nil {
				out, err = s.changes.Decide(ctx, *d)
			}
			if err != nil {
				return nil, s.failed(ctx, "changes", err)
			}
			return &body[api.ChangeDecided]{out}, nil
		})
	describeBody[api.ChangeDecision](a, a.OpenAPI().Paths[path].Post, "ChangeDecision")
}

func (s *server) findChanges(ctx context.Context, in *api.ChangesRequest) (*api.ChangesResponse, error) {
	sel, err := s.selection(api.Selection{Match: in.Match, Start: in.Start, End: in.End})
	if err != nil {
		return nil, err
	}
	return FindChanges(ctx, s.changes, s.Verdicts, changes.Request{Selection: sel, Per: in.Per, Operations: in.Operations, Status: strings.TrimSpace(in.Status), CohortOf: s.cohortOf(), Newest: s.Seconds, Now: s.Now(), Known: in.Known})
}

// FindChanges finds changes and has marks, unless verdicts is nil, tell those that lie at one, at
// their own moments.
// Whoever tells of a change asks this, so that it has one text.
func FindChanges(ctx context.Context, finder *changes.Finder, verdicts *marks.Judge, r changes.Request) (*api.ChangesResponse, error) {
	out, err := finder.Find(ctx, r)
	if err == nil && verdicts != nil && !narrowed(r.Matchers) {
		if err = verdicts.Tell(ctx, out.Changes); err == nil {
			err = finder.DateByMarks(ctx, out)
		}
	}
	return out, err
}

// narrowed reports whether a question is about some of the requests of services, of which
// their marks say nothing.
func narrowed(of []*labels.Matcher) bool {
	return slices.ContainsFunc(of, func(m *labels.Matcher) bool {
		return m.Name != series.LabelService && m.Name != series.LabelEnvironment
	})
}

func decodeDecision(raw []byte) (*api.ChangeDecision, error) {
	var d api.ChangeDecision
	const example = "send a change as /api/v1/changes answered it, with a status"
	err := decodeStrict(raw, &d, "decision", example)
	return &d, err
}
