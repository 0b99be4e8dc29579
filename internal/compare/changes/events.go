package changes

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// event is changes that may be of one moment, which is known best of the first. Low and high
// are Unix seconds, two slots beyond its interval; a change that came in steps lasts until the
// last one. The end is that of what came and went, else 0.
type event struct {
	low, high, end float64
	changes        []*api.Change
}

// takes reports whether a change may be of the event: of its moment, of that of the same
// change of its service, or, where what happened is over by then, of its end as what follows
// from it is. A change of an operation that shows none at the moment of its service is that of
// its service where no stretch fits between them: its moment is known from fewer requests.
// Errors of few tenants are not of the event of what else changed, but for errors.
func (e *event) takes(c *api.Change, wide, stretch float64) bool {
	apart := func(x, y *api.Change) bool { return x.OfFew && !y.OfFew && !slices.Equal(y.Found, []string{Errors}) }
	if slices.ContainsFunc(e.changes, func(x *api.Change) bool { return apart(x, c) || apart(c, x) }) {
		return false
	}
	low, high := float64(c.Low)-wide, float64(c.High)+wide
	same := func(x *api.Change) bool {
		if x.Service != c.Service || x.Environment != c.Environment || x.Operation != "" || x.Part != nil || !slices.Equal(x.Found, c.Found) {
			return false
		}
		about := wide
		if c.Operation != "" && c.Verdict == x.Verdict && float64(c.Before.Start) < float64(x.Low) && float64(c.After.End) > float64(x.High) {
			about = stretch
		}
		return low <= float64(x.High)+about && float64(x.Low)-about <= high
	}
	if low <= e.high && e.low <= high || slices.ContainsFunc(e.changes, same) {
		return true
	}
	follows := c.Part != nil || slices.Equal(c.Found, []string{Rate}) ||
		slices.ContainsFunc(e.changes, func(x *api.Change) bool { return subjectOf(x) == subjectOf(c) })
	return e.end > 0 && follows && low-wide <= e.end && e.end <= high+wide
}

