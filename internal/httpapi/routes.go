package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// Selection are the parameters that say which observations are meant.
type Selection struct {
	Family string   `query:"family" doc:"what is measured; span_duration_seconds unless said otherwise"`
	Match  Selector `query:"match"`
	Start  Time     `query:"start" doc:"beginning of the range, inclusive; six hours before end unless said otherwise"`
	End    Time     `query:"end" doc:"end of the range, exclusive; now unless said otherwise"`
}

const defaultRange = 6 * time.Hour

func (in *Selection) parse(now time.Time) (query.Selection, error) {
	sel := query.Selection{Family: strings.TrimSpace(in.Family)}
	named, ms, err := in.Match.Parse("match")
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
	if sel.End, err = in.End.Parse("end", now, now); err != nil {
		return sel, err
	}
	sel.Start, err = in.Start.Parse("start", now, sel.End.Add(-defaultRange))
	return sel, err
}

// Grid are the parameters that cut a range into columns.
type Grid struct {
	Step  Duration `query:"step" doc:"length of a column; chosen by width unless given"`
	Width Int      `query:"width" doc:"the most columns wanted"`
}

func (in *Grid) parse() (query.Grid, error) {
	step, err := in.Step.Seconds("step")
	if err != nil {
		return query.Grid{}, err
	}
	if in.Step != "" && step <= 0 {
		return query.Grid{}, query.Invalid("step", "a step of %s is not positive; write a duration such as 60s", in.Step)
	}
	width, err := in.Width.Parse("width")
	return query.Grid{Step: step, Width: width}, err
}

type servicesInput struct {
	Selection
	Grid
	Q      List `query:"q" doc:"quantiles between 0 and 1, parted by commas; 0.5,0.95,0.99 unless said otherwise"`
	ApdexT List `query:"apdex_t" doc:"seconds that satisfy a user, for every service; each service's own target unless given"`
}

type distributionInput struct {
	Selection
	By      List `query:"by" doc:"labels to group by, parted by commas"`
	Q       List `query:"q" doc:"quantiles between 0 and 1, parted by commas; 0.5,0.95,0.99 unless said otherwise"`
	At      List `query:"at" doc:"values to rank"`
	Buckets Bool `query:"buckets" doc:"answer the buckets too"`
	Limit   Int  `query:"limit" doc:"keep only so many groups, those with the most observations"`
}

type heatmapInput struct {
	Selection
	Grid
	Rows Int `query:"rows" doc:"the most rows wanted"`
}

type timelineInput struct {
	Selection
	Grid
	By     List     `query:"by" doc:"labels to group by, parted by commas"`
	Q      List     `query:"q" doc:"quantiles between 0 and 1, parted by commas; 0.5,0.95,0.99 unless said otherwise"`
	Offset Duration `query:"offset" doc:"read the data that much earlier and move it forward"`
	Overlay
	Per   string   `query:"per" doc:"request divides the increase of a counter by the requests of the service that match names"`
	Slide Duration `query:"slide" doc:"make the figures of a step those of the window of that length that ends with it, such as 10m"`
	Limit Int      `query:"limit" doc:"keep only so many groups, those with the most observations"`
}

type labelsInput struct {
	Selection
	Names List `query:"names" doc:"only these labels"`
	Limit Int  `query:"limit" doc:"values per label"`
}

type nearestInput struct {
	Family string   `query:"family" doc:"what is measured; span_duration_seconds unless said otherwise"`
	Match  Selector `query:"match"`
	Time   Time     `query:"time" doc:"the moment; now unless said otherwise"`
	By     List     `query:"by" doc:"labels to group by, parted by commas"`
	Q      List     `query:"q" doc:"quantiles between 0 and 1, parted by commas; 0.5,0.95,0.99 unless said otherwise"`
}

type familiesInput struct {
	Service string `query:"service" doc:"only families that this service has series of, on the days of the range"`
	Start   Time   `query:"start" doc:"beginning of the range, inclusive; six hours before end unless said otherwise"`
	End     Time   `query:"end" doc:"end of the range, exclusive; now unless said otherwise"`
}

type nothing struct{}

