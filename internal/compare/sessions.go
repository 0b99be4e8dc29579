package compare

import (
	"context"
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"tailscope/hist"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/stat"
)

// mostEach bounds the distributions of tenants' operations that are read of a side. Where
// there are more, who comes and goes has little of all requests.
const mostEach = 20_000

// eachTenant returns every tenant's requests of each operation on both sides, as sides of
// one slot; nil if they are too many.
type eachTenant func() (*[2]*side, error)

// readEach is what eachTenant returns.
func (c *comparison) readEach(ctx context.Context) (*[2]*side, error) {
	if max(len(c.tenantCounts[0]), len(c.tenantCounts[1]))*len(c.a.strata) > mostEach {
		return nil, nil
	}
	var out [2]*side
	for i, of := range []*side{c.a, c.b} {
		out[i] = newSide(of.span, of.end-of.start)
		for _, w := range of.where().ranges(of.step) {
			found, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: c.within(w, c.only(i)...), Whole: true, By: append(c.strataBy(), series.LabelTenant)})
			if err != nil {
				return nil, err
			}
			for k := range found.Groups {
				if err := out[i].add(c.operationOfTenant(found.Groups[k].Labels), 0, &found.Groups[k]); err != nil {
					return nil, err
				}
			}
		}
	}
	return &out, nil
}

// amount is of some requests: how many there are, how many independent ones say as much, and
// the sums of a figure of each and of its square.
type amount struct{ n, effective, sum, squares float64 }

func (a *amount) add(b amount) {
	a.n, a.effective, a.sum, a.squares = a.n+b.n, a.effective+b.effective, a.sum+b.sum, a.squares+b.squares
}

func (a amount) mean() float64 { return a.sum / a.n }

// variance returns that of the figure among the requests.
func (a amount) variance() float64 { return max(0, a.squares/a.n-a.mean()*a.mean()) }

// eachRequest is the figure of a request that a measure is of.
type eachRequest func(name operation, good, failed *hist.Histogram) (sum, squares float64)

// above is 1 of a request that takes longer than v.
func above(v float64) eachRequest {
	return func(_ operation, good, failed *hist.Histogram) (n, squares float64) {
		for _, h := range []*hist.Histogram{good, failed} {
			if h != nil {
				within, _, _ := h.AtMost(v)
				n += float64(h.Count) - within
			}
		}
		return n, n
	}
}

// eachRequest returns the figure whose mean is the measure, or, of a quantile that is about
// at on both sides, the share beyond it.
func (c *comparison) eachRequest(m measure, at float64) eachRequest {
	switch {
	case m.q > 0:
		return above(at)
	case m.Name == judge.ErrorShare:
		return func(_ operation, _, failed *hist.Histogram) (n, squares float64) {
			return float64(count(failed)), float64(count(failed))
		}
	case m.Name == judge.Apdex:
		return func(name operation, good, failed *hist.Histogram) (sum, squares float64) {
			s := query.ScoreApdex(good, count(failed), c.Target(name.service, name.operation))
			return s.Satisfied + s.Tolerating/2, s.Satisfied + s.Tolerating/4
		}
	case m.Name == judge.Mean:
		return func(_ operation, good, failed *hist.Histogram) (sum, squares float64) {
			for _, h := range []*hist.Histogram{good, failed} {
				if h == nil {
					continue
				}
				sum += h.Sum
				for b := range h.All() {
					squares += float64(b.Count) * sq((b.Lower+b.Upper)/2)
				}
			}
			return sum, squares
		}
	}
	return nil
}

func sq(v float64) float64 { return v * v }

