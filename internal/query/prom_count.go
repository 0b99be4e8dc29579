package query

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"tailscope/internal/figure"
)

// Bounds on the work of a query, which is counted before it runs.
const (
	// maxEvaluations bounds the moments at which parts of a query are evaluated,
	// for each series.
	maxEvaluations = 400_000_000
	// maxWindowWork bounds what functions over subqueries read of each series,
	// in samples of numbers: the engine does not look at its deadline meanwhile.
	// Some 100 million are read in a second.
	maxWindowWork = 100_000_000
	// histogramWork is the work of one histogram, in numbers.
	histogramWork = 20
	// A label may be made of others, a few times over.
	maxLabelGrowth = 16
	maxLabelBytes  = 4 << 10
)

// slowWindows are functions that sort a window, or walk it more than once.
var slowWindows = map[string]int64{
	"quantile_over_time": 10, "mad_over_time": 20, "double_exponential_smoothing": 3, "predict_linear": 3, "deriv": 3,
}

// counter counts what a query does, from its expression alone: subqueries take
// the span of all windows together once, and their windows once per step.
type counter struct {
	maxPoints   int64 // of one subquery
	noStep      func(rangeMillis int64) int64
	histograms  func(parser.Expr) (string, error)
	evaluations float64

	// growth and bytes bound how long labels become, growth times what is stored
	// and bytes more.
	growth, bytes int

	// top is the most that topk, bottomk or limitk keep of each of several groups. The
	// engine makes room for so many of each, or for as many as there are series.
	top int64
}

// count refuses what the expression e asks too much of, and says which step would
// do. It is evaluated over span milliseconds in so many steps.
func (c *counter) count(e parser.Expr, span, steps int64) error {
	err := c.all(e, span, steps)
	var refused *Error
	if steps > 1 && errors.As(err, &refused) && refused.Code == CodeTooMany {
		if step := c.enough(e, span, steps); step > 0 {
			refused.Message += fmt.Sprintf(", or write step=%s", durationText(step))
		}
	}
	return err
}

func (c *counter) all(e parser.Expr, span, steps int64) error {
	c.growth, c.bytes, c.evaluations, c.top = 1, 0, 0, 0
	if err := c.expr(e, span, steps); err != nil {
		return err
	}
	if c.evaluations > maxEvaluations {
		return tooMany("query", "the query takes %s evaluations, its steps times its parts; at most %s are made: ask for fewer parts, raise the steps of its subqueries or shorten the range",
			figure.Thousands(int64(c.evaluations)), figure.Thousands(maxEvaluations))
	}
	return nil
}

// enough returns a step that is easily written and with which e is not too
// much, 0 if there is none.
func (c *counter) enough(e parser.Expr, span, steps int64) time.Duration {
	for s := roundedStep(span/(steps-1) + 1); s.Milliseconds() < span; s = roundedStep(s.Milliseconds()*3/2 + 1) {
		try := *c
		if try.all(e, span, span/s.Milliseconds()+1) == nil {
			return s
		}
	}
	return 0
}

func (c *counter) expr(e parser.Expr, span, steps int64) error {
	c.evaluations += float64(steps)
	switch n := e.(type) {
	case nil:
		return nil
	case *parser.SubqueryExpr:
		_, _, err := c.subquery(n, span, steps)
		return err
	case *parser.Call:
		return c.call(n, span, steps)
	case *parser.MatrixSelector:
		return nil
	case *parser.AggregateExpr:
		c.groups(n)
	}
	for child := range parser.ChildrenIter(e) {
		if ce, ok := child.(parser.Expr); ok {
			if err := c.expr(ce, span, steps); err != nil {
				return err
			}
		}
	}
	return nil
}

// groups notes how many series an aggregation keeps of each group.
func (c *counter) groups(n *parser.AggregateExpr) {
	switch n.Op {
	case parser.TOPK, parser.BOTTOMK, parser.LIMITK:
	default:
		return
	}
	if len(n.Grouping) == 0 && !n.Without {
		return
	}
	if k, ok := unparen(n.Param).(*parser.NumberLiteral); ok && k.Val < 1<<31 {
		c.top = max(c.top, int64(k.Val))
		return
	}
	c.top = 1 << 31
}

