package stat

// smooth is the number of parts of a season that are distinguished: half hours of a day.
const smooth = 48

func seasonal(slots int, o ChangeOptions) bool {
	return o.Season > 1 && slots >= leastSeasons*o.Season
}

// seasonOf returns by how much the value at each time of the season exceeds that of the
// whole series, as the mean over seasons and over the times around. Where the series
// changed in between, each time of the season has as much of before and of after, give
// or take one season.
func seasonOf(values []float64, phases []int, season int) []float64 {
	above, count := make([]float64, season), make([]float64, season)
	for t, p := range phases { // each season weighs the same
		above[p] += values[t]
		count[p]++
	}
	mean, n := 0.0, 0.0
	for p := range above {
		mean += above[p]
		n += count[p]
	}
	mean /= max(1, n)
	around := season / smooth / 2
	effect := make([]float64, season)
	for p := range effect {
		sum, n := 0.0, 0.0
		for q := p - around; q <= p+around; q++ {
			i := (q + season) % season
			sum += above[i]
			n += count[i]
		}
		if n > 0 {
			effect[p] = sum/n - mean
		}
	}
	return effect
}
