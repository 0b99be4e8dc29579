package httpapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const defaultRange = 6 * time.Hour

// selection reads which observations are meant.
func (s *server) selection(in api.Selection) (query.Selection, error) {
	now := s.Now()
	sel := query.Selection{Family: strings.TrimSpace(in.Family)}
	named, ms, err := Selector(in.Match).Parse("match")
	if err != nil {
		return sel, err
	}
	if named != "" {
		if sel.Family != "" && sel.Family != named {
			return sel, query.Invalid("match", "match names the family %s, but family says %s; leave one of them out", named, sel.Family)
		}
		sel.Family = named
	}
	sel.Matchers = ms
	if sel.End, err = Time(in.End).Parse("end", now, now); err != nil {
		return sel, err
	}
	sel.Start, err = Time(in.Start).Parse("start", now, sel.End.Add(-defaultRange))
	return sel, err
}

// grid reads how a range is cut into columns.
func grid(in api.Grid) (query.Grid, error) {
	step, err := wholeSeconds("step", in.Step)
	return query.Grid{Step: step, Width: in.Width}, err
}

type nothing struct{}

// body wraps a response for huma.
type body[T any] struct{ Body *T }

const defaultQuantiles = "0.5,0.95,0.99"

// register makes huma serve the JSON API on mux.
func (s *server) register(mux *http.ServeMux) {
	version := s.Status.Version
	if version == "" {
		version = "dev"
	}
	cfg := huma.DefaultConfig("Tailscope", version)
	cfg.CreateHooks = nil
	cfg.Components.Schemas = newSchemas()
	cfg.DocsPath, cfg.SchemasPath = "", ""
	cfg.OpenAPIPath = "/openapi"
	cfg.Info.Description = "Whole distributions over time. Times are Unix seconds, durations are seconds, NaN is null."
	cfg.Formats = map[string]huma.Format{
		"application/json": {Marshal: marshal, Unmarshal: huma.DefaultJSONFormat.Unmarshal},
		// Only huma's own errors want this one, should it ever find a reason.
		"application/problem+json": {Marshal: marshalProblem},
	}
	for _, g := range groups {
		cfg.Tags = append(cfg.Tags, &huma.Tag{Name: g.name, Description: g.doc})
	}
	a := humago.New(mux, cfg)

	get(s, a, "services", "Every service at a glance", s.services)
	get(s, a, "distribution", "Whole distributions over a range", s.distribution)
	get(s, a, "heatmap", "A distribution over time", s.heatmap)
	get(s, a, "timeline", "Quantiles, mean, rate and errors over time", s.timeline)
	get(s, a, "scaling", "The scalability law of a service's requests", s.scaling)
	get(s, a, "labels", "What there is to filter by", s.labels)
	get(s, a, "tenants", "Who sends the traffic and what they see", s.tenants)
	get(s, a, "nearest", "What was there at a moment", s.nearest)
	get(s, a, "families", "What is measured", s.families)
	get(s, a, "status", "The server itself", s.status)
	get(s, a, "cluster", "The servers of the store, its nodes, and agents", s.cluster)
	s.registerMarks(a)
	s.registerBreakdown(a)
	s.registerTraces(a)
	s.registerSLA(a)
	s.registerCompare(a)
	s.registerExplain(a)
	s.registerChanges(a)
	s.registerSessions(a)
	s.registerSimulate(a)
	s.registerDamage(a)
	s.registerChecks(a)
	finishSchemas(cfg.Components.Schemas.Map())
}

// get registers GET /api/v1/name.
func get[R, O any](s *server, a huma.API, name, summary string, answer func(context.Context, *R) (*O, error)) {
	answerTo(s, a, "/api/v1/"+name, "get-"+name, name, summary, answer)
}

func register[I, O any](s *server, a huma.API, method, path, id, summary string, status int, h func(context.Context, *I) (*O, error), params ...*huma.Param) {
	op := huma.Operation{
		Parameters: params,
		Method:     method, Path: path, OperationID: id, Summary: summary, DefaultStatus: status,
		Description: operationDocs[id], Tags: []string{groupOf(path)},
		SkipValidateParams: true, SkipValidateBody: true,
		Responses: describeErrors(a.OpenAPI(), a.OpenAPI().Components.Schemas.Schema(errorType, true, "Error")),
	}
	huma.Register(a, op, h)
	item := a.OpenAPI().Paths[path]
	var names []string
	for _, o := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
		if o == nil || o.OperationID != id {
			continue
		}
		for _, p := range o.Parameters {
			if p.In == "query" {
				names = append(names, p.Name)
			}
		}
	}
	s.routes.add(method, path, names)
}

// failed turns an error into the API's, and logs what the server is to blame for.
func (s *server) failed(ctx context.Context, name string, err error) error {
	e := fail(err)
	if e.status == http.StatusInternalServerError || errors.Is(err, store.ErrFull) {
		s.Logger.ErrorContext(ctx, "question failed", "question", name, "err", err)
	}
	return e
}

func parseQuery(raw string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, query.Invalid("", "the query string cannot be read (%v); percent-encode it", err)
	}
	return values, nil
}

// whole says how much of a range that was asked for, and answered up to end, is stored.
func (s *server) whole(sel query.Selection, end int64) (w api.Whole) {
	if until := query.WholeUntil(s.Now(), s.Seconds, query.Named(sel.Matchers, series.LabelService)); until < end {
		w.WholeUntil = until
	}
	return w
}

