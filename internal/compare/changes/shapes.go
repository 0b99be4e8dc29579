package changes

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/stat"
)

// longest is how many times as long as the stretch before it, and as that after it, a spike
// is at most.
const longest = 2

// back is the share of a spike's height that may be left after it.
const back = 0.25

// withoutReturns makes one change of two of the same that follow each other, where the
// second takes back the first, and what lies between is not much longer than what lies
// before and after: a spike is not a step. Changes of one subject follow each other in order of time.
func withoutReturns(all []api.Change, slot int64) []api.Change {
	var out []api.Change
	for i := 0; i < len(all); i++ {
		c := all[i]
		if i+1 < len(all) && subjectOf(&all[i+1]) == subjectOf(&c) {
			if c.Shape = cmp.Or(spikeOf(&c, &all[i+1]), c.Shape); c.Shape != nil && c.Shape.Kind == judge.Spike {
				nameSpike(&c, slot)
				i++
			}
		}
		out = append(out, c)
	}
	return out
}

// spikeOf returns the spike that two changes bound, nil if they do not.
func spikeOf(up, down *api.Change) *api.Shape {
	length := int64(down.Time) - int64(up.Time)
	if length > longest*(up.Before.End-up.Before.Start) || length > longest*(down.After.End-down.After.Start) {
		return nil
	}
	clearest, most := -1, 0.0
	var found *api.Shape
	for i := range up.Measures {
		m := &up.Measures[i]
		j := slices.IndexFunc(down.Measures, func(x api.CompareMeasure) bool { return x.Name == m.Name })
		if j < 0 || !isOf(up.Found, m.Name) {
			continue
		}
		usual, value, after := float64(m.Raw.A), float64(m.Raw.B), float64(down.Measures[j].Raw.B)
		height, left := value-usual, after-usual
		if m.Name != judge.ErrorShare && usual > 0 && value > 0 && after > 0 {
			height, left = math.Log(value/usual), math.Log(after/usual)
		}
		if !(math.Abs(height) > most) {
			continue
		}
		clearest, most, found = i, math.Abs(height), nil
		if math.Abs(left) <= back*math.Abs(height) {
			found = &api.Shape{
				Kind: judge.Spike, Start: int64(up.Time), End: int64(down.Time), Service: up.Service, Operation: up.Operation,
				Measure: m.Name, Usual: m.Raw.A, Value: m.Raw.B,
			}
		}
	}
	if clearest < 0 || found == nil {
		return nil
	}
	return found
}

// isOf says that a measure is one of what was found to change. The greatest of durations
// are few requests in a short spike, and are left out.
func isOf(found []string, measure string) bool {
	of := Durations
	switch measure {
	case judge.ErrorShare:
		of = Errors
	case judge.Rate:
		of = Rate
	case callsPerRequest:
		of = Calls
	case timePerRequest:
		of = Time
	case "p99":
		return false
	}
	return slices.Contains(found, of) || slices.Contains(found, Value)
}

// nameSpike says what came and went.
func nameSpike(c *api.Change, slot int64) {
	s := c.Shape
	of, unit := title(c.Service, c.Environment, c.Operation), "seconds"
	if c.Part != nil {
		of = innerTitle(*c.Part, c.Service) + " per request of " + of
	}
	if c.Family != "" {
		of, unit = metricTitle(c.Family, c.Service), c.Unit
	}
	name, value := judge.Title(s.Measure, of), func(v api.Float) string { return judge.Value(float64(v), unit) }
	switch {
	case s.Measure == judge.ErrorShare:
		value = func(v api.Float) string { return figure.Percent(float64(v)) }
	case s.Measure == judge.Rate && c.Family == "":
		value = func(v api.Float) string { return judge.Value(float64(v), "") + "/s" }
	case s.Measure == callsPerRequest:
		name, value = "calls of "+of, func(v api.Float) string { return judge.Value(float64(v), "") }
	case s.Measure == timePerRequest:
		name = "time in " + of
	}
	s.Sentence = judge.SpikeText(name, value(s.Value), s.End-s.Start)
	c.Headline = s.Sentence + ", then as before, " + value(s.Usual)
	c.Name = "spike of " + name
	c.Sentence = c.Headline + ", from " + strings.TrimPrefix(when(c, slot), since)
}

// level is the share of a slope beside another that is none.
const level = 0.25

// driftText says since when a ratio rises or falls, or no longer does. Where is the
// beginning of a slot.
func driftText(where interface{ Start(slot int) int64 }, c candidate, of *api.Change, name, unit string) (string, *api.Shape) {
	hour := 3600 / float64(where.Start(1)-where.Start(0))
	before, _ := line(c.tally, c.before.From, c.point.at)
	after, middle := line(c.tally, c.point.at, c.after.To)
	value := func(v float64) string { return judge.Value(math.Abs(v)*hour, unit) }
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
		out += fmt.Sprintf(" no longer %s; before by %s an hour", verb(before, "rises", "falls"), value(before))
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
