package changes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

// chunk is how much of a range is read at once in the shortest slots, in seconds.
const chunk = 7200

// rated is how many requests a part has in each slot; NaN where none of any service were
// measured.
type rated struct {
	requests, others counted // spans of kind server or consumer, and the others
}

type counted struct {
	counts  []float64
	squares float64
	any     bool
}

func (c *counted) add(slots, at int, n, squares float64) {
	if c.counts == nil {
		c.counts = make([]float64, slots)
	}
	c.counts[at] += n
	c.squares, c.any = c.squares+squares, true
}

// of are the requests: of a service that has none, all of its spans.
func (r *rated) of() *counted {
	if r.requests.any {
		return &r.requests
	}
	return &r.others
}

// rates are the requests of parts in the shortest slots that are kept, which are finer than
// those of the search where the range is long: a burst of half a minute, and when an outage
// began, are seen in no others.
type rates struct {
	start, step int64
	slots       int
	measured    []bool
	parts       map[compare.Part]*rated // with no more than their names
}

// named is a part's key in rates.
func named(p compare.Part) compare.Part {
	return compare.Part{Service: p.Service, Environment: p.Environment, Operation: p.Operation, Own: p.Own}
}

// readRates reads the requests of the range in slots of a length, chunk by chunk, since what
// is read is much more than what is kept of it. It returns nil where they are not kept.
func readRates(ctx context.Context, st store.Store, s *compare.Stretches, r *Request, step int64) (*rates, error) {
	out := &rates{start: s.Start(0), step: step, slots: int((s.Start(s.Slots()) - s.Start(0)) / step), parts: map[compare.Part]*rated{}}
	some := ofOperations(r)
	by := []string{series.LabelKind}
	if some {
		by = append(by, series.LabelOperation)
	}
	for from := out.start; from < s.Start(s.Slots()); from += chunk {
		to := min(from+chunk, s.Start(s.Slots()))
		ok, err := out.read(ctx, st, s, r, by, from, to)
		if errors.Is(err, store.ErrTooMany) {
			return nil, nil
		}
		if err != nil || !ok {
			return nil, err
		}
	}
	return out, nil
}

// read reads a chunk; ok is false where it is not kept in slots as short.
func (x *rates) read(ctx context.Context, st store.Store, s *compare.Stretches, r *Request, by []string, from, to int64) (ok bool, err error) {
	ctx, done := store.Passing(ctx)
	defer done()
	sel := r.Selection
	sel.Start, sel.End = time.Unix(from, 0), time.Unix(to, 0)
	found, err := query.Requests(ctx, st, query.RequestsRequest{Selection: sel, Grid: query.Grid{Step: x.step}, By: by, Measure: store.Moments})
	if err != nil {
		return false, err
	}
	if len(found.Groups) > 0 && (found.Step != x.step || found.Start != from) {
		return false, nil
	}
	first := int((from - x.start) / x.step)
	for i := range found.Groups {
		g := &found.Groups[i]
		p := compare.Part{Service: g.Labels.Get(series.LabelService)}
		if s.Environments(p.Service) {
			p.Environment = g.Labels.Get(series.LabelEnvironment)
		}
		if len(by) > 1 {
			p.Operation, p.Own = g.Labels.Get(series.LabelOperation), true
		}
		of := x.parts[p]
		if of == nil {
			of = &rated{}
			x.parts[p] = of
		}
		to := &of.others
		if kind := g.Labels.Get(series.LabelKind); kind == "server" || kind == "consumer" {
			to = &of.requests
		}
		for k := range g.Good {
			if m := g.Moment(k); m.Count > 0 && first+k < x.slots {
				to.add(x.slots, first+k, float64(m.Count), m.SquaredWeights())
			}
		}
	}
	measured, err := query.Occupied(ctx, st, from, to, x.step)
	x.measured = append(x.measured, measured...)
	return true, err
}

// begun returns the requests of a part from its first slot with any on, which is left out if
// it is not the first of the range, for it is partly filled. Slots before it are NaN.
func (x *rates) begun(c *counted) []float64 {
	out := slices.Clone(c.counts)
	before := true
	for i, n := range out {
		if before {
			out[i] = math.NaN()
		}
		if before && n > 0 {
			before = false
			if i == 0 {
				out[i] = n
			}
		}
	}
	return out
}

// excursion is one of the rate of a part.
type excursion struct {
	part compare.Part
	stat.Excursion
	slot       int64
	start, end int64 // Unix seconds
	silent     bool  // no service sent anything meanwhile
}

