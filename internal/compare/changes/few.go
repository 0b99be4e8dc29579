package changes

import (
	"context"
	"slices"

	"tailscope/internal/compare"
	"tailscope/internal/store"
)

// mostFew bounds the errors of a window of which it is asked whose they are: each takes a
// comparison of its own.
const mostFew = 12

// takeFew takes errors of a few tenants out of all, near which the durations of others changed,
// as with a rollout, and returns them by part, in order of time. They are changes of their own,
// also where both began at one moment. Few returns the tenants that errors are of, nil where
// these are many or the durations are theirs; step is the length of a slot in seconds.
func takeFew(all []searched, step int64, few func(candidate) ([]string, error)) (map[compare.Part][]candidate, error) {
	taken := map[compare.Part][]candidate{}
	ofServices := map[compare.Part][]point{} // errors, taken or not
	meeting := func(x point) func(point) bool { return func(y point) bool { return x.meets(y) } }
	left := mostFew
	for i := range all {
		of := &all[i]
		if of.of != Errors || of.inner != nil || len(of.points) == 0 {
			continue
		}
		part, service := named(of.part), compare.Part{Service: of.part.Service, Environment: of.part.Environment}
		if part == service {
			ofServices[service] = of.points
		}
		slower := all[slices.IndexFunc(all, func(x searched) bool { return x.of == Durations && x.inner == nil && x.part == of.part })]
		var rest []point
		var before []string // the tenants of the last errors, if those were taken
		for _, c := range stretched(*of) {
			take := false
			var tenants []string
			near := slices.ContainsFunc(slower.points, func(x point) bool { return isNear(c.point, x, step) })
			switch {
			case part != service && slices.ContainsFunc(ofServices[service], meeting(c.point)): // of the service's tenants
				take = slices.ContainsFunc(taken[service], func(x candidate) bool { return x.point.meets(c.point) })
			case (near || before != nil) && left > 0:
				left--
				var err error
				if tenants, err = few(c); err != nil {
					return nil, err
				}
				take = near && tenants != nil || slices.ContainsFunc(tenants, func(name string) bool { return slices.Contains(before, name) })
			}
			if before = nil; !take {
				rest = append(rest, c.point)
				continue
			}
			before = tenants
			for _, x := range slower.points {
				c.endAt(x)
			}
			c.ofFew = true
			taken[part] = append(taken[part], c)
		}
		of.points = rest
	}
	return taken, nil
}

// apartFrom ends the stretches of errors of all at errors of few tenants, where enough is left.
func (c *candidate) apartFrom(ofFew []candidate) {
	if c.ofFew || !slices.Contains(c.point.of, Errors) {
		return
	}
	for _, x := range ofFew {
		c.endAt(x.point)
	}
}

// endAt ends the stretches of a change at another one, where enough is left.
func (c *candidate) endAt(x point) {
	if x.high > c.before.From && c.before.To-x.high >= fewestSlots {
		c.before.From = x.high
	}
	if x.low < c.after.To && x.low-c.after.From >= fewestSlots {
		c.after.To = x.low
	}
}

// isNear reports whether two points are so close that they may be steps of one change, or that
// what lies between them is too short to be compared.
func isNear(x, y point, step int64) bool {
	apart := max(x.low-y.high, y.low-x.high)
	return apart < fewestSlots || int64(apart)*step <= betweenSeconds
}

// fewErrors returns the tenants that errors are of, where they are few, surely not most, and
// not those alone whose durations changed.
func fewErrors(ctx context.Context, st store.Store, s *compare.Stretches, r *Request, c candidate) ([]string, error) {
	found, err := compareWho(ctx, st, s, r, newChange(s, c))
	if err != nil || found == nil {
		return nil, err
	}
	few := fewTenants(found, []string{Errors})
	slower := fewTenants(found, []string{Durations})
	others := len(slower) == 0 || slices.ContainsFunc(slower, func(tenant string) bool { return !slices.Contains(few, tenant) })
	if !others || restOf(found, []string{Errors}) != compare.RestStays {
		return nil, nil
	}
	return few, nil
}
