package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/figure"
	"tailscope/internal/judge/refresh"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// For whom a service is worse than usual follows from each tenant's share of bad requests:
// failed ones, or those slower than most of its own before, in the last minutes and before.
// Who is slow as ever is not named, and neither is anybody of whom it is not sure.
const (
	mostWhom       = 3      // services that are looked at, those with the most requests
	mostWhomSeries = 20_000 // series of tenants that a service is looked at with
	whomBefore     = 3600   // seconds before, at most
	namedAtMost    = 3      // tenants in a sentence
	whomTimes      = 1000   // for how many times as long as it took it is kept
	whomLongest    = 5 * time.Minute

	// doubtful is the number of requests that say as much as one independent one: those of a moment are
	// alike, and one of many tenants is looked for.
	doubtful = 3.0
	// farther is by how much more than anybody else's the share of those named rose.
	farther = 2.0
	// nearlyAll is the share of requests whose tenants are judged where all of them are.
	nearlyAll = 0.8
)

// whomWindows are the stretches before the end of now that are looked at, in seconds: a
// longer one has more requests of each tenant.
var whomWindows = [...]int64{minuteLong, 5 * minuteLong}

// WhomCache keeps for whom services are worse for a minute, or for whomTimes as long as it took
// to find, and at most for whomLongest. The zero value is ready.
type WhomCache struct {
	once sync.Once
	kept refresh.Cache[api.ServiceWhom]
}

// name adds to the services that are worse by their requests for whom they are. q is the
// question of what is now.
func (c *WhomCache) name(ctx context.Context, st store.Store, q store.Query, r *ServicesRequest, out *api.ServicesResponse, all *usualOfAll) error {
	if c == nil {
		return nil
	}
	var worse []*api.Service
	for i := range out.Services {
		s := &out.Services[i]
		if u := all.of[serviceIn{s.Name, s.Environment}]; u != nil && u.hours.End > u.hours.Start && len(badOf(s)) > 0 {
			worse = append(worse, s)
		}
	}
	slices.SortStableFunc(worse, func(a, b *api.Service) int { return cmp.Compare(b.Now.Requests, a.Now.Requests) })
	c.once.Do(func() {
		c.kept.Size, c.kept.Fresh, c.kept.Times, c.kept.Longest = 64, time.Minute, whomTimes, whomLongest
	})
	for _, s := range worse[:min(len(worse), mostWhom)] {
		hours := all.of[serviceIn{s.Name, s.Environment}].hours
		key := fmt.Sprint(s.Name, "\x00", s.Environment, "\x00", q.Matchers, badOf(s))
		found, err := c.kept.Get(ctx, key, r.Now, func() (*api.ServiceWhom, error) {
			found, err := whom(ctx, st, q, r, s, hours)
			var invalid *Error
			if errors.As(err, &invalid) || errors.Is(err, store.ErrTooMany) {
				return &api.ServiceWhom{}, nil
			}
			return found, err
		})
		if err != nil {
			return err
		}
		if found.Sentence != "" {
			s.Whom = found
		}
	}
	return nil
}

// bad says which requests are: those that failed, or those that took longer than a quantile
// of the same tenant's before.
type bad struct {
	failed   bool
	quantile float64
}

// badOf returns what is bad of the requests by which a service is worse, the surest first.
func badOf(s *api.Service) (of []bad) {
	if s.Outside[figureErrors] == api.Worse {
		of = append(of, bad{failed: true})
	}
	if s.Outside[figureP50] == api.Worse || s.Outside[figureP99] == api.Worse {
		of = append(of, bad{quantile: 0.9}, bad{quantile: 0.99})
	}
	return of
}

// tenantRequests are those of one tenant in a stretch of time.
type tenantRequests struct {
	all    *hist.Histogram
	failed float64
}

// badShare counts bad requests among others.
type badShare struct {
	bad, all float64
	squares  float64 // Σw²
}

func (b *badShare) add(o badShare) {
	b.bad, b.all, b.squares = b.bad+o.bad, b.all+o.all, b.squares+o.squares
}

func (b badShare) less(o badShare) badShare {
	return badShare{max(0, b.bad-o.bad), max(0, b.all-o.all), max(0, b.squares-o.squares)}
}