// subquery counts the points of a subquery and of each of its windows.
func (c *counter) subquery(n *parser.SubqueryExpr, span, steps int64) (points, window int64, err error) {
	step := n.Step.Milliseconds()
	if step == 0 {
		step = c.noStep(n.Range.Milliseconds())
	}
	length := n.Range.Milliseconds()
	if step <= 0 || length < 0 || span > math.MaxInt64/2-length {
		return 0, 0, Invalid("query", "the subquery [%s] has no step; write one such as [1h:1m]", durationText(n.Range))
	}
	points, window = (span+length)/step+1, length/step+1
	if points > c.maxPoints {
		advice := "shorten its range"
		if steps > 1 {
			advice += ", or that of the graph"
		}
		return 0, 0, tooMany("query", "the subquery %s makes %s points; at most %s fit a question's memory: write %s or %s",
			subqueryText(n, time.Duration(step)*time.Millisecond), figure.Thousands(points), figure.Thousands(c.maxPoints),
			subqueryText(n, roundedStep((span+length)/c.maxPoints+1)), advice)
	}
	return points, window, c.expr(n.Expr, span+length, points)
}

// subqueryText writes the brackets of a subquery, with another step.
func subqueryText(n *parser.SubqueryExpr, step time.Duration) string {
	return "[" + model.Duration(n.Range).String() + ":" + durationText(step) + "]"
}

// StepWithin returns the least step that is easily written, such as 30s, of which
// span has most at most.
func StepWithin(span time.Duration, most int64) string {
	return durationText(roundedStep((span.Milliseconds() + most - 1) / most))
}

// roundedStep is a step that is easily written, of at least so many milliseconds.
func roundedStep(millis int64) time.Duration {
	for _, s := range [...]int64{10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000} {
		if s >= millis {
			return time.Duration(s) * time.Millisecond
		}
	}
	return time.Duration(ceilTo(millis, 3_600_000)) * time.Millisecond
}

func (c *counter) call(n *parser.Call, span, steps int64) error {
	for _, arg := range n.Args {
		sub, ok := unparen(arg).(*parser.SubqueryExpr)
		if !ok {
			if err := c.expr(arg, span, steps); err != nil {
				return err
			}
			continue
		}
		_, window, err := c.subquery(sub, span, steps)
		if err != nil {
			return err
		}
		weight := max(slowWindows[n.Func.Name], 1)
		if what, err := c.histograms(sub.Expr); err != nil {
			return err
		} else if what != "" {
			weight = histogramWork
		}
		if work := float64(steps) * float64(window) * float64(weight); work > maxWindowWork {
			advice := "shorten its range"
			if most := maxWindowWork / weight / steps; most > 1 { // points of one window
				advice = "write " + subqueryText(sub, roundedStep(sub.Range.Milliseconds()/(most-1)+1)) + " or " + advice
			}
			return tooMany("query", "%s over the subquery [%s] reads %s points in each of %s steps, %s in all; at most %s are read: %s",
				n.Func.Name, model.Duration(sub.Range), figure.Thousands(window), figure.Thousands(steps), figure.Thousands(int64(float64(steps)*float64(window))), figure.Thousands(maxWindowWork/weight), advice)
		}
	}
	return c.labels(n)
}

// labels follows how long label_replace and label_join make labels.
func (c *counter) labels(n *parser.Call) error {
	switch {
	case n.Func.Name == "label_replace" && len(n.Args) == 5:
		if text, ok := unparen(n.Args[2]).(*parser.StringLiteral); ok {
			c.bytes += len(text.Val)
			c.growth *= max(1, strings.Count(text.Val, "$"))
		}
		if re, ok := unparen(n.Args[4]).(*parser.StringLiteral); ok && regexpSize(re.Val) > maxRegexpSize {
			return Invalid("query", "the regular expression of label_replace is too large, it compiles to %s instructions or more; at most %s are allowed: write fewer repetitions", figure.Thousands(regexpSize(re.Val)), figure.Thousands(maxRegexpSize))
		}
	case n.Func.Name == "label_join" && len(n.Args) > 2:
		if sep, ok := unparen(n.Args[2]).(*parser.StringLiteral); ok {
			c.bytes += len(sep.Val) * len(n.Args)
		}
		c.growth *= max(1, len(n.Args)-3)
	default:
		return nil
	}
	c.growth, c.bytes = min(c.growth, 1<<20), min(c.bytes, 1<<20)
	if c.growth > maxLabelGrowth || c.bytes > maxLabelBytes {
		return tooMany("query", "%s makes labels too long, %d times those it reads and %d bytes more; at most %d times and %d bytes fit: join fewer labels", n.Func.Name, c.growth, c.bytes, maxLabelGrowth, maxLabelBytes)
	}
	return nil
}
