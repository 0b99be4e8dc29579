package sla

import (
	"math"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query"
)

// The values of whether an objective was met.
const (
	MetYes     = "yes"
	MetNo      = "no"
	MetUnknown = "unknown" // the width of the bucket that holds the bound decides
	MetNone    = "none"    // no objective, or no requests to judge
)

// fillFigures computes the figures of a period's requests.
func (x *report) fillFigures(r *row) (api.SLAPeriod, error) {
	nan := float(math.NaN())
	l := api.SLAPeriod{
		Range: api.Range{Start: r.start.Unix(), End: r.end.Unix()}, Covered: int64(r.seconds()), Requests: r.requests(), Errors: r.errors(),
		Good: nan, GoodLow: nan, GoodHigh: nan, Met: MetNone,
	}
	l.Trend.Rate, l.Trend.Apdex, l.Trend.P95 = nan, nan, nan
	all, err := r.all()
	if err != nil {
		return l, err
	}
	a := query.ScoreApdex(r.good, r.errors(), x.t)
	n := float64(a.Requests)
	l.Apdex, l.ApdexLow, l.ApdexHigh = float(a.Score), float(a.Low), float(a.High)
	l.Satisfied, l.Tolerating, l.Frustrated = float(a.Satisfied/n), float(a.Tolerating/n), float(a.Frustrated/n)
	l.Rate = float(n / r.seconds())
	l.Thin = isThin(r.effective(), r.seconds())
	l.Effective = query.Effective(r.moment())
	l.Mean = float(all.Mean())
	l.Quantiles = map[string]api.Float{}
	for _, q := range x.Quantiles {
		l.Quantiles[q.Key] = float(all.Quantile(q.Q))
	}
	l.ErrorRate = float(float64(l.Errors) / n)
	if all.Count > 0 {
		l.Error = float(all.RelativeError())
	} else {
		l.Error = nan
	}
	x.judgeObjective(&l, r.good)
	if r.worst != nil {
		if l.Worst, err = r.worst.api(x.t); err != nil {
			return l, err
		}
	}
	return l, nil
}

// judgeObjective decides whether the objective was met: only if that holds wherever in its bucket
// each request lies.
func (x *report) judgeObjective(l *api.SLAPeriod, good *hist.Histogram) {
	if x.Objective == 0 || l.Requests == 0 {
		return
	}
	if good == nil {
		good = &hist.Histogram{}
	}
	within, low, high := good.AtMost(x.Under)
	n := float64(l.Requests)
	l.Good, l.GoodLow, l.GoodHigh = float(within/n), float(float64(low)/n), float(float64(high)/n)
	switch {
	case float64(l.GoodLow) >= x.Objective:
		l.Met = MetYes
	case float64(l.GoodHigh) < x.Objective:
		l.Met = MetNo
	default:
		l.Met = MetUnknown
	}
}

// fell is the ratio of throughputs below which throughput fell.
const fell = 0.95

// compareTrend compares a period with the one before. Throughput, Apdex and p95 all turning bad
// together is the sign of saturation. Small changes do not count: Apdex and p95 must
// have changed by more than their buckets' widths.
func (x *report) compareTrend(l *api.SLAPeriod, r, before *row) error {
	if r.requests() == 0 || before.requests() == 0 {
		return nil
	}
	old, err := x.fillFigures(&row{period: before.period, outcomes: before.outcomes, from: before.from, to: before.to})
	if err != nil {
		return err
	}
	was, err := before.all()
	if err != nil {
		return err
	}
	is, err := r.all()
	if err != nil {
		return err
	}
	const p95 = 0.95
	l.Trend.Rate = l.Rate / old.Rate
	l.Trend.Apdex = l.Apdex - old.Apdex
	l.Trend.P95 = float(is.Quantile(p95) / was.Quantile(p95))
	// Half a period is evidence of the rest; less may be its busiest or quietest hour.
	enough := 2*before.seconds() >= r.seconds() && 2*r.seconds() >= before.seconds()
	l.Trend.Saturated = enough && float64(l.Trend.Rate) < fell && l.ApdexHigh < old.ApdexLow &&
		float64(l.Trend.P95) > 1+max(is.RelativeError(), was.RelativeError())
	return nil
}
