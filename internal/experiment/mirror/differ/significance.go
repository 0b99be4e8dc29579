package differ

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"tailscope/api"
	"tailscope/stat"
)

var nan = math.NaN()

const (
	// level is the greatest adjusted probability of a real difference.
	level = 0.01
	// Diffy's thresholds.
	relative = 0.20
	absolute = 0.0003
	// minSlots is the number of closed slots that a design effect needs.
	minSlots = 8

	maxRows     = 200 // in the output
	maxExamples = 30
)

// mcNemar returns the probability that, among only+never requests in which just one
// of two things holds, it is the first in only or more, if both are equally likely.
// Counts need not be whole.
func mcNemar(only, never float64) float64 {
	if only <= 0 {
		return 1
	}
	// P(X >= k) of a binomial is an incomplete beta function.
	return mathext.RegIncBeta(only, never+1, 0.5)
}

// design returns the variance of the difference between slots over that of
// independent requests; 1 if there are too few slots.
func (g *group) design(r *row) float64 {
	if g.slots < minSlots {
		return 1
	}
	only, never, n := float64(r.only), float64(r.never), float64(g.of)
	mean := (only - never) / n
	each := (only+never)/n - mean*mean // of a request
	if each <= 0 {
		return 1
	}
	// Residuals of slots about the mean rate.
	mean = r.sumD / g.sumN
	between := r.sumDD - 2*mean*r.sumDN + mean*mean*g.sumNN
	between *= float64(g.slots) / float64(g.slots-1)
	return max(1, between/(g.sumN*each))
}

// output returns the table's current findings.
func (t *table) output() api.MirrorDifferences {
	type line struct {
		api.MirrorDifference
		row *row
	}
	out := api.MirrorDifferences{
		Compared: t.compared, Skipped: map[string]uint64{},
		Rows: []api.MirrorDifference{}, Examples: []api.MirrorExample{},
	}
	for k, n := range t.skipped {
		out.Skipped[k] = n
	}
	var lines []line
	var p []float64
	for _, g := range t.groups {
		if g.shadow == noisy {
			continue
		}
		for _, r := range g.rows {
			l := line{t.difference(g, r), r}
			if t.control {
				deff := g.design(r)
				l.P = api.Float(mcNemar(float64(r.only)/deff, float64(r.never)/deff))
			}
			lines = append(lines, l)
			p = append(p, float64(l.P))
		}
	}
	explained := map[*row]bool{}
	for i, adjusted := range stat.BenjaminiHochberg(p) {
		l := &lines[i]
		l.P = api.Float(adjusted)
		l.Real = matters(&l.MirrorDifference)
		explained[l.row] = !l.Real && l.Noise > 0
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(
			-compareBool(a.Real, b.Real),
			-cmp.Compare(rate(a.Raw, a.Compared)-excused(a.Noise, a.NoiseOf), rate(b.Raw, b.Compared)-excused(b.Noise, b.NoiseOf)),
			-cmp.Compare(a.Raw, b.Raw),
			cmp.Compare(a.Shadow, b.Shadow), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Place, b.Place))
	})
	shown := map[*example]bool{}
	for _, l := range lines {
		if l.Raw == 0 {
			continue
		}
		if len(out.Rows) < maxRows {
			out.Rows = append(out.Rows, l.MirrorDifference)
		}
		if explained[l.row] {
			continue
		}
		for _, e := range []*example{l.row.first, l.row.latest} {
			if e == nil || shown[e] || len(out.Examples) == maxExamples {
				continue
			}
			shown[e] = true
			if shown := e.without(explained); len(shown.Places) > 0 {
				out.Examples = append(out.Examples, shown)
			}
		}
	}
	return out
}

// matters reports whether a candidate differs more than noise explains, and enough to
// matter.
func matters(d *api.MirrorDifference) bool {
	raw, noise := rate(d.Raw, d.Compared), excused(d.Noise, d.NoiseOf)
	if raw <= noise || (raw-noise)/(raw+noise) <= relative || raw-noise <= absolute {
		return false
	}
	return math.IsNaN(float64(d.P)) || d.P <= level
}

func rate(n, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// excused returns the rate of noise, 0 if it is not known.
func excused(noise api.Float, of uint64) float64 {
	if of == 0 || math.IsNaN(float64(noise)) {
		return 0
	}
	return float64(noise) / float64(of)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
