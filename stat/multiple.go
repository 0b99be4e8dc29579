package stat

import (
	"math"
	"slices"
)

// BenjaminiHochberg returns adjusted probabilities in the order of p. Rejecting every
// adjusted p ≤ q controls the false discovery rate at q (Benjamini & Hochberg 1995, J.
// R. Statist. Soc. B 57). NaN is not a test: it stays NaN and does not count.
func BenjaminiHochberg(p []float64) []float64 {
	out := slices.Repeat([]float64{math.NaN()}, len(p))
	order := make([]int, 0, len(p))
	for i, v := range p {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case p[i] < p[j]:
			return -1
		case p[i] > p[j]:
			return 1
		}
		return 0
	})
	least := 1.0
	for k := len(order) - 1; k >= 0; k-- {
		least = min(least, p[order[k]]*float64(len(order))/float64(k+1))
		out[order[k]] = least
	}
	return out
}

// AmongFamilies returns the factor for probabilities within selected families, by which the
// rate of false discoveries in them is controlled at q. The argument p has one probability
// for each family. Benjamini–Hochberg selects R of m by it, and within a selected family
// the level is R/m of what it is for one (Benjamini & Bogomolov 2014, J. R. Statist. Soc. B 76). NaN is not
// a family.
func AmongFamilies(p []float64, q float64) float64 {
	families, selected := 0, 0
	for _, v := range BenjaminiHochberg(p) {
		if !math.IsNaN(v) {
			families++
		}
		if v <= q {
			selected++
		}
	}
	return float64(max(1, families)) / float64(max(1, selected))
}