// alone returns the number of independent requests that say as much.
func (b badShare) alone() float64 {
	if !(b.squares > 0) {
		return 0
	}
	return b.all * b.all / b.squares
}

func (b badShare) interval() (low, high float64) { return wilson(b.bad/b.all, b.alone()/doubtful) }

// riser is a tenant, a cohort or all others, now and before.
type riser struct {
	name        string
	now, before badShare
}

// judged reports whether there are requests enough to say something.
func (r *riser) judged() bool {
	return r.now.alone() >= fewestRequests && r.before.alone() >= fewestRequests
}

// rise returns the interval of by how much the share of bad requests rose.
func (r *riser) rise() (low, high float64) {
	nowLow, nowHigh := r.now.interval()
	beforeLow, beforeHigh := r.before.interval()
	return nowLow - beforeHigh, nowHigh - beforeLow
}

// whom finds for whom a service is worse than it was in the hours.
func whom(ctx context.Context, st store.Store, q store.Query, r *ServicesRequest, s *api.Service, hours api.Range) (*api.ServiceWhom, error) {
	q.By, q.Measure, q.MaxSeries = []string{series.LabelTenant, series.LabelKind, series.LabelStatus}, store.Buckets, mostWhomSeries
	q.Matchers = append(slices.Clone(q.Matchers), labels.MustNewMatcher(labels.MatchEqual, series.LabelService, s.Name), InEnvironment(s.Environment))
	var err error
	if q.View, err = viewFor(q.Family, q.Matchers, q.By); err != nil {
		return nil, err
	}
	read := func(start, end, step int64) ([]store.Group, error) {
		q := q
		q.Start, q.End, q.Step = start, end, step
		res, err := st.Query(ctx, q)
		if err != nil || step > 0 && int64(res.Resolution) > step {
			return nil, err
		}
		return onlyRequests(res.Groups), nil
	}
	longest := whomWindows[len(whomWindows)-1]
	now, err := read(s.Now.End-longest, s.Now.End, int64(series.Base))
	if err != nil || len(now) == 0 {
		return &api.ServiceWhom{}, err
	}
	start, end := max(hours.Start, hours.End-whomBefore), min(hours.End, s.Now.End-longest)
	if end <= start {
		return &api.ServiceWhom{}, nil
	}
	before, err := read(start, end, 0)
	if err != nil {
		return nil, err
	}
	was, err := byTenant(before, 0)
	if err != nil {
		return nil, err
	}
	of := make([]map[string]*tenantRequests, len(whomWindows))
	for i, window := range whomWindows {
		if of[i], err = byTenant(now, s.Now.End-window); err != nil {
			return nil, err
		}
	}
	for _, b := range badOf(s) {
		for i := range of {
			risers := b.risers(of[i], was)
			if found := namesOf(risers); found != nil {
				return found, nil
			}
			if found := cohortsOfRisers(risers, r.List); found != nil {
				return found, nil
			}
		}
	}
	return &api.ServiceWhom{}, nil
}

