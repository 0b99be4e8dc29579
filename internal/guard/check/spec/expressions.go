package spec

import (
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/query"
	"tailscope/internal/strictyaml"
)

// Series are those of a family that match.
type Series struct {
	Family   string
	Matchers []*labels.Matcher
}

// ReadText reads a selector that names one family.
func (v *Series) ReadText(s string) error {
	all, err := parseSelector(s)
	if err != nil {
		return err
	}
	*v = Series{}
	for _, m := range all {
		if m.Name != labels.MetricName {
			v.Matchers = append(v.Matchers, m)
			continue
		}
		if m.Type != labels.MatchEqual {
			return strictyaml.Wrong("write one name", "several families at once are not measured")
		}
		v.Family = m.Value
	}
	if v.Family == "" {
		return strictyaml.Wrong(`write one such as span_duration_seconds{service="shop"}`, "%s names no family", s)
	}
	return nil
}

// Schema is that of any text.
func (*Series) Schema() m { return m{"type": "string"} }

// Matchers are those of labels, without a name.
type Matchers []*labels.Matcher

// ReadText reads {label="value"}.
func (v *Matchers) ReadText(s string) error {
	all, err := parseSelector(s)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Name == labels.MetricName {
			return strictyaml.Wrong(`write matchers alone, such as {team="shop"}`, "a name does not belong here")
		}
	}
	*v = all
	return nil
}

// Schema is a pattern of braces.
func (*Matchers) Schema() m { return strictyaml.Pattern(`^\s*\{.*\}\s*$`) }

var promParser = parser.NewParser(parser.Options{})

func parseSelector(s string) ([]*labels.Matcher, error) {
	if err := query.CheckText("match", s); err != nil {
		return nil, err
	}
	all, err := promParser.ParseMetricSelector(s)
	return all, promMistake(err)
}

func checkPromQL(s string) error {
	if err := query.CheckText("query", s); err != nil {
		return err
	}
	e, err := promParser.ParseExpr(s)
	if err != nil {
		return promMistake(err)
	}
	if k := e.Type(); k != parser.ValueTypeScalar && k != parser.ValueTypeVector {
		return strictyaml.Wrong("put a function such as rate or avg_over_time around it", "this comes to a %s, not to a number", k)
	}
	return nil
}

// promMistake says where PromQL's parser found its first error.
func promMistake(err error) error {
	var several parser.ParseErrors
	var one *parser.ParseErr
	if errors.As(err, &several) && len(several) > 0 {
		one = &several[0]
	}
	if one != nil || errors.As(err, &one) {
		return &strictyaml.Mistake{Message: one.Err.Error(), Offset: int(one.PositionRange.Start) + 1}
	}
	return err
}

// checkNames notes checks that an expression names and no file defines.
func (r *reader) checkNames(n *node, p *expr.Program) {
	if r.all.Checks.of == nil || p == nil {
		return
	}
	for _, s := range p.Selectors() {
		for _, m := range s.Matchers {
			if m.Name != "check" || m.Type != labels.MatchEqual || m.Value == example {
				continue
			}
			if _, ok := r.all.Checks.of[m.Value]; !ok {
				r.problem(n.Within(s.Offset), strictyaml.Suggest(m.Value, names(r.all.Checks.of)), "unknown check %s", m.Value)
			}
		}
	}
}
