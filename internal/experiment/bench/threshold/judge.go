package threshold

import (
	"fmt"
	"math"
	"time"

	"tailscope/api"
	"tailscope/internal/strictyaml"
)

// Judge evaluates the condition on a result, complete or not. Without anything to
// judge by, such as the latency of answers that did not come, Value is null and the
// condition is not met.
func (t Threshold) Judge(r *api.BenchResult) api.BenchThreshold {
	out := api.BenchThreshold{Text: t.text, Value: api.Float(math.NaN())}
	if t.of == query {
		out.Query = t.name
	}
	v := t.seen(r)
	if math.IsNaN(v) {
		return out
	}
	out.Value = api.Float(v)
	switch t.op {
	case "<":
		out.Met = v < t.value
	case "<=":
		out.Met = v <= t.value
	case ">":
		out.Met = v > t.value
	case ">=":
		out.Met = v >= t.value
	case "=":
		out.Met = math.Abs(v-t.value) <= 1e-9*max(1, t.value)
	}
	return out
}

// Hopeless reports whether a run should end now: the condition asks for it, its time
// has come, there is something to judge by, and it is missed. elapsed counts from the
// start of the load.
func (t Threshold) Hopeless(live *api.BenchResult, elapsed time.Duration) bool {
	if !t.abort || elapsed < t.after {
		return false
	}
	j := t.Judge(live)
	return !j.Met && !math.IsNaN(float64(j.Value))
}

// Check returns an error if the query, phase or tenant of the condition does not
// exist in a run. It leaves tenants out if none are known yet.
func (t Threshold) Check(queries, phases, tenants []string) error {
	var known []string
	var what string
	switch t.of {
	case whole:
		return nil
	case query:
		known, what = queries, "query"
	case phase:
		known, what = phases, "phase"
	case tenant:
		if known, what = tenants, "tenant"; len(known) == 0 {
			return nil
		}
	}
	for _, k := range known {
		if k == t.name {
			return nil
		}
	}
	hint := strictyaml.Suggest(t.name, known)
	if hint == "" {
		hint = fmt.Sprintf("the first of %d is %s", len(known), known[0])
	}
	return fmt.Errorf("threshold %q: there is no %s %s (hint: %s)", t.text, what, t.name, hint)
}

// figures are the measures of a run or a part of it.
type figures struct {
	latency                           *api.BenchLatency
	answered, errors, of, failed, due uint64 // errors of so many; failed checks of answered; dropped of due
	dropped                           uint64
	seconds                           float64
}

func (t Threshold) figures(r *api.BenchResult) (figures, bool) {
	end := float64(r.End)
	if math.IsNaN(end) && len(r.Timeline) > 0 { // it is under way
		last := r.Timeline[len(r.Timeline)-1]
		end = float64(last.Time + last.Width)
	}
	took := end - float64(r.Start)
	if rate := float64(r.Rate); math.IsNaN(took) && rate > 0 {
		took = float64(r.Account.Answered) / rate
	}
	switch t.of {
	case query, tenant:
		list := r.Queries
		if t.of == tenant {
			list = r.Tenants
		}
		for i := range list {
			if q := &list[i]; q.Name == t.name {
				return figures{latency: &q.Latency, answered: q.Answered, errors: q.Errors, of: q.Sent, failed: sum(q.Checks), seconds: took}, true
			}
		}
	case phase:
		for i := range r.Phases {
			if p := &r.Phases[i]; p.Name == t.name {
				return figures{latency: &p.Latency, answered: p.Answered, errors: p.Errors, of: p.Due,
					seconds: min(float64(p.End), end-float64(r.Start)) - float64(p.Start)}, true
			}
		}
	default:
		a := &r.Account
		return figures{latency: &r.Latency, answered: a.Answered, errors: a.Errors, of: a.Sent - min(a.CutOff, a.Sent), failed: sum(a.Checks),
			due: a.Due, dropped: a.Dropped + a.Unsent, seconds: took}, true
	}
	return figures{}, false
}

func (t Threshold) seen(r *api.BenchResult) float64 {
	f, ok := t.figures(r)
	if !ok {
		return math.NaN()
	}
	switch t.measure {
	case quantile:
		return quantileOf(f.latency, t.quantile)
	case mean:
		return figure(f.latency, f.latency.Mean)
	case least:
		return figure(f.latency, f.latency.Min)
	case most:
		return figure(f.latency, f.latency.Max)
	case errorShare:
		return ratio(f.errors, f.of)
	case checkShare:
		return 1 - ratio(f.failed, f.answered)
	case droppedShare:
		return ratio(f.dropped, f.due)
	case rate:
		if t.of == whole && !math.IsNaN(float64(r.Rate)) {
			return float64(r.Rate)
		}
		if f.seconds > 0 {
			return float64(f.answered) / f.seconds
		}
		return math.NaN()
	case count:
		return float64(f.answered)
	}
	return math.NaN()
}

func figure(l *api.BenchLatency, v api.Float) float64 {
	if l.Count == 0 {
		return math.NaN()
	}
	return float64(v)
}

func ratio(n, of uint64) float64 {
	if of == 0 {
		return math.NaN()
	}
	return float64(n) / float64(of)
}

func sum(m map[string]uint64) (n uint64) {
	for _, v := range m {
		n += v
	}
	return n
}

// quantileOf returns a quantile of the result. A quantile that is not listed is
// interpolated logarithmically in its bucket, with an error below the bucket's width.
func quantileOf(l *api.BenchLatency, q float64) float64 {
	if v, ok := l.Quantiles[Key(q)]; ok {
		return figure(l, v)
	}
	if len(l.Counts) == 0 || len(l.Bounds) != len(l.Counts)+1 {
		return math.NaN()
	}
	total := uint64(0)
	for _, n := range l.Counts {
		total += n
	}
	rank := q * float64(total)
	for i, n := range l.Counts {
		if float64(n) < rank || n == 0 {
			rank -= float64(n)
			continue
		}
		low, high := float64(l.Bounds[i]), float64(l.Bounds[i+1])
		v := low + (high-low)*rank/float64(n)
		if low > 0 {
			v = low * math.Pow(high/low, rank/float64(n))
		}
		return min(max(v, float64(l.Min)), float64(l.Max))
	}
	return math.NaN()
}
