package compare

import (
	"math"

	"tailscope/api"
	"tailscope/stat"
)

const (
	// IncludeCurve, IncludeHeat and IncludeCohorts are what may be included in an answer.
	IncludeCurve   = "curve"
	IncludeHeat    = "heat"
	IncludeCohorts = "cohorts"

	// mostBounds is how many points of a distribution function are answered.
	mostBounds = 400
	// ratios is at how many quantiles, from lowestRatio to highestRatio, the
	// ratio is worked out.
	ratios                    = 60
	lowestRatio, highestRatio = 0.01, 0.999
)

// ratioQuantiles lie equally far apart by the logarithm of the share above
// them, so that the tail is seen.
var ratioQuantiles = func() []float64 {
	low, high := math.Log1p(-lowestRatio), math.Log1p(-highestRatio)
	out := make([]float64, ratios)
	for i := range out {
		out[i] = math.Round(-1e6*math.Expm1(low+(high-low)*float64(i)/(ratios-1))) / 1e6
	}
	return out
}()

// curve draws both distributions, and the ratio of their quantiles with a band.
func (c *comparison) curve(whole, s *strata) error {
	if s.mix == nil {
		s = whole
	}
	out := &api.CompareCurve{LikeForLike: s.mix != nil}
	bounds := stat.Bounds(s.a, s.b)
	a, b := s.a.AtMost(bounds, s.mix), s.b.AtMost(bounds, s.mix)
	keep := outline(mostBounds, bounds, a, b)
	out.Values, out.A, out.B = make([]api.Float, len(keep)), make([]api.Float, len(keep)), make([]api.Float, len(keep))
	for i, j := range keep {
		out.Values[i], out.A[i], out.B[i] = api.Float(bounds[j]), share(a[j]), share(b[j])
	}
	changes, err := c.band(s)
	if err != nil {
		return err
	}
	n := len(changes)
	for _, to := range []*[]api.Float{&out.Ps, &out.QuantilesA, &out.QuantilesB, &out.Ratio, &out.Low, &out.High} {
		*to = make([]api.Float, n)
	}
	for i, x := range changes {
		ratio, ci := x.Ratio()
		if x.Short != "" || math.IsInf(ci.Low, 0) && math.IsInf(ci.High, 0) {
			ci = stat.Interval{Low: math.NaN(), High: math.NaN()}
		}
		if !(ci.Low > 0) { // of a ratio that is no bound
			ci.Low = math.NaN()
		}
		out.Ps[i], out.QuantilesA[i], out.QuantilesB[i] = api.Float(ratioQuantiles[i]), api.Float(x.A), api.Float(x.B)
		out.Ratio[i], out.Low[i], out.High[i] = api.Float(ratio), api.Float(ci.Low), api.Float(ci.High)
	}
	c.out.Curve = out
	return nil
}

// band is the ratio at every quantile with intervals that hold at all of them
// at once. While watched, each interval has its part of the error that is left
// (Bonferroni), for the bound of a band holds at one look only.
func (c *comparison) band(s *strata) ([]stat.Change, error) {
	if !c.Live {
		return stat.Band(s.a, s.b, ratioQuantiles, s.mix, c.seed(), c.opts)
	}
	o := c.opts
	o.Level = 1 - (1-c.Level)/ratios
	return stat.Quantiles(s.a, s.b, ratioQuantiles, s.mix, o)
}

// share rounds to what can be seen.
func share(v float64) api.Float { return api.Float(math.Round(v*1e6) / 1e6) }

// outline chooses at most limit points of functions of x, the first and the
// last among them, so that lines through them stay close to all: it splits
// where one is farthest off (Douglas & Peucker 1973). Shares near 0 and 1 count
// for more, for they are looked at on a scale of their own. Points between
// equal ones are left out.
func outline(limit int, x []float64, functions ...[]float64) []int {
	n := len(x)
	if n <= 2 {
		out := make([]int, n)
		for i := range out {
			out[i] = i
		}
		return out
	}
	type piece struct {
		from, to, at int
		off          float64
	}
	measure := func(from, to int) piece {
		p := piece{from: from, to: to, at: -1}
		for i := from + 1; i < to; i++ {
			along := float64(i-from) / float64(to-from)
			if x[from] > 0 {
				along = math.Log(x[i]/x[from]) / math.Log(x[to]/x[from])
			}
			for _, f := range functions {
				off := math.Abs(f[i] - f[from] - along*(f[to]-f[from]))
				off /= math.Sqrt(max(0, f[i]*(1-f[i])) + 1e-6)
				if off > p.off {
					p.off, p.at = off, i
				}
			}
		}
		return p
	}
	kept := make([]bool, n)
	kept[0], kept[n-1] = true, true
	pieces := []piece{measure(0, n-1)}
	for count := 2; count < limit; count++ {
		worst := 0
		for i := range pieces {
			if pieces[i].off > pieces[worst].off {
				worst = i
			}
		}
		p := pieces[worst]
		if p.at < 0 || p.off < 1e-9 {
			break
		}
		kept[p.at] = true
		pieces[worst] = measure(p.from, p.at)
		pieces = append(pieces, measure(p.at, p.to))
	}
	var out []int
	for i, k := range kept {
		if k {
			out = append(out, i)
		}
	}
	return out
}
