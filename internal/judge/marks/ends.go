package marks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	// leastOutage is the least length of an outage that is left out, and farthestOutage how
	// far before a mark without requests before it the last ones are looked for, in seconds.
	leastOutage    = 60
	farthestOutage = 24 * 3600
)

// Around reads what lies around marks, so that their sides hold no other change.
type Around struct {
	Store store.Store
	// Changes, if not nil, returns the changes of a selection's requests that no side of a
	// mark may hold, whoever made them; nil: sides end at marks alone.
	Changes func(ctx context.Context, of query.Selection) ([]api.Change, error)
}

// withBeside returns a verdict and its sentence with what the sides of a mark leave out. An
// outage that the mark began is one of what it did.
func withBeside(v judge.Verdict, sentence string, o *api.MarkOutage, together []api.MarkName) (judge.Verdict, string) {
	switch {
	case o == nil:
	case o.Up && o.After:
		var sum judge.Sum
		sum.Add(v, "")
		sum.Add(judge.Regression, "")
		v = sum.Verdict()
		sentence = fmt.Sprintf("an outage of %s, from %s on; then %s", judge.Span(o.End-o.Start), clock(o.Start), sentence)
	case o.Up:
		sentence += fmt.Sprintf("; before it there was an outage of %s, from %s on", judge.Span(o.End-o.Start), clock(o.Start))
	case o.After:
		sentence += fmt.Sprintf("; nothing was measured for %s, from %s on", judge.Span(o.End-o.Start), clock(o.Start))
	default:
		sentence += fmt.Sprintf("; before it nothing was measured for %s, from %s on", judge.Span(o.End-o.Start), clock(o.Start))
	}
	if names := apart(together); names != "" {
		sentence += "; " + names
	}
	return v, sentence
}

// sides returns the sides of mark i for what matchers select of a service, as they are
// compared: without an outage that ends about the mark, and up to the changes that were found.
func (r *Around) sides(ctx context.Context, marks []store.Mark, i int, service string, matchers []*labels.Matcher, s sides, now time.Time) (sides, error) {
	if err := r.leaveOutage(ctx, marks, i, service, matchers, &s, now); err != nil {
		return s, err
	}
	if r.Changes == nil {
		return s, nil
	}
	found, err := r.Changes(ctx, query.Selection{
		Family: series.SpanDuration, Matchers: matchers, Start: time.Unix(s.before.start, 0), End: time.Unix(min(s.after.end, now.Unix()-ripe), 0),
	})
	if err != nil {
		return s, err
	}
	s.cutAt(found)
	calls := sync.OnceValues(func() (map[string]map[string]bool, error) {
		return query.ServiceCalls(ctx, r.Store, s.before.start, min(s.after.end, series.Base.Slot(now.Unix())))
	})
	if err := s.nameThen(marks, service, calls); err != nil {
		return s, err
	}
	if err := r.nameCalled(ctx, service, matchers, &s, now); err != nil {
		return s, err
	}
	err = s.nameRollouts(marks, i, service, calls, now)
	return s, err
}

// leaveOutage ends the side before where an outage began that was over about the mark, as
// where it is that of a restart: the time before it is then compared with the time after.
func (r *Around) leaveOutage(ctx context.Context, marks []store.Mark, i int, service string, matchers []*labels.Matcher, s *sides, now time.Time) error {
	until := min(s.after.end, now.Unix()-ripe)
	has, from, err := r.occupied(ctx, matchers, s.before.start, until)
	if err != nil || !slices.Contains(has, true) {
		return err
	}
	if last := from + int64(lastOf(has))*slot; last < s.after.start && until == s.after.end { // it lasts longer than the side
		until = min(s.after.start+farthestOutage, now.Unix()-ripe)
		if has, from, err = r.occupied(ctx, matchers, s.before.start, until); err != nil {
			return err
		}
	}
	if from+int64(lastOf(has))*slot < s.after.start {
		return nil // it lasts
	}
	if first := from + int64(slices.Index(has, true))*slot; first >= s.before.end-fewest*slot {
		if has, from, err = r.occupied(ctx, matchers, s.before.end-farthestOutage, until); err != nil {
			return err
		}
	}
	o := outageAt(has, from, s.before.end)
	if o == nil {
		return nil
	}
	measured, err := query.Occupied(ctx, r.Store, o.Start, o.End, slot)
	if err != nil {
		return err
	}
	o.Up, s.outage = slices.Contains(measured, true), o
	if o.After = o.Start > s.before.end-leastOutage; !o.After {
		s.placeBefore(marks, i, service, o.Start, s.before.end-s.before.start)
	}
	if start := o.End + slot; start > s.after.start { // its first slot was cut
		s.placeAfter(marks, i, service, start, s.after.end-s.after.start)
	}
	return nil
}

