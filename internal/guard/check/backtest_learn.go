package check

import (
	"context"
	"iter"
	"slices"
	"time"

	"tailscope/internal/guard/check/profile"
	"tailscope/internal/guard/check/schedule"
	"tailscope/internal/guard/check/spec"
)

// A backtest of a profile that learns would look better than it is if it were
// held against values that the profile was learned from. So a variant learns as
// the check would have: again and again, from what came before.

// learner holds what a variant has learned so far.
type learner struct {
	p       *profile.Profile // the one that learns
	rule    spec.Learn
	refresh schedule.Schedule
	next    time.Time // when to learn again
	from    []minute  // of the series that it learns from, if that is not the check's own
}

// minute is the values of one minute, in order of time.
type minute struct {
	at  time.Time // its start
	sum float64
	n   int
}

// see adds a value of the check itself to what may be learned from.
func (p *backtest) see(at time.Time, v float64) {
	if p.tested.lesson == nil && (p.before == nil || p.before.lesson == nil) {
		return
	}
	at = at.Truncate(time.Minute)
	if n := len(p.seen); n > 0 && p.seen[n-1].at.Equal(at) {
		p.seen[n-1].sum += v
		p.seen[n-1].n++
		return
	}
	p.seen = append(p.seen, minute{at, v, 1})
}

// beginLearning begins the variants' learning, and reads the values before the start.
func (p *backtest) beginLearning(ctx context.Context) error {
	var over time.Duration // of the check's own values
	for _, c := range []*variant{p.tested, p.before} {
		if c == nil || c.c.Threshold == nil || c.c.Threshold.Of.Profile == "" || c.d.profile == nil || c.d.profile.Learn() == nil {
			continue
		}
		l := &learner{p: c.d.profile, rule: profile.Defaults(*c.d.profile.Learn())}
		var err error
		if l.refresh, err = schedule.Parse(l.rule.Refresh.Schedule(), learnedKey(l.p, c.id)); err != nil {
			return err
		}
		if l.rule.Selector == "" {
			over = max(over, l.rule.Over)
		} else if l.from, err = p.loadMinutes(ctx, l.rule, p.start.Add(-l.rule.Over), p.end); err != nil {
			return err
		}
		own := *c.d // its profile is what was learned
		c.d, c.lesson = &own, l
	}
	if over == 0 || p.own.IsEmpty() {
		return nil
	}
	var err error
	p.seen, err = p.loadMinutes(ctx, spec.Learn{}, p.start.Add(-over), p.start)
	return err
}

// loadMinutes reads the samples of [from, to) that a rule learns from.
func (p *backtest) loadMinutes(ctx context.Context, rule spec.Learn, from, to time.Time) (seen []minute, err error) {
	rule.Over = to.Sub(from)
	samples, err := p.e.learningSamples(ctx, &rule, p.own, to)
	if err != nil {
		return nil, err
	}
	for at, v := range samples {
		seen = append(seen, minute{at, v, 1})
	}
	slices.SortStableFunc(seen, func(a, b minute) int { return a.at.Compare(b.at) })
	return seen, nil
}

// relearn makes the variants' profiles those that they would have had at a moment.
func (p *backtest) relearn(at time.Time) error {
	for _, c := range []*variant{p.tested, p.before} {
		if c == nil || c.lesson == nil || at.Before(c.lesson.next) {
			continue
		}
		l, from := c.lesson, p.seen
		if l.rule.Selector != "" {
			from = l.from
		}
		learned, err := profile.Learn(l.rule, l.p.Calendar(), at, within(from, at.Add(-l.rule.Over), at))
		if err != nil {
			return err
		}
		// Of nothing too, so that it is not what the check has learned since.
		if c.d.profile, err = learned.Compile(l.p.Name(), l.p.Calendar()); err != nil {
			return err
		}
		if l.next = l.refresh.Next(at); learned.Empty() {
			l.next = at.Add(learnAgain)
		}
	}
	return nil
}

// within are the means of the minutes of [from, to).
func within(seen []minute, from, to time.Time) iter.Seq2[time.Time, float64] {
	find := func(t time.Time) int {
		i, _ := slices.BinarySearchFunc(seen, t, func(m minute, t time.Time) int { return m.at.Compare(t) })
		return i
	}
	return func(yield func(time.Time, float64) bool) {
		for _, m := range seen[find(from):find(to)] {
			if !yield(m.at, m.sum/float64(m.n)) {
				return
			}
		}
	}
}
