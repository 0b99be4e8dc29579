package compare

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// together stands where a cohort does for the operations of a service that are
// not told apart.
const together = "together"

// operationCounts are how many requests each operation of a range has, which takes a
// fraction of reading their distributions slot by slot.
type operationCounts struct {
	services map[serviceIn]hist.Moment
	own      []Part // the heaviest first
}

// serviceIn is a service in one of its environments, which is empty if it has one only.
type serviceIn struct{ service, environment string }

func (c *comparison) count(ctx context.Context, w span, step int64) (*operationCounts, error) {
	found, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: c.within(w), Whole: true, By: c.strataBy(), Measure: store.Moments})
	if err != nil {
		return nil, err
	}
	if c.environments, err = c.severalEnvironments(ctx, w, step, found); err != nil {
		return nil, err
	}
	out := &operationCounts{services: map[serviceIn]hist.Moment{}}
	own := map[operation]int{} // places of parts
	var moments []hist.Moment  // of parts
	for i := range found.Groups {
		g := &found.Groups[i]
		name, n := c.operationOf(g.Labels), g.Moment(0)
		if n.Count == 0 {
			continue
		}
		of := serviceIn{name.service, name.environment}
		all := out.services[of]
		all.Merge(n)
		out.services[of] = all
		i, known := own[name]
		if !known {
			i = len(out.own)
			own[name] = i
			out.own = append(out.own, Part{Service: name.service, Environment: name.environment, Operation: name.operation, Own: true})
			moments = append(moments, hist.Moment{})
		}
		moments[i].Merge(n)
	}
	for i, n := range moments {
		out.own[i].Requests, out.own[i].Effective = n.Count, n.Effective()
	}
	slices.SortFunc(out.own, heavier)
	return out, nil
}

// severalEnvironments returns the services that have requests of more than one
// environment at a time, whichever of them is asked for. It keeps the others that have
// several, one after the other, in c.followed.
func (c *comparison) severalEnvironments(ctx context.Context, w span, step int64, found *query.Requested) (map[string]bool, error) {
	named := func(m *labels.Matcher) bool { return m.Name == series.LabelEnvironment }
	sel := c.within(w)
	if !slices.ContainsFunc(sel.Matchers, named) {
		if !severalIn(found) {
			return nil, nil
		}
		several, followed, err := c.splitEnvironments(ctx, []span{w}, step)
		c.followed = followed
		return several, err
	}
	sel.Matchers = slices.DeleteFunc(sel.Matchers, named)
	found, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: sel, Whole: true, Measure: store.Moments})
	if err != nil {
		return nil, err
	}
	present := environmentStretches{}
	for i := range found.Groups {
		g := &found.Groups[i]
		present.add(g.Labels.Get(series.LabelService), g.Labels.Get(series.LabelEnvironment), g, found.Start, found.End-found.Start)
	}
	several, _ := present.split()
	return several, nil
}

// severalIn reports whether any service has requests of several environments.
func severalIn(found ...*query.Requested) bool {
	first := map[string]string{}
	for _, f := range found {
		for i := range f.Groups {
			g := &f.Groups[i]
			service, environment := g.Labels.Get(series.LabelService), g.Labels.Get(series.LabelEnvironment)
			if other, known := first[service]; known && other != environment {
				return true
			}
			first[service] = environment
		}
	}
	return false
}

// apartEnvironments makes the environments of a service strata of their own where it has
// several at a time: what each does is no change of the others.
func (c *comparison) apartEnvironments(ctx context.Context, sides []where) error {
	if c.Label == series.LabelEnvironment || query.Named(c.Matchers, series.LabelEnvironment) != "" {
		return nil
	}
	var ranges []span
	var found []*query.Requested
	longest := int64(0)
	for _, side := range sides {
		for _, w := range side.ranges(int64(series.Base)) {
			some, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: c.within(w), Whole: true, Measure: store.Moments})
			if err != nil {
				return err
			}
			ranges, found, longest = append(ranges, w), append(found, some), max(longest, w.end-w.start)
		}
	}
	if !severalIn(found...) {
		return nil
	}
	step, err := c.slotLength(longest)
	if err != nil {
		return err
	}
	if c.environments, c.followed, err = c.splitEnvironments(ctx, ranges, step); err != nil || c.Label == "" || c.Label == series.LabelService {
		return err
	}
	return c.onlyShared(ctx, ranges)
}

