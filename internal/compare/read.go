package compare

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// where says where a side is read.
type where struct {
	span
	parts []part
	days  []span
	// windows are those of a side of several, see side.
	windows []span
}

func (w where) side(step int64) *side {
	s := newSide(w.span, step)
	s.parts, s.days, s.windows = w.parts, w.days, w.windows
	return s
}

func (s *side) where() where { return where{s.span, s.parts, s.days, s.windows} }

func (w where) places(step int64) []part { return w.side(step).places() }

const (
	// A side that has so many longer slots can be cut into those: what has many
	// series is then read in them, which says as much and is read ten times as fast.
	fewestLong = 50
	// manyPoints of series are many.
	manyPoints = 200_000
)

// longer is the length of slots in which so many series are read; that of all
// others while watched, for then it says when intervals are tightest, and of several
// windows, whose slots are long already.
func (c *comparison) longer(series int) int64 {
	if c.Live || c.several() || series*(c.a.slots()+c.b.slots()) < manyPoints {
		return c.step
	}
	seconds := min(c.a.end-c.a.start, c.b.end-c.b.start)
	for _, long := range slices.Backward(slotLengths) {
		if long > c.step && seconds >= fewestLong*long && c.a.fills(long) && c.b.fills(long) && (!c.paired || c.a.before(long) == c.b.before(long)) {
			return long
		}
	}
	return c.step
}

// before is how many slots lie before the first of another length.
func (s *side) before(step int64) int {
	return int((series.Resolution(step).Slot(s.start+step-1) - s.start) / s.step)
}

// fills says that slots of another length can be made of those of a side.
func (s *side) fills(step int64) bool {
	if step%s.step != 0 {
		return false
	}
	w := s.in(step)
	for _, p := range w.parts {
		if p.start%step != 0 {
			return false
		}
	}
	return s.parts == nil || len(w.parts) > 0
}

// in is where a side is read in slots of another length; what does not fill
// one is left out.
func (s *side) in(step int64) where {
	if step == s.step {
		return s.where()
	}
	w := s.where()
	o, k := s.before(step), int(step/s.step)
	w.start += int64(o) * s.step
	w.end = w.start + int64((s.slots()-o)/k)*step
	w.parts = nil
	for _, p := range s.parts {
		first, last := (max(0, p.first-o)+k-1)/k, min((p.first+p.n-o)/k, int((w.end-w.start)/step))
		if first < last {
			w.parts = append(w.parts, part{first, last - first, p.start + int64(first*k+o-p.first)*s.step})
		}
	}
	return w
}

// ranges are what is read of a side, Unix seconds.
func (w where) ranges(step int64) []span {
	var out []span
	for _, p := range w.places(step) {
		out = append(out, span{p.start, p.start + int64(p.n)*step})
	}
	return out
}

// settle settles what is compared, once for both sides and all questions.
func (c *comparison) settle(ctx context.Context, sides []where) error {
	c.of = c.subject()
	if err := c.matchTenants(ctx, sides); err != nil {
		return err
	}
	if c.kind != ofSpans {
		return c.settleSeries(ctx, sides)
	}
	if err := c.onlyRequests(ctx, sides); err != nil {
		return err
	}
	return c.apartEnvironments(ctx, sides)
}

// matchTenants replaces cohorts by the tenants that are in them over both sides, so
// that the sides are of the same tenants.
func (c *comparison) matchTenants(ctx context.Context, sides []where) error {
	start, end := int64(math.MaxInt64), int64(0)
	for _, side := range sides {
		for _, w := range side.ranges(int64(series.Base)) {
			start, end = min(start, w.start), max(end, w.end)
		}
	}
	for _, m := range c.Matchers {
		if m.Name == series.LabelCohort && m.Type == labels.MatchEqual && query.IsSpanFamily(c.Family) {
			cohort := strings.ReplaceAll(m.Value, "-", " ")
			c.CohortOf = func(string) (string, bool) { return cohort, true }
		}
	}
	var err error
	c.Matchers, err = query.MatchTenants(ctx, c.st, c.Family, c.Matchers, start, end)
	return err
}

