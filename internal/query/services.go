package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// DefaultApdexT is the response time, in seconds, that satisfies a user.
const DefaultApdexT = 0.5

func isRequest(g store.Group) bool { return series.IsRequest(g.Labels.Get(series.LabelKind)) }

// onlyRequests leaves those of a service's groups, told apart by kind, that are
// requests: all when none is. It uses the memory of groups.
func onlyRequests(groups []store.Group) []store.Group {
	if slices.ContainsFunc(groups, isRequest) {
		groups = slices.DeleteFunc(groups, func(g store.Group) bool { return !isRequest(g) })
	}
	return groups
}

// ServicesRequest asks for every service at a glance.
type ServicesRequest struct {
	Selection
	Grid      // of the sparklines
	Quantiles []Quantile
	ApdexT    float64 // seconds, for every service; 0 means each its own
	// Target gives the T of a service in seconds, and whether somebody set it; nil means
	// DefaultApdexT, which nobody set.
	Target func(service string) (t float64, set bool)
	Now    time.Time     // zero: all of the range is stored
	Newest *seconds.Ring // the newest requests; nil if they are not kept
	Rows   int           // the most rows of each service's strip; 0: no strips
	Usual  *UsualCache   // nil reads what is usual each time
	Past   *PastCache    // nil reads all columns each time
	Names  bool          // only names, environments, requests and errors
	// Whom keeps for whom services are worse than usual; nil: it is not asked. List, if
	// there is one, makes the cohorts.
	Whom *WhomCache
	List *series.TenantList
}

// target returns the T of a service, and whether it was set.
func (r *ServicesRequest) target(service string) (t float64, set bool) {
	switch {
	case r.ApdexT > 0:
		return r.ApdexT, false
	case r.Target != nil:
		return r.Target(service)
	}
	return DefaultApdexT, false
}

// servicesBy tells the requests of services apart, and those that failed.
var servicesBy = []string{series.LabelService, series.LabelEnvironment, series.LabelKind, series.LabelStatus}

// mostStripRows bounds the rows of a strip, of which each service has one.
const mostStripRows = 64

// serviceIn is a service in one environment. Each is listed and judged by itself.
type serviceIn struct{ name, environment string }

// serviceInOf returns the service of a group's labels, in its environment.
func serviceInOf(l labels.Labels) serviceIn {
	return serviceIn{l.Get(series.LabelService), l.Get(series.LabelEnvironment)}
}

// Services lists every service by name and environment. Its requests are its spans of kind
// server or consumer, or all of them when it has neither. Failed requests
// satisfy nobody: they count as frustrated in Apdex.
func Services(ctx context.Context, st store.Store, r ServicesRequest) (*api.ServicesResponse, error) {
	if r.ApdexT < 0 || math.IsNaN(r.ApdexT) || math.IsInf(r.ApdexT, 1) {
		return nil, Invalid("apdex_t", "apdex_t must be a positive number of seconds, such as 0.5")
	}
	if r.Rows < 0 || r.Rows == 1 || r.Rows > mostStripRows {
		return nil, Invalid("rows", "rows %d is not between 2 and %d", r.Rows, mostStripRows)
	}
	sel, err := resolve(ctx, st, r.Selection, servicesBy)
	if err != nil {
		return nil, err
	}
	if err := sel.wantDistribution("services"); err != nil {
		return nil, err
	}
	if r.Names {
		return serviceNames(ctx, st, r.Selection)
	}
	if r.Width == 0 && r.Step == 0 {
		r.Width = 60
	}
	r.exact = true
	found, q, err := r.columns(ctx, st, sel.q)
	if err != nil {
		return nil, err
	}
	out := &api.ServicesResponse{Range: api.Range{Start: q.Start, End: q.End}, Step: q.Step, Services: []api.Service{}}
	if len(found) == 0 {
		return out, nil
	}
	measured, err := newMeasured(ctx, st, r.Matchers, time.Unix(q.Start, 0), time.Unix(min(q.End, lastBase(r.End)), 0), r.Now, r.Newest, r.Past)
	if err != nil {
		return nil, err
	}
	for of, columns := range found {
		s := service(of, columns, q, &r)
		lasts, err := measured.secondsOf(of)
		if err != nil {
			return nil, err
		}
		s.Rate = api.Float(float64(s.Requests) / lasts)
		out.Services = append(out.Services, s)
	}
	slices.SortFunc(out.Services, byName)
	return out, nowOfServices(ctx, st, sel.q, r, out, found)
}