// isOutage says that requests stopped, or nearly did.
func (x *excursion) isOutage() bool { return x.Rate <= compare.NearlyNothing*x.Before }

// takeExcursions finds outages, and bursts and dips of rates that are shorter than two
// changes are apart. It leaves the slots of both out of rates, and those of an outage out of
// all that is searched of the service: the few requests in it are not like others.
func takeExcursions(ctx context.Context, st store.Store, s *compare.Stretches, r *Request, parts []compare.Part) ([]api.Change, error) {
	if int64(s.Slots())*s.Step() >= fewestDays*day {
		return nil, nil // a season needs all slots
	}
	read, err := readRates(ctx, st, s, r, int64(series.Base))
	if err == nil && read == nil && s.Step() > int64(series.Base) {
		read, err = readRates(ctx, st, s, r, s.Step())
	}
	if err != nil || read == nil {
		return nil, err
	}
	var all []excursion
	var least []float64 // of each part that is searched
	for _, p := range parts {
		if !slices.Contains(thingsOf(p, ofOperations(r)), Rate) {
			continue
		}
		least = append(least, 1)
		x := read.parts[named(p)]
		if x == nil {
			continue
		}
		c := x.of()
		for _, e := range stat.FindExcursions(read.begun(c), c.squares, int(fewestAfter*s.Step()/read.step)-1) {
			start := read.start + int64(e.From)*read.step
			found := excursion{p, e, read.step, start, start + int64(e.To-e.From)*read.step, read.isSilent(e.From, e.To)}
			if !found.isOutage() {
				usual, err := read.cameBefore(ctx, st, s, r, &found)
				if err != nil {
					return nil, err
				}
				if usual {
					continue
				}
			}
			all = append(all, found)
			least[len(least)-1] = min(least[len(least)-1], e.P)
		}
	}
	times := stat.AmongFamilies(least, amongSpikes)
	var out []api.Change
	var silent []excursion // one for each moment
	for _, x := range all {
		if x.P = min(1, x.P*times); x.P > amongSpikes {
			continue
		}
		last := s.Slots()
		if !x.Lasts {
			last = int((x.end - read.start + s.Step() - 1) / s.Step())
		}
		at := compare.Stretch{From: int((x.start - read.start) / s.Step()), To: min(s.Slots(), last)}
		s.LeaveRate(x.part, at)
		if x.isOutage() {
			for _, p := range s.Parts() {
				if p.Service == x.part.Service && p.Environment == x.part.Environment && (!x.part.Own || p == x.part) {
					s.Leave(p, at)
				}
			}
		}
		if x.silent {
			if slices.ContainsFunc(silent, func(o excursion) bool { return o.start < x.end && x.start < o.end }) {
				continue // that of the service with the most requests stands for all
			}
			silent = append(silent, x)
		}
		out = append(out, *excursionChange(s, x, at))
	}
	return out, nil
}

// isSilent reports whether no service was measured in nearly all slots [from, to).
func (x *rates) isSilent(from, to int) bool {
	silent := 0
	for _, measured := range x.measured[from:to] {
		if !measured {
			silent++
		}
	}
	return 10*silent >= 9*(to-from)
}

// cameBefore reports whether as clear a burst or dip came a day before, or one and two hours
// before: that of a job that runs by the clock.
func (x *rates) cameBefore(ctx context.Context, st store.Store, s *compare.Stretches, r *Request, e *excursion) (bool, error) {
	const beside, shift = 30, 2 // slots
	height := math.Log(e.Rate / e.Before)
	came := func(ago int64) (bool, error) {
		from := e.start - ago - beside*x.step
		slots := int((e.end-e.start)/x.step) + 2*beside
		y := &rates{start: from, step: x.step, slots: slots, parts: map[compare.Part]*rated{}}
		by := []string{series.LabelKind}
		if ofOperations(r) {
			by = append(by, series.LabelOperation)
		}
		ok, err := y.read(ctx, st, s, r, by, from, from+int64(slots)*x.step)
		of := y.parts[named(e.part)]
		switch {
		case errors.Is(err, store.ErrTooMany):
			return false, nil
		case err != nil || !ok || of == nil || from < 0:
			return false, err
		}
		mean := func(from, to int) (sum float64) {
			for _, n := range of.of().counts[from:to] {
				sum += n / float64(to-from)
			}
			return sum
		}
		usual := (mean(0, beside-shift) + mean(slots-beside+shift, slots)) / 2
		for by := -shift; by <= shift; by++ {
			if h := math.Log(mean(beside+by, slots-beside+by) / usual); h/height >= 0.5 {
				return true, nil
			}
		}
		return false, nil
	}
	if found, err := came(day); found || err != nil {
		return found, err
	}
	found, err := came(3600)
	if found && err == nil {
		found, err = came(2 * 3600)
	}
	return found, err
}

