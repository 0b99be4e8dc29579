package compare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/stat"
)

// Until there are slots of ten seconds enough after a moment, it is judged provisionally on
// slots of one second, for gross changes alone: those whose interval lies beyond a margin.
const (
	fewestSeconds = 20  // of side B
	mostBefore    = 600 // seconds of side A at most
	leastBefore   = 120 // and at least
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
	from := max(a.Start.Unix(), a.End.Unix()-mostBefore, since)
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

// InSeconds returns a request for a provisional verdict on sides that SecondsOf returned.
func InSeconds(r Request, ring *seconds.Ring, a, b Window) Request {
	r.Mark, r.Moment, r.Newest = "", time.Time{}, nil
	r.A, r.B, r.Seconds, r.Step, r.Live, r.Length = a, b, ring, 1, true, planned
	return r
}

// provisional judges the newest seconds; nil if they say nothing, or are not needed.
func (c *comparison) provisional(ctx context.Context) (*api.CompareResponse, error) {
	i := slices.IndexFunc(c.Matchers, isService)
	if c.Newest == nil || !c.Live || i < 0 || c.Label != "" || c.Days > 0 || c.severalWindows() || c.Now.IsZero() {
		return nil, nil
	}
	r, a, b := c.Request, c.A, c.B
	if c.Mark != "" {
		if err := c.findMark(ctx); err != nil {
			return nil, err
		}
		at, length := time.Unix(c.mark.Time.Unix(), 0), c.Length
		if length == 0 {
			length = defaultLength
		}
		a, b = Window{at.Add(-length), at}, Window{at.Add(AfterMoment * time.Second), at.Add(length)}
		if c.Settle > 0 {
			b.Start = at.Add(time.Second + c.Settle)
		}
	}
	if _, later, err := c.windows(int64(series.Base)); err == nil && (later.end-later.start)/int64(series.Base) >= fewestSlots {
		return nil, nil
	}
	if a.Start.IsZero() || b.Start.IsZero() || a.End.After(b.Start) {
		return nil, nil
	}
	a, b, why := SecondsOf(c.Newest, c.Matchers[i].Value, a, b, c.Now)
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
	if c.mark != nil {
		m := c.mark.API()
		out.Mark, out.A.Name, out.B.Name = &m, "before "+c.mark.Name, "after "+c.mark.Name
	}
	return out, nil
}

func isService(m *labels.Matcher) bool {
	return m.Name == series.LabelService && m.Type == labels.MatchEqual
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
		if m.Verdict != judge.TooLittle && (!(low > margin || high < -margin) || !Enough(row, m)) {
			m.Verdict, m.Change = judge.NoEvidence, ""
			m.Sentence = "no evidence of a gross change of " + judge.Title(m.Name, c.of)
		}
	}
}

// concludeSeconds says that a verdict is provisional.
func (c *comparison) concludeSeconds() {
	if c.out.Provisional = true; c.out.Verdict == judge.NoEvidence {
		c.out.Sentence = fmt.Sprintf("No evidence of a gross change of %s, from %d s", c.of, c.b.end-c.b.start)
	}
}