// eventsOf gathers changes that may be of one moment, the earliest first. Those whose moment
// is known best come first, and each joins the nearest of them: one that is hardly known
// lies in several.
func eventsOf(all []api.Change, slot int64) []event {
	wide := float64(2 * slot)
	stepped := func(c *api.Change) bool { return c.Shape != nil && c.Shape.Kind == judge.Drift && !c.Kink }
	order := make([]*api.Change, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortStableFunc(order, func(x, y *api.Change) int {
		if s, t := stepped(x), stepped(y); s != t {
			if s {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.High-x.Low, y.High-y.Low)
	})
	var out []event
	for _, c := range order {
		best := -1
		apart := func(e *event) float64 { return math.Abs(float64(e.changes[0].Time - c.Time)) }
		for i := range out {
			if out[i].takes(c, wide, float64(fewestSlots*slot)) && (best < 0 || apart(&out[i]) < apart(&out[best])) {
				best = i
			}
		}
		if best >= 0 {
			out[best].changes = append(out[best].changes, c)
			continue
		}
		e := event{low: float64(c.Low) - wide, high: float64(c.High) + wide, changes: []*api.Change{c}}
		switch {
		case stepped(c):
			e.high = float64(c.Shape.End) + wide
		case c.Shape != nil && c.Shape.Kind == judge.Spike:
			e.end = float64(c.Shape.End)
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(x, y event) int { return cmp.Compare(x.changes[0].Time, y.changes[0].Time) })
	return slices.DeleteFunc(out, func(e event) bool { return len(e.changes) < 2 })
}

// moved is a service of an event. Its interval is that of its clearest change.
type moved struct {
	service, environment string
	low, high            float64
	changes              []*api.Change // the service as a whole, its parts, its operations
}

// describeEvents names what changed at one moment, and which change leads. A service and its
// only operation are one: they are not told as an event.
func describeEvents(ctx context.Context, st store.Store, out *api.ChangesResponse, parts []compare.Part) error {
	out.Events = []api.ChangeEvent{}
	var calls map[string]map[string]bool
	for _, e := range eventsOf(out.Changes, out.Slot) {
		services := e.services()
		if len(services) > 1 && calls == nil {
			var err error
			if calls, err = query.ServiceCalls(ctx, st, out.Start, out.End); err != nil {
				return err
			}
		}
		services = inOrder(services, calls)
		for _, of := range connected(services, calls) {
			putUnder(of, calls)
		}
		for _, s := range services {
			s.nameOperations()
		}
		n := 0
		for _, c := range e.changes {
			if c.Operation == "" || c.Part != nil || !isWhole(c, parts) {
				n++
			}
		}
		if n < 2 {
			continue
		}
		clearest := e.changes[0]
		of := api.ChangeEvent{Time: clearest.Time, Low: clearest.Low, High: clearest.High}
		for _, s := range services {
			for _, c := range s.changes {
				of.Changes = append(of.Changes, c.ID)
			}
			named := api.ChangeService{Service: s.service, Environment: s.environment, CalledBy: []string{}}
			for _, o := range services {
				if calls[o.service][s.service] && !slices.Contains(named.CalledBy, o.service) {
					named.CalledBy = append(named.CalledBy, o.service)
				}
			}
			of.Services = append(of.Services, named)
		}
		of.Sentence = eventText(&of, n, services) + ", at " + strings.TrimPrefix(when(&api.Change{Time: of.Time, Low: of.Low, High: of.High}, out.Slot), judge.Since)
		out.Events = append(out.Events, of)
	}
	return nil
}

// nameOperations lists with the change of a service those of its operations that changed, the
// most changed first.
func (s *moved) nameOperations() {
	whole := s.changes[0]
	if whole.Operation != "" || whole.Part != nil {
		return
	}
	for _, c := range s.changes[1:] {
		if c.Operation != "" && c.Part == nil && !slices.Contains(whole.Operations, c.Operation) {
			whole.Operations = append(whole.Operations, c.Operation)
		}
	}
}

// What a change is, by how well it explains others of its moment.
const (
	ofOutage = iota
	ofWorse
	ofBetter
	ofLoad // another rate, or another mix
	ofUnsure
	ofPart
)

func kindOf(c *api.Change) int {
	rate := slices.Equal(c.Found, []string{Rate})
	switch {
	case c.Part != nil:
		return ofPart
	case rate && len(c.Measures) == 0 && c.Verdict == judge.Regression:
		return ofOutage
	case rate:
		return ofLoad // also where a measure beside it moved
	case c.Verdict == judge.Regression || c.Verdict == judge.Mixed:
		return ofWorse
	case c.Verdict == judge.Improvement:
		return ofBetter
	case c.Verdict == Mix:
		return ofLoad
	}
	return ofUnsure
}

// leadOf returns the change that leads an event. Requests become slower where they are served,
// so that the called lead their callers; that they stop, or become more or others, comes from
// the callers.
func leadOf(services []moved, calls map[string]map[string]bool) *api.Change {
	var lead *api.Change
	least := 0
	for i, s := range services {
		callers := 0
		for _, o := range services {
			if o.service != s.service && calls[o.service][s.service] {
				callers++
			}
		}
		for _, c := range s.changes {
			kind, place := kindOf(c), i
			if kind == ofOutage || kind == ofLoad {
				place = callers
			}
			if rank := kind*len(services) + place; lead == nil || rank < least {
				lead, least = c, rank
			}
		}
	}
	return lead
}

// connected cuts the services of an event into those that belong together, as one calls the
// other, itself or by way of others of the event. That others changed at the moment is chance.
func connected(services []moved, calls map[string]map[string]bool) (out [][]moved) {
	for _, s := range services {
		group := []moved{s}
		var apart [][]moved
		for _, g := range out {
			if slices.ContainsFunc(g, func(o moved) bool {
				sameEnvironment := s.environment == o.environment || s.environment == "" || o.environment == ""
				return sameEnvironment && (calls[s.service][o.service] || calls[o.service][s.service])
			}) {
				group = append(g, group...)
			} else {
				apart = append(apart, g)
			}
		}
		out = append(apart, group)
	}
	return out
}

// putUnder puts changes of services that belong together under the one that leads them. What
// follows from an outage, another rate or another mix is neither good nor bad by itself, but
// for requests that fail; what lasts beside an outage has a line of its own.
func putUnder(services []moved, calls map[string]map[string]bool) {
	lead := leadOf(services, calls)
	kind := kindOf(lead)
	var all, apart []*api.Change
	for _, s := range services {
		all = append(all, s.changes...)
	}
	for _, c := range all {
		if kind == ofOutage && c != lead && !follows(c, lead, all) {
			apart = append(apart, c)
		}
	}
	if !slices.ContainsFunc(apart, func(c *api.Change) bool { return c.Part == nil }) {
		apart = nil // calls per request alone say nothing of who waits
	}
	for _, c := range all {
		if c == lead || slices.Contains(apart, c) {
			continue
		}
		c.Under = lead.ID
		fails := c.Part == nil && c.Verdict != judge.Improvement && slices.Contains(c.Found, judge.ErrorShare)
		if graded := c.Verdict == judge.Regression || c.Verdict == judge.Improvement || c.Verdict == judge.Mixed; graded && !fails && (kind == ofOutage || kind == ofLoad) {
			c.Verdict = judge.Changed
		}
	}
	if len(apart) == 0 {
		return
	}
	var rest []moved
	for _, s := range services {
		s.changes = slices.DeleteFunc(slices.Clone(s.changes), func(c *api.Change) bool { return !slices.Contains(apart, c) })
		if len(s.changes) > 0 {
			rest = append(rest, s)
		}
	}
	putUnder(rest, calls)
}

// follows reports whether a change follows from an outage: it is of how many requests came, it
// came and went, it returned with the end of the outage, or it is an improvement from its
// start on, as where nobody asks any more.
func follows(c, outage *api.Change, all []*api.Change) bool {
	if slices.Equal(c.Found, []string{Rate}) || c.Verdict == Mix || c.Shape != nil && c.Shape.Kind == judge.Spike {
		return true
	}
	returned := func(x *api.Change) bool {
		return judge.Opposite(c.Verdict, x.Verdict) && subjectOf(x) == subjectOf(c)
	}
	if slices.ContainsFunc(all, returned) {
		return true
	}
	over := float64(outage.Time)
	if outage.Shape != nil {
		over = float64(outage.Shape.End)
	}
	start := float64(outage.Time)
	return c.Verdict == judge.Improvement && math.Abs(float64(c.Time)-start) <= math.Abs(float64(c.Time)-over)
}

// isWhole reports whether the operation of a change is all of its service, which changed
// by itself too.
func isWhole(c *api.Change, parts []compare.Part) bool {
	operations, whole := 0, false
	for _, p := range parts {
		if p.Service == c.Service && p.Environment == c.Environment {
			if p.Own {
				operations++
			} else {
				whole = true
			}
		}
	}
	return whole && operations == 1
}

// services are those of an event, by name.
func (e *event) services() []moved {
	var out []moved
	for _, c := range e.changes {
		i := slices.IndexFunc(out, func(s moved) bool { return s.service == c.Service && s.environment == c.Environment })
		if i < 0 {
			i = len(out)
			out = append(out, moved{service: c.Service, environment: c.Environment, low: float64(c.Low), high: float64(c.High)})
		}
		s := &out[i]
		if float64(c.High-c.Low) < s.high-s.low {
			s.low, s.high = float64(c.Low), float64(c.High)
		}
		s.changes = append(s.changes, c)
	}
	for _, s := range out {
		slices.SortStableFunc(s.changes, func(x, y *api.Change) int {
			rank := func(c *api.Change) int {
				switch {
				case c.Part != nil:
					return 2
				case c.Operation != "":
					return 3
				case c.Verdict == judge.Regression && slices.Contains(c.Found, judge.ErrorShare):
					return 0
				}
				return 1
			}
			return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(size(y), size(x)))
		})
	}
	slices.SortFunc(out, func(x, y moved) int {
		return cmp.Or(cmp.Compare(x.service, y.service), cmp.Compare(x.environment, y.environment))
	})
	return out
}

// inOrder puts services of an event in order, by whom the requests of each call.
func inOrder(services []moved, calls map[string]map[string]bool) []moved {
	left := slices.Clone(services)
	var out []moved
	for len(left) > 0 {
		// None of the others surely came before these.
		var first []int
		for i, s := range left {
			if !slices.ContainsFunc(left, func(o moved) bool { return o.high < s.low }) {
				first = append(first, i)
			}
		}
		// The one that calls the fewest of them, then the one whose moment is earliest.
		called := func(i int) (n int) {
			for _, j := range first {
				if calls[left[i].service][left[j].service] {
					n++
				}
			}
			return n
		}
		next := slices.MinFunc(first, func(x, y int) int {
			return cmp.Or(cmp.Compare(called(x), called(y)), cmp.Compare(left[x].low+left[x].high, left[y].low+left[y].high))
		})
		out = append(out, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return out
}

// eventText says what changed at a moment, and of several services no more than what is
// known: that they moved, which surely did first, and who calls whom.
func eventText(of *api.ChangeEvent, changes int, services []moved) string {
	names := make([]string, len(services))
	for i, s := range services {
		names[i] = judge.Where(s.service, s.environment, "")
	}
	if len(services) == 1 {
		return fmt.Sprintf("%d changes of %s at one moment", changes, names[0])
	}
	out := listed(names, "service") + " changed at one moment"
	switch first := of.Services[0]; {
	case slices.ContainsFunc(services[1:], func(s moved) bool { return s.low <= services[0].high }) && len(first.CalledBy) > 0:
		verb := " call "
		if len(first.CalledBy) == 1 {
			verb = " calls "
		}
		out += "; " + listed(first.CalledBy, "service") + verb + first.Service
	case services[0].high < services[1].low:
		out += "; " + names[0] + " moved first"
		if len(first.CalledBy) > 0 {
			out += ", and is called by " + listed(first.CalledBy, "service")
		}
	}
	return out
}

// listed names the first three of what, and counts the others.
func listed(names []string, what string) string {
	if n := len(names) - namedAtMost; n > 0 {
		names = append(slices.Clone(names[:namedAtMost]), figure.Counted(n, "more "+what))
	}
	return figure.Listed(names)
}

// size of a change, to sort by: the greatest ratio that is sure.
func size(c *api.Change) float64 {
	var v float64
	for _, m := range c.Measures {
		if m.Change == "" {
			continue
		}
		if m.Scale == "ratio" {
			v = max(v, math.Abs(math.Log(float64(m.Raw.Effect))))
		} else {
			v = max(v, math.Abs(float64(m.Raw.Effect)))
		}
	}
	return v
}
