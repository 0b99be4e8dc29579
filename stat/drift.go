package stat

import "math"

// A change that an interval leaves no doubt of may still be one that slots make by
// themselves: where they remember for longer than a side lasts, change so slowly that this
// cannot be seen, or follow the number of requests. The interval stays as it is, and the
// change is said to drift. The thresholds are measured, see the calibration in
// benchmarks/results.

var (
	// memories are what slots may depend by for longer than a side lasts, and longSignal
	// the shares of the variance that do. Below 0.25 an hour of slots cannot distinguish
	// fractional noise from a first-order autoregression of 0.3 under noise.
	memories   = [...]memory{0.25, 0.3, 0.35, 0.4, 0.45}
	longSignal = [...]float64{0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1}
	// slowest and slowSignal are the slowest autoregressions, in finer steps than those
	// that intervals are computed with.
	slowest    = [...]float64{0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98}
	slowSignal = [...]float64{0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1}
)

const (
	// surely is the least log of the ratio of likelihoods, with memory over without.
	surely = 1
	// fewStretches is the number of independent slots that both sides are worth, below
	// which their dependence is too slow to be measured, and fewSlow that where it is near
	// the end of what persistence reaches, from slow on. The interval is then taken to reach
	// farther times as far.
	fewStretches, fewSlow = 32, 96
	slow                  = 30
	farther               = 1.5
	// leastWeight is the least probability of a memory that is considered.
	leastWeight = 1e-4
)

// drift sets Drifts, and ByLoad, of a change between windows that differ in time.
func (c *Change) drift(a, b *figure, sp *spectrum, o Options) {
	size := math.Abs(c.Effect) / c.toward(c.crit)
	if !(size > 1) || math.IsInf(size, 1) || o.bound > 0 {
		return
	}
	other := sp.of(len(b.influence))
	ta, tb := sp.cosines(a.dependent()), other.cosines(b.dependent())
	logs := func(sa, sb *spectrum) []float64 {
		out := make([]float64, len(sa.power))
		sa.likelihood(out, ta)
		sb.likelihood(out, tb)
		return out
	}
	forgets := logs(sp, other)
	none, some := forgets[0]+math.Log(independent), logMean(forgets[1:])+math.Log(1-independent)
	without := max(none, some) + math.Log1p(math.Exp(-math.Abs(none-some)))
	few, dependence := float64(fewStretches), sp.under(posterior(forgets)).dependence
	sa, sb := sp.slow(), other.slow()
	if slowly := logs(sa, sb); logMean(slowly) > logMean(forgets) {
		dependence = slowDependence(slowly)
	}
	if dependence >= slow {
		few = fewSlow
	}
	if size < farther && float64(len(ta)+len(tb)) < few*dependence {
		c.Drifts = true
		return
	}
	la, lb := sp.long(), other.long()
	if remembers := logs(la, lb); logMean(remembers)-without > surely && size < c.wider(a, b, sp, remembers, o) {
		c.Drifts = true
		return
	}
	c.ByLoad = c.atEqualLoad(a, b, o)
	c.Drifts = c.ByLoad
}

// logMean returns the log of the mean of what these are the logs of.
func logMean(logs []float64) float64 {
	top, sum := math.Inf(-1), 0.0
	for _, v := range logs {
		top = max(top, v)
	}
	for _, v := range logs {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum/float64(len(logs)))
}

// dependent returns the slots by which dependence is found: of a quantile, and of the mean
// of a distribution, those of the median, which has the least noise of its own.
func (f *figure) dependent() []float64 {
	if f.of == nil || !(f.of.count > 0) {
		return f.influence
	}
	z, _ := f.of.slotsAbove(f.of.quantile(0.5))
	return z
}

// slowly returns the spectrum of slow autoregressions in place of the models.
func (s *spectrum) slowly() *spectrum {
	slow := *s
	slow.power, slow.logs = nil, nil
	for _, phi := range slowest {
		slow.add(slowSignal[:], s.autoregression(phi))
	}
	return &slow
}

// slowDependence returns the dependence if slow autoregressions have these log
// likelihoods.
func slowDependence(logs []float64) float64 {
	whole, dependence := logMean(logs), 0.0
	for i, v := range logs {
		dependence += math.Exp(v-whole) / float64(len(logs)) * zero(slowest[i/len(slowSignal)], slowSignal[i%len(slowSignal)])
	}
	return dependence
}

// remembering returns the spectrum of memories under noise in place of the models.
func (s *spectrum) remembering() *spectrum {
	long := *s
	long.power, long.logs = nil, nil
	for _, m := range memories {
		long.add(longSignal[:], func(j float64) float64 { return m.power(j, s.slots) })
	}
	return &long
}

// wider returns how many times as wide an interval of 95 % is if slots remember: of the
// mixture of memories, as likely as the logs say of the slots that dependence is found by,
// with shares of the variance as likely as the figure's own slots make them.
func (c *Change) wider(a, b *figure, sp *spectrum, logs []float64, o Options) float64 {
	other := sp.of(len(b.influence))
	ta, tb := sp.cosines(a.influence), other.cosines(b.influence)
	la, lb := sp.long(), other.long()
	own := make([]float64, len(logs))
	la.likelihood(own, ta)
	lb.likelihood(own, tb)
	apart := o.Apart
	if apart == 0 {
		apart = len(ta)
	}
	type part struct{ weight, scale float64 }
	var parts []part
	whole := logMean(logs)
	for h, m := range memories {
		from, to := h*len(longSignal), (h+1)*len(longSignal)
		order := math.Exp(logMean(logs[from:to])-whole) / float64(len(memories))
		shares := logMean(own[from:to])
		for k, share := range longSignal {
			weight := order * math.Exp(own[from+k]-shares) / float64(len(longSignal))
			if weight < leastWeight {
				continue
			}
			va, lastsA := m.variance(ta, share, c.Cosines)
			vb, lastsB := m.variance(tb, share, c.Cosines)
			sa, sb := a.width(math.Sqrt(va)), b.width(math.Sqrt(vb))
			together := m.together(len(ta), len(tb), apart) * math.Sqrt(lastsA*lastsB)
			parts = append(parts, part{weight, math.Sqrt(sq(sa)+sq(sb)-2*sa*sb*together) / c.SE})
		}
	}
	const beyond = 0.025
	t := critical(beyond, c.DF)
	low, high := 0.0, 1.0
	for _, p := range parts {
		high = max(high, p.scale)
	}
	if math.IsInf(high, 0) || math.IsNaN(high) {
		return 0
	}
	for high-low > 1e-4 {
		mid, sum := (low+high)/2, 0.0
		for _, p := range parts {
			sum += p.weight * tail(mid*t/p.scale, c.DF)
		}
		if sum > beyond {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// width returns half an interval of one standard error, on the effect's scale.
func (f *figure) width(se float64) float64 {
	low, high := f.limits(se, 1)
	return (high - low) / 2
}
