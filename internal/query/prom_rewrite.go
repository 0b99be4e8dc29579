package query

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// PromQL's rate needs running totals, two samples and extrapolation; the store
// holds what happened in each slot, which is exact. So a query is rewritten
// before the engine sees it:
//
//	rate(x[R])      sum_over_time(x[R]) / R
//	increase(x[R])  sum_over_time(x[R])
//	irate(x[R])     as rate(x[R]), of at most a minute; of classic series alone
//
// wherever x is a distribution. A window then reaches back R from the end of the
// last slot that ended at or before t. Counters and gauges are left as they are.
//
// Every selector of a distribution gets a private matcher, the marker, which
// tells the Queryable what the engine's hints do not: which view to read, by
// which labels series will be summed anyway, so that the store can do it, and
// which windows will be summed. The Queryable slides over those in integers
// and hands out one sample per window, at the moment the window ends; so what
// the engine really runs is sum_over_time(x[1ms]).

// rewriter rewrites one query.
type rewriter struct {
	families map[string]store.FamilyInfo
	start    int64 // first evaluation, Unix milliseconds
	end      int64
	interval int64 // milliseconds; 0 for an instant
	noStep   func(rangeMillis int64) int64
	tenant   bool // the query names tenants somewhere, or their cohorts
	cohort   bool // the query names cohorts somewhere
	job      bool // likewise jobs
	classics map[*parser.VectorSelector]classic
}

// rewrite returns the query as the engine should run it. Errors say what to
// write instead.
func (r *rewriter) rewrite(e parser.Expr) (parser.Expr, error) {
	if err := r.survey(e); err != nil {
		return nil, err
	}
	r.classics = classics(r.families, e, r.job)
	return r.expr(e, around{times: times{period: r.interval, at: r.start}})
}

// times are the moments at which something is evaluated: at plus multiples of
// period, all in milliseconds; only at when period is 0.
type times struct{ period, at int64 }

// around is what a node's parents say about it.
type around struct {
	times   times
	by      []string // the result will be summed by these labels
	sum     bool     // by is meant
	moments bool     // only count and sum of histograms will be looked at
	absent  bool     // matchers become labels: leave them alone
}

// inner is a for a child whose value is used in some other way.
func (a around) inner() around { return around{times: a.times} }

// survey finds out whether the query names tenants or cohorts, and refuses our own marker.
func (r *rewriter) survey(e parser.Expr) error {
	names := func(ns []string) {
		r.cohort = r.cohort || slices.Contains(ns, series.LabelCohort)
		r.job = r.job || slices.Contains(ns, labelJob)
		r.tenant = r.tenant || r.cohort || slices.Contains(ns, series.LabelTenant)
	}
	var failed error
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				names([]string{m.Name})
				if m.Name == markerName && failed == nil {
					failed = Invalid("query", "the label %s is the server's own; leave it out", markerName)
				}
			}
		case *parser.AggregateExpr:
			names(n.Grouping)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names(n.VectorMatching.MatchingLabels)
				names(n.VectorMatching.Include)
			}
		case *parser.StringLiteral: // label_replace, label_join, count_values
			names([]string{n.Val})
		}
		return nil
	})
	return failed
}

