package server

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// The alerting rules of the examples are those of Prometheus, and ask for metrics
// that a server has, and for codes of problems that there are.
func TestExampleAlerts(t *testing.T) {
	promql := parser.NewParser(parser.Options{})
	groups, errs := rulefmt.ParseFile("../../docs/examples/prometheus/alerts.yaml", false, model.UTF8Validation, promql, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	s := start(t, testConfig(t.TempDir()))
	_, metrics := get(t, "http://"+s.Addr()+"/metrics")
	rules, covered := 0, map[string]bool{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			rules++
			expr, err := promql.ParseExpr(r.Expr)
			if err != nil {
				t.Errorf("%s: %v", r.Alert, err)
				continue
			}
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				v, ok := n.(*parser.VectorSelector)
				if !ok || v.Name == "up" { // Prometheus makes that one
					return nil
				}
				if !strings.Contains(metrics, "\n# TYPE "+v.Name+" ") {
					t.Errorf("%s: /metrics has no %s", r.Alert, v.Name)
				}
				for _, m := range v.LabelMatchers {
					if m.Name != "code" {
						continue
					}
					for _, code := range problemCodes {
						covered[code] = covered[code] || m.Matches(code)
					}
					if m.Type == labels.MatchRegexp || m.Type == labels.MatchEqual {
						for code := range strings.SplitSeq(m.Value, "|") {
							if !strings.Contains(metrics, `tailscope_problems{code="`+code+`"}`) {
								t.Errorf("%s: there is no code %s", r.Alert, code)
							}
						}
					}
				}
				return nil
			})
		}
	}
	if rules < 5 {
		t.Errorf("%d rules", rules)
	}
	// Traces and memory have metrics of their own.
	for _, code := range []string{problemDamage, problemRecovered, problemDiskFull, problemNotStored, problemMaintenance} {
		if !covered[code] {
			t.Errorf("no rule fires on the code %s", code)
		}
	}
}
