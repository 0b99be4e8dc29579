package compare

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/stat"
)

const (
	mixMoved = 0.05 // share of requests that are of another operation
	// calls an operation has more than before, and total time it has not, before
	// it looks as though only what is measured had changed.
	callsJumped, timeStayed = 1.5, 1.1
)

func (c *comparison) warning(code, format string, args ...any) {
	c.out.Warnings = append(c.out.Warnings, api.CompareWarning{Code: code, Text: fmt.Sprintf(format, args...)})
}

// warn says what speaks against taking the figures at their word.
func (c *comparison) warn(ctx context.Context, whole, s *strata) error {
	if moved, chance := shift(c.fineA, c.fineB); moved > mixMoved && moved > 2*chance {
		c.warning("mix", "%s of the requests are of other %s than on side A: go by the like-for-like figures", percent(moved), c.strataName())
	}
	switch {
	case s.mix == nil && len(c.a.strata) > 0 && len(c.b.strata) > 0:
		c.warning("coverage", "nothing can be compared like for like: none of the %s has %d requests on both sides", c.strataName(), rare)
	case s.mix != nil && s.covered < 0.95:
		c.warning("coverage", "%s that both sides have are only %s of the requests of one of them: the like-for-like figures are of those%s", c.strataName(), percent(s.covered), c.cameAndWent(s.gone))
	}
	if err := c.warnErrors(whole); err != nil {
		return err
	}
	if c.Label == "" {
		if err := c.warnRates(whole); err != nil {
			return err
		}
		c.warnSeason()
		return c.warnMarks(ctx)
	}
	return nil
}

// cameAndWent names a few of what only one side has.
func (c *comparison) cameAndWent(gone []operation) string {
	const few = 3
	var words []string
	for _, name := range gone[:min(few, len(gone))] {
		verb := "came"
		if c.fineA.requestsOf(name) > c.fineB.requestsOf(name) {
			verb = "went"
		}
		title := orNone(name.operation)
		if name.cohort != "" {
			title += " of " + name.cohort + " tenants"
		}
		words = append(words, title+" "+verb)
	}
	if more := len(gone) - few; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	if len(words) == 0 {
		return ""
	}
	return "; " + strings.Join(words, ", ")
}

func (c *comparison) warnErrors(s *strata) error {
	x, err := stat.Shares(s.errorsA, s.errorsB, nil, stat.Difference, c.opts)
	if err != nil {
		return err
	}
	if v := x.Verdict(0); v == stat.Less || v == stat.More {
		c.warning("errors", "the error ratio went from %s to %s: failed requests take another time than good ones", percent(x.A), percent(x.B))
	}
	return nil
}

// warnRates looks for saturation, and for what only looks like a change.
func (c *comparison) warnRates(s *strata) error {
	requests := func(tallies []stat.Tally) []stat.Tally {
		sum := make([]float64, len(tallies[0].Den))
		one := make([]float64, len(sum))
		for i := range one {
			one[i] = 1
		}
		for _, t := range tallies {
			for i, n := range t.Den {
				sum[i] += n
			}
		}
		return []stat.Tally{{Num: sum, Den: one}}
	}
	rate, err := stat.Ratios(requests(s.errorsA), requests(s.errorsB), nil, stat.LogRatio, c.opts)
	if err != nil {
		return err
	}
	slower := slices.ContainsFunc(c.out.Measures, func(m api.CompareMeasure) bool { return m.Verdict == Slower && float64(m.Adjusted) <= discovery })
	if v := rate.Verdict(0); v == stat.Less && slower {
		ratio, _ := rate.Ratio()
		c.warning("saturation", "requests take longer while %s fewer are answered: something may be saturated", percent(1-ratio))
	}
	var suspects []string
	for i, name := range s.single {
		calls, err := stat.Ratios(requests(s.errorsA[i:i+1]), requests(s.errorsB[i:i+1]), nil, stat.LogRatio, c.opts)
		if err != nil {
			return err
		}
		mean, err := stat.Mean(s.a[i:i+1], s.b[i:i+1], nil, c.opts)
		if err != nil {
			return err
		}
		if calls.Short != "" || mean.Short != "" {
			continue
		}
		more, ci := calls.Ratio()
		time, _ := mean.Ratio()
		if ci.Low > callsJumped && math.Abs(math.Log(more*time)) < math.Log(timeStayed) {
			suspects = append(suspects, name.operation)
		}
	}
	if len(suspects) > 0 {
		c.warning("instrumentation", "%s: many more calls, but no more time in all: what is measured may have changed, not how long it takes", strings.Join(suspects, ", "))
	}
	return nil
}

// warnSeason says when hours of the day may be what differs.
func (c *comparison) warnSeason() {
	const day, near = 86400, 1800
	apart := c.b.start - c.a.start
	off := ((apart % day) + day) % day
	if c.paired || min(off, day-off) < near {
		return
	}
	// The last day before that is not after side B.
	w := c.b.start - c.a.end + (c.a.end - c.a.start)
	days := max(1, (w+day-1)/day)
	c.warning("season", "the sides are of different hours: where traffic has a daily season, compare with the same hours of another day, such as %s to %s UTC",
		clock(c.b.start-days*day), clock(c.b.end-days*day))
}

// warnMarks names what else happened.
func (c *comparison) warnMarks(ctx context.Context) error {
	start, end := min(c.a.start, c.b.start), max(c.a.end, c.b.end)
	marks, err := c.st.Marks(ctx, time.Unix(start, 0), time.Unix(end, 0))
	if err != nil {
		return err
	}
	services := map[string]bool{}
	for _, s := range []*side{c.a, c.b} {
		for name := range s.strata {
			services[name.service] = true
		}
	}
	var names []string
	for _, m := range marks {
		at := m.Time.Unix()
		inside := at > c.a.start && at < c.a.end || at > c.b.start && at < c.b.end
		if m.ID != c.Mark && inside && (m.Service == "" || services[m.Service]) {
			names = append(names, quote(m.Name)+" at "+clock(at)+" UTC")
		}
	}
	if len(names) > 0 {
		c.warning("marks", "within the sides lies also %s", strings.Join(names, ", "))
	}
	return nil
}
