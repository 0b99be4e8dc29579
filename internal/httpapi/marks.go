package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/judge/marks"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

var errorType = reflect.TypeFor[api.Error]()

type putMarkInput struct {
	RawBody []byte `contentType:"application/json"`
}

type deleteMarkInput struct {
	ID string `path:"id" doc:"of the mark, as the list of marks has it"`
}

func (s *server) registerMarks(a huma.API) {
	get(s, a, "marks", "Named moments", s.marks)
	s.registerMark(a)
	register(s, a, http.MethodPost, "/api/v1/marks", "post-mark", "Name a moment", http.StatusCreated,
		func(ctx context.Context, in *putMarkInput) (*body[api.Mark], error) {
			m, err := s.putMark(ctx, in.RawBody)
			if err != nil {
				return nil, s.failed(ctx, "marks", err)
			}
			return &body[api.Mark]{m}, nil
		})
	describeBody[api.Mark](a, a.OpenAPI().Paths["/api/v1/marks"].Post, "Mark")
	register(s, a, http.MethodDelete, "/api/v1/marks/{id}", "delete-mark", "Forget a mark", http.StatusNoContent,
		func(ctx context.Context, in *deleteMarkInput) (*nothing, error) {
			if err := store.DeleteMark(ctx, s.Store, in.ID); err != nil {
				return nil, s.failed(ctx, "marks", err)
			}
			return &nothing{}, nil
		})
}

func (s *server) marks(ctx context.Context, in *api.MarksRequest) (*api.MarksResponse, error) {
	now := s.Now()
	start, err := Time(in.Start).Parse("start", now, time.Unix(0, 0))
	if err != nil {
		return nil, err
	}
	end, err := Time(in.End).Parse("end", now, time.Unix(1<<40, 0))
	if err != nil {
		return nil, err
	}
	if !end.After(start) {
		return nil, query.Invalid("end", "end is not after start; write a later end or an earlier start")
	}
	found, err := store.Marks(ctx, s.Store, start, end)
	if err != nil {
		return nil, err
	}
	out := &api.MarksResponse{Marks: make([]api.Mark, 0, len(found))}
	for _, m := range found {
		if in.Service == "" || m.Service == "" || m.Service == in.Service {
			out.Marks = append(out.Marks, s.judged(m, in.Service))
		}
	}
	out.Groups = marks.Groups(out.Marks)
	return out, nil
}

// markBody is api.Mark as it is posted: its time may be written as in a parameter.
type markBody struct {
	ID          string          `json:"id"`
	Time        json.RawMessage `json:"time"`
	Name        string          `json:"name"`
	Service     string          `json:"service"`
	Revision    string          `json:"revision"`
	Environment string          `json:"environment"`
	User        string          `json:"user"`
	Description string          `json:"description"`
	Link        string          `json:"link"`
	Allow       string          `json:"allow"`
}

const maxMarkText = 4096

// latestMark is when, in Unix seconds, nanoseconds can no longer count the time:
// in the year 2262.
const latestMark = math.MaxInt64 / 1_000_000_000

// clocksApart is how far ahead of the server's clock a mark may be: those who name moments
// have clocks of their own.
const clocksApart = 5 * time.Minute

func (s *server) putMark(ctx context.Context, raw []byte) (*api.Mark, error) {
	var b markBody
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b); err != nil {
		return nil, markBodyError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, query.Invalid("body", "the body goes on after the mark; send one JSON object")
	}
	if strings.TrimSpace(b.Name) == "" {
		return nil, query.Invalid("name", `a mark needs a name; write {"name": "deploy 1.2"}`)
	}
	if b.ID != "" {
		return nil, query.Invalid("id", "the server gives a mark its id; leave it out")
	}
	for field, v := range map[string]string{"name": b.Name, "service": b.Service, "environment": b.Environment, "revision": b.Revision, "user": b.User, "description": b.Description, "link": b.Link, "allow": b.Allow} {
		if len(v) > maxMarkText {
			return nil, query.Invalid(field, "%s is longer than %d bytes", field, maxMarkText)
		}
	}
	if b.Environment != "" && b.Service == "" {
		return nil, query.Invalid("environment", "an environment is of a service; give service too")
	}
	if b.Link != "" {
		if u, err := url.Parse(b.Link); err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return nil, query.Invalid("link", "link is not an address; write one that begins with https://")
		}
	}
	if gates, err := judge.ParseGates(b.Allow); err != nil {
		return nil, query.Invalid("allow", "%v", err)
	} else if err := compare.CheckGates(gates); err != nil {
		return nil, err
	}
	text := strings.TrimSpace(string(b.Time))
	if text == "null" {
		text = ""
	}
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(b.Time, &text); err != nil {
			return nil, query.Invalid("time", "time cannot be read; %s", timeHint)
		}
	}
	now := s.Now()
	at, err := Time(text).Parse("time", now, now)
	if err != nil {
		return nil, err
	}
	if at.Unix() < 0 {
		return nil, query.Invalid("time", "time is before 1970; %s", timeHint)
	}
	if at.Unix() >= latestMark {
		return nil, query.Invalid("time", "time is too far away; %s", timeHint)
	}
	if at.After(now.Add(clocksApart)) {
		return nil, query.Invalid("time", "%s has not come yet, it is %s; name the moment when it comes, without a time for now", at.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	var id [8]byte
	rand.Read(id[:]) //nolint:errcheck // never fails
	m := store.Mark{
		ID: hex.EncodeToString(id[:]), Time: at.Truncate(time.Millisecond), Name: strings.TrimSpace(b.Name), Service: b.Service, Environment: b.Environment,
		Revision: b.Revision, User: b.User, Description: b.Description, Link: b.Link, Allow: strings.TrimSpace(b.Allow),
	}
	if err := store.PutMark(ctx, s.Store, m); err != nil {
		return nil, err
	}
	out := m.API()
	return &out, nil
}

func markBodyError(err error) error {
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		return query.Invalid(wrongType.Field, "%s is a %s; write a string", wrongType.Field, wrongType.Value)
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		name := strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`)
		return query.Invalid(name, "a mark has no %q; %s", name,
			query.Suggest(name, []string{"time", "name", "service", "environment", "revision", "user", "description", "link", "allow"}))
	}
	return query.Invalid("body", `the body is not JSON (%v); write {"name": "deploy 1.2"}`, err)
}
