package compare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

// Until there are slots of ten seconds enough after a moment, it is judged provisionally on
// slots of one second, for gross changes alone: those whose interval lies beyond a margin.
const (
	fewestSeconds = 20  // of side B, at least
	leastBefore   = 120 // of side A, at least
	// MostBefore is the greatest length of side A, in seconds.
	MostBefore = 600
	// AfterMoment is where side B begins, in seconds after that of the moment: its own
	// second and two more are left out.
	AfterMoment = 3
	// planned is the length of side B at which intervals are tightest.
	planned = time.Minute
	// grossRatio and grossShare are the margins of ratios and of the share of errors.
	grossRatio, grossShare = 1.1, 0.01
	// provisionalShare of the error is left to provisional verdicts, as a divisor: their
	// probabilities are multiplied by it.
	provisionalShare = 5
	// fewestSlots of ten seconds on side B end provisional verdicts.
	fewestSlots = 20
)

// SecondsOf returns sides a and b, cut to the seconds of a service that are known and
// complete at now; why says why they cannot be judged.
func SecondsOf(ring *seconds.Ring, service string, a, b Window, now time.Time) (cutA, cutB Window, why string) {
	since, ok := ring.Since(service)
	if !ok {
		return a, b, "some of its operations are left out for lack of memory"
	}
	late, ok := ring.Ripe(service)
	if !ok {
		return a, b, "its requests come too late, or are too few"
	}
	from := max(a.Start.Unix(), a.End.Unix()-MostBefore, since)
	until := min(b.End.Unix(), now.Unix()-late)
	a.Start, b.End = time.Unix(from, 0), time.Unix(until, 0)
	switch before, after := a.End.Unix()-from, until-b.Start.Unix(); {
	case before < leastBefore:
		why = fmt.Sprintf("too few seconds before it are known, %d", max(0, before))
	case after < fewestSeconds:
		why = fmt.Sprintf("too few seconds after it are known, %d", max(0, after))
	}
	return a, b, why
}

// CutAtMarks cuts the sides of a moment in seconds at the marks beside it that concern a
// service in an environment, which is empty for any: side A begins after the last of them,
// and side B ends at the first. CutA and cutB are those marks, nil where nothing is cut.
// The marks of own do not count.
func CutAtMarks(marks []store.Mark, own []*store.Mark, service, environment string, moment int64, a, b Window) (Window, Window, *store.Mark, *store.Mark) {
	var cutA, cutB *store.Mark
	for i := range marks {
		m := &marks[i]
		if slices.ContainsFunc(own, func(x *store.Mark) bool { return x.ID == m.ID }) || !m.Concerns(service, environment) {
			continue
		}
		switch t := m.Time.Unix(); {
		case t > moment && t < b.End.Unix():
			b.End, cutB = time.Unix(t, 0), m
		case t < a.End.Unix() && t < moment && t+AfterMoment > a.Start.Unix():
			a.Start, cutA = time.Unix(t+AfterMoment, 0), m
		}
	}
	return a, b, cutA, cutB
}

// InSeconds returns a request for a provisional verdict on sides that SecondsOf returned.
func InSeconds(r Request, ring *seconds.Ring, a, b Window) Request {
	r.Mark, r.Moment, r.Newest = "", time.Time{}, nil
	r.A, r.B, r.Seconds, r.Step, r.Live, r.Length = a, b, ring, 1, true, planned
	return r
}