// comeAndGo makes a change drift that may be of tenants who come and go within strata that
// hold several. A stratum is then of others on either side, and slots do not show how far
// these differ where a session lasts for many of them: the tenants are the sample, not their
// requests.
//
// Of tenant i, with the shares a and b of a stratum's requests on either side, the mean x of
// the figure differs from the stratum's X. What tenants add to the difference of the sides is
// Σ (b−a)(x−X), and its variance without a change the sum of the squares, a cluster's
// each (Liang & Zeger 1986, Biometrika 73). As many requests that come by themselves would
// have Σ (x−X)²(a/n+b/m) of it, which is in their own variance already.
func (c *comparison) comeAndGo(of *strata, mix []float64, figure eachRequest, x *stat.Change) error {
	if c.each == nil || figure == nil || c.several() || x.Short != "" || x.Drifts || len(of.groups) == 0 || mix == nil && len(of.groups) > 1 || !(x.P < 1-c.Level) {
		return nil
	}
	sides, err := c.each()
	if sides == nil || err != nil {
		return err
	}
	effect, variance, excess, df := c.byTenants(of, mix, figure, sides)
	if !(excess > 0) {
		return nil
	}
	all := variance + excess
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: sq(all) / sq(excess) * df}
	p := 2 * t.CDF(-math.Abs(effect)/math.Sqrt(all))
	x.P, x.Drifts = max(x.P, p), p > 1-c.Level
	return nil
}

// byTenants returns the difference of a figure between the sides, its variance if requests
// came by themselves, and how much who comes and goes adds to that, with its degrees of
// freedom.
func (c *comparison) byTenants(of *strata, mix []float64, figure eachRequest, sides *[2]*side) (effect, variance, excess, df float64) {
	group := map[operation]int{}
	for g, names := range of.groups {
		for _, name := range names {
			group[name] = g
		}
	}
	shares := c.tenantShares()
	groupOf := func(name operation) (g int, ok bool) {
		cohort, all := name, name
		cohort.cohort, all.tenant = c.cohortOf(name.tenant, shares[name.tenant]), ""
		one := cohort
		cohort.tenant = ""
		for _, name := range []operation{name, one, cohort, all} {
			if g, ok = group[name]; ok {
				return g, true
			}
		}
		return 0, false
	}
	type member struct{ of [2]amount }
	members := make([]map[operation]*member, len(of.groups))
	totals := make([][2]amount, len(of.groups))
	for i, s := range sides {
		for name, y := range s.strata {
			g, ok := groupOf(name)
			if !ok || y.seen.Count == 0 {
				continue
			}
			a := amount{n: float64(y.seen.Count), effective: y.seen.Effective()}
			a.sum, a.squares = figure(name, y.good[0], y.failed[0])
			if members[g] == nil {
				members[g] = map[operation]*member{}
			}
			if members[g][name] == nil {
				members[g][name] = &member{}
			}
			members[g][name].of[i].add(a)
			totals[g][i].add(a)
		}
	}
	tenants := map[string]float64{} // what each adds to the difference
	byChance, usual := 0.0, 0.0
	for g, of := range totals {
		weight := 1.0
		if mix != nil {
			weight = mix[g]
		}
		if weight == 0 || of[0].n == 0 || of[1].n == 0 {
			continue
		}
		whole := of[0]
		whole.add(of[1])
		effect += weight * (of[1].mean() - of[0].mean())
		variance += sq(weight) * (of[0].variance()/of[0].effective + of[1].variance()/of[1].effective)
		for name, m := range members[g] {
			if name.tenant == "" || name.tenant == series.Other {
				continue // who they are is not known
			}
			own := m.of[0]
			own.add(m.of[1])
			far, moved := own.mean()-whole.mean(), m.of[1].n/of[1].n-m.of[0].n/of[0].n
			tenants[name.tenant] += weight * moved * far
			// The mean of few requests is far from the stratum's by chance, but of all of them.
			chance := own.variance() / own.effective * (1 - own.n/whole.n)
			byChance += sq(weight*moved) * chance
			usual += sq(weight) * (sq(far) - chance) * (m.of[0].n/of[0].n/of[0].effective + m.of[1].n/of[1].n/of[1].effective)
		}
	}
	squares, fourths := 0.0, 0.0
	for _, d := range tenants {
		squares, fourths = squares+sq(d), fourths+sq(sq(d))
	}
	return effect, variance, squares - byChance - max(0, usual), sq(squares) / fourths
}
