package httpapi

import (
	"context"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/compare/changes"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/judge/marks"
	"tailscope/internal/query"
)

func (s *server) registerCompare(a huma.API) {
	get(s, a, "compare", "What differs between two sides, and how surely", s.compare)
}

func (s *server) compare(ctx context.Context, in *api.CompareRequest) (*api.CompareResponse, error) {
	now := s.Now()
	sel, err := s.selection(in.Selection)
	if err != nil {
		return nil, err
	}
	r := compare.Request{Selection: sel, Mark: in.Mark, Label: strings.TrimSpace(in.Label), Now: now, Settle: -1, Length: in.Window,
		Level: in.Level, Within: in.Within, Measures: in.Measures, Limit: in.Limit, Live: in.Live, Include: in.Include,
		Width: in.Width, Rows: in.Rows, Days: in.Days, Like: in.Like, Per: in.Per, Newest: s.Seconds}
	if r.Gates, err = judge.ParseGates(strings.Join(in.Allow, ",")); err != nil {
		return nil, query.Invalid("allow", "%v", err)
	}
	r.CohortOf = s.cohortOf()
	if in.Mark != "" {
		for field, v := range map[string]string{"a": in.A, "b": in.B, "label": in.Label, "like": in.Like} {
			if v != "" {
				return nil, query.Invalid(field, "a mark says what the sides are; leave %s out, or the mark", field)
			}
		}
		if in.Days != 0 {
			return nil, query.Invalid("days", "a mark says what the sides are; leave days out, or the mark")
		}
	}
	if r.Zone, err = query.Zone("tz", in.Zone); err != nil {
		return nil, err
	}
	switch {
	case in.Label != "":
		r.ValueA, r.ValueB = in.A, in.B
	case in.Mark == "":
		if earlier(in) {
			if in.A != "" {
				return nil, query.Invalid("a", "days and like say what side A is; leave a out, or them")
			}
		} else if r.A, r.WindowsA, r.WantedA, err = parseSide("a", in.A, r.Zone, now); err != nil {
			return nil, err
		}
		if r.B, r.WindowsB, r.WantedB, err = parseSide("b", in.B, r.Zone, now); err != nil {
			return nil, err
		}
	}
	if in.Settle != nil {
		r.Settle = *in.Settle
		if r.Settle < 0 {
			return nil, query.Invalid("settle", "settle is negative; write how long to leave out, such as 30s")
		}
	}
	if earlier(in) && in.Label != "" {
		return nil, query.Invalid("days", "values of a label are of the same range; leave days and like out, or label")
	}
	if r.Target, err = s.target(ctx); err != nil {
		return nil, err
	}
	r.OfRows = in.Measures
	var out *api.CompareResponse
	if r.Mark != "" {
		at := marks.Around{Store: s.Store, Changes: s.cuts(now)}
		out, err = at.Compare(ctx, s.Verdicts, r)
	} else {
		out, err = compare.Compare(ctx, s.Store, r)
	}
	if err == nil && out.A.Requests+out.B.Requests == 0 && !r.B.End.After(r.Now) { // else it may come yet
		err = query.CheckNames(ctx, s.Store, sel)
	}
	if err != nil {
		return nil, err
	}
	out.Sentence = figure.Sentence(out.Sentence)
	return out, nil
}

// cuts returns what finds the changes that no side of a comparison may hold.
func (s *server) cuts(now time.Time) func(context.Context, query.Selection) ([]api.Change, error) {
	return func(ctx context.Context, of query.Selection) ([]api.Change, error) {
		return s.changes.Cuts(ctx, changes.Request{Selection: of, CohortOf: s.cohortOf(), Now: now})
	}
}

// cohortOf returns what tells a tenant's cohort by the list of tenants, nil if there is none.
func (s *server) cohortOf() func(tenant string) (cohort string, ok bool) {
	if s.TenantList.Len() == 0 {
		return nil
	}
	return s.TenantList.Cohort
}

// target returns what satisfies a user of an operation, in seconds.
func (s *server) target(ctx context.Context) (func(service, operation string) float64, error) {
	set, err := s.targets.All(ctx)
	if err != nil {
		return nil, err
	}
	return func(service, operation string) float64 {
		t, _ := set.T(service, operation)
		return t
	}, nil
}

// earlier says that side A is of earlier days.
func earlier(in *api.CompareRequest) bool { return in.Days != 0 || in.Like != "" }

// parseSide reads start/end; several of them, which commas divide; or a window that
// repeats, with how many of it are wanted.
func parseSide(field, text string, zone *time.Location, now time.Time) (w compare.Window, several []compare.Window, wanted int, err error) {
	if compare.Repeats(text) {
		r, err := compare.ParseRepeat(field, text, now, func(s string) (time.Time, error) { return Time(s).Parse(field, now, now) })
		if err != nil {
			return w, nil, 0, err
		}
		if several = r.Windows(zone, now); len(several) == 0 {
			return w, nil, 0, query.TooEarly(field, "none of the windows of %s is over yet; ask again later", quote(text))
		}
		return w, several, r.Count, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) == 1 {
		w, err = parseWindow(field, text, now)
		return w, nil, 0, err
	}
	for _, part := range parts {
		if w, err = parseWindow(field, part, now); err != nil {
			return w, nil, 0, err
		}
		several = append(several, w)
	}
	return compare.Window{}, several, 0, nil
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