func (r *rewriter) expr(e parser.Expr, a around) (parser.Expr, error) {
	var err error
	switch n := e.(type) {
	case nil:
		return nil, nil
	case *parser.ParenExpr:
		n.Expr, err = r.expr(n.Expr, a)
	case *parser.StepInvariantExpr:
		n.Expr, err = r.expr(n.Expr, a)
	case *parser.UnaryExpr:
		n.Expr, err = r.expr(n.Expr, around{times: a.times, moments: a.moments})
	case *parser.BinaryExpr:
		child := a.inner()
		// Arithmetic on histograms keeps counts and sums apart from buckets.
		child.moments = a.moments && n.Op != parser.TRIM_UPPER && n.Op != parser.TRIM_LOWER && !n.Op.IsComparisonOperator()
		if n.LHS, err = r.expr(n.LHS, child); err == nil {
			n.RHS, err = r.expr(n.RHS, child)
		}
	case *parser.AggregateExpr:
		child := a.inner()
		if n.Op == parser.SUM || n.Op == parser.AVG {
			child.moments = a.moments
		}
		if n.Op == parser.SUM && !n.Without && !slices.Contains(n.Grouping, labels.MetricName) {
			child.sum, child.by = true, n.Grouping
		}
		if n.Expr, err = r.expr(n.Expr, child); err == nil && n.Param != nil {
			n.Param, err = r.expr(n.Param, a.inner())
		}
	case *parser.SubqueryExpr:
		step := n.Step.Milliseconds()
		if step == 0 && r.noStep != nil {
			step = r.noStep(n.Range.Milliseconds())
		}
		// Inside a subquery, time is a multiple of its step.
		n.Expr, err = r.expr(n.Expr, around{times: times{period: step}, moments: a.moments})
	case *parser.Call:
		return r.call(n, a)
	case *parser.MatrixSelector:
		vs, ok := n.VectorSelector.(*parser.VectorSelector)
		if !ok {
			return nil, fmt.Errorf("range selector of a %T", n.VectorSelector)
		}
		err = r.mark(vs, a, marker{})
	case *parser.VectorSelector:
		err = r.mark(n, a, marker{})
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Functions that need running totals, with what to write instead.
var refused = map[string]string{
	"irate":   "write rate(x[1m]) with the shortest range that suits",
	"idelta":  "write increase(x[1m]), or subtract two moments with offset",
	"delta":   "write increase(x[5m]) - increase(x[5m] offset 5m)",
	"resets":  "it never resets",
	"changes": "write count_over_time(x[5m]) for the slots in which something happened",
}

func (r *rewriter) call(n *parser.Call, a around) (parser.Expr, error) {
	if ms, ok := r.classicRange(n.Args); ok && n.Func.Name == "irate" {
		n.Func, ms.Range = parser.Functions["rate"], min(ms.Range, lastMinute)
	}
	name := n.Func.Name
	child := a.inner()
	switch name {
	case "rate", "increase", "sum_over_time":
		out, done, err := r.increments(n, a)
		if done || err != nil {
			return out, err
		}
		child.moments = a.moments
	case "histogram_count", "histogram_sum", "histogram_avg":
		child.moments = true
	case "absent", "absent_over_time":
		child.absent = true
	case "label_replace", "label_join", "sort", "sort_desc", "sort_by_label", "sort_by_label_desc", "last_over_time", "first_over_time", "avg_over_time":
		child.moments = a.moments
	}
	if hint, ok := refused[name]; ok && len(n.Args) > 0 {
		what, err := r.histograms(n.Args[0])
		if err != nil {
			return nil, err
		}
		if what != "" {
			return nil, Invalid("query", "%s() needs a running total, but %s holds what happened in each slot; %s", name, what, hint)
		}
	}
	for i, arg := range n.Args {
		var err error
		if n.Args[i], err = r.expr(arg, child); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// lastMinute is the range of an irate of a classic series, which is asked for the newest two
// readings of a running total: it answers as if that were read once a minute.
const lastMinute = time.Minute

// classicRange returns the range selector of a classic series that is the only argument.
func (r *rewriter) classicRange(args parser.Expressions) (*parser.MatrixSelector, bool) {
	if len(args) != 1 {
		return nil, false
	}
	ms, ok := unparen(args[0]).(*parser.MatrixSelector)
	if !ok {
		return nil, false
	}
	vs, ok := ms.VectorSelector.(*parser.VectorSelector)
	return ms, ok && r.classics[vs].suffix != ""
}

// increments rewrites rate, increase and sum_over_time of a distribution. done
// is false when the argument is something else.
func (r *rewriter) increments(n *parser.Call, a around) (out parser.Expr, done bool, err error) {
	arg := unparen(n.Args[0])
	if sub, ok := arg.(*parser.SubqueryExpr); ok && n.Func.Name != "sum_over_time" {
		what, err := r.histograms(sub.Expr)
		if err != nil || what == "" {
			return nil, false, err
		}
		vs, ok := unparen(sub.Expr).(*parser.VectorSelector)
		if !ok || vs.Timestamp != nil || vs.StartOrEnd != 0 || sub.RangeExpr != nil || sub.OriginalOffsetExpr != nil {
			return nil, false, Invalid("query", "%s() of a subquery over %s has no meaning, since each slot holds only what happened in it; write %s(x[%s]) inside, then aggregate",
				n.Func.Name, what, n.Func.Name, durationText(sub.Range))
		}
		// Slots add up at any step, so the subquery is the range it covers.
		vs.OriginalOffset += sub.OriginalOffset
		vs.Timestamp, vs.StartOrEnd = sub.Timestamp, sub.StartOrEnd
		arg = &parser.MatrixSelector{VectorSelector: vs, Range: sub.Range, EndPos: sub.EndPos}
	}
	ms, ok := arg.(*parser.MatrixSelector)
	if !ok {
		return nil, false, nil
	}
	vs, ok := ms.VectorSelector.(*parser.VectorSelector)
	if !ok {
		return nil, false, nil
	}
	distributions, numbers := r.resolve(vs)
	if len(distributions) == 0 {
		return nil, false, nil
	}
	if len(numbers) > 0 && n.Func.Name != "sum_over_time" {
		return nil, false, Invalid("query", "%s names both distributions (%s) and numbers (%s), whose %s are computed differently; write one query for each",
			vs.String(), distributions[0], numbers[0], n.Func.Name)
	}
	if ms.RangeExpr != nil || vs.OriginalOffsetExpr != nil {
		return nil, false, Invalid("query", "durations that are computed cannot be used with distributions; write the duration out")
	}
	if len(numbers) > 0 {
		return nil, false, nil // the engine sums slots and samples alike
	}
	m := marker{window: ms.Range.Milliseconds(), moments: a.moments, sum: a.sum, by: a.by}
	m.period, m.phase = r.ends(vs, a.times)
	if err := r.mark(vs, a, m); err != nil {
		return nil, false, err
	}
	seconds := ms.Range.Seconds()
	ms.Range = time.Millisecond
	sum := &parser.Call{Func: parser.Functions["sum_over_time"], Args: parser.Expressions{ms}, PosRange: n.PosRange}
	if n.Func.Name != "rate" {
		return sum, true, nil
	}
	return &parser.ParenExpr{Expr: &parser.BinaryExpr{
		Op: parser.DIV, LHS: sum, RHS: &parser.NumberLiteral{Val: seconds},
	}, PosRange: n.PosRange}, true, nil
}

// ends returns the moments at which the windows of a selector end, in
// milliseconds: phase plus multiples of period, or only one if period is 0.
func (r *rewriter) ends(vs *parser.VectorSelector, t times) (period, phase int64) {
	switch {
	case vs.Timestamp != nil:
		t = times{at: *vs.Timestamp}
	case vs.StartOrEnd == parser.START:
		t = times{at: r.start}
	case vs.StartOrEnd == parser.END:
		t = times{at: r.end}
	}
	phase = t.at - vs.OriginalOffset.Milliseconds()
	if t.period > 0 {
		phase = mod(phase, t.period)
	}
	return t.period, phase
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func mod(a, b int64) int64 {
	if m := a % b; m < 0 {
		return m + b
	} else {
		return m
	}
}

func floorTo(a, b int64) int64 { return a - mod(a, b) }

// resolve returns the families a selector can match, by kind.
func (r *rewriter) resolve(vs *parser.VectorSelector) (distributions, numbers []string) {
	for _, f := range selectFamilies(r.families, vs.LabelMatchers) {
		if f.Kind == series.Distribution {
			distributions = append(distributions, f.Name)
		} else {
			numbers = append(numbers, f.Name)
		}
	}
	return distributions, numbers
}

// selectFamilies returns the families whose name every name matcher accepts, by name.
func selectFamilies(all map[string]store.FamilyInfo, ms []*labels.Matcher) []store.FamilyInfo {
	for _, m := range ms {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual { // the usual case
			f, ok := all[m.Value]
			if !ok || slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return m.Name == labels.MetricName && !m.Matches(f.Name) }) {
				return nil
			}
			return []store.FamilyInfo{f}
		}
	}
	var out []store.FamilyInfo
	for _, f := range all {
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return m.Name == labels.MetricName && !m.Matches(f.Name) }) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b store.FamilyInfo) int { return compareString(a.Name, b.Name) })
	return out
}