func (s *server) distribution(ctx context.Context, in *api.DistributionRequest) (*api.DistributionResponse, error) {
	sel, err := s.selection(in.Selection)
	if err != nil {
		return nil, err
	}
	r := query.DistributionRequest{Selection: sel, By: in.By, At: in.At, Buckets: in.Buckets, Limit: in.Limit}
	if r.Quantiles, err = parseQuantiles(in.Quantiles); err != nil {
		return nil, err
	}
	out, err := query.Distribution(ctx, s.Store, r)
	if err != nil || !query.IsSpanFamily(out.Family) || len(in.By) > 0 {
		return out, err
	}
	measured, err := query.NewMeasured(ctx, s.Store, sel.Matchers, time.Unix(out.Start, 0), time.Unix(out.End, 0), s.Now(), s.Seconds)
	if err != nil {
		return nil, err
	}
	lasts, err := measured.Seconds(nil)
	out.Measured = api.Float(lasts)
	return out, err
}

func (s *server) heatmap(ctx context.Context, in *api.HeatmapRequest) (*api.HeatmapResponse, error) {
	sel, err := s.selection(in.Selection)
	if err != nil {
		return nil, err
	}
	r := query.HeatmapRequest{Selection: sel, Rows: in.Rows}
	if r.Grid, err = grid(in.Grid); err != nil {
		return nil, err
	}
	out, err := query.Heatmap(ctx, s.Store, r)
	if err == nil {
		out.Whole = s.whole(sel, out.End)
	}
	return out, err
}

func (s *server) timeline(ctx context.Context, in *api.TimelineRequest) (*api.TimelineResponse, error) {
	sel, err := s.selection(in.Selection)
	if err != nil {
		return nil, err
	}
	r := query.TimelineRequest{Selection: sel, By: in.By, Offset: in.Offset, Slide: in.Slide, Per: in.Per, Limit: in.Limit}
	if r.Grid, err = grid(in.Grid); err != nil {
		return nil, err
	}
	if r.Quantiles, err = parseQuantiles(in.Quantiles); err != nil {
		return nil, err
	}
	if r.Overlay, err = overlay(in.EarlierDay); err != nil {
		return nil, err
	}
	out, err := query.Timeline(ctx, s.Store, r)
	if err == nil && out.Offset == 0 && out.Overlay == nil { // earlier days are stored
		out.Whole = s.whole(sel, out.End)
	}
	return out, err
}

func (s *server) labels(ctx context.Context, in *api.LabelsRequest) (*api.LabelsResponse, error) {
	sel, err := s.selection(in.Selection)
	if err != nil {
		return nil, err
	}
	return query.Labels(ctx, s.Store, query.LabelsRequest{Selection: sel, Names: in.Names, Limit: in.Limit})
}

func (s *server) nearest(ctx context.Context, in *api.NearestRequest) (*api.NearestResponse, error) {
	sel, err := s.selection(api.Selection{Family: in.Family, Match: in.Match})
	if err != nil {
		return nil, err
	}
	r := query.NearestRequest{Selection: sel, By: in.By}
	if r.Time, err = Time(in.Time).Parse("time", s.Now(), s.Now()); err != nil {
		return nil, err
	}
	if r.Quantiles, err = parseQuantiles(in.Quantiles); err != nil {
		return nil, err
	}
	return query.Nearest(ctx, s.Store, r)
}

func (s *server) families(ctx context.Context, in *api.FamiliesRequest) (*api.FamiliesResponse, error) {
	sel, err := s.span(api.Requests{Start: in.Start, End: in.End})
	if err != nil {
		return nil, err
	}
	return query.Families(ctx, s.Store, query.FamiliesRequest{Service: in.Service, Start: sel.Start, End: sel.End})
}

func (s *server) status(ctx context.Context, _ *nothing) (*api.StatusResponse, error) {
	all, err := s.Store.Families(ctx)
	// What is wrong is told while the store is away too. That it is empty is not known then.
	away := errors.Is(err, store.ErrAway)
	if err != nil && !away {
		return nil, err
	}
	out := s.Status
	out.Now = api.Float(float64(s.Now().UnixMilli()) / 1e3)
	out.HasData = away || len(all) > 0
	out.First = api.Float(math.NaN())
	if !away && len(all) > 0 {
		out.First = s.firstSpans(ctx, s.Now())
	}
	out.Problems = []api.Problem{}
	if s.Problems != nil {
		out.Problems = append(out.Problems, s.Problems()...)
	}
	if s.Agents != nil {
		out.Agents = s.Agents()
	}
	if s.Acts != nil {
		out.Acts = s.Acts()
	}
	return &out, nil
}

// firstKept is how long the answer of firstSpans is kept: spans that come for an earlier time
// are rare.
const firstKept = time.Minute

// firstSpans returns the start of the first slot with spans in the default range, Unix seconds;
// NaN without any, or if that cannot be known soon: the status is told all the same.
func (s *server) firstSpans(ctx context.Context, now time.Time) api.Float {
	ctx, cancel := context.WithTimeout(ctx, s.StatusWait)
	defer cancel()
	first, err := s.first.Get(ctx, "", now, func() (*int64, error) {
		return query.First(ctx, s.Store, now.Add(-defaultRange), now)
	})
	if err != nil || first == nil {
		return api.Float(math.NaN())
	}
	return api.Float(*first)
}

func (s *server) cluster(ctx context.Context, _ *nothing) (*api.ClusterResponse, error) {
	if s.Cluster == nil {
		return &api.ClusterResponse{Now: api.Float(s.Now().Unix())}, nil
	}
	return s.Cluster(ctx), nil
}