// excursionChange is an excursion as a change.
func excursionChange(s *compare.Stretches, x excursion, at compare.Stretch) *api.Change {
	c := newChange(s, candidate{part: x.part, point: point{at: at.From, low: at.From, high: at.From, p: x.P, of: []string{Rate}}, before: compare.Stretch{From: 0, To: at.From}, after: at})
	c.Time, c.Low, c.High = api.Float(x.start), api.Float(x.start-x.slot), api.Float(x.start+x.slot)
	c.Before.End, c.After = x.start, api.Range{Start: x.start, End: x.end}
	c.ID = idOf(subjectOf(c), x.start)
	c.Verdict, c.Measures = judge.Changed, []api.CompareMeasure{}
	perSecond := func(v float64) api.Float { return api.Float(v / float64(x.slot)) }
	c.Shape = &api.Shape{Kind: judge.Spike, Start: x.start, End: x.end, Service: c.Service, Operation: c.Operation, Measure: judge.Rate, Usual: perSecond(x.Before), Value: perSecond(x.Rate)}
	of := s.Subject(x.part)
	if !x.isOutage() {
		nameSpike(c, of, x.slot, nil)
		return c
	}
	c.Verdict = judge.Regression
	rate := func(v float64) string { return figure.Value(float64(perSecond(v)), "") + "/s" }
	what := "no requests of " + of
	if x.Rate > 0 {
		what = fmt.Sprintf("hardly any requests of %s, %s,", of, rate(x.Rate))
	}
	c.Name = "outage of " + of
	long := judge.Span(x.end - x.start)
	if x.Lasts {
		c.Shape.Kind, c.Shape.End = judge.Step, c.Shape.Start
	}
	if x.silent {
		c.Name = "outage of all"
		c.Headline, c.Sentence = silentText(x, long)
		c.Shape.Sentence = c.Headline
		return c
	}
	if x.Lasts {
		c.Headline = fmt.Sprintf("%s, before %s", strings.TrimSuffix(what, ","), rate(x.Before))
		c.Shape.Sentence = c.Headline
		c.Sentence = fmt.Sprintf("%s, %s, for %s so far", c.Headline, when(&api.Change{Time: c.Time, Low: c.Time, High: c.Time}, x.slot), long)
		return c
	}
	c.Shape.Sentence = what + " for " + long
	after := "then as before, " + rate(x.Before)
	if !(math.Abs(math.Log(x.After/x.Before)) <= leastAfter) {
		after = fmt.Sprintf("%s before and %s after", rate(x.Before), rate(x.After))
	}
	c.Headline = fmt.Sprintf("%s, %s", c.Shape.Sentence, after)
	c.Sentence = fmt.Sprintf("%s, from %s to %s UTC", c.Headline, time.Unix(x.start, 0).UTC().Format(time.DateTime), clockOf(x.start, x.end))
	return c
}

// silentText says that nothing came from anywhere, and why that may be.
func silentText(x excursion, long string) (headline, sentence string) {
	start := time.Unix(x.start, 0).UTC().Format(time.DateTime)
	if x.Lasts {
		headline = fmt.Sprintf("no service has sent anything for %s: the system stands, or what sends is cut off", long)
		return headline, fmt.Sprintf("%s, since %s UTC", headline, start)
	}
	headline = fmt.Sprintf("no service sent anything for %s: the system stood, or what sends was cut off", long)
	return headline, fmt.Sprintf("%s, from %s to %s UTC", headline, start, clockOf(x.start, x.end))
}

// leastAfter is the least logarithm by which the rate after an outage is another than before.
var leastAfter = math.Log(1.25)

// clockOf writes the end of a stretch, with the day if it is another one.
func clockOf(start, end int64) string {
	from, to := time.Unix(start, 0).UTC(), time.Unix(end, 0).UTC()
	if from.YearDay() != to.YearDay() {
		return to.Format(time.DateTime)
	}
	return to.Format(time.TimeOnly)
}
