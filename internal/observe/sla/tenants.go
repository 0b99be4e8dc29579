package sla

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	// fewRequests is the least number of requests in a period, or of as many as say as
	// much, for a tenant to be named.
	fewRequests = 100
	// heaviest bounds the tenants of a period that are examined: tenants with fewer
	// requests cannot have many frustrated ones.
	heaviest = 500
	// maxTenantSeries bounds the series that are read for one period.
	maxTenantSeries = 500_000
	// sure is by how many standard deviations the frustrated requests of a tenant must
	// exceed its share: among hundreds one is always unlucky.
	sure = 4
)

// tenantSums holds the requests of one tenant in one period.
type tenantSums struct {
	name string
	outcomes
}

func (t *tenantSums) api(target float64) (*api.SLATenant, error) {
	all, err := t.all()
	if err != nil {
		return nil, err
	}
	a := query.ScoreApdex(t.good, t.errors(), target)
	return &api.SLATenant{Name: t.name, Requests: a.Requests, Effective: query.Effective(all.Moment()), Apdex: float(a.Score), P95: float(all.Quantile(0.95))}, nil
}

// frustrated returns how many independent requests of so many, that say as much as these,
// are frustrated ones and others.
func (o *outcomes) frustrated(target float64) (frustrated, others float64) {
	a := query.ScoreApdex(o.good, o.errors(), target)
	each := o.effective() / float64(a.Requests)
	return a.Frustrated * each, (float64(a.Requests) - a.Frustrated) * each
}

// excess returns by how much the tenant's frustrated requests exceed its share of the
// requests, or 0 where that may be chance. The share is of all requests, the tenant's
// included, without which a tenant that sends nearly all could never stand out. Chance is
// judged by the likelihood ratio of the tenant and all others (the G-test, Sokal & Rohlf
// 2012, Biometry, chapter 17): of few frustrated requests, standard deviations alone are
// exceeded too often.
func (t *tenantSums) excess(target float64, of *outcomes) float64 {
	a, all := query.ScoreApdex(t.good, t.errors(), target), query.ScoreApdex(of.good, of.errors(), target)
	more := a.Frustrated - float64(a.Requests)*all.Frustrated/float64(all.Requests)
	if t.effective() < fewRequests || !(more > 0) || a.Requests >= all.Requests {
		return 0
	}
	mine, mineOthers := t.frustrated(target)
	// All others', as they would be of requests that weigh alike.
	each := of.effective() / float64(all.Requests)
	rest, restOthers := max(0, all.Frustrated-a.Frustrated)*each, float64(all.Requests-a.Requests)*each
	restOthers = max(0, restOthers-rest)
	if gain(mine, mineOthers, rest, restOthers) <= sure*sure {
		return 0
	}
	return more
}

// gain returns twice the logarithm of the likelihood ratio of two shares, a of a+b and c
// of c+d, that differ.
func gain(a, b, c, d float64) float64 {
	n := a + b + c + d
	sum := 0.0
	for _, x := range [...][3]float64{{a, a + b, a + c}, {b, a + b, b + d}, {c, c + d, a + c}, {d, c + d, b + d}} {
		if x[0] > 0 {
			sum += x[0] * math.Log(x[0]*n/(x[1]*x[2]))
		}
	}
	return 2 * sum
}

// worstTenant returns the tenant with the greatest excess, or nil if none has any.
func worstTenant(tenants []*tenantSums, of *outcomes, target float64) *tenantSums {
	var best *tenantSums
	most := 0.0
	for _, t := range tenants {
		if e := t.excess(target, of); e > most || e == most && e > 0 && t.name < best.name {
			best, most = t, e
		}
	}
	return best
}

// tenantBudget is the share of the remaining time for finding tenants.
const tenantBudget = 0.6

// findWorst finds each period's worst tenant. It leaves it out, with a note, when the
// selection is of one tenant, or there are too many to examine.
func (x *report) findWorst(ctx context.Context, rows []*row) error {
	if slices.ContainsFunc(x.Matchers, func(m *labels.Matcher) bool {
		return m.Name == series.LabelTenant || m.Name == series.LabelInstance || m.Name == series.LabelPeer
	}) {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(tenantBudget*float64(time.Until(deadline))))
		defer cancel()
	}
	// The newest first: they matter most if time runs out.
	for i := len(rows) - 1; i >= 0; i-- {
		r := rows[i]
		if r.effective() < fewRequests {
			continue
		}
		tenants, err := x.tenants(ctx, r)
		switch {
		case errors.Is(err, store.ErrTooMany), errors.Is(err, context.DeadlineExceeded):
			x.note("there are too many tenants to look for the worst before %s; a shorter period or an operation narrows them", rows[min(i+1, len(rows)-1)].name())
			return nil
		case err != nil:
			return err
		}
		r.tenants = tenants
		r.worst = worstTenant(tenants, &r.outcomes, x.t)
	}
	return nil
}

// tenants reads the heaviest tenants of a period in two queries, however many
// there are.
func (x *report) tenants(ctx context.Context, r *row) ([]*tenantSums, error) {
	named, err := labels.NewMatcher(labels.MatchNotRegexp, series.LabelTenant, "|"+series.Other)
	if err != nil {
		return nil, err
	}
	byName := map[string]*tenantSums{}
	var list []*tenantSums
	for _, match := range []labels.MatchType{labels.MatchNotEqual, labels.MatchEqual} {
		status, err := labels.NewMatcher(match, series.LabelStatus, "error")
		if err != nil {
			return nil, err
		}
		q := store.Query{
			Family: series.SpanDuration, View: series.Full, Matchers: append(slices.Clone(x.Matchers), named, status),
			Start: r.read[0], End: r.read[1], By: []string{series.LabelTenant}, Schema: hist.DefaultSchema,
			TopK: heaviest, MaxSeries: maxTenantSeries,
		}
		res, err := x.st.Query(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, g := range res.Groups {
			if len(g.Points) == 0 || g.Points[0].Hist == nil {
				continue
			}
			name := g.Labels.Get(series.LabelTenant)
			t := byName[name]
			if t == nil {
				t = &tenantSums{name: name}
				byName[name] = t
				list = append(list, t)
			}
			if match == labels.MatchEqual {
				t.failed = g.Points[0].Hist
			} else {
				t.good = g.Points[0].Hist
			}
		}
	}
	return list, nil
}

// worstOfAll returns the worst tenant over all periods.
func (x *report) worstOfAll(rows []*row, all *row) (*api.SLATenant, error) {
	sums := map[string]*tenantSums{}
	for _, r := range rows {
		for _, t := range r.tenants {
			if sums[t.name] == nil {
				sums[t.name] = &tenantSums{name: t.name}
			}
			if err := sums[t.name].add(t.good, t.failed); err != nil {
				return nil, err
			}
		}
	}
	list := make([]*tenantSums, 0, len(sums))
	for _, t := range sums {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *tenantSums) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	if w := worstTenant(list, &all.outcomes, x.t); w != nil {
		return w.api(x.t)
	}
	return nil, nil
}