// onlyShared keeps the services of which both values of a label have some environment: where
// each value has its own, as a version that is still in staging, nothing could be compared.
func (c *comparison) onlyShared(ctx context.Context, ranges []span) error {
	var of [2]map[serviceIn]bool
	for i := range of {
		of[i] = map[serviceIn]bool{}
		for _, w := range ranges {
			found, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: c.within(w, c.only(i)...), Whole: true, Measure: store.Moments})
			if err != nil {
				return err
			}
			for k := range found.Groups {
				l := found.Groups[k].Labels
				of[i][serviceIn{l.Get(series.LabelService), l.Get(series.LabelEnvironment)}] = true
			}
		}
	}
	shared := map[string]bool{}
	for name := range of[0] {
		if of[1][name] {
			shared[name.service] = true
		}
	}
	maps.DeleteFunc(c.environments, func(service string, _ bool) bool { return !shared[service] })
	return nil
}

// EnvironmentsApart reports whether a service of the selection has requests of more than
// one environment at a time.
func EnvironmentsApart(ctx context.Context, st store.Store, sel query.Selection) (bool, error) {
	w := inward(Window{sel.Start, sel.End}, int64(series.Base))
	step, err := slotLength(w.end - w.start)
	if err != nil {
		return false, err
	}
	several, _, err := (&comparison{Request: Request{Selection: sel}, st: st}).splitEnvironments(ctx, []span{w}, step)
	return len(several) > 0, err
}

// splitEnvironments returns the services that have requests of more than one environment
// at a time in some ranges, and the environments of those that have several in turn.
func (c *comparison) splitEnvironments(ctx context.Context, ranges []span, step int64) (several map[string]bool, followed map[string][]string, err error) {
	present := environmentStretches{}
	for _, w := range ranges {
		found, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: c.within(w), Grid: query.Grid{Step: step}, Measure: store.Moments})
		if err != nil {
			return nil, nil, err
		}
		for i := range found.Groups {
			g := &found.Groups[i]
			present.add(g.Labels.Get(series.LabelService), g.Labels.Get(series.LabelEnvironment), g, found.Start, found.Step)
		}
	}
	several, followed = present.split()
	return several, followed, nil
}

// environmentStretches are the times, Unix seconds, from the first to the last request of
// each environment, by service.
type environmentStretches map[string]map[string]Stretch

// add takes in the requests of an environment in slots of so many seconds from start on.
func (e environmentStretches) add(service, environment string, g *query.RequestGroup, start, step int64) {
	if e[service] == nil {
		e[service] = map[string]Stretch{}
	}
	for i := range g.Good {
		if g.Count(i) == 0 {
			continue
		}
		at := Stretch{int(start + int64(i)*step), int(start + int64(i+1)*step)}
		if of, known := e[service][environment]; known {
			at = Stretch{min(of.From, at.From), max(of.To, at.To)}
		}
		e[service][environment] = at
	}
}

// split returns the services that have several environments at a time, and the
// environments of those that have several in turn, in order of time.
func (e environmentStretches) split() (several map[string]bool, followed map[string][]string) {
	several, followed = map[string]bool{}, map[string][]string{}
	for service, of := range e {
		if len(of) < 2 {
			continue
		}
		if names := InTurn(of); names != nil {
			followed[service] = names
		} else {
			several[service] = true
		}
	}
	return several, followed
}

// InTurn returns the environments of a service in order of time, nil if any two have more
// than a fifth of the shorter one in common.
func InTurn(of map[string]Stretch) []string {
	names := slices.SortedFunc(maps.Keys(of), func(x, y string) int { return cmp.Or(cmp.Compare(of[x].From, of[y].From), cmp.Compare(x, y)) })
	for i, x := range names {
		for _, y := range names[i+1:] {
			x, y := of[x], of[y]
			if 5*(min(x.To, y.To)-max(x.From, y.From)) > min(x.To-x.From, y.To-y.From) {
				return nil
			}
		}
	}
	return names
}

