package changes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/seconds"
	"tailscope/internal/store"
)

// describe puts a change into the words of the API.
func describe(ctx context.Context, s *compare.Stretches, c candidate, newest *seconds.Ring) (*api.Change, error) {
	if c.inner != nil {
		return describeInner(s, c)
	}
	ctx, done := store.Passing(ctx)
	defer done()
	s = s.By(c.measures())
	whole := c.after
	c.after = nextAfter(s, whole)
	found, err := s.Compare(ctx, c.part, c.before, c.after)
	if err == nil && (found.Verdict == judge.TooLittle || found.Verdict == judge.NoEvidence) && c.after != whole { // so few requests take longer
		c.after = whole
		found, err = s.Compare(ctx, c.part, c.before, c.after)
	}
	if err != nil {
		return nil, err
	}
	if found.Verdict == judge.TooLittle {
		shorter, err := s.Shorter(ctx, c.part, c.before, c.after, newest)
		if err != nil {
			return nil, err
		}
		if shorter != nil {
			found = shorter
		}
	}
	out := newChange(s, c)
	out.Measures, out.Verdict, out.Shape = append(found.Measures, found.Rate), found.Verdict, found.Shape
	of := c.title
	level := discovery
	if isExplained(found) {
		level = besideMix
	}
	sure := func(m *api.CompareMeasure) bool { return m.Change != "" && float64(m.Adjusted) <= level }
	short := judge.Where(cmp.Or(c.part.Operation, c.part.Service), c.part.Environment, "")
	busy := slices.Contains(c.point.of, Rate) && judge.Moved(found.Rate.Verdict)
	switch lead := lead(found.Measures, sure, c.point.of); {
	case lead != nil:
		out.Headline, out.Lead = lead.Sentence, lead.Name
		out.Name = strings.TrimSpace(fmt.Sprintf("%s of %s %s", lead.Name, short, lead.Verdict))
		alsoRate(out, found, busy)
	case isMix(found, c.point.of):
		out.Verdict = Mix
		out.Headline = mixText(found, of)
		out.Name = "mix of " + short + " moved"
		alsoRate(out, found, busy)
	case busy: // the rate alone
		out.Headline = found.Rate.Sentence
		out.Name = fmt.Sprintf("rate of %s %s", short, found.Rate.Verdict)
		if !judge.Moved(out.Verdict) {
			out.Verdict = judge.Changed
		}
	case found.Verdict == judge.TooLittle:
		out.Headline = fmt.Sprintf("%s of %s changed; %s", figure.Listed(titles(c.point.of)), of, cmp.Or(soon(out.Measures), "there is too little data beside that to say by how much"))
		out.Name = short + " changed"
	default:
		out.Headline = fmt.Sprintf("%s of %s changed, though none of %s surely did", figure.Listed(titles(c.point.of)), of, figure.Listed(measures))
		out.Name = short + " changed"
	}
	// More requests are neither better nor worse, whatever else is less sure.
	if slices.Equal(c.point.of, []string{Rate}) && judge.Moved(out.Verdict) {
		out.Verdict = judge.Changed
	}
	if found.Seconds > 0 {
		out.Headline += fmt.Sprintf(", provisionally, on %d s of data", found.Seconds)
	}
	out.Sentence = out.Headline + ", " + when(out, s.Step())
	return out, nil
}

// alsoRate says behind the headline that the rate changed too, if it did.
func alsoRate(c *api.Change, found *compare.Found, did bool) {
	if did {
		c.Rate = found.Rate.Sentence
		c.Headline += "; " + c.Rate
	}
}

// longestAfter and mostAfter bound the stretch after a change that it is compared with, in
// seconds and, of long slots, in slots: a side of a mark is as long. What comes later then does
// not move what is said of the change.
const longestAfter, mostAfter = 3600, 60

// nextAfter returns the part of a stretch after a change that it is compared with.
func nextAfter(s *compare.Stretches, after compare.Stretch) compare.Stretch {
	after.To = min(after.To, after.From+max(mostAfter, int(longestAfter/s.Step())))
	return after
}

// isMix says that the mix is what changed: it moved, and errors alone are explained by it.
func isMix(found *compare.Found, of []string) bool {
	if found.Mix == nil || slices.Equal(of, []string{Rate}) {
		return false
	}
	return slices.Contains(of, Durations) || isExplained(found)
}

// isExplained reports whether the mix explains a measure, or most of what it changed by.
func isExplained(found *compare.Found) bool {
	return slices.ContainsFunc(found.Measures, func(m api.CompareMeasure) bool {
		return compare.ByMix(&m) || found.Mix != nil && compare.BesideLike(&m)
	})
}

// mixText says how the mix moved, and that nothing else did or can be judged.
func mixText(found *compare.Found, of string) string {
	rest := fmt.Sprintf("like for like none of %s is seen to differ", figure.Listed(measures))
	if found.Verdict == judge.TooLittle {
		rest = "too few are left to be judged like for like"
	}
	return found.Mix.Text(of) + "; " + rest
}

// lead is the measure that stands for a change: errors that surely became more, else one
// of what was found to change, else any.
func lead(all []api.CompareMeasure, sure func(*api.CompareMeasure) bool, of []string) *api.CompareMeasure {
	isErrors := func(m *api.CompareMeasure) bool { return m.Name == judge.ErrorShare }
	for _, first := range []func(m *api.CompareMeasure) bool{
		func(m *api.CompareMeasure) bool {
			return isErrors(m) && m.Change == judge.Worse && slices.Contains(of, Errors)
		},
		func(m *api.CompareMeasure) bool {
			return isErrors(m) && slices.Contains(of, Errors) || !isErrors(m) && slices.Contains(of, Durations)
		},
		func(*api.CompareMeasure) bool { return !slices.Equal(of, []string{Rate}) },
	} {
		if m := compare.Lead(all, func(m *api.CompareMeasure) bool { return sure(m) && first(m) }, compare.DefaultWithin); m != nil {
			return m
		}
	}
	return nil
}

// titles are what changed, in words.
func titles(of []string) []string {
	out := make([]string, len(of))
	for i, v := range of {
		out[i] = map[string]string{Durations: "the distribution", Errors: "the share of errors", Rate: "the rate"}[v]
	}
	return out
}

// soon says when it can be judged how much changed, where only the newest slots are missing;
// else it is empty.
func soon(of []api.CompareMeasure) string {
	for i := range of {
		if at := of[i].Judged().JudgedAt; at > 0 {
			return "the newest stretch is still coming: by how much can be judged at " + compare.NextMinute(at) + " UTC"
		}
	}
	return ""
}

// unsure is the end of a sentence that does not say how much changed.
func unsure(of []api.CompareMeasure) string {
	if s := soon(of); s != "" {
		return "; " + s
	}
	return ", though by how much is not sure"
}

// when says when it was, and how surely.
func when(c *api.Change, step int64) string {
	layout, clock := judge.SinceMinute, "15:04"
	if step < 60 {
		layout, clock = judge.SinceSecond, "15:04:05"
	}
	const day = "2006-01-02 "
	write := func(t api.Float, layout string) string { return time.Unix(int64(t), 0).UTC().Format(layout) }
	at := write(c.Time, layout)
	if c.Low == c.High {
		return at
	}
	if write(c.Low, day) != write(c.Time, day) || write(c.High, day) != write(c.Time, day) {
		clock = day + clock
	}
	return at + ", between " + write(c.Low, clock) + " and " + write(c.High, clock)
}
