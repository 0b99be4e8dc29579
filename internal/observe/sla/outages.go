package sla

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

const (
	// mostOutages bounds the stretches of a report: each is read again, finely.
	mostOutages = 20
	// atOnce is how much time is searched by one question, in seconds.
	atOnce = 7 * 86400
	// aroundOutage is the time about a stretch, in seconds, that tells whether it is long for
	// the service.
	aroundOutage = 3600
	// byChance is the expected number of stretches that are long by chance, in a report, up to
	// which one is told.
	byChance = 0.01
)

// findOutages finds the stretches from a moment on in which the service had no requests,
// though it usually has.
func (x *report) findOutages(ctx context.Context, from int64) ([]api.SLAOutage, error) {
	from = max(from, x.first)
	found, err := x.searchGaps(ctx, from)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b [2]int64) int { return cmp.Compare(b[1]-b[0], a[1]-a[0]) })
	var out []api.SLAOutage
	for _, g := range found[:min(len(found), mostOutages)] {
		o, err := x.outage(ctx, from, g)
		if err != nil {
			return nil, err
		}
		if o != nil {
			out = append(out, *o)
		}
	}
	slices.SortFunc(out, func(a, b api.SLAOutage) int { return cmp.Compare(a.Start, b.Start) })
	return out, nil
}

// searchGaps returns stretches, in minutes or as finely as slots are kept, that may be long
// for the service.
func (x *report) searchGaps(ctx context.Context, from int64) (found [][2]int64, err error) {
	type columns struct {
		has         []bool
		start, step int64
	}
	var read []columns
	occupied, total := 0, int64(0)
	for at := from; at < x.until; at += atOnce {
		r, err := x.counts(ctx, at, min(at+atOnce, x.until), query.Grid{Step: int64(series.Minute)})
		if err != nil {
			return nil, err
		}
		c := columns{r.Occupied(), r.Start, r.Step}
		for _, any := range c.has {
			if total += c.step; any {
				occupied++
			}
		}
		read = append(read, c)
	}
	if occupied == 0 {
		return nil, nil
	}
	// Columns that are mostly occupied do not show how long the service waits within them.
	least := query.LongestWait(0, 1)
	for _, c := range read {
		if usual := float64(total) / float64(occupied); usual > 2*float64(c.step) {
			least = max(least, query.LongestWait(float64(total), occupied))
		}
	}
	for _, c := range read {
		for _, g := range query.Gaps(c.has, c.start, c.step, least-float64(2*c.step)) {
			if last := len(found) - 1; last >= 0 && g[0] <= found[last][1] { // it goes on in the next columns
				found[last][1] = max(found[last][1], g[1])
				continue
			}
			found = append(found, g)
		}
	}
	return found, nil
}

func (x *report) counts(ctx context.Context, start, end int64, grid query.Grid) (*query.Requested, error) {
	sel := x.Selection
	sel.Start, sel.End = time.Unix(start, 0), time.Unix(end, 0)
	return query.Requests(ctx, x.st, query.RequestsRequest{Selection: sel, Grid: grid, Whole: grid == query.Grid{}, Measure: store.Moments})
}

// outage returns the stretch about a gap, to the slot; nil if it is usual.
func (x *report) outage(ctx context.Context, from int64, g [2]int64) (*api.SLAOutage, error) {
	r, err := x.counts(ctx, max(from, g[0]-aroundOutage), min(x.until, g[1]+aroundOutage), query.Grid{Width: query.MaxColumns})
	if err != nil {
		return nil, err
	}
	has := r.Occupied()
	gaps := query.Gaps(has, r.Start, r.Step, query.LongestWaitOf(has, r.Step))
	// Where requests are rare many waits are looked at, so that the longest is long by chance.
	pauses, times := pausesBeside(has, r.Start, r.Step, gaps), float64(x.until-from)/float64(r.End-r.Start)
	var o *api.SLAOutage
	for _, fine := range gaps {
		if times*stat.PausesAsLong(pauses, len(has), int((fine[1]-fine[0])/r.Step)) > byChance {
			continue
		}
		start, end := max(fine[0], from), min(fine[1], x.until)
		if start < g[1] && end > g[0] && (o == nil || end-start > o.End-o.Start) {
			o = &api.SLAOutage{Range: api.Range{Start: start, End: end}, Missed: float(math.NaN())}
		}
	}
	if o == nil {
		return nil, nil
	}
	usual, err := x.estimateMissed(ctx, o)
	if err != nil || !usual {
		return nil, err
	}
	start, end := query.Base(time.Unix(o.Start, 0), time.Unix(o.End, 0))
	for step := int64(series.Base); ; step *= 10 { // Occupied has an element for each
		if (end-start)/step <= query.MaxColumns {
			any, err := query.Occupied(ctx, x.st, start, start+(end-start)/step*step, step)
			o.Up = slices.Contains(any, true)
			return o, err
		}
	}
}