// onlyRequests chooses spans of kind server or consumer if there are any, else
// all.
func (c *comparison) onlyRequests(ctx context.Context, sides []where) error {
	if slices.ContainsFunc(c.Matchers, func(m *labels.Matcher) bool { return m.Name == series.LabelKind }) || c.Label == series.LabelKind {
		return nil
	}
	var more []*labels.Matcher
	if c.Label != "" && c.ValueA != "" && c.ValueB != "" && !c.againstOthers() {
		m, err := labels.NewMatcher(labels.MatchRegexp, c.Label, series.Either(c.ValueA, c.ValueB))
		if err != nil {
			return query.Invalid("label", "%s cannot be matched: %v", c.Label, err)
		}
		more = append(more, m)
	}
	for _, side := range sides {
		for _, w := range side.ranges(int64(series.Base)) {
			sel := c.within(w, more...)
			found, err := query.Requests(ctx, c.st, query.RequestsRequest{Selection: sel, Whole: true, Measure: store.Moments})
			if err != nil {
				return err
			}
			if found.Entry {
				m, err := labels.NewMatcher(labels.MatchRegexp, series.LabelKind, "server|consumer")
				if err != nil {
					return err
				}
				c.Matchers = append(slices.Clone(c.Matchers), m)
				return nil
			}
		}
	}
	return nil
}

// within is the selection over a range.
func (c *comparison) within(w span, more ...*labels.Matcher) query.Selection {
	sel := c.Selection
	sel.Matchers = slices.Concat(sel.Matchers, more)
	sel.Start, sel.End = time.Unix(w.start, 0), time.Unix(w.end, 0)
	return sel
}

// strataBy are the labels whose values are strata, besides the service.
func (c *comparison) strataBy() []string {
	if c.Label == series.LabelOperation {
		return nil
	}
	return []string{series.LabelOperation}
}

// hasEnvironments reports whether the environments of a service are strata. Of services
// that are compared with each other all are, or none.
func (c *comparison) hasEnvironments(service string) bool {
	return c.environments[service] || c.Label == series.LabelService && len(c.environments) > 0
}

func (c *comparison) operationOf(l labels.Labels) operation {
	o := operation{service: l.Get(series.LabelService), operation: l.Get(series.LabelOperation)}
	if c.hasEnvironments(o.service) {
		o.environment = l.Get(series.LabelEnvironment)
	}
	switch c.Label {
	case series.LabelService:
		o.service = ""
	case series.LabelOperation:
		o.operation = ""
	}
	return o
}

// operationOfTenant is operationOf with the tenant.
func (c *comparison) operationOfTenant(l labels.Labels) operation {
	o := c.operationOf(l)
	o.tenant = l.Get(series.LabelTenant)
	return o
}

// both reads both sides, beside each other; the step of one is longer than
// asked for where only longer slots are kept of it.
func (c *comparison) both(ctx context.Context, a, b where, step int64) (*side, *side, error) {
	sides := [2]*side{}
	g, ctx := errgroup.WithContext(ctx)
	for i, w := range []where{a, b} {
		g.Go(func() (err error) {
			if c.kind == ofSpans {
				sides[i], err = c.gather(ctx, w, step, c.strataBy(), c.operationOf, c.only(i)...)
			} else {
				sides[i], err = c.gatherSeries(ctx, w, step, c.only(i)...)
			}
			return err
		})
	}
	err := g.Wait()
	return sides[0], sides[1], err
}

// read reads the requests of a range.
func (c *comparison) read(ctx context.Context, w span, step int64) (*side, error) {
	return c.gather(ctx, where{span: w}, step, c.strataBy(), c.operationOf)
}

// gather reads requests in slots. What it returns has a longer step, and
// nothing in it, where only longer slots are kept.
func (c *comparison) gather(ctx context.Context, w where, step int64, by []string, name func(labels.Labels) operation, more ...*labels.Matcher) (*side, error) {
	s := w.side(step)
	for _, p := range s.places() {
		r := query.RequestsRequest{Selection: c.within(span{p.start, p.start + int64(p.n)*step}, more...), Grid: query.Grid{Step: step}, By: by}
		found, err := query.Requests(ctx, c.st, r)
		if err != nil {
			return nil, err
		}
		if found.Step != step || found.Start != p.start || found.End != p.start+int64(p.n)*step {
			return newSide(w.span, max(found.Step, step+1)), nil
		}
		if len(found.Groups) > 0 {
			s.found(p)
		}
		for i := range found.Groups {
			if err := s.add(name(found.Groups[i].Labels), p.first, &found.Groups[i]); err != nil {
				return nil, err
			}
		}
	}
	s.leave(c.left)
	return s, nil
}

// gathered says that a side was read as it was asked for: what is kept may
// have become less meanwhile.
func (s *side) gathered(step int64) bool { return s.step == step }