// body wraps a response for huma.
type body[T any] struct{ Body *T }

const (
	defaultQuantiles         = "0.5,0.95,0.99"
	defaultTimelineQuantiles = "0.5,0.95,0.99"
)

// register makes huma serve the JSON API on mux.
func (s *server) register(mux *http.ServeMux) {
	version := s.Status.Version
	if version == "" {
		version = "dev"
	}
	cfg := huma.DefaultConfig("Tailscope", version)
	cfg.CreateHooks = nil
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	cfg.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[api.Float](), reflect.TypeFor[numberOrNull]())
	cfg.DocsPath, cfg.SchemasPath = "", ""
	cfg.OpenAPIPath = "/openapi"
	cfg.Info.Description = "Whole distributions over time. Times are Unix seconds, durations are seconds, NaN is null."
	cfg.Formats = map[string]huma.Format{
		"application/json": {Marshal: marshal, Unmarshal: huma.DefaultJSONFormat.Unmarshal},
		// Only huma's own errors want this one, should it ever find a reason.
		"application/problem+json": {Marshal: marshalProblem},
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
	// huma describes its own errors too, which are never answered.
	for name := range a.OpenAPI().Components.Schemas.Map() {
		if strings.HasPrefix(name, humaPrefix) {
			delete(a.OpenAPI().Components.Schemas.Map(), name)
		}
	}
}

// numberOrNull describes api.Float, of which what is not a number is null.
type numberOrNull float64

func (numberOrNull) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber, Format: "double", Nullable: true}
}

const humaPrefix = "Huma"

// schemaName keeps huma's own types apart from ours of the same name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if strings.HasSuffix(t.PkgPath(), "danielgtaylor/huma/v2") {
		name = humaPrefix + name
	}
	return name
}

// get registers GET /api/v1/name.
func get[I, O any](s *server, a huma.API, name, summary string, answer func(context.Context, *I) (*O, error)) {
	register(s, a, http.MethodGet, "/api/v1/"+name, "get-"+name, summary, http.StatusOK, func(ctx context.Context, in *I) (*body[O], error) {
		out, err := answer(ctx, in)
		if err != nil {
			return nil, s.failed(ctx, name, err)
		}
		return &body[O]{out}, nil
	})
}

