package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/series"
)

// asked is a question as huma hands it to a handler, which decodes its parameters: huma itself
// would split lists on commas, take one time format and answer in its own words. It is
// the same for all questions, since each type that huma is called with has its own copy of huma's handler
// in the program.
type asked struct{ param, part func(name string) string }

// Resolve implements huma.Resolver.
func (a *asked) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	a.param, a.part = u.Query().Get, ctx.Param
	return nil
}

// answerTo registers a GET of path that answers requests of type R.
func answerTo[R, O any](s *server, a huma.API, path, id, name, summary string, answer func(context.Context, *R) (*O, error)) {
	s.registerQuestion(a, path, id, name, summary, reflect.TypeFor[R](), reflect.TypeFor[body[O]](), func(ctx context.Context, in *asked) (any, any, error) {
		request := new(R)
		if err := decode(request, in.param, in.part); err != nil {
			return nil, nil, err
		}
		out, err := answer(ctx, request)
		return request, out, err
	})
}

// registerQuestion registers a GET of path. The types of its request and of its body are for the document.
func (s *server) registerQuestion(a huma.API, path, id, name, summary string, request, answers reflect.Type, answer func(context.Context, *asked) (request, out any, err error)) {
	h := func(ctx context.Context, in *asked) (*struct{ Body any }, error) {
		request, out, err := answer(ctx, in)
		if err == nil {
			err = s.checkNames(ctx, request, out)
		}
		if err == nil {
			s.warnTogether(ctx, request, out)
		}
		if err != nil {
			return nil, s.failed(ctx, name, err)
		}
		return &struct{ Body any }{out}, nil
	}
	register(s, a, http.MethodGet, path, id, summary, http.StatusOK, h, describe(request)...)
	ok := a.OpenAPI().Paths[path].Get.Responses[strconv.Itoa(http.StatusOK)]
	ok.Content["application/json"].Schema = huma.SchemaFromField(a.OpenAPI().Components.Schemas, answers.Field(0), "")
}

// checkNames looks, of an empty answer, whether nobody ever sent a name in match. Such an
// answer says so in its field instead, as lists do, which are asked for before there are
// data; one without that field is refused.
func (s *server) checkNames(ctx context.Context, request, out any) error {
	answer, ok := out.(interface{ Empty() bool })
	asked, selects := request.(interface{ Selected() api.Selection })
	if !ok || !selects || !answer.Empty() {
		return nil
	}
	sel, err := s.selection(asked.Selected())
	if err != nil {
		return nil // of a request whose range is of another kind, which has been answered
	}
	err = query.CheckNames(ctx, s.Store, sel)
	if list, ok := out.(interface{ Suggest(*api.Instead) }); ok && err != nil {
		if said := query.AsError(err).Instead; said != nil {
			list.Suggest(said)
			return nil
		}
	}
	return err
}

// warnTogether adds a warning to an answer that takes several environments together
// unasked. An answer stands without it if that cannot be known.
func (s *server) warnTogether(ctx context.Context, request, out any) {
	answer, ok := out.(interface{ Warn(string) })
	asked, selects := request.(interface{ Selected() api.Selection })
	if !ok || !selects {
		return
	}
	for _, field := range []string{"By", "Label"} {
		switch by := reflect.ValueOf(request).Elem().FieldByName(field); {
		case !by.IsValid():
		case by.Kind() == reflect.String && by.String() == series.LabelEnvironment:
			return
		case by.Kind() == reflect.Slice:
			if names, ok := by.Interface().([]string); ok && slices.Contains(names, series.LabelEnvironment) {
				return
			}
		}
	}
	sel, err := s.selection(asked.Selected())
	if err != nil {
		return
	}
	if sides, ok := out.(interface{ Covers() api.Range }); ok {
		covered := sides.Covers()
		sel.Start, sel.End = time.Unix(covered.Start, 0), time.Unix(covered.End, 0)
	}
	if text, err := query.Together(ctx, s.Store, sel); err == nil && text != "" {
		answer.Warn(text)
	}
}

// decode reads parameters into a request of package api. The first that is wrong
// is the error.
func decode(request any, param, part func(name string) string) error {
	v := reflect.ValueOf(request).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		text := ""
		name := f.Tag.Get("path")
		if name != "" {
			text = part(name)
		} else if name = f.Tag.Get("query"); name != "" {
			text = param(name)
		}
		if text == "" {
			continue
		}
		if err := decodeField(v.FieldByIndex(f.Index), f.Tag, name, text); err != nil {
			return err
		}
	}
	return nil
}

