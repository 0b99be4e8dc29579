package compare

import (
	"cmp"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/stat"
)

const (
	// rare operations, with fewer requests on a side, are taken together: alone
	// they would bring into a common mix more noise than they are worth. Requests
	// that stand for several count for as many as they say as much as, here and below.
	rare = 100
	// An operation that is rare on one side but has so many requests on the
	// other came or went. It cannot be compared like for like.
	common = 1000
	// few is the same for an operation that is rare on both sides, and would otherwise be
	// taken together with all others.
	few = 20
	// mostStrata bounds the strata, so that all are judged within a second or two.
	mostStrata = 600
)

// strata are the sides as package stat takes them, an operation each.
type strata struct {
	a, b           stat.Side
	errorsA        []stat.Tally
	errorsB        []stat.Tally
	apdexA, apdexB []stat.Tally
	ratesA, ratesB []stat.Tally // all observations, over time; one
	// Instead of all these, of numbers.
	valuesA, valuesB []stat.Tally
	// mix is the common one; nil if no operation can be compared like for like.
	mix      []float64
	covered  float64
	rests    float64 // share of requests that a claim like for like rests on
	compared int
	groups   [][]operation // of each stratum; nil if they are of one tenant
	single   []operation   // each is a stratum of its own; these come first
	gone     []operation   // in no stratum: they came, went, or moved the mix of what is rare
	apart    bool          // no operation can be compared, though both sides have requests enough
}

// only is the stratum i by itself.
func (s *strata) only(i int) *strata {
	return &strata{a: s.a[i : i+1], b: s.b[i : i+1], errorsA: s.errorsA[i : i+1], errorsB: s.errorsB[i : i+1], groups: s.groups[i : i+1], apdexA: s.apdexA[i : i+1], apdexB: s.apdexB[i : i+1]}
}

// column is some operations of a side as one stratum.
type column struct {
	series *stat.Series
	errors stat.Tally
	apdex  stat.Tally
}

// column takes operations of a side together. It changes nothing of the side, but
// that it keeps the column of an operation by itself.
func (c *comparison) column(s *side, names []operation) (column, error) {
	if len(names) != 1 || s.strata[names[0]] == nil {
		return c.makeColumn(s, names)
	}
	x := s.strata[names[0]]
	x.made.Do(func() { x.alone, x.err = c.makeColumn(s, names) })
	return x.alone, x.err
}

func (c *comparison) makeColumn(s *side, names []operation) (column, error) {
	n := s.slots()
	all := make([]*hist.Histogram, n)
	owned := make([]bool, n) // a sum of several, ours to add to
	tally := func() stat.Tally { return stat.Tally{Num: make([]float64, n), Den: make([]float64, n)} }
	out := column{errors: tally(), apdex: tally()}
	var seen, errors hist.Moment
	for _, name := range names {
		x := s.strata[name]
		if x == nil {
			continue
		}
		t := c.Target(name.service, name.operation)
		for i := range n {
			good, failed := x.good[i], count(x.failed[i])
			requests := float64(count(good) + failed)
			if requests == 0 {
				continue
			}
			seen.Merge(moment(good))
			seen.Merge(moment(x.failed[i]))
			errors.Merge(moment(x.failed[i]))
			out.errors.Num[i] += float64(failed)
			out.errors.Den[i] += requests
			score := query.ScoreApdex(good, failed, t)
			out.apdex.Num[i] += score.Satisfied + score.Tolerating/2
			out.apdex.Den[i] += requests
			for _, h := range []*hist.Histogram{good, x.failed[i]} {
				switch {
				case h == nil:
				case all[i] == nil:
					all[i] = h
				default:
					if !owned[i] {
						all[i], owned[i] = all[i].Clone(), true
					}
					if err := all[i].Merge(h); err != nil {
						return out, err
					}
				}
			}
		}
	}
	out.errors.NumSquares, out.errors.DenSquares = errors.SquaredWeights(), seen.SquaredWeights()
	out.apdex.DenSquares = seen.SquaredWeights()
	var err error
	out.series, err = stat.NewSeries(all)
	return out, err
}

// namesOf are the strata of both sides, those with the most requests first.
func namesOf(a, b *side) []operation {
	var names []operation
	for name := range a.strata {
		names = append(names, name)
	}
	for name := range b.strata {
		if a.strata[name] == nil {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y operation) int {
		return cmp.Or(
			cmp.Compare(a.requestsOf(y)+b.requestsOf(y), a.requestsOf(x)+b.requestsOf(x)),
			cmp.Compare(x.service, y.service), cmp.Compare(x.environment, y.environment), cmp.Compare(x.operation, y.operation), cmp.Compare(x.cohort, y.cohort), cmp.Compare(x.tenant, y.tenant))
	})
	return names
}

func (s *side) requestsOf(name operation) uint64 {
	if x := s.strata[name]; x != nil {
		return x.seen.Count
	}
	return 0
}

// oneSided says that what has na and nb requests came or went: it has at least many on one
// side, where least or more would then be expected on the other, and there are hardly any.
func oneSided(a, b *side, na, nb, many, least float64) bool {
	if min(na, nb) >= rare || max(na, nb) < many {
		return false
	}
	return expectedOf(a, b, na, nb) >= least && lopsided(a, b, na, nb)
}

// lopsided says that one side has less than a tenth of what the other lets expect.
func lopsided(a, b *side, na, nb float64) bool {
	return expectedOf(a, b, na, nb) > 10*min(na, nb)
}

