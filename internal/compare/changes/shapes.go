package changes

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/stat"
)

// longest is the greatest length of a spike, in lengths of the stretch before it and of that
// after it.
const longest = 2

// back is the share of a spike's height that may be left after it.
const back = 0.25

// withoutReturns makes one change of two of one subject that follow each other, where the
// second takes back what the first changed, and what lies between is not much longer than
// what lies before and after: a spike is not a step. What surely stayed is a step beside
// the spike. Candidates are those of the changes, in order of time in each subject, and
// describe judges one.
func withoutReturns(all []api.Change, of []candidate, slot int64, describe func(candidate) (*api.Change, error)) ([]api.Change, error) {
	var out []api.Change
	for i := 0; i < len(all); i++ {
		if i+1 < len(all) && subjectOf(&all[i+1]) == subjectOf(&all[i]) {
			one, err := spikeAndRest(&all[i], &all[i+1], of[i], of[i+1], slot, describe)
			if err != nil {
				return nil, err
			}
			if one != nil {
				out = append(out, one...)
				i++
				continue
			}
		}
		out = append(out, all[i])
	}
	return out, nil
}

// spikeAndRest returns what two changes that bound a spike amount to: the spike, and a step
// of what surely stayed. It returns nil if they bound none, or if something moved at both
// and is not back.
func spikeAndRest(up, down *api.Change, first, second candidate, slot int64, describe func(candidate) (*api.Change, error)) ([]api.Change, error) {
	spike := spikeOf(up, down, first, second)
	if spike == nil {
		return nil, nil
	}
	rest := first
	rest.after = second.after
	for _, v := range down.Found {
		if !slices.Contains(rest.point.of, v) {
			rest.point.of = append(slices.Clip(rest.point.of), v)
		}
	}
	whole, err := describe(rest)
	if err != nil {
		return nil, err
	}
	var stayed []string
	var then *api.CompareMeasure // of the spike's own measure
	atUp, atDown, little := 0, 0, 0
	for i := range whole.Measures {
		m := &whole.Measures[i]
		between := slices.IndexFunc(up.Measures, func(x api.CompareMeasure) bool { return x.Name == m.Name })
		if between < 0 || !isOf(rest.point.of, m.Name) {
			continue
		}
		if m.Name == spike.Measure {
			then = m
		}
		height, left := heights(m.Name, float64(m.Raw.A), float64(up.Measures[between].Raw.B), float64(m.Raw.B))
		slight := math.Abs(left) <= back*math.Abs(height)
		if math.Abs(left) < leastOf(m.Name) || slight && m.Verdict == judge.TooLittle {
			continue
		}
		switch moved := height / left; {
		case m.Verdict == judge.TooLittle:
			return nil, nil
		case !judge.Moved(m.Verdict) || float64(m.Adjusted) > discovery:
			continue
		case slight: // it may have begun with the spike or after it
			little++
		case 0.6 <= moved && moved <= 1.5:
			atUp++
		case math.Abs(moved) <= 0.4:
			atDown++
		default:
			return nil, nil
		}
		stayed = append(stayed, thingOf(m.Name, rest.point.of))
	}
	if atUp > 0 && atDown > 0 {
		return nil, nil
	}
	c := *up
	c.Shape = spike
	nameSpike(&c, first.title, slot, then)
	if len(stayed) == 0 {
		return []api.Change{c}, nil
	}
	apart := atUp == 0 && atDown+little > 0
	if apart {
		rest.point = second.point
	}
	slices.SortFunc(stayed, compareThings)
	rest.point.of = slices.Compact(stayed)
	step, err := describe(rest)
	if err != nil {
		return nil, err
	}
	if apart {
		return []api.Change{c, *step}, nil
	}
	step.Shape = spike
	step.Headline += "; " + spike.Sentence
	step.Sentence = step.Headline + ", " + when(step, slot)
	return []api.Change{*step}, nil
}

// heights returns how far a measure went from what was usual, and how much of that was left
// after: a difference of the share of errors, a logarithm of anything else.
func heights(measure string, usual, value, after float64) (height, left float64) {
	if measure != judge.ErrorShare && usual > 0 && value > 0 && after > 0 {
		return math.Log(value / usual), math.Log(after / usual)
	}
	return value - usual, after - usual
}

// leastOf is the least height of a measure that is one.
func leastOf(measure string) float64 {
	switch measure {
	case judge.ErrorShare:
		return judge.MarginOfErrors
	case judge.Rate, callsPerRequest, timePerRequest:
		return leastRate
	}
	return math.Log(1 + compare.DefaultWithin)
}

// spikeOf returns the spike that two changes bound, nil if they do not: that of errors if
// they became more, else that of the measure that moved most.
func spikeOf(up, down *api.Change, first, second candidate) *api.Shape {
	length := second.point.at - first.point.at
	if length > longest*(first.before.To-first.before.From) || length > longest*(second.after.To-second.after.From) {
		return nil
	}
	moved := map[string]float64{} // the greatest height of each thing
	var found *api.Shape
	for _, name := range []bool{false, true} {
		most := 0.0
		for i := range up.Measures {
			m := &up.Measures[i]
			j := slices.IndexFunc(down.Measures, func(x api.CompareMeasure) bool { return x.Name == m.Name })
			if j < 0 || !isOf(up.Found, m.Name) {
				continue
			}
			height, left := heights(m.Name, float64(m.Raw.A), float64(m.Raw.B), float64(down.Measures[j].Raw.B))
			thing, high := thingOf(m.Name, up.Found), math.Abs(height)
			if !name {
				if high > moved[thing] {
					moved[thing] = high
				}
				continue
			}
			if m.Name == judge.ErrorShare && height > 0 {
				high = math.Inf(1)
			}
			if high > most && math.Abs(height) >= max(leastOf(m.Name), moved[thing]/2) && math.Abs(left) <= back*math.Abs(height) {
				most, found = high, &api.Shape{
					Kind: judge.Spike, Start: int64(up.Time), End: int64(down.Time), Service: up.Service, Operation: up.Operation,
					Measure: m.Name, Usual: m.Raw.A, Value: m.Raw.B,
				}
			}
		}
	}
	return found
}

