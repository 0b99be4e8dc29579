package search

import (
	"fmt"

	"tailscope/api"
	"tailscope/internal/experiment/capacity/objective"
)

// Watch judges a step while it is held.
type Watch struct {
	search *Search
	step   Step
	series []*series
	took   float64 // seconds
	asked  float64 // when the search was last asked whether this is enough
	judged float64 // when the whole search was judged with it
	broke  string  // why, once it was
	acute  int     // 1 + the condition of which the last moment alone broke it; 0 if none
	// disturbed is the generator's state, see Outcome; again marks a step that was
	// tried again for that.
	disturbed float64
	again     bool
	cached    []seen // at took
	at        float64
}

// measured returns the evidence of the step on condition i so far, by itself.
func (w *Watch) measured(i int) seen {
	if w.cached == nil || w.at != w.took {
		w.cached, w.at = make([]seen, len(w.series)), w.took
		for i, s := range w.series {
			w.cached[i] = s.measure(w.search.load(w.step.X), w.step.Discard)
		}
	}
	o := w.cached[i]
	o.acute = w.acute == i+1
	return o
}

// Add adds a batch. It retains nothing of b.
func (w *Watch) Add(b objective.Batch) {
	if b.At.Seconds() <= w.took {
		return
	}
	w.took = b.At.Seconds()
	for _, s := range w.series {
		s.add(b)
	}
}

// For how long, and by what share, a limit has to be exceeded for the step to stop at
// once. Queues near saturation exceed a limit by less for moments, and a percentile
// allows that.
const (
	acuteShare    = 0.8
	acuteWindow   = 0.4 // seconds; what is beyond it by half as much again
	acuteLong     = 0.8 // seconds; what is beyond it at all
	acuteSlow     = 3.0 // seconds; the same where requests are few
	acuteMean     = 5   // times the limit
	acuteRequests = 10
	surely        = 0.001 // probability of an error of judging by the whole step
)

// Broken reports whether the load must be removed now, and why: nearly all requests
// that ended in the last moment, or are under way, break a condition, or the step as
// a whole surely does.
func (w *Watch) Broken() (why string, broken bool) {
	if w.broke == "" {
		w.broke = w.breaks()
	}
	return w.broke, w.broke != ""
}

func (w *Watch) breaks() string {
	for i, s := range w.series {
		if why := w.moment(s); why != "" {
			w.acute = i + 1
			return why
		}
		o := w.search.pooled(i, w.measured(i))
		if w.took > w.step.Discard.Seconds() && o.broken() > 1-surely && o.y >= 3*o.clump {
			return fmt.Sprintf("%s is broken: %s", s.c.Text, o.describe(s))
		}
	}
	return ""
}

// requests returns the number of requests that ended in the measured part.
func (w *Watch) requests() float64 {
	most := 0.0
	for i := range w.series {
		most = max(most, w.measured(i).n)
	}
	return most
}

// probably returns the highest probability that a condition is broken.
func (w *Watch) probably() float64 {
	worst := 0.0
	for i := range w.series {
		if o := w.search.pooled(i, w.measured(i)); o.n > 0 {
			worst = max(worst, o.broken())
		}
	}
	return worst
}

// moment says why the last moment alone is a reason to stop.
func (w *Watch) moment(s *series) string {
	if s.isMean() {
		if num, den := s.sum(w.took-acuteLong, w.took); w.took >= acuteLong && den >= acuteRequests && num > acuteMean*s.c.Limit*den {
			return fmt.Sprintf("%s is broken: it is %v in the last %.0f requests", s.c.Text, seconds(num/den), den)
		}
		return ""
	}
	for _, window := range []float64{acuteWindow, acuteLong, acuteSlow} {
		if w.took < window {
			break
		}
		num, den := s.sum(w.took-window, w.took)
		if den < acuteRequests || num < acuteShare*den {
			continue
		}
		if s.c.Measure != "errors" && window == acuteWindow && !s.farBeyond(window) {
			continue
		}
		return fmt.Sprintf("%s is broken by %.0f of the last %.0f requests", s.c.Text, num, den)
	}
	return ""
}

// Enough reports whether the step may end: it has shown what it can show in its time.
func (w *Watch) Enough() bool {
	if w.took >= w.step.For.Seconds() {
		return true
	}
	return w.search.enough(w)
}

// Kept returns the verdict on the step by itself, at the search's level: broken if
// one of its conditions surely is, kept if all surely are. A condition on errors does
// not hold back the others if none was seen among so many requests that one would be
// at the limit: otherwise no step of some seconds could ever be kept.
func (w *Watch) Kept() string {
	kept, open := 0, 0
	for i, o := range w.Objectives() {
		seen := w.measured(i)
		switch {
		case o.Kept == Broken:
			return Broken
		case o.Kept == Kept:
			kept++
		case !seen.none() || seen.n*seen.target < 1:
			open++
		}
	}
	if kept > 0 && open == 0 {
		return Kept
	}
	return Unclear
}

// Objectives returns the evidence on each condition, with its interval at the
// search's level, from batches.
func (w *Watch) Objectives() []api.CapacityObjective {
	out := make([]api.CapacityObjective, len(w.series))
	for i, s := range w.series {
		o := w.search.pooled(i, w.measured(i))
		low, high := o.interval(w.search.o.Level)
		kept := Unclear
		switch {
		case low > o.target:
			kept = Broken
		case high < o.target:
			kept = Kept
		}
		// The asked figure, between the figures that belong to the ends of the
		// share's interval.
		value, limit := o.ratio(), s.c.Limit
		if s.c.Measure == "quantile" || s.c.Measure == "max" {
			value, low, high = s.quantiles(o, w.search.o.Level)
		}
		out[i] = api.CapacityObjective{Text: s.c.Text, Value: api.Float(value), Low: api.Float(low), High: api.Float(high), Limit: api.Float(limit), Kept: kept}
	}
	return out
}

// farBeyond reports whether the last moment is well beyond the limit.
func (s *series) farBeyond(window float64) bool {
	num, den := s.lateFar, s.lateFar
	last := len(s.at) - 1
	for i := last; i >= 0 && (i == last || s.begin(i) >= s.at[last]-window-1e-9); i-- {
		num, den = num+s.far[i], den+s.den[i]
	}
	return num >= acuteShare/2*den
}
