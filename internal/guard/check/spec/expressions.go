package spec

import (
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/query"
	"tailscope/internal/strictyaml"
)

// expression parses one, and says where in the file its mistake is.
func (r *reader) expression(c *Check, n *node, variables ...string) *expr.Program {
	p, err := expr.Parse(n.Text, expr.Options{Variables: variables})
	if err != nil {
		var e *expr.Error
		if errors.As(err, &e) {
			r.problem(n.Within(e.Offset), e.Hint, "%s", e.Message)
		} else {
			r.problem(n.At, "", "%v", err)
		}
		return nil
	}
	if r.checks == nil {
		return p
	}
	for _, s := range p.Selectors() {
		for _, m := range s.Matchers {
			if m.Name != "check" || m.Type != labels.MatchEqual || m.Value == example {
				continue
			}
			if _, ok := r.checks[m.Value]; !ok {
				r.problem(n.Within(s.Offset), strictyaml.Suggest(m.Value, names(r.checks)), "unknown check %s", m.Value)
			}
		}
	}
	return p
}

var promParser = parser.NewParser(parser.Options{})

// series reads a family with matchers.
func (r *reader) series(t *string) (string, []*labels.Matcher) {
	if !r.d.Given(t) {
		return "", nil
	}
	all, ok := r.selector(t)
	if !ok {
		return "", nil
	}
	family := ""
	var rest []*labels.Matcher
	for _, m := range all {
		if m.Name != labels.MetricName {
			rest = append(rest, m)
			continue
		}
		if m.Type != labels.MatchEqual {
			r.d.Wrong(t, "write one name", "several families at once are not measured")
		}
		family = m.Value
	}
	if family == "" {
		r.d.Wrong(t, `write one such as span_duration_seconds{service="shop"}`, "%s names no family", *t)
	}
	return family, rest
}

// matchers reads {label="value"}.
func (r *reader) matchers(t *string) []*labels.Matcher {
	if !r.d.Given(t) {
		return nil
	}
	all, ok := r.selector(t)
	if !ok {
		return nil
	}
	for _, m := range all {
		if m.Name == labels.MetricName {
			r.d.Wrong(t, `write matchers alone, such as {team="shop"}`, "a name does not belong here")
		}
	}
	return all
}

func (r *reader) selector(t *string) ([]*labels.Matcher, bool) {
	if err := query.CheckText("match", *t); err != nil {
		r.d.Wrong(t, "", "%v", err)
		return nil, false
	}
	all, err := promParser.ParseMetricSelector(*t)
	if err != nil {
		r.promProblem(t, err)
		return nil, false
	}
	return all, true
}

// promProblem says what PromQL's parser does not like.
func (r *reader) promProblem(t *string, err error) {
	at, message := r.d.Node(t).At, err.Error()
	var several parser.ParseErrors
	var one *parser.ParseErr
	if errors.As(err, &several) && len(several) > 0 {
		one = &several[0]
	}
	if one != nil || errors.As(err, &one) {
		at, message = r.d.Node(t).Within(int(one.PositionRange.Start)), one.Err.Error()
	}
	r.problem(at, "", "%s", message)
}