func heavier(x, y Part) int {
	return cmp.Or(cmp.Compare(y.Requests, x.Requests), cmp.Compare(x.Service, y.Service), cmp.Compare(x.Environment, y.Environment), cmp.Compare(x.Operation, y.Operation))
}

// parts are the services, and after them their operations, each the heaviest first.
func (n *operationCounts) parts() []Part {
	var out []Part
	for name, n := range n.services {
		out = append(out, Part{Service: name.service, Environment: name.environment, Requests: n.Count, Effective: n.Effective()})
	}
	slices.SortFunc(out, heavier)
	return append(out, n.own...)
}

// points are those of all operations in so many slots.
func (n *operationCounts) points(slots int64) int64 { return int64(len(n.own)) * slots }

// heaviest are the operations with the most requests, of those that have a name.
func (n *operationCounts) heaviest(most int) []Part {
	var out []Part
	for _, p := range n.own {
		if p.Operation != "" && len(out) < most {
			out = append(out, p)
		}
	}
	return out
}

// longer is the length of slots in which so many strata are read.
func (n *operationCounts) longer(w span, step int64, strata int) int64 {
	for _, long := range slotLengths {
		slots := (w.end - w.start) / step
		if long > step && int64(strata)*slots > manyPoints && (w.end-w.start)/long >= fewestLong {
			step = long
		}
	}
	return step
}

// readSome reads some operations each, and the others of their services together.
func (c *comparison) readSome(ctx context.Context, w span, step int64, apart []Part) (*side, error) {
	names := map[string][]string{}
	for _, p := range apart {
		if !slices.Contains(names[p.Service], p.Operation) {
			names[p.Service] = append(names[p.Service], p.Operation)
		}
	}
	services := slices.Sorted(maps.Keys(names))
	out := newSide(w, step)
	read := func(by []string, name func(labels.Labels) operation, more ...*labels.Matcher) (bool, error) {
		s, err := c.gather(ctx, where{span: w}, step, by, name, more...)
		if err != nil {
			return false, err
		}
		if !s.gathered(step) {
			out = s
			return false, nil
		}
		maps.Copy(out.strata, s.strata)
		return true, nil
	}
	rest := func(l labels.Labels) operation {
		o := c.operationOf(l)
		o.operation, o.cohort = "", together
		return o
	}
	for _, service := range services {
		of, err := c.requestsOf(ctx, w, service)
		if err != nil {
			return nil, err
		}
		these, others := labels.MustNewMatcher(labels.MatchRegexp, series.LabelOperation, series.Either(names[service]...)),
			labels.MustNewMatcher(labels.MatchNotRegexp, series.LabelOperation, series.Either(names[service]...))
		if ok, err := read(c.strataBy(), c.operationOf, append(of, these)...); !ok {
			return out, err
		}
		if ok, err := read(nil, rest, append(of, others)...); !ok {
			return out, err
		}
	}
	// Services of which no operation is told apart.
	var without []*labels.Matcher
	if len(services) > 0 {
		without = append(without, labels.MustNewMatcher(labels.MatchNotRegexp, series.LabelService, series.Either(services...)))
	}
	_, err := read(nil, rest, without...)
	return out, err
}

// requestsOf matches the requests of a service: its spans of kind server or
// consumer if it has any, also where some of its operations are asked for that
// have none.
func (c *comparison) requestsOf(ctx context.Context, w span, service string) ([]*labels.Matcher, error) {
	of := labels.MustNewMatcher(labels.MatchEqual, series.LabelService, service)
	found, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: c.within(w, of), Whole: true, Measure: store.Moments})
	if err != nil {
		return nil, err
	}
	out := []*labels.Matcher{of}
	if found.Entry {
		out = append(out, labels.MustNewMatcher(labels.MatchRegexp, series.LabelKind, "server|consumer"))
	}
	return slices.Clip(out), nil
}