func byName(a, b api.Service) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Environment, b.Environment))
}

// serviceNames lists services with their requests and errors alone, of which no
// distribution is read.
func serviceNames(ctx context.Context, st store.Store, sel Selection) (*api.ServicesResponse, error) {
	found, err := Requests(ctx, st, RequestsRequest{Selection: sel, Whole: true, Measure: store.Moments})
	if err != nil {
		return nil, err
	}
	out := &api.ServicesResponse{Range: api.Range{Start: found.Start, End: found.End}, Services: []api.Service{}}
	nan := api.Float(math.NaN())
	for i := range found.Groups {
		g := &found.Groups[i]
		of := serviceInOf(g.Labels)
		s := api.Service{Name: of.name, Environment: of.environment, Requests: g.Count(0), Rate: nan, ErrorRate: nan, Apdex: nan, ApdexT: nan, Mean: nan, Error: nan}
		if failed := g.Failed[0]; failed != nil {
			s.Errors = failed.Count
		}
		out.Services = append(out.Services, s)
	}
	slices.SortFunc(out.Services, byName)
	return out, nil
}

func byService(groups []store.Group) map[serviceIn][]store.Group {
	found := map[serviceIn][]store.Group{}
	for _, g := range groups {
		of := serviceInOf(g.Labels)
		found[of] = append(found[of], g)
	}
	return found
}

func service(of serviceIn, columns *serviceColumns, q store.Query, r *ServicesRequest) api.Service {
	apdexT, _ := r.target(of.name)
	all, n := columns.all, len(columns.of)
	s := api.Service{
		Name: of.name, Environment: of.environment, Requests: all.Count, Errors: columns.errors, ErrorRate: api.Float(float64(columns.errors) / float64(all.Count)),
		Apdex: api.Float(ScoreApdex(columns.good, columns.errors, apdexT).Score), ApdexT: api.Float(apdexT),
		Mean: api.Float(all.Mean()), Quantiles: quantiles(all, r.Quantiles), Error: api.Float(all.RelativeError()),
		Weighted: all.Weighted, Effective: Effective(all.Moment()), Sparkline: api.Sparkline{Rate: nans(n), P95: nans(n)},
	}
	t := &timeline{start: q.Start, step: q.Step, until: lastBase(r.End)}
	for i, c := range columns.of {
		if c.count > 0 {
			s.Sparkline.Rate[i], s.Sparkline.P95[i] = api.Float(float64(c.count)/t.seconds(i)), api.Float(c.p95)
		}
	}
	if r.Rows > 0 {
		s.Strip = stripOf(columns.of, r.Rows)
	}
	return s
}

// stripOf returns the cells of one service, of which one at least has requests, as a small
// heatmap.
func stripOf(cells []column, limit int) *api.Strip {
	var all []*hist.Histogram
	for _, c := range cells {
		if c.hist != nil {
			all = append(all, c.hist)
		}
	}
	if len(all) == 0 {
		return nil
	}
	rows := NewRows(all, limit)
	bounds := rows.Bounds()
	out := &api.Strip{Bounds: make([]api.Float, len(bounds)), From: make([]int, len(cells)), Counts: make([][]uint64, len(cells))}
	for i, b := range bounds {
		out.Bounds[i] = api.Float(b)
	}
	dense := make([]uint64, len(bounds)-1)
	for i, c := range cells {
		out.Counts[i] = []uint64{}
		if c.hist == nil {
			continue
		}
		clear(dense)
		rows.Add(c.hist, dense)
		from, to := 0, len(dense)
		for from < to && dense[from] == 0 {
			from++
		}
		for to > from && dense[to-1] == 0 {
			to--
		}
		out.From[i], out.Counts[i] = from, slices.Clone(dense[from:to])
	}
	return out
}
