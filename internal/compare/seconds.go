package compare

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
)

// bySeconds reads both sides, A and B, from slots of seconds. The end of side A and the
// start of side B are kept; a rest shorter than a slot is left out at the other ends.
func (c *comparison) bySeconds(context.Context) error {
	service := query.Named(c.Matchers, series.LabelService)
	if service == "" || c.Family != series.SpanDuration || c.Label != "" || c.Mark != "" || c.Days > 0 {
		return query.Invalid("match", "slots of seconds are of the requests of one service, with sides a and b")
	}
	for _, m := range c.Matchers {
		if !slices.Contains([]string{series.LabelService, series.LabelEnvironment, series.LabelOperation, series.LabelKind, series.LabelStatus}, m.Name) {
			return query.Invalid("match", "slots of seconds do not tell %s apart", quote(m.Name))
		}
	}
	c.of, c.step = c.subject(), max(1, c.Step)
	var found [2][]seconds.Group
	present := environmentStretches{}
	for i, x := range []struct {
		field string
		w     Window
		to    **side
		name  string
	}{{"a", c.A, &c.a, "A"}, {"b", c.B, &c.b, "B"}} {
		at := inward(x.w, 1)
		n := (at.end - at.start) / c.step
		if n <= 0 {
			return query.TooEarly(x.field, "side %s does not hold a slot of %d s yet; ask again later", x.field, c.step)
		}
		if x.field == "a" {
			at.start = at.end - n*c.step
		} else {
			at.end = at.start + n*c.step
		}
		var err error
		if found[i], err = c.readSeconds(at); err != nil {
			return err
		}
		s := newSide(at, c.step)
		s.name, *x.to = x.name, s
		for _, g := range found[i] {
			present.add(g.Service, g.Environment, &query.RequestGroup{Good: g.Good, Failed: g.Failed}, at.start, c.step)
		}
	}
	c.environments, c.followed = present.split()
	for i, s := range []*side{c.a, c.b} {
		if err := c.addSeconds(s, found[i]); err != nil {
			return err
		}
	}
	return nil
}

// readSeconds reads what is asked for from slots of seconds.
func (c *comparison) readSeconds(at span) ([]seconds.Group, error) {
	service := query.Named(c.Matchers, series.LabelService)
	return c.Seconds.Read(service, func(environment, operation, kind, status string) bool {
		values := map[string]string{series.LabelService: service, series.LabelEnvironment: environment, series.LabelOperation: operation, series.LabelKind: kind, series.LabelStatus: status}
		return !slices.ContainsFunc(c.Matchers, func(m *labels.Matcher) bool { return !m.Matches(values[m.Name]) })
	}, at.start, at.end, c.step)
}

// addSeconds adds what was read to a side.
func (c *comparison) addSeconds(s *side, found []seconds.Group) error {
	for _, g := range found {
		o := operation{service: g.Service, operation: g.Operation}
		if c.hasEnvironments(o.service) {
			o.environment = g.Environment
		}
		if err := s.add(o, 0, &query.RequestGroup{Good: g.Good, Failed: g.Failed}); err != nil {
			return err
		}
	}
	return nil
}
