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
	// Target gives the T of a service in seconds; nil means DefaultApdexT.
	Target func(service string) float64
	Now    time.Time     // zero: all of the range is stored
	Newest *seconds.Ring // the newest requests; nil if they are not kept
	Rows   int           // the most rows of each service's strip; 0: no strips
	Usual  *UsualCache   // nil reads what is usual each time
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
	if r.Width == 0 && r.Step == 0 {
		r.Width = 60
	}
	r.exact = true
	res, q, err := stepped(ctx, st, sel.q, r.Start, r.End, r.Grid, 0)
	if err != nil {
		return nil, err
	}
	out := &api.ServicesResponse{Range: api.Range{Start: q.Start, End: q.End}, Step: q.Step, Services: []api.Service{}}
	n := int((q.End - q.Start) / q.Step)
	if len(res.Groups) == 0 {
		return out, nil
	}
	measured, err := NewMeasured(ctx, st, r.Matchers, time.Unix(q.Start, 0), time.Unix(min(q.End, lastBase(r.End)), 0), r.Now, r.Newest)
	if err != nil {
		return nil, err
	}
	found := byService(res.Groups)
	t := r.ApdexT
	for of, groups := range found {
		if r.ApdexT == 0 {
			t = DefaultApdexT
			if r.Target != nil {
				t = r.Target(of.name)
			}
		}
		s, err := service(of, groups, q, n, r, t)
		if err != nil {
			return nil, err
		}
		lasts, err := measured.Seconds(func(service, environment string) bool { return of == serviceIn{service, environment} })
		if err != nil {
			return nil, err
		}
		s.Rate = api.Float(float64(s.Requests) / lasts)
		out.Services = append(out.Services, s)
	}
	slices.SortFunc(out.Services, func(a, b api.Service) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Environment, b.Environment))
	})
	return out, nowOfServices(ctx, st, sel.q, r, out, found)
}

func byService(groups []store.Group) map[serviceIn][]store.Group {
	found := map[serviceIn][]store.Group{}
	for _, g := range groups {
		of := serviceInOf(g.Labels)
		found[of] = append(found[of], g)
	}
	return found
}

func service(of serviceIn, groups []store.Group, q store.Query, n int, r ServicesRequest, apdexT float64) (api.Service, error) {
	groups = onlyRequests(groups)
	s := api.Service{Name: of.name, Environment: of.environment, ApdexT: api.Float(apdexT), Sparkline: api.Sparkline{Rate: nans(n), P95: nans(n)}}
	all, good := hist.New(hist.MaxSchema), hist.New(hist.MaxSchema)
	t := &timeline{start: q.Start, step: q.Step, n: n, until: lastBase(r.End), groups: map[string]*timelineGroup{}}
	for _, g := range groups {
		failed := g.Labels.Get(series.LabelStatus) == statusError
		for _, p := range g.Points {
			if p.Hist == nil {
				continue
			}
			if failed {
				s.Errors += p.Hist.Count
				if err := all.Merge(p.Hist); err != nil {
					return s, err
				}
			} else if err := good.Merge(p.Hist); err != nil {
				return s, err
			}
		}
	}
	if err := all.Merge(good); err != nil {
		return s, err
	}
	if err := t.distributions(&store.Result{Groups: groups}); err != nil {
		return s, err
	}
	for _, g := range t.order {
		for i, c := range g.cells {
			if c.hist != nil {
				s.Sparkline.Rate[i] = api.Float(float64(c.hist.Count) / t.seconds(i))
				s.Sparkline.P95[i] = api.Float(c.hist.Quantile(0.95))
			}
		}
		if r.Rows > 0 {
			s.Strip = stripOf(g.cells, r.Rows)
		}
	}
	s.Requests = all.Count
	s.ErrorRate = api.Float(float64(s.Errors) / float64(all.Count))
	s.Apdex = api.Float(ScoreApdex(good, s.Errors, apdexT).Score)
	s.Mean = api.Float(all.Mean())
	s.Quantiles = quantiles(all, r.Quantiles)
	s.Error = api.Float(all.RelativeError())
	s.Weighted, s.Effective = all.Weighted, Effective(all.Moment())
	return s, nil
}

// stripOf returns the cells of one service, of which one at least has requests, as a small
// heatmap.
func stripOf(cells []timelineCell, limit int) *api.Strip {
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