func decodeField(v reflect.Value, tag reflect.StructTag, name, text string) (err error) {
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = text
	case *api.Time:
		*p = api.Time(text)
	case *bool:
		*p, err = Bool(text).Parse(name)
	case **bool:
		*p = new(bool)
		**p, err = Bool(text).Parse(name)
	case *int:
		*p, err = Int(text).Parse(name)
	case *float64:
		*p, err = List(text).one(name, tag.Get("unit"), tag.Get("example"))
	case **float64:
		*p, err = parseBound(name, text)
	case *api.Quantile:
		*p, err = parseQuantile(name, text, tag.Get("example"))
	case *api.Share:
		*p, err = parseShare(name, text)
	case *time.Duration:
		*p, err = Duration(text).Parse(name)
		if wrong := tag.Get("positive"); err == nil && wrong != "" && *p <= 0 {
			err = query.Invalid(name, "%s", strings.ReplaceAll(wrong, "%s", text))
		}
	case **time.Duration:
		*p = new(time.Duration)
		**p, err = Duration(text).Parse(name)
	case *[]float64:
		*p, err = List(text).Floats(name)
	case *[]string:
		*p, err = List(text).Names(name)
	case *api.Quantiles:
		if strings.TrimSpace(text) != "" {
			*p = strings.Split(text, ",")
		}
	default:
		panic("httpapi: a parameter of type " + v.Type().String()) // a test decodes every request
	}
	return err
}

// parseQuantiles reads the quantiles of a request.
func parseQuantiles(qs api.Quantiles) ([]query.Quantile, error) {
	return query.ParseQuantiles(strings.Join(qs, ","), defaultQuantiles)
}

func parseQuantile(field, text, example string) (api.Quantile, error) {
	qs, err := query.ParseQuantiles(text, "")
	if err != nil || len(qs) != 1 || qs[0].Q == 0 || qs[0].Q == 1 {
		return 0, query.Invalid(field, "%s is not a quantile between 0 and 1; write one, such as %s", quote(text), example)
	}
	return api.Quantile(qs[0].Q), nil
}

// describe returns the parameters of a request of package api for /openapi.json.
func describe(request reflect.Type) []*huma.Param {
	var all []*huma.Param
	for _, f := range reflect.VisibleFields(request) {
		p := &huma.Param{Name: f.Tag.Get("query"), In: "query", Description: f.Tag.Get("doc"), Schema: schemaOf(f.Type)}
		if p.Name == "" {
			p.Name, p.In, p.Required = f.Tag.Get("path"), "path", true
		}
		if p.Name == "" {
			continue
		}
		if p.In == "query" {
			p.Explode = new(bool)
		}
		if p.Schema.Description == "" {
			p.Schema.Description = p.Description
		}
		if words := f.Tag.Get("enum"); words != "" {
			for _, w := range strings.Split(words, ",") {
				p.Schema.Enum = append(p.Schema.Enum, w)
			}
		}
		if example := f.Tag.Get("example"); example != "" {
			p.Schema.Examples = []any{example}
			if n, err := strconv.ParseFloat(example, 64); err == nil {
				p.Schema.Examples = []any{n}
			}
		}
		all = append(all, p)
	}
	return all
}

func schemaOf(t reflect.Type) *huma.Schema {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[api.Time]():
		return &huma.Schema{Type: "string", Description: "RFC 3339, Unix seconds, now, or now-6h", Examples: []any{"now-6h", "2026-05-09T08:00:00Z", "1778313600"}}
	case reflect.TypeFor[time.Duration]():
		return &huma.Schema{Type: "string", Description: "seconds, or a duration such as 30s, 5m, 1d, 1w", Examples: []any{"60", "5m", "1d"}}
	case reflect.TypeFor[api.Share]():
		return &huma.Schema{Type: "string"} // 1% is one too
	}
	switch t.Kind() {
	case reflect.Bool:
		return &huma.Schema{Type: "boolean"}
	case reflect.Int:
		return &huma.Schema{Type: "integer"}
	case reflect.Float64:
		return &huma.Schema{Type: "number"}
	case reflect.Slice:
		return &huma.Schema{Type: "string", Description: "a list parted by commas"}
	}
	return &huma.Schema{Type: "string"}
}
