package stat

import "math"

// Bumps are two bumps of a distribution, as the density of the logarithm shows them, and
// the gap between them.
type Bumps struct {
	Lower, Upper float64 // where either bump is highest
	From, To     float64 // the gap, in which the density is a quarter of the lesser bump's at most
}

const (
	// bumpCell is the width of the cells in which density is measured, of the logarithm.
	bumpCell = 0.14
	// gapDepth is the least ratio of the height of either bump to that of the gap.
	gapDepth = 4
	// leastBump is the least number of independent observations in the highest cell of a
	// bump.
	leastBump = 12
	// bumpsApart is the least ratio that the interval of a quantile spans, or its change,
	// where it lies in a gap: of another it is as good as any.
	bumpsApart = 1.5
)

// Between reports whether the p-quantile lies between two bumps on either side, so that a
// few requests more on one of them move it from one bump to the other: its ratio then says
// nothing. It lies there if it is in the gap, or if the interval of the share of requests
// beyond the gap holds 1−p on a side, or 1−p lies between the shares of the sides and the
// interval of the ratio is wide; where that is narrow, the quantile went from one bump to the
// other, which its ratio says. A quantile whose interval is narrow and that went less than
// half of the way from one bump to the other is not between them. Of is the change of the
// quantile; the change returned is that of the share beyond the gap.
func Between(a, b Side, p float64, mix []float64, of *Change, o Options) (Bumps, Change, bool, error) {
	if err := checkSides(a, b, mix, o); err != nil {
		return Bumps{}, Change{}, false, err
	}
	wide := of.CI.High-of.CI.Low >= math.Log(bumpsApart)
	far := math.Abs(of.Effect) >= math.Log(bumpsApart)
	if of.Short != "" || !of.Log || !(wide || far) {
		return Bumps{}, Change{}, false, nil
	}
	da, db := a.mixture(mix), b.mixture(mix)
	for i, s := range []*mixture{&da, &db} {
		other := []*mixture{&db, &da}[i]
		for _, bumps := range s.bumps() {
			if bumps.From, bumps.To = other.gapIn(bumps); bumps.To <= bumps.From {
				continue
			}
			// As p99.9 of a tail that takes twice as long: its ratio is what there is to say.
			if !wide && math.Abs(of.Effect) < math.Log(bumps.Upper/bumps.Lower)/2 {
				continue
			}
			c, err := Shares(a.beyond(bumps), b.beyond(bumps), mix, Difference, o)
			if err != nil {
				return Bumps{}, Change{}, false, err
			}
			if c.Short == "" && (isBetween(bumps, p, of, &c) || wide && (c.A < 1-p) != (c.B < 1-p)) {
				return bumps, c, true, nil
			}
		}
	}
	return Bumps{}, Change{}, false, nil
}

// isBetween says whether a quantile lies between bumps, of which c is the change of the
// share beyond the gap.
func isBetween(bumps Bumps, p float64, of, c *Change) bool {
	wide := max(c.Effect-c.CI.Low, c.CI.High-c.Effect)
	for _, s := range [][2]float64{{of.A, c.A}, {of.B, c.B}} {
		if value, share := s[0], s[1]; value > bumps.From && value <= bumps.To || math.Abs(share-(1-p)) <= wide {
			return true
		}
	}
	return false
}

// beyond returns how many observations of each slot of each stratum lie beyond the middle
// of a gap.
func (s Side) beyond(bumps Bumps) []Tally {
	out := make([]Tally, len(s))
	for i, x := range s {
		out[i] = x.above(math.Sqrt(bumps.From * bumps.To))
	}
	return out
}

// cells returns the shares of a distribution in cells of bumpCell, and the lower end of the
// first. What is 0 or less is in none.
func (d *mixture) cells() (share []float64, from float64) {
	low, high := math.Inf(1), 0.0
	for _, x := range d.strata {
		if v := x.quantile(0); v > 0 {
			low = min(low, v)
		}
		high = max(high, x.quantile(1))
	}
	const most = 400
	if !(low > 0) || !(high > low) || math.IsInf(high, 1) || math.Log(high/low) > most*bumpCell {
		return nil, 0
	}
	from = math.Exp((math.Floor(math.Log(low)/bumpCell) - 1) * bumpCell) // the same cells on both sides
	below := d.atMost(from)
	for v := from; v < high; {
		v = from * math.Exp(float64(len(share)+1)*bumpCell)
		at := d.atMost(v)
		share, below = append(share, at-below), at
	}
	return share, from
}

// bumps returns the neighbouring bumps of a distribution.
func (d *mixture) bumps() (out []Bumps) {
	if !(d.count > 0) {
		return nil
	}
	share, from := d.cells()
	edge := func(i int) float64 { return from * math.Exp(float64(i)*bumpCell) }
	middle := func(i int) float64 { return from * math.Exp((float64(i)+0.5)*bumpCell) }
	least := leastBump / d.effective
	top, valley := -1, -1 // the highest cell since the last gap, and the lowest cell after it
	for i, v := range share {
		switch {
		case top < 0 || v > share[top] && (valley < 0 || gapDepth*share[valley] > share[top] || share[top] < least):
			top, valley = i, -1
		case valley < 0 || v < share[valley]:
			valley = i
		}
		if valley < 0 || !(v >= least && share[top] >= least && gapDepth*share[valley] <= min(v, share[top])) {
			continue
		}
		// The second bump goes on to its own highest cell.
		next := i
		for j := i; j < len(share) && gapDepth*share[j] > share[next]; j++ {
			if share[j] > share[next] {
				next = j
			}
		}
		shallow := min(share[top], share[next]) / gapDepth
		first, last := valley, valley
		for first > top+1 && share[first-1] <= shallow {
			first--
		}
		for last < next-1 && share[last+1] <= shallow {
			last++
		}
		out = append(out, Bumps{middle(top), middle(next), edge(first), edge(last + 1)})
		top, valley = i, -1
	}
	return out
}

// gapIn returns what a distribution leaves of the gap between bumps of another: what its
// own bumps do not reach into. It is empty if From is not below To.
func (d *mixture) gapIn(of Bumps) (from, to float64) {
	if !(d.count > 0) {
		return of.From, of.To
	}
	share, first := d.cells()
	highest := 0.0
	for _, v := range share {
		highest = max(highest, v)
	}
	// Its own gap there, if it has one; else it must have hardly anything there.
	for _, own := range d.bumps() {
		if own.From < of.To && of.From < own.To {
			return max(of.From, own.From), min(of.To, own.To)
		}
	}
	for i, v := range share {
		at := first * math.Exp((float64(i)+0.5)*bumpCell)
		if at > of.From && at < of.To && gapDepth*v > highest {
			return 0, 0
		}
	}
	return of.From, of.To
}