// byTenant adds up the requests of each tenant from start on.
func byTenant(groups []store.Group, start int64) (map[string]*tenantRequests, error) {
	out := map[string]*tenantRequests{}
	for i := range groups {
		g := &groups[i]
		name := g.Labels.Get(series.LabelTenant)
		for _, p := range g.Points {
			if p.Hist == nil || p.Hist.Count == 0 || p.Start < start {
				continue
			}
			t := out[name]
			if t == nil {
				t = &tenantRequests{all: hist.New(hist.MaxSchema)}
				out[name] = t
			}
			if g.Labels.Get(series.LabelStatus) == statusError {
				t.failed += float64(p.Hist.Count)
			}
			if err := t.all.Merge(p.Hist); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// share returns how many of some requests are bad, where slow ones take longer than slow.
func (b bad) share(t *tenantRequests, slow float64) badShare {
	if t == nil {
		return badShare{}
	}
	out := badShare{bad: t.failed, all: float64(t.all.Count), squares: t.all.SquaredWeights()}
	if !b.failed {
		out.bad = out.all * above(t.all, slow)
	}
	return out
}

// risers puts the requests of now and before together, by name; those of no tenant have no
// name. Of who had few requests before none is said to be slow.
func (b bad) risers(now, before map[string]*tenantRequests) []riser {
	var out []riser
	for name, n := range now {
		was, slow := before[name], math.Inf(1)
		if was != nil && was.all.Effective() >= fewestRequests {
			slow = was.all.Quantile(b.quantile)
		}
		out = append(out, riser{name, b.share(n, slow), b.share(was, slow)})
	}
	slices.SortFunc(out, func(a, b riser) int { return strings.Compare(a.name, b.name) })
	return out
}

// isNamed reports whether a tenant may be named: requests of nobody, and those that are
// folded together, are of several.
func isNamed(r *riser) bool { return r.name != "" && r.name != series.Other }

// namesOf names the tenants whose share of bad requests surely rose farther than that of
// anybody else, or says that it rose for all; nil if neither is sure.
func namesOf(risers []riser) *api.ServiceWhom {
	if names := farthest(risers, namedAtMost); names != nil {
		return &api.ServiceWhom{Sentence: "worst for " + figure.Listed(names), Tenants: names}
	}
	rose, all, judged := 0, 0.0, 0.0
	for i := range risers {
		r := &risers[i]
		all += r.now.all
		if !isNamed(r) || !r.judged() {
			continue
		}
		judged += r.now.all
		if low, _ := r.rise(); low <= 0 {
			return nil
		}
		rose++
	}
	if rose < 2 || judged < nearlyAll*all {
		return nil
	}
	return &api.ServiceWhom{Sentence: "worse for all tenants"}
}

// farthest returns the at most so many risers, not all of them, whose share of bad requests
// surely rose, and farther than that of each other and of those together that have too few
// requests to be judged; nil if there are none.
func farthest(risers []riser, most int) []string {
	type bounds struct {
		low, middle, high float64
		name              string
		named             bool
	}
	var of []bounds
	rest, all := riser{}, 0.0
	for i := range risers {
		r := &risers[i]
		all += r.now.all
		if !r.judged() {
			rest.now.add(r.now)
			rest.before.add(r.before)
			continue
		}
		low, high := r.rise()
		of = append(of, bounds{low, r.now.bad/r.now.all - r.before.bad/r.before.all, high, r.name, isNamed(r)})
	}
	if rest.judged() {
		low, high := rest.rise()
		of = append(of, bounds{low, rest.now.bad/rest.now.all - rest.before.bad/rest.before.all, high, "", false})
	} else if rest.now.all > (1-nearlyAll)*all {
		return nil
	}
	slices.SortStableFunc(of, func(a, b bounds) int { return cmp.Compare(b.low, a.low) })
	var names []string
	for n := 1; n <= most && n < len(of); n++ {
		if !of[n-1].named || of[n-1].low <= 0 {
			return nil
		}
		names = append(names, of[n-1].name)
		if !slices.ContainsFunc(of[n:], func(o bounds) bool { return o.high >= of[n-1].low || farther*o.middle >= of[n-1].low }) {
			slices.Sort(names)
			return names
		}
	}
	return nil
}

// cohortsOfRisers names the cohort of tenants that farthest names among cohorts, also
// without the tenant of it that has the most bad requests; nil if there is none.
func cohortsOfRisers(risers []riser, list *series.TenantList) *api.ServiceWhom {
	total := 0.0
	for i := range risers {
		total += risers[i].now.all
	}
	cohorts, worst := map[string]*riser{}, map[string]*riser{}
	for i := range risers {
		r := &risers[i]
		name := ""
		if isNamed(r) {
			name = list.CohortOf(r.name, r.now.all/total)
		}
		c := cohorts[name]
		if c == nil {
			c = &riser{name: name}
			cohorts[name], worst[name] = c, r
		}
		c.now.add(r.now)
		c.before.add(r.before)
		if r.now.bad > worst[name].now.bad {
			worst[name] = r
		}
	}
	named := func(without *riser) []string {
		var of []riser
		for name, c := range cohorts {
			x := *c
			if without != nil && worst[name] == without {
				x.now, x.before = x.now.less(without.now), x.before.less(without.before)
			}
			of = append(of, x)
		}
		slices.SortFunc(of, func(a, b riser) int { return strings.Compare(a.name, b.name) })
		return farthest(of, 1)
	}
	if names := named(nil); len(names) == 1 && slices.Equal(named(worst[names[0]]), names) {
		return &api.ServiceWhom{Sentence: "worst for " + names[0] + " tenants", Cohort: names[0]}
	}
	return nil
}
