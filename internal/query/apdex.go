package query

import (
	"math"

	"tailscope/hist"
)

// Apdex is a score with the requests that make it. The shares are estimates
// inside the buckets that hold T and 4T; Low and High are the scores that the
// bounds of those buckets leave possible.
type Apdex struct {
	Score, Low, High                  float64 // 0 to 1; NaN without requests
	Satisfied, Tolerating, Frustrated float64 // requests
	Requests                          uint64
}

// ScoreApdex is (satisfied + tolerating/2) / requests, where requests of at
// most t seconds satisfy, those of at most 4t are tolerated and failed ones
// frustrate. good are the requests that did not fail; it may be nil.
// https://www.apdex.org/wp-content/uploads/2020/09/ApdexTechnicalSpecificationV11_000.pdf
func ScoreApdex(good *hist.Histogram, failed uint64, t float64) Apdex {
	a := Apdex{Requests: failed}
	if good == nil {
		good = &hist.Histogram{}
	}
	a.Requests += good.Count
	if a.Requests == 0 {
		a.Score, a.Low, a.High = math.NaN(), math.NaN(), math.NaN()
		return a
	}
	within, withinLow, withinHigh := good.AtMost(t)
	upTo, upToLow, upToHigh := good.AtMost(4 * t)
	a.Satisfied, a.Tolerating = within, max(0, upTo-within)
	a.Frustrated = float64(a.Requests) - a.Satisfied - a.Tolerating
	twice := 2 * float64(a.Requests)
	a.Score = (within + upTo) / twice
	a.Low, a.High = float64(withinLow+upToLow)/twice, float64(withinHigh+upToHigh)/twice
	return a
}
