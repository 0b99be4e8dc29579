package rounds

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tailscope/hist"
	"tailscope/internal/judge"
)

// quantiles by the names that figures have.
var quantiles = []struct {
	name string
	p    float64
}{{"p50", 0.5}, {"p75", 0.75}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}}

// Shown are the names of measures in the order in which they stand; resources
// come after them.
var Shown = []string{"p50", "p75", "p90", "p95", "p99", "p999", judge.Mean, judge.ErrorShare, judge.Rate}

// beyond is how many requests a round must have beyond a quantile for the quantile
// to be a figure of that round: with fewer it is little else than the slowest.
const beyond = 5

// Figures are the measures of a distribution of latencies, in seconds, and of its
// errors; a quantile only if enough requests lie beyond it. Elapsed is in seconds.
func Figures(h *hist.Histogram, sent, failed uint64, elapsed float64) map[string]float64 {
	out := map[string]float64{}
	n := h.Count
	if n > 0 {
		for _, q := range quantiles {
			if float64(n)*(1-q.p) >= beyond {
				out[q.name] = h.Quantile(q.p)
			}
		}
		out["mean"] = h.Sum / float64(n)
	}
	if sent > 0 {
		out[judge.ErrorShare] = float64(failed) / float64(sent)
	}
	if elapsed > 0 {
		out[judge.Rate] = float64(n) / elapsed
	}
	return out
}

func isQuantile(name string) bool { return Needs(name) > 0 }

// Needs is how many requests a run needs for a measure: 0 unless it is a quantile.
func Needs(name string) uint64 {
	for _, q := range quantiles {
		if q.name == name {
			return uint64(math.Ceil(beyond/(1-q.p) - 1e-6))
		}
	}
	return 0
}

// TooFew says of a quantile that rounds have too few requests for it.
func TooFew(name string) string { return fmt.Sprintf("a round needs %d requests for it", Needs(name)) }

// difference says that a measure is compared by difference.
func difference(name string) bool { return name == judge.ErrorShare }

// duration says that less of a measure is faster.
func duration(name string) bool { return name == judge.Mean || name == judge.Ratio || isQuantile(name) }

// Lower says whether less of a measure is better.
func Lower(name string) bool { return name != judge.Rate }

func compareMeasures(a, b string) int {
	i, j := slices.Index(Shown, a), slices.Index(Shown, b)
	switch {
	case i >= 0 && j >= 0:
		return cmp.Compare(i, j)
	case i >= 0:
		return -1
	case j >= 0:
		return 1
	}
	return strings.Compare(a, b)
}

func (in *Input) margin(name string) float64 {
	if difference(name) {
		return judge.MarginOfErrors
	}
	return math.Log1p(in.Within)
}