// expectedOf returns how many requests the side with fewer would have if it had as many as
// the other for all its requests.
func expectedOf(a, b *side, na, nb float64) float64 {
	totalA, totalB := a.effective(), b.effective()
	if na > nb {
		return na * totalB / totalA
	}
	return nb * totalA / totalB
}

// strata cuts both sides into operations, or operations and tenants. What is rare
// is put together with others of its cohort, then of its operation, and only then
// with all others, unless the mix of those moved: what went would be compared with what
// came in its place.
func (c *comparison) strata(a, b *side) (*strata, error) {
	out := &strata{}
	var groups [][]operation
	var others, gone []operation // rare; surely in another share than what is rare beside it
	order := namesOf(a, b)
	members := map[operation][]operation{}
	for _, name := range order {
		members[name] = []operation{name}
	}
	for len(order) > 0 {
		var wider []operation
		rest := map[operation][]operation{}
		for _, name := range order {
			names, moved := unmoved(a, b, members[name])
			gone = append(gone, moved...)
			na, nb := a.effective(names...), b.effective(names...)
			up := name.wider()
			switch {
			case len(names) == 0:
			case min(na, nb) >= c.least() && len(groups) < mostStrata && !(up == name && exchanged(a, b, names)):
				groups = append(groups, names)
				out.single = append(out.single, name)
			case oneSided(a, b, na, nb, common, rare), up == name && oneSided(a, b, na, nb, few, few),
				up == name && name.environment != "" && lopsided(a, b, na, nb):
				gone = append(gone, names...)
			case up == name:
				others = append(others, names...)
			default:
				if rest[up] == nil {
					wider = append(wider, up)
				}
				rest[up] = append(rest[up], names...)
			}
		}
		order, members = wider, rest
	}
	others, moved := unmoved(a, b, others)
	gone = append(gone, moved...)
	alike := !exchanged(a, b, others)
	own := len(groups)
	if len(others) > 0 {
		groups = append(groups, others)
	}
	if len(gone) > 0 {
		groups = append(groups, gone)
	}
	if len(groups) == 0 {
		groups = [][]operation{nil}
	}
	out.groups = groups
	countsA, countsB := make([]float64, len(groups)), make([]float64, len(groups))
	var totalA, totalB, heldA, heldB float64
	columns := make([][2]column, len(groups))
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, g := range groups {
		work.Go(func() (err error) {
			if columns[i][0], err = c.column(a, g); err == nil {
				columns[i][1], err = c.column(b, g)
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	for i := range groups {
		ca, cb := columns[i][0], columns[i][1]
		out.a, out.b = append(out.a, ca.series), append(out.b, cb.series)
		out.errorsA, out.errorsB = append(out.errorsA, ca.errors), append(out.errorsB, cb.errors)
		out.apdexA, out.apdexB = append(out.apdexA, ca.apdex), append(out.apdexB, cb.apdex)
		na, nb := ca.series.Count(), cb.series.Count()
		totalA, totalB = totalA+na, totalB+nb
		together := i == own && len(others) > 0 && alike
		if i < own || together && min(ca.series.Effective(), cb.series.Effective()) >= c.least() {
			countsA[i], countsB[i] = na, nb
			heldA, heldB = heldA+na, heldB+nb
			out.compared++
			if together {
				out.compared += len(others) - 1
			}
		}
	}
	out.gone = gone
	out.ratesA, out.ratesB = rates(a, out.errorsA), rates(b, out.errorsB)
	out.apart = (len(gone) > 0 || !alike) && min(heldA, heldB) == 0 && min(a.effective(), b.effective()) >= c.least()
	if heldA > 0 && heldB > 0 {
		out.mix, _ = stat.CommonMix(countsA, countsB)
		out.covered = min(heldA/totalA, heldB/totalB)
		out.rests = out.covered
		if c.atOneTime() {
			out.mix, out.rests = pairedMix(countsA, countsB), max(heldA/totalA, heldB/totalB)
		}
	}
	return out, nil
}

// atOneTime reports whether the sides are two values of a label that were measured at the same
// time: nothing came or went between them, and each has a mix of its own.
func (c *comparison) atOneTime() bool { return c.Label != "" && c.paired }

// least returns how many requests a stratum has on either side at least. Of two values of a
// label one may be a light tenant, which has few requests of anything.
func (c *comparison) least() float64 {
	if c.atOneTime() {
		return few
	}
	return rare
}

// pairedMix returns a mix of strata for two values of a label, of which one may have far more
// requests than the other: each stratum weighs as much as it tells of their difference
// (Mantel & Haenszel, J. Natl. Cancer Inst. 22, 1959), so that a few requests of the lighter
// side do not weigh as much as the many of the other.
func pairedMix(a, b []float64) []float64 {
	mix, total := make([]float64, len(a)), 0.0
	for i := range mix {
		if a[i] > 0 && b[i] > 0 {
			mix[i] = a[i] * b[i] / (a[i] + b[i])
			total += mix[i]
		}
	}
	for i := range mix {
		mix[i] /= total
	}
	return mix
}

// rates are the requests of some strata over time.
func rates(s *side, tallies []stat.Tally) []stat.Tally {
	sum := make([]float64, s.slots())
	for _, t := range tallies {
		for i, n := range t.Den {
			sum[i] += n
		}
	}
	return []stat.Tally{{Num: sum, Den: s.seconds()}}
}

// requests returns how many requests of strata each slot has.
func (s *side) requests(names ...operation) []float64 {
	out := make([]float64, s.slots())
	for _, name := range names {
		if x := s.strata[name]; x != nil {
			for i := range out {
				out[i] += float64(count(x.good[i]) + count(x.failed[i]))
			}
		}
	}
	return out
}
