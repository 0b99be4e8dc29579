package query

import (
	"context"
	"time"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	// measuredColumns bounds the columns that are looked at for gaps.
	measuredColumns = 120
	// shortestGap is the shortest stretch without a request, in seconds, that is a gap in
	// the data, and gapOfUsual the times that it is as long as the usual one.
	shortestGap, gapOfUsual = 300, 10
)

// Measured returns in how many seconds of a range requests were measured, which is what
// their rate is divided by: all of it but gaps, in which no service has any request for five
// minutes, and for ten times as long as usual. The time before the first is one, too. Of
// slots of which not all is stored at now it counts the share that the requests in them have
// of the rate before; zero stands for a range that is whole.
func Measured(ctx context.Context, st store.Store, start, end, now time.Time) (float64, error) {
	from, to := Base(start, end)
	until := to
	if whole := LastWhole(now); !now.IsZero() && whole < to && whole > from {
		until = whole
	}
	m := measuring{ctx: ctx, st: st}
	lasts, requests, err := m.between(from, until)
	if err != nil || requests == 0 {
		return float64(to - from), err
	}
	if until < to {
		newest, err := m.columns(until, to, int64(series.Base))
		if err != nil {
			return 0, err
		}
		lasts *= 1 + newest.requests/requests
	}
	return lasts, nil
}

// LongestWait returns the longest stretch without a request, in seconds, that is not a gap
// where n slots within so many seconds have requests.
func LongestWait(seconds float64, n int) float64 {
	return max(shortestGap, gapOfUsual*seconds/float64(n))
}

// Occupied reports in which slots of [start, end), Unix seconds, any service has requests:
// the server was up, so that a service without requests in such a slot has a rate of 0.
func Occupied(ctx context.Context, st store.Store, start, end, step int64) ([]bool, error) {
	m := measuring{ctx: ctx, st: st}
	found, err := m.columns(start, end, step)
	out := make([]bool, (end-start)/step)
	for _, at := range found.starts {
		for t := max(at, start); t < min(at+found.step, end); t += step {
			out[(t-start)/step] = true
		}
	}
	return out, err
}

type measuring struct {
	ctx context.Context
	st  store.Store
}

// columns are those of a range that hold requests, by their starts.
type columns struct {
	starts   []int64
	step     int64
	requests float64
}

func (m *measuring) columns(from, to, step int64) (c columns, err error) {
	q := store.Query{Family: series.SpanDuration, View: series.Total, Measure: store.Moments, Schema: hist.DefaultSchema, Start: from, End: to, Step: step}
	res, err := m.st.Query(m.ctx, q)
	if err != nil {
		return c, err
	}
	c.step = max(step, int64(res.Resolution))
	for _, g := range res.Groups {
		for _, p := range g.Points {
			if p.Hist != nil && p.Hist.Count > 0 {
				c.starts = append(c.starts, p.Start)
				c.requests += float64(p.Hist.Count)
			}
		}
	}
	return c, nil
}

// between returns the seconds of [from, to) that are not in gaps, and the requests.
func (m *measuring) between(from, to int64) (lasts, requests float64, err error) {
	first, last := from, to
	var c columns
	finest := func() int64 {
		return stepFor(time.Unix(first, 0), time.Unix(last, 0), measuredColumns, int64(series.Base))
	}
	for step := finest(); ; {
		if c, err = m.columns(first, last, step); err != nil || len(c.starts) == 0 {
			return float64(to - from), c.requests, err
		}
		first, last = max(first, c.starts[0]), min(last, c.starts[len(c.starts)-1]+c.step)
		finer := finest()
		if finer >= step || c.step > step { // or finer ones are not kept
			break
		}
		step = finer
	}
	gap := LongestWait(float64(last-first), len(c.starts))
	lasts = float64(to - from)
	for i, start := range c.starts {
		if i > 0 {
			if empty := float64(start - c.starts[i-1] - c.step); empty > gap {
				lasts -= empty
			}
		}
	}
	if float64(first-from) > gap {
		edge, err := m.columns(first, min(first+c.step, to), int64(series.Base))
		if err != nil {
			return 0, 0, err
		}
		if len(edge.starts) > 0 {
			first = max(first, edge.starts[0])
		}
		lasts -= float64(first - from)
	}
	if float64(to-last) > gap {
		edge, err := m.columns(max(first, last-c.step), last, int64(series.Base))
		if err != nil {
			return 0, 0, err
		}
		if n := len(edge.starts); n > 0 {
			last = min(last, edge.starts[n-1]+edge.step)
		}
		lasts -= float64(to - last)
	}
	return lasts, c.requests, nil
}