func compareString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// mark adds m, completed by the view, to a selector that can match a distribution.
func (r *rewriter) mark(vs *parser.VectorSelector, a around, m marker) error {
	distributions, _ := r.resolve(vs)
	m.classic = r.classics[vs]
	if len(distributions) == 0 && !m.classic.job || a.absent {
		return nil
	}
	m.moments = m.moments || a.moments
	switch m.classic.suffix {
	case "":
	case "_info":
		m.sum, m.by, m.moments = true, infoBy, true
	default:
		m.moments = m.classic.suffix != "_bucket"
	}
	if m.sum {
		m.by = m.classic.owns(m.by)
	}
	names := matcherNames(vs.LabelMatchers)
	switch {
	case m.sum: // summed at once, so that no other view would give another answer
		names = append(names, m.by...)
	default:
		// Series must be the same throughout the query: operation keeps it from
		// the totals, tenant moves all of it to the full view.
		names = append(names, series.LabelOperation)
		if r.tenant {
			names = append(names, series.LabelTenant)
		}
		if r.cohort {
			m.by = []string{series.LabelCohort}
		}
	}
	var ok bool
	if m.view, ok = ViewOf(series.SpanDuration, names...); !ok && slices.ContainsFunc(distributions, IsSpanFamily) {
		if r.cohort { // it stands for the tenant
			names = slices.DeleteFunc(append(names, series.LabelCohort), func(n string) bool { return n == series.LabelTenant })
		}
		whose, kept := apart(names)
		return Invalid("query", "%s and %s of %s are not kept together; name one of the two", whose, kept, distributions[0])
	}
	matcher, err := labels.NewMatcher(labels.MatchEqual, markerName, m.String())
	if err != nil {
		return err
	}
	vs.LabelMatchers = append(slices.Clone(vs.LabelMatchers), matcher)
	return nil
}