func register[I, O any](s *server, a huma.API, method, path, id, summary string, status int, h func(context.Context, *I) (*O, error)) {
	op := huma.Operation{
		Method: method, Path: path, OperationID: id, Summary: summary, DefaultStatus: status,
		SkipValidateParams: true, SkipValidateBody: true,
		Responses: map[string]*huma.Response{"default": {
			Description: "what is wrong and what to write instead",
			Content: map[string]*huma.MediaType{"application/json": {
				Schema: a.OpenAPI().Components.Schemas.Schema(errorType, true, "Error"),
			}},
		}},
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

func (s *server) services(ctx context.Context, in *servicesInput) (*api.ServicesResponse, error) {
	sel, err := in.Selection.parse(s.Now())
	if err != nil {
		return nil, err
	}
	r := query.ServicesRequest{Selection: sel}
	if r.Grid, err = in.Grid.parse(); err != nil {
		return nil, err
	}
	if r.Quantiles, err = query.ParseQuantiles(string(in.Q), defaultQuantiles); err != nil {
		return nil, err
	}
	t, err := in.ApdexT.Floats("apdex_t")
	if err != nil {
		return nil, err
	}
	if len(t) > 1 || len(t) == 1 && t[0] <= 0 {
		return nil, query.Invalid("apdex_t", "apdex_t must be one positive number of seconds, such as 0.5")
	}
	if len(t) == 1 {
		r.ApdexT = t[0]
	}
	set, err := s.targets.All(ctx)
	if err != nil {
		return nil, err
	}
	r.Target = set.OfService
	out, err := query.Services(ctx, s.Store, r)
	if err != nil {
		return nil, err
	}
	return out, s.latestMarks(ctx, out.Services, sel.Start, sel.End)
}

func (s *server) distribution(ctx context.Context, in *distributionInput) (*api.DistributionResponse, error) {
	sel, err := in.Selection.parse(s.Now())
	if err != nil {
		return nil, err
	}
	r := query.DistributionRequest{Selection: sel}
	if r.By, err = in.By.Names("by"); err != nil {
		return nil, err
	}
	if r.Quantiles, err = query.ParseQuantiles(string(in.Q), defaultQuantiles); err != nil {
		return nil, err
	}
	if r.At, err = in.At.Floats("at"); err != nil {
		return nil, err
	}
	if r.Buckets, err = in.Buckets.Parse("buckets"); err != nil {
		return nil, err
	}
	if r.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	r.List = s.TenantList
	return query.Distribution(ctx, s.Store, r)
}

func (s *server) heatmap(ctx context.Context, in *heatmapInput) (*api.HeatmapResponse, error) {
	sel, err := in.Selection.parse(s.Now())
	if err != nil {
		return nil, err
	}
	r := query.HeatmapRequest{Selection: sel}
	if r.Grid, err = in.Grid.parse(); err != nil {
		return nil, err
	}
	if r.Rows, err = in.Rows.Parse("rows"); err != nil {
		return nil, err
	}
	return query.Heatmap(ctx, s.Store, r)
}

func (s *server) timeline(ctx context.Context, in *timelineInput) (*api.TimelineResponse, error) {
	sel, err := in.Selection.parse(s.Now())
	if err != nil {
		return nil, err
	}
	r := query.TimelineRequest{Selection: sel}
	if r.Grid, err = in.Grid.parse(); err != nil {
		return nil, err
	}
	if r.By, err = in.By.Names("by"); err != nil {
		return nil, err
	}
	if r.Quantiles, err = query.ParseQuantiles(string(in.Q), defaultTimelineQuantiles); err != nil {
		return nil, err
	}
	if r.Offset, err = in.Offset.Parse("offset"); err != nil {
		return nil, err
	}
	if r.Slide, err = in.Slide.Parse("slide"); err != nil {
		return nil, err
	}
	r.Per, r.List = in.Per, s.TenantList
	if r.Overlay, err = in.Overlay.parse(); err != nil {
		return nil, err
	}
	if r.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	return query.Timeline(ctx, s.Store, r)
}

func (s *server) labels(ctx context.Context, in *labelsInput) (*api.LabelsResponse, error) {
	sel, err := in.Selection.parse(s.Now())
	if err != nil {
		return nil, err
	}
	r := query.LabelsRequest{Selection: sel}
	if r.Names, err = in.Names.Names("names"); err != nil {
		return nil, err
	}
	if r.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	return query.Labels(ctx, s.Store, r)
}

func (s *server) nearest(ctx context.Context, in *nearestInput) (*api.NearestResponse, error) {
	sel, err := (&Selection{Family: in.Family, Match: in.Match}).parse(s.Now())
	if err != nil {
		return nil, err
	}
	r := query.NearestRequest{Selection: sel}
	if r.Time, err = in.Time.Parse("time", s.Now(), s.Now()); err != nil {
		return nil, err
	}
	if r.By, err = in.By.Names("by"); err != nil {
		return nil, err
	}
	if r.Quantiles, err = query.ParseQuantiles(string(in.Q), defaultQuantiles); err != nil {
		return nil, err
	}
	return query.Nearest(ctx, s.Store, r)
}

func (s *server) families(ctx context.Context, in *familiesInput) (*api.FamiliesResponse, error) {
	sel, err := s.span(Span{Start: in.Start, End: in.End})
	if err != nil {
		return nil, err
	}
	return query.Families(ctx, s.Store, query.FamiliesRequest{Service: in.Service, Start: sel.Start, End: sel.End})
}

func (s *server) status(ctx context.Context, _ *nothing) (*api.StatusResponse, error) {
	all, err := s.Store.Families(ctx)
	if err != nil {
		return nil, err
	}
	out := s.Status
	out.Now = api.Float(float64(s.Now().UnixMilli()) / 1e3)
	out.HasData = len(all) > 0
	out.Problems = []api.Problem{}
	if s.Problems != nil {
		out.Problems = append(out.Problems, s.Problems()...)
	}
	return &out, nil
}