// provisional judges the newest seconds; nil if they say nothing, or are not needed.
func (c *comparison) provisional(ctx context.Context) (*api.CompareResponse, error) {
	service := query.Named(c.Matchers, series.LabelService)
	if c.Newest == nil || !c.Live || service == "" || c.Label != "" || c.Days > 0 || c.severalWindows() || c.Now.IsZero() {
		return nil, nil
	}
	if c.Mark != "" {
		if err := c.findMark(ctx); err != nil {
			return nil, err
		}
	}
	r, a, b := c.Request, c.A, c.B
	if c.mark != nil {
		first, last, length := c.mark, c.mark, c.Length
		if n := len(c.Together); n > 0 {
			first, last = c.Together[0], c.Together[n-1]
		} else {
			c.Together = []*store.Mark{c.mark}
		}
		if length == 0 {
			length = defaultLength
		}
		from, to := time.Unix(first.Time.Unix(), 0), time.Unix(last.Time.Unix(), 0)
		a, b = Window{from.Add(-length), from}, Window{to.Add(AfterMoment * time.Second), to.Add(length)}
		if c.Settle > 0 {
			b.Start = to.Add(time.Second + c.Settle)
		}
	}
	if _, later, err := c.windows(int64(series.Base)); err == nil && (later.end-later.start)/int64(series.Base) >= fewestSlots {
		return nil, nil
	}
	if a.Start.IsZero() || b.Start.IsZero() || a.End.After(b.Start) {
		return nil, nil
	}
	moment, asked := b.Start.Unix(), b.End
	if c.mark != nil {
		moment = a.End.Unix()
	}
	a.Start = time.Unix(max(a.Start.Unix(), a.End.Unix()-MostBefore), 0)
	marks, err := store.Marks(ctx, c.st, a.Start.Add(-AfterMoment*time.Second), c.Now)
	if err != nil {
		return nil, err
	}
	a, b, cutA, cutB := CutAtMarks(marks, c.Together, service, query.Named(c.Matchers, series.LabelEnvironment), moment, a, b)
	a, b, why := SecondsOf(c.Newest, service, a, b, c.Now)
	if why != "" {
		return nil, nil
	}
	out, err := Compare(ctx, c.st, InSeconds(r, c.Newest, a, b))
	var refused *query.Error
	if errors.As(err, &refused) && ctx.Err() == nil {
		return nil, nil // it is of what seconds do not tell apart
	}
	if err != nil || out.Verdict == judge.TooLittle {
		return nil, err
	}
	warn := func(code, format string, args ...any) {
		out.Warnings = append(out.Warnings, api.CompareWarning{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	if cutA != nil {
		warn("marks", "side A begins after %s at %s UTC, which lies within it", quote(cutA.Name), clock(cutA.Time.Unix()))
	}
	if cutB != nil {
		warn("marks", "side B ends at %s at %s UTC, which lies within it", quote(cutB.Name), clock(cutB.Time.Unix()))
	}
	if !asked.After(c.Now) {
		warn("provisional", "side B is over and holds fewer than %d slots of 10 s: this stays provisional, and is answered while the newest %s are kept; write a longer side B for more",
			fewestSlots, figure.Planned(float64(c.Newest.Keep())))
	}
	if c.mark != nil {
		m := c.mark.API()
		out.Mark, out.A.Name, out.B.Name = &m, "before "+c.mark.Name, "after "+c.mark.Name
	}
	return out, nil
}

// onlyGross takes back the changes whose interval does not lie beyond the margin, and
// those of quantiles with too few requests beyond them, and multiplies probabilities by
// provisionalShare.
func (c *comparison) onlyGross() {
	r := c.out
	whole := api.CompareRow{RequestsA: r.A.Requests, RequestsB: r.B.Requests, EffectiveA: r.A.Effective, EffectiveB: r.B.Effective}
	c.grossOf(&whole, r.Measures)
	for i := range r.Operations {
		row := &r.Operations[i]
		row.Adjusted = min(1, row.Adjusted*provisionalShare)
		c.grossOf(row, row.Measures)
		row.Changed = slices.ContainsFunc(row.Measures, func(m api.CompareMeasure) bool { return c.found(&m) })
	}
}

// grossOf does so of the measures of a row.
func (c *comparison) grossOf(row *api.CompareRow, measures []api.CompareMeasure) {
	for i := range measures {
		m := &measures[i]
		f := m.Judged()
		low, high, margin := float64(f.Low), float64(f.High), grossShare
		if m.Scale == scaleName(stat.LogRatio) {
			low, high, margin = math.Log(low), math.Log(high), math.Log(grossRatio)
		}
		m.Adjusted = min(1, m.Adjusted*provisionalShare)
		if m.Verdict != judge.TooLittle && (!(low > margin || high < -margin) || m.Name != judge.ErrorShare && !Enough(row, m)) {
			m.Verdict, m.Change = judge.NoEvidence, ""
			m.Sentence = "no evidence of a gross change of " + judge.Title(m.Name, c.of)
		}
	}
}

// concludeSeconds says that a verdict is provisional.
func (c *comparison) concludeSeconds() {
	if c.out.Provisional = true; c.out.Verdict == judge.NoEvidence {
		c.out.Sentence = FirstLook(c.of, c.out.B.Requests, c.b.end-c.b.start, c.b.start+(fewestSlots+2)*int64(series.Base)+ripe)
	}
}

// ripe is how long after its end a slot is read, in seconds: all of it has come.
const ripe = 30

// FirstLook is said in place of no evidence where seconds show no gross change: so few requests
// acquit nothing. More is known at a moment in Unix seconds.
func FirstLook(name string, requests uint64, seconds, more int64) string {
	return fmt.Sprintf("too early to say whether %s changed: a first look, at %s in %d s, shows nothing gross; more is known at %s UTC",
		name, figure.Counted(requests, "request"), seconds, time.Unix(more, 0).UTC().Format(time.TimeOnly))
}
