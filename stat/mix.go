package stat

// CommonMix returns a mix of strata for both sides: the average of the shares
// that each stratum has on either side, among the strata that both sides have
// observations of. Weights sum to 1; nil if no stratum is on both sides.
// Covered is the lesser of the shares of the two sides' observations that those
// strata hold: what is left out cannot be compared like for like.
//
// This is direct standardisation (Fleiss, Levin & Paik, Statistical Methods for
// Rates and Proportions, chapter 19) with the mean of both as the standard.
func CommonMix(a, b []float64) (mix []float64, covered float64) {
	total := func(counts []float64) (sum float64) {
		for _, n := range counts {
			sum += n
		}
		return sum
	}
	if len(a) != len(b) {
		return nil, 0
	}
	ta, tb := total(a), total(b)
	mix = make([]float64, len(a))
	var ca, cb float64
	for i := range a {
		if a[i] > 0 && b[i] > 0 {
			ca += a[i] / ta
			cb += b[i] / tb
			mix[i] = a[i]/ta + b[i]/tb
		}
	}
	if ca == 0 {
		return nil, 0
	}
	for i := range mix {
		mix[i] /= ca + cb
	}
	return mix, min(ca, cb)
}

// Counts returns the number of observations of each stratum, for CommonMix.
func (s Side) Counts() []float64 {
	out := make([]float64, len(s))
	for i, x := range s {
		out[i] = x.total
	}
	return out
}
