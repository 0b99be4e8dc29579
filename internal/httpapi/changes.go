package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/changes"
	"tailscope/internal/query"
)

type changesInput struct {
	Match      Selector `query:"match"`
	Start      Time     `query:"start" doc:"beginning of the range, inclusive; six hours before end unless said otherwise"`
	End        Time     `query:"end" doc:"end of the range, exclusive; now unless said otherwise"`
	Operations Int      `query:"operations" doc:"operations to search, those with the most requests, at most 500; 50 unless said otherwise"`
	Status     string   `query:"status" doc:"new, confirmed, dismissed or all; new and confirmed unless said otherwise"`
}

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
	b := a.OpenAPI().Paths[path].Post.RequestBody
	b.Required = false // an empty body is told what to write, by us
	b.Content["application/json"].Schema = a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.ChangeDecision](), true, "ChangeDecision")
}

func (s *server) findChanges(ctx context.Context, in *changesInput) (*api.ChangesResponse, error) {
	sel, err := s.requests(in.Match, in.Start, in.End)
	if err != nil {
		return nil, err
	}
	r := changes.Request{Selection: sel, Status: strings.TrimSpace(in.Status), Now: s.Now()}
	if r.Operations, err = in.Operations.Parse("operations"); err != nil {
		return nil, err
	}
	return s.changes.Find(ctx, r)
}

func decodeDecision(raw []byte) (*api.ChangeDecision, error) {
	var d api.ChangeDecision
	const example = "send a change as /api/v1/changes answered it, with a status"
	err := decodeStrict(raw, &d, "decision", example)
	return &d, err
}

// decodeStrict reads one JSON object, and says which field of it is wrong.
func decodeStrict(raw []byte, to any, what, example string) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		var wrong *json.UnmarshalTypeError
		switch {
		case errors.As(err, &wrong):
			return query.Invalid(wrong.Field, "%s is a %s; %s", wrong.Field, wrong.Value, example)
		case strings.HasPrefix(err.Error(), "json: unknown field "):
			name := strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`)
			return query.Invalid(name, "a %s has no %q; %s", what, name, query.Suggest(name, fieldsOf(to)))
		}
		return query.Invalid("body", "the body is not JSON (%v); %s", err, example)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return query.Invalid("body", "the body goes on after the %s; send one JSON object", what)
	}
	return nil
}

// fieldsOf are the names that a struct's fields have in JSON.
func fieldsOf(to any) []string {
	var names []string
	t := reflect.TypeOf(to).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