// histograms returns the name of a distribution whose histograms e can yield,
// "" if its values are numbers.
func (r *rewriter) histograms(e parser.Expr) (string, error) {
	switch n := e.(type) {
	case *parser.ParenExpr:
		return r.histograms(n.Expr)
	case *parser.StepInvariantExpr:
		return r.histograms(n.Expr)
	case *parser.UnaryExpr:
		return r.histograms(n.Expr)
	case *parser.SubqueryExpr:
		return r.histograms(n.Expr)
	case *parser.MatrixSelector:
		return r.histograms(n.VectorSelector)
	case *parser.VectorSelector:
		if d, _ := r.resolve(n); len(d) > 0 {
			return d[0], nil
		}
	case *parser.AggregateExpr:
		switch n.Op {
		case parser.SUM, parser.AVG, parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO:
			return r.histograms(n.Expr)
		}
	case *parser.BinaryExpr:
		if n.Op.IsComparisonOperator() && n.ReturnBool {
			return "", nil
		}
		if what, err := r.histograms(n.LHS); what != "" || err != nil {
			return what, err
		}
		return r.histograms(n.RHS)
	case *parser.Call:
		switch n.Func.Name {
		case "rate", "increase", "sum_over_time", "avg_over_time", "last_over_time", "first_over_time",
			"label_replace", "label_join", "sort", "sort_desc", "sort_by_label", "sort_by_label_desc":
			return r.histograms(n.Args[0])
		}
	}
	return "", nil
}

func unparen(e parser.Expr) parser.Expr {
	for {
		p, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

func durationText(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	case d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
