package httpapi

import (
	"context"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/query"
)

type compareInput struct {
	Selection
	A        string   `query:"a" doc:"side A: start/end such as now-2h/now-1h, or a value of label"`
	B        string   `query:"b" doc:"side B, in the same manner"`
	Mark     string   `query:"mark" doc:"id of a mark: compares what lies before and after it, instead of a and b"`
	Label    string   `query:"label" doc:"label of which a and b are values, such as version; both sides are then of the range"`
	Settle   Duration `query:"settle" doc:"left out after a mark; a slot unless said otherwise"`
	Window   Duration `query:"window" doc:"how long each side of a mark is; an hour unless said otherwise"`
	Level    List     `query:"level" doc:"confidence of intervals, between 0.5 and 1; 0.95 unless said otherwise"`
	Within   List     `query:"within" doc:"relative change that is still the same; 0.05 unless said otherwise"`
	Measures List     `query:"measures" doc:"what to judge: p50, p75, p90, p95, p99, p99.9, mean, errors, apdex; of a metric also rate and per_request; all unless said otherwise"`
	Live     Bool     `query:"live" doc:"intervals that hold however often the comparison is looked at while data comes in"`
	Include  List     `query:"include" doc:"what to answer besides: curve (both distributions and the ratio of their quantiles), heat (where requests went)"`
	Width    Int      `query:"width" doc:"columns of a side of the heat, at most 2000; 240 unless said otherwise"`
	Rows     Int      `query:"rows" doc:"rows of the heat, at most 640; 120 unless said otherwise"`
	Per      string   `query:"per" doc:"request: the increase of a counter, or the sum of a distribution, for each request of the service"`
	Days     Int      `query:"days" doc:"how many earlier days side A is made of, at the hours of b; a is then left out; 4 if like is given"`
	Like     string   `query:"like" doc:"which earlier days: day, weekday (of the weeks before) or workday; weekday if days is given"`
	TZ       string   `query:"tz" doc:"time zone whose clocks say what the same time of another day is, such as Europe/Berlin; UTC unless said otherwise"`
	Limit    Int      `query:"limit" doc:"operations and tenants to list, at most 500 each; 20 unless said otherwise"`
}

func (s *server) registerCompare(a huma.API) {
	get(s, a, "compare", "What differs between two sides, and how surely", s.compare)
}

func (s *server) compare(ctx context.Context, in *compareInput) (*api.CompareResponse, error) {
	now := s.Now()
	sel, err := in.Selection.parse(now)
	if err != nil {
		return nil, err
	}
	r := compare.Request{Selection: sel, Mark: in.Mark, Label: strings.TrimSpace(in.Label), Now: now, Settle: -1}
	if s.TenantList.Len() > 0 {
		r.CohortOf = s.TenantList.Cohort
	}
	if in.Mark != "" {
		for field, v := range map[string]string{"a": in.A, "b": in.B, "label": in.Label, "days": string(in.Days), "like": in.Like} {
			if v != "" {
				return nil, query.Invalid(field, "a mark says what the sides are; leave %s out, or the mark", field)
			}
		}
	}
	switch {
	case in.Label != "":
		r.ValueA, r.ValueB = in.A, in.B
	case in.Mark == "":
		if in.earlier() {
			if in.A != "" {
				return nil, query.Invalid("a", "days and like say what side A is; leave a out, or them")
			}
		} else if r.A, err = parseWindow("a", in.A, now); err != nil {
			return nil, err
		}
		if r.B, err = parseWindow("b", in.B, now); err != nil {
			return nil, err
		}
	}
	if in.Settle != "" {
		if r.Settle, err = in.Settle.Parse("settle"); err != nil {
			return nil, err
		}
		if r.Settle < 0 {
			return nil, query.Invalid("settle", "settle is negative; write how long to leave out, such as 30s")
		}
	}
	if r.Length, err = in.Window.Parse("window"); err != nil {
		return nil, err
	}
	if in.Window != "" && r.Length <= 0 {
		return nil, query.Invalid("window", "window is not positive; write how long a side is, such as 1h")
	}
	if r.Level, err = in.Level.one("level", "0.95"); err != nil {
		return nil, err
	}
	if r.Within, err = in.Within.one("within", "0.05"); err != nil {
		return nil, err
	}
	if r.Measures, err = in.Measures.Names("measures"); err != nil {
		return nil, err
	}
	if r.Limit, err = in.Limit.Parse("limit"); err != nil {
		return nil, err
	}
	if err := in.more(&r); err != nil {
		return nil, err
	}
	set, err := s.targets.All(ctx)
	if err != nil {
		return nil, err
	}
	r.Target = func(service, operation string) float64 {
		t, _ := set.T(service, operation)
		return t
	}
	return compare.Compare(ctx, s.Store, r)
}

// earlier says that side A is of earlier days.
func (in *compareInput) earlier() bool { return in.Days != "" || in.Like != "" }

// more reads what further is asked.
func (in *compareInput) more(r *compare.Request) (err error) {
	if in.earlier() && in.Label != "" {
		return query.Invalid("days", "values of a label are of the same range; leave days and like out, or label")
	}
	if r.Live, err = in.Live.Parse("live"); err != nil {
		return err
	}
	if r.Include, err = in.Include.Names("include"); err != nil {
		return err
	}
	if r.Width, err = in.Width.Parse("width"); err != nil {
		return err
	}
	if r.Rows, err = in.Rows.Parse("rows"); err != nil {
		return err
	}
	if r.Days, err = in.Days.Parse("days"); err != nil {
		return err
	}
	r.Like, r.Per = in.Like, in.Per
	r.Zone, err = query.Zone("tz", in.TZ)
	return err
}

// parseWindow reads start/end.
func parseWindow(field, text string, now time.Time) (w compare.Window, err error) {
	start, end, ok := strings.Cut(text, "/")
	if !ok || strings.TrimSpace(start) == "" || strings.TrimSpace(end) == "" {
		return w, query.Invalid(field, "%s is not a window: write its start and end, such as now-2h/now-1h; or compare a mark, or two values of a label", quote(text))
	}
	if w.Start, err = Time(start).Parse(field, now, now); err != nil {
		return w, err
	}
	if w.End, err = Time(end).Parse(field, now, now); err != nil {
		return w, err
	}
	if !w.End.After(w.Start) {
		return w, query.Invalid(field, "%s ends before it begins; write start/end, such as now-2h/now-1h", quote(text))
	}
	return w, nil
}