func lastOf(has []bool) int {
	for k := len(has) - 1; k >= 0; k-- {
		if has[k] {
			return k
		}
	}
	return -1
}

// occupied reports which slots of a range have requests of a service; from is the first one.
func (r *Around) occupied(ctx context.Context, matchers []*labels.Matcher, start, end int64) (has []bool, from int64, err error) {
	start = max(0, start)
	if end <= start {
		return nil, start, nil
	}
	found, err := query.Requests(ctx, r.Store, query.RequestsRequest{
		Selection: query.Selection{Family: series.SpanDuration, Matchers: matchers, Start: time.Unix(start, 0), End: time.Unix(end, 0)},
		Grid:      query.Grid{Step: slot}, Measure: store.Moments,
	})
	if err != nil {
		return nil, start, err
	}
	has = make([]bool, (found.End-found.Start)/slot)
	for _, g := range found.Groups {
		for k := range g.Good {
			if g.Count(k) == 0 {
				continue
			}
			for t := range found.Step / slot {
				if at := int64(k)*found.Step/slot + t; at < int64(len(has)) {
					has[at] = true
				}
			}
		}
	}
	return has, found.Start, nil
}

// outageAt returns the gap between requests, of a minute at least, that is about a moment: it
// began at most the fewest slots after it, and was over at most as many before it or later;
// nil if there is none.
func outageAt(has []bool, from, at int64) *api.MarkOutage {
	first, last := slices.Index(has, true), lastOf(has)
	if first < 0 {
		return nil
	}
	has, from = has[first:last+1], from+int64(first)*slot
	for _, g := range query.Gaps(has, from, slot, max(leastOutage-1, query.UnusualWaitOf(has, slot))) {
		if g[0] <= at+fewest*slot && g[1] >= at-fewest*slot {
			return &api.MarkOutage{Range: api.Range{Start: g[0], End: g[1]}}
		}
	}
	return nil
}

// cutAt ends the sides at changes that were found beside the mark. A change that may lie
// nearer than the fewest slots of a side is taken for that of the mark: people mark late,
// and what they do takes a while. Where its moment is surely another, near says so.
func (s *sides) cutAt(found []api.Change) {
	found = ofWholes(found)
	end, cut := s.after.end, (*api.Change)(nil)
	for i := range found {
		c := &found[i]
		low, high := int64(c.Low), int64(c.High)
		switch {
		case low >= s.after.start+fewest*slot:
			if low < s.after.end {
				cut = c
				s.after.end, s.cutAfter = series.Base.Slot(low), theChange(cut)
			}
		case high <= s.before.end-fewest*slot:
			if high > s.before.start {
				s.before.start, s.cutBefore = series.Base.Slot(high+slot-1), theChange(c)
			}
		case low > s.after.start+surelyApart || high < s.before.end-surelyApart:
			s.near = theChange(c)
		}
	}
	if cut != nil && s.after.end <= s.after.start+LateWithin {
		s.then, s.ending = s.late(found, cut, end), chosenBy(cut)
	}
}

// ofWholes returns the changes without those of operations that the service as a whole shows as
// well, of the same things in the same direction: few requests date them far worse.
func ofWholes(found []api.Change) []api.Change {
	return slices.DeleteFunc(slices.Clone(found), func(c api.Change) bool {
		return c.Operation != "" && slices.ContainsFunc(found, func(x api.Change) bool {
			return x.Operation == "" && x.Low <= c.High && c.Low <= x.High && !judge.Opposite(x.Verdict, c.Verdict) &&
				slices.ContainsFunc(x.Found, func(thing string) bool { return slices.Contains(c.Found, thing) })
		})
	})
}

// theChange names a change that was found, with its moment and how likely chance alone
// shows one as clear.
func theChange(c *api.Change) string {
	return fmt.Sprintf("a change that was found: %s (p %s)", c.Sentence, figure.TwoDigits(float64(c.P)))
}

// refused returns the error of a comparison that says why there is nothing to compare: the
// data of a side is gone or has not come yet, or has slots longer than it. Other errors are nil.
func refused(err error) *query.Error {
	var invalid *query.Error
	if errors.As(err, &invalid) && (invalid.Code == query.CodeInvalid || invalid.Code == query.CodeTooEarly) {
		return invalid
	}
	return nil
}

// clock writes a moment of the day.
func clock(t int64) string {
	at := time.Unix(t, 0).UTC()
	if at.Second() == 0 {
		return at.Format("15:04 UTC")
	}
	return at.Format(time.TimeOnly + " UTC")
}
