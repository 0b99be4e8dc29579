package stat

import "math"

// Bounds returns the finite bounds of the buckets that hold observations of any of the
// sides, ascending: between them a distribution is interpolated.
func Bounds(sides ...Side) []float64 {
	var all []mixture
	for _, s := range sides {
		all = append(all, s.mixture(nil))
	}
	return axisOf(all...).edges
}

// AtMost returns the share of a side's observations at or below each of the values: its
// distribution function, at a mix or of all requests (see Quantiles). It is NaN where
// the side has no observations, or none of a stratum of the mix.
func (s Side) AtMost(values, mix []float64) []float64 {
	d := s.mixture(mix)
	out := make([]float64, len(values))
	for i, v := range values {
		if len(d.strata) == 0 {
			out[i] = math.NaN()
			continue
		}
		out[i] = min(1, d.atMost(v))
	}
	return out
}
