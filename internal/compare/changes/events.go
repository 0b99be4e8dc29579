package changes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// event is changes whose moments may be one: low and high are Unix seconds, what the
// intervals of all have in common, two slots wider on either side.
type event struct {
	low, high float64
	changes   []*api.Change
}

// eventsOf gathers changes that may be of one moment, the earliest first: a change joins
// those before it if its interval meets what theirs have in common.
func eventsOf(all []api.Change, slot int64) []event {
	wide := float64(2 * slot)
	var out []event
	for i := range all {
		c := &all[i]
		low, high := float64(c.Low)-wide, float64(c.High)+wide
		at := slices.IndexFunc(out, func(e event) bool { return low <= e.high && e.low <= high })
		if at < 0 {
			out = append(out, event{low, high, []*api.Change{c}})
			continue
		}
		e := &out[at]
		e.low, e.high, e.changes = max(e.low, low), min(e.high, high), append(e.changes, c)
	}
	return slices.DeleteFunc(out, func(e event) bool { return len(e.changes) < 2 })
}

// moved is a service of an event. Its interval is that of its clearest change.
type moved struct {
	service, environment string
	low, high            float64
	changes              []*api.Change // the service as a whole, its parts, its operations
}

// describeEvents names what changed at one moment: what surely came first before what
// came later, and of what came together the called before its callers. A service and its
// only operation are one: they make no event by themselves.
func describeEvents(ctx context.Context, st store.Store, out *api.ChangesResponse, parts []compare.Part) error {
	out.Events = []api.ChangeEvent{}
	var calls map[string]map[string]bool
	for _, e := range eventsOf(out.Changes, out.Slot) {
		services := e.services()
		n := 0
		for _, c := range e.changes {
			if c.Operation == "" || c.Part != nil || !isWhole(c, parts) {
				n++
			}
		}
		if n < 2 {
			continue
		}
		if len(services) > 1 && calls == nil {
			var err error
			if calls, err = query.ServiceCalls(ctx, st, out.Start, out.End); err != nil {
				return err
			}
		}
		services = inOrder(services, calls)
		clearest := slices.MinFunc(e.changes, func(x, y *api.Change) int { return cmp.Compare(x.High-x.Low, y.High-y.Low) })
		low, high := e.low+float64(2*out.Slot), e.high-float64(2*out.Slot)
		of := api.ChangeEvent{Time: clearest.Time, Low: api.Float(min(low, high, float64(clearest.Time))), High: api.Float(max(low, high, float64(clearest.Time)))}
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
		of.Sentence = eventText(&of, n, services) + ", at " + strings.TrimPrefix(when(&api.Change{Time: of.Time, Low: of.Low, High: of.High}, out.Slot), since)
		out.Events = append(out.Events, of)
	}
	return nil
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
					return 1
				case c.Operation != "":
					return 2
				}
				return 0
			}
			return cmp.Compare(rank(x), rank(y))
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