// pausesBeside returns the lengths, in slots, of the stretches without requests that are not
// gaps. What lies at an end of the slots is a part of a stretch, and is left out.
func pausesBeside(has []bool, start, step int64, gaps [][2]int64) (out []int) {
	for _, p := range query.Gaps(has, start, step, 0) {
		if p[0] > start && p[1] < start+int64(len(has))*step && !slices.Contains(gaps, p) {
			out = append(out, int((p[1]-p[0])/step))
		}
	}
	return out
}

// estimateMissed sets how many requests usually come in the time of an outage. It reports
// false if none do, as in nights of some services.
func (x *report) estimateMissed(ctx context.Context, o *api.SLAOutage) (usual bool, err error) {
	long := o.End - o.Start
	for _, before := range []struct {
		by         string
		start, end int64
	}{
		{"week", o.Start - 7*86400, o.End - 7*86400},
		{"day", o.Start - 86400, o.End - 86400},
		{"hour", o.Start - 3600, o.Start},
	} {
		if before.start <= 0 || before.end > o.Start {
			continue
		}
		rate, err := x.rate(ctx, before.start, before.end)
		if err != nil {
			return false, err
		}
		if rate > 0 {
			o.By, o.Missed = before.by, float(rate*float64(long))
			return true, nil
		}
		if before.by == "hour" {
			break
		}
		if rate, err = x.rate(ctx, max(0, before.start-86400), before.start); err != nil || rate > 0 {
			return false, err // it was there, and had none
		}
	}
	return true, nil
}

// rate returns the requests a second of [start, end), widened to whole slots as they are kept.
func (x *report) rate(ctx context.Context, start, end int64) (float64, error) {
	r, err := x.counts(ctx, start, end, query.Grid{})
	if err != nil {
		return 0, err
	}
	n := uint64(0)
	for i := range r.Groups {
		n += r.Groups[i].Count(0)
	}
	return float64(n) / float64(r.End-r.Start), nil
}

// place adds to a period what of the outages lies in it.
func place(l *api.SLAPeriod, outages []api.SLAOutage, zone *time.Location) {
	for _, o := range outages {
		whole := float64(o.End - o.Start)
		o.Start, o.End = max(o.Start, l.Start), min(o.End, l.End)
		if o.End <= o.Start {
			continue
		}
		o.Missed = float(float64(o.Missed) * float64(o.End-o.Start) / whole)
		o.Sentence = sentenceOf(&o, zone)
		l.Without += o.End - o.Start
		l.Outages = append(l.Outages, o)
	}
}

func sentenceOf(o *api.SLAOutage, zone *time.Location) string {
	what := "without requests of any service"
	if o.Up {
		what = "without requests while other services had some"
	}
	start, end := time.Unix(o.Start, 0).In(zone), time.Unix(o.End, 0).In(zone)
	clock := "15:04:05"
	if start.Second() == 0 && end.Second() == 0 {
		clock = "15:04"
	}
	until := end.Format(clock)
	if !query.Midnight(start).Equal(query.Midnight(end)) {
		until = end.Format("2006-01-02 " + clock)
	}
	out := fmt.Sprintf("%s %s, %s–%s, counted neither way", judge.Span(o.End-o.Start), what, start.Format("2006-01-02 "+clock), until)
	if n := float64(o.Missed); n >= 0.5 {
		as := map[string]string{"week": "as a week before", "day": "as a day before", "hour": "at the rate of the hour before"}[o.By]
		out += fmt.Sprintf("; about %s usually come in that time, %s", figure.Rounded(twoDigits(n)), as)
	}
	return out
}

// twoDigits rounds an estimate above 0.
func twoDigits(n float64) float64 {
	unit := math.Pow(10, max(0, math.Floor(math.Log10(n))-1))
	return math.Round(n/unit) * unit
}
