package query

import (
	"tailscope/api"
	"tailscope/hist"
)

// Bands are the ends, in seconds, of the experience bands: up to the first a
// request seems instant, up to the second the flow of thought is kept, up to
// the third patience, up to the fourth attention is being lost; beyond the last
// it is gone. The first, second and fourth limits are those of Miller (1968,
// AFIPS 33) and Nielsen (1993, Usability Engineering).
var Bands = [...]float64{0.1, 1, 5, 10}

// inBands are the shares of observations in the five bands. The bounds lie
// within buckets, in which values are taken as Quantile takes them.
func inBands(h *hist.Histogram) []api.Float {
	out := make([]api.Float, 0, len(Bands)+1)
	below := 0.0
	for _, v := range Bands {
		upTo, _, _ := h.AtMost(v)
		out = append(out, api.Float((upTo-below)/float64(h.Count)))
		below = upTo
	}
	return append(out, api.Float((float64(h.Count)-below)/float64(h.Count)))
}

// above is the share of observations above v, NaN if there are none.
func above(h *hist.Histogram, v float64) float64 {
	upTo, _, _ := h.AtMost(v)
	return (float64(h.Count) - upTo) / float64(h.Count)
}