// thingOf returns what of the things found a measure is of.
func thingOf(measure string, found []string) string {
	if slices.Contains(found, Value) {
		return Value
	}
	switch measure {
	case judge.ErrorShare:
		return Errors
	case judge.Rate:
		return Rate
	case callsPerRequest:
		return Calls
	case timePerRequest:
		return Time
	}
	return Durations
}

// isOf says that a measure is one of what was found to change. The greatest of durations
// are few requests in a short spike, and are left out.
func isOf(found []string, measure string) bool {
	return measure != "p99" && slices.Contains(found, thingOf(measure, found))
}

// figureOf names a measure of a change, and writes its values. Of names the requests, or the
// metric.
func figureOf(c *api.Change, measure, of string) (name string, value func(api.Float) string) {
	unit := "seconds"
	if c.Part != nil {
		of = innerTitle(*c.Part, c.Service) + " per request of " + of
	}
	if c.Family != "" {
		unit = c.Unit
	}
	name, value = judge.Title(measure, of), func(v api.Float) string { return figure.Value(float64(v), unit) }
	switch {
	case measure == judge.ErrorShare:
		value = func(v api.Float) string { return figure.Percent(float64(v)) }
	case measure == judge.Rate && c.Family == "":
		value = func(v api.Float) string { return figure.Value(float64(v), "") + "/s" }
	case measure == callsPerRequest:
		name, value = "calls of "+of, func(v api.Float) string { return figure.Value(float64(v), "") }
	case measure == timePerRequest:
		name = "time in " + of
	}
	return name, value
}

// nameSpike says what came and went. Then compares its measure before and after; nil if that
// is not known.
func nameSpike(c *api.Change, of string, slot int64, then *api.CompareMeasure) {
	s := c.Shape
	name, value := figureOf(c, s.Measure, of)
	s.Sentence = judge.SpikeText(name, value(s.Value), s.End-s.Start)
	c.Headline = s.Sentence + ", then as before, " + value(s.Usual)
	if then != nil && !isAsBefore(then) {
		c.Headline = fmt.Sprintf("%s, then %s, before %s", s.Sentence, value(then.Raw.B), value(then.Raw.A))
	}
	c.Name, c.Lead, c.Rate = "spike of "+name, "", ""
	c.Sentence = c.Headline + ", from " + strings.TrimPrefix(when(c, slot), judge.Since)
}

// isAsBefore reports whether a measure may be as it was, or is within the least change of it:
// the interval holds no difference, or nothing but that. One that is not known does.
func isAsBefore(m *api.CompareMeasure) bool {
	low, high, least := float64(m.Raw.Low), float64(m.Raw.High), leastOf(m.Name)
	if m.Scale == "ratio" {
		low, high = math.Log(low), math.Log(high)
	}
	return !(low > 0 || high < 0) || -least <= low && high <= least
}

// level is the share of a slope beside another that is none.
const level = 0.25

// driftText says since when a ratio rises or falls, or no longer does. Where is the
// beginning of a slot.
func driftText(where interface{ Start(slot int) int64 }, c candidate, of *api.Change, name, unit string) (string, *api.Shape) {
	hour := 3600 / float64(where.Start(1)-where.Start(0))
	before, _ := line(c.tally, c.before.From, c.point.at)
	after, middle := line(c.tally, c.point.at, c.after.To)
	value := func(v float64) string { return figure.Value(math.Abs(v)*hour, unit) }
	verb := func(v float64, up, down string) string {
		if v < 0 {
			return down
		}
		return up
	}
	half := after * float64(c.after.To-c.point.at) / 2
	shape := &api.Shape{Kind: judge.Drift, Start: int64(of.Time), End: where.Start(c.after.To), Service: of.Service, Operation: of.Operation, Usual: api.Float(middle - half), Value: api.Float(middle + half)}
	out := name
	switch {
	case math.Abs(after) <= level*math.Abs(before):
		out += fmt.Sprintf(" no longer %s; it %s by %s an hour before", verb(before, "rises", "falls"), verb(before, "rose", "fell"), value(before))
	case math.Abs(before) <= level*math.Abs(after):
		out += fmt.Sprintf(" %s by %s an hour; before it was level", verb(after, "rises", "falls"), value(after))
	default:
		out += fmt.Sprintf(" %s by %s an hour; before it %s by %s", verb(after, "rises", "falls"), value(after), verb(before, "rose", "fell"), value(before))
	}
	shape.Sentence = out
	return out, shape
}

// line returns the rise a slot of a ratio over the slots [from, to), by least squares, and
// its mean.
func line(t *stat.Tally, from, to int) (slope, middle float64) {
	var n, mx, my float64
	for i := from; i < to; i++ {
		if t.Den[i] > 0 {
			n, mx, my = n+1, mx+float64(i), my+t.Num[i]/t.Den[i]
		}
	}
	mx, my = mx/n, my/n
	var sxx, sxy float64
	for i := from; i < to; i++ {
		if t.Den[i] > 0 {
			x := float64(i) - mx
			sxx, sxy = sxx+x*x, sxy+x*(t.Num[i]/t.Den[i]-my)
		}
	}
	return sxy / sxx, my
}
