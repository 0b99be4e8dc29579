package compare

import (
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/query"
	"tailscope/internal/series"
)

// Others as a value of a label is every value but the other side's: one tenant
// against everybody else. Who has no value is on neither side.
const Others = "*"

// values are those of both sides.
func (c *comparison) values() [2]string { return [2]string{c.ValueA, c.ValueB} }

func (c *comparison) againstOthers() bool { return c.ValueA == Others || c.ValueB == Others }

// checkOthers refuses what cannot be told.
func (c *comparison) checkOthers() error {
	if c.againstOthers() && c.kind != ofSpans {
		return query.Invalid("a", "every other value of %s can be compared of requests only; write two values of the label", c.Label)
	}
	if c.againstOthers() && (c.ValueA == "" || c.ValueB == "") {
		return query.Invalid("b", "write which %s is to be compared with every other", c.Label)
	}
	return nil
}

// only matches a side by its label; both sides where there is none.
func (c *comparison) only(i int) []*labels.Matcher {
	if c.Label == "" {
		return nil
	}
	values := c.values()
	if values[i] != Others {
		return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, c.Label, values[i])}
	}
	return []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchNotEqual, c.Label, values[1-i]),
		labels.MustNewMatcher(labels.MatchNotEqual, c.Label, ""),
	}
}

// valueName is what a side is called.
func (c *comparison) valueName(value string) string {
	switch {
	case value != Others:
		return orNone(value)
	case c.Label == series.LabelTenant:
		return "everybody else"
	}
	return "every other " + c.Label
}

// nameSides names both sides where they are values of a label, a single value before all
// others. It is empty where they are times.
func (c *comparison) nameSides() string {
	if c.Label == "" {
		return ""
	}
	one, other := c.ValueA, c.ValueB
	if one == Others {
		one, other = other, one
	}
	return c.Label + " " + c.valueName(one) + " and " + c.valueName(other)
}

// cohortOf is the cohort of a tenant with the given share of requests.
func (c *comparison) cohortOf(name string, share float64) string {
	if c.CohortOf != nil {
		if cohort, ok := c.CohortOf(name); ok {
			return cohort
		}
		return series.Small
	}
	if name == "" || name == series.Other {
		return series.Small
	}
	return series.Cohort(share)
}
