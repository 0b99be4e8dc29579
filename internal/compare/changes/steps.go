package changes

import (
	"fmt"
	"math"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
)

// betweenSlots bounds the slots between two steps of one change: twice those that a stretch
// needs to be compared, for one of three steps may be missed. Nor are they further apart than
// betweenSeconds, however long slots are.
const (
	betweenSlots   = 2 * fewestSlots
	betweenSeconds = 10 * 60
)

// inSteps makes one change of those of one subject that go one way and follow each other
// closely, as where a new version is rolled out instance by instance. It compares what lies
// before the first and behind the last. Errors that become more with one of them are a change
// of their own, and so is what other tenants feel. Candidates are those of the changes, in
// order of time in each subject, step is the length of a slot in seconds, describe judges one,
// and few returns the tenants that a change is of, if they are few, nil where there are no
// tenants; the results are as many as each other.
func inSteps(all []api.Change, of []candidate, step int64, describe func(candidate) (*api.Change, error), few func(*api.Change) ([]string, error)) ([]api.Change, []candidate, error) {
	var changes []api.Change
	var candidates []candidate
	for i := 0; i < len(all); {
		to, ways := i+1, waysOf(&all[i])
		failing := way{judge.ErrorShare, true}
		near := func(x, y *candidate) bool {
			slots := y.point.low - x.point.high
			return slots < betweenSlots && int64(slots)*step <= betweenSeconds
		}
		for to < len(all) && subjectOf(&all[to]) == subjectOf(&all[i]) && near(&of[to-1], &of[to]) {
			next := waysOf(&all[to])
			both := slices.DeleteFunc(slices.Clone(ways), func(w way) bool { return !slices.Contains(next, w) })
			if len(both) == 0 || slices.Contains(ways, failing) != slices.Contains(next, failing) {
				break
			}
			if same, err := sameTenants(&all[to-1], &all[to], few); err != nil {
				return nil, nil, err
			} else if !same {
				break
			}
			to, ways = to+1, both
		}
		c, change := of[i], &all[i]
		if to > i+1 {
			last := of[to-1]
			c.after = last.after
			for _, x := range of[i+1 : to] {
				c.point.p = min(c.point.p, x.point.p)
				c.point.of = append(slices.Clip(c.point.of), x.point.of...)
			}
			slices.SortFunc(c.point.of, compareThings)
			c.point.of = slices.Compact(c.point.of)
			one, err := describe(c)
			if err != nil {
				return nil, nil, err
			}
			if !nameSteps(one, c.title, ways, all[to-1].Time) { // by how much is not sure, as of each
				one, to, c = &all[i], i+1, of[i]
			}
			change = one
		}
		changes, candidates = append(changes, *change), append(candidates, c)
		i = to
	}
	return changes, candidates, nil
}

// sameTenants reports whether two changes may be of the same tenants: few that they have in
// common, or many.
func sameTenants(x, y *api.Change, few func(*api.Change) ([]string, error)) (bool, error) {
	if few == nil {
		return true, nil
	}
	of, err := few(x)
	if err != nil {
		return false, err
	}
	then, err := few(y)
	if err != nil || len(of) == 0 || len(then) == 0 {
		return len(of) == len(then), err
	}
	return slices.ContainsFunc(of, func(tenant string) bool { return slices.Contains(then, tenant) }), nil
}

// way is a measure that rose or fell.
type way struct {
	measure string
	up      bool
}

// waysOf are the measures of what was found to change that moved at a change, surely or not.
func waysOf(c *api.Change) (out []way) {
	for i := range c.Measures {
		m := &c.Measures[i]
		if height, _ := heights(m.Name, float64(m.Raw.A), float64(m.Raw.B), float64(m.Raw.B)); isOf(c.Found, m.Name) && math.Abs(height) >= leastOf(m.Name) {
			out = append(out, way{m.Name, height > 0})
		}
	}
	return out
}

// nameSteps says that a change came in steps, the last at a time, by the measure that leads of
// those that surely moved as the steps did; false if none did.
func nameSteps(c *api.Change, of string, ways []way, last api.Float) bool {
	moved := func(m *api.CompareMeasure) bool {
		return judge.Moved(m.Verdict) && slices.ContainsFunc(ways, func(w way) bool {
			height, _ := heights(m.Name, float64(m.Raw.A), float64(m.Raw.B), float64(m.Raw.B))
			return thingOf(m.Name, c.Found) == thingOf(w.measure, c.Found) && (height > 0) == w.up
		})
	}
	lead := compare.Lead(c.Measures, moved, compare.DefaultWithin)
	if lead == nil {
		return false
	}
	f, measure := &lead.Raw, lead.Name
	name, value := figureOf(c, measure, of)
	clock := func(t api.Float) string { return time.Unix(int64(t), 0).UTC().Format(time.TimeOnly) }
	c.Shape = &api.Shape{Kind: judge.Drift, Start: int64(c.Time), End: int64(last), Service: c.Service, Operation: c.Operation, Measure: measure, Usual: f.A, Value: f.B}
	c.Lead, c.Rate = measure, ""
	c.Headline = fmt.Sprintf("%s went from %s to %s in steps, from %s to %s UTC (a rollout?)", name, value(f.A), value(f.B), clock(c.Time), clock(last))
	c.Shape.Sentence = c.Headline
	c.Sentence = fmt.Sprintf("%s, since %s UTC", c.Headline, time.Unix(int64(c.Time), 0).UTC().Format(time.DateTime))
	return true
}
