package query

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// OperationsRequest asks which operations take the time.
type OperationsRequest struct {
	Selection  // Family is ignored
	Grid       // of the rows' arrays
	Quantiles  []Quantile
	Sort       string   // total (default), calls, errors, mean, name, or a quantile's key or percentile (p99); a leading - turns it round
	Search     string   // part of an operation's name, in any case
	Components []string // only these; empty: all
	Kinds      []string
	Overlay    Overlay       // an earlier day, at the times of the range
	Now        time.Time     // zero: all of the range is stored
	Newest     *seconds.Ring // the newest requests; nil if they are not kept
	Offset     int
	Limit      int // default 50
}

// opKey names an operation, at one system.
type opKey struct{ service, operation, component, kind, system string }

var opLabels = []string{series.LabelService, series.LabelOperation, series.LabelComponent, series.LabelKind, series.LabelSystem}

func opOf(l labels.Labels) opKey {
	return opKey{l.Get(series.LabelService), l.Get(series.LabelOperation), l.Get(series.LabelComponent), l.Get(series.LabelKind), l.Get(series.LabelSystem)}
}

// operation is one operation's sums while a page is being made.
type operation struct {
	opKey
	calls, errors uint64
	sum           float64
	hist          *hist.Histogram // nil until buckets were read
	key           float64         // the quantile to sort by
	seconds, rate []api.Float     // per step
}

func (o *operation) mean() float64 { return o.sum / float64(o.calls) }

// Operations lists operations, a page at a time. It makes as many questions of
// the store however many operations there are: the sums of all, then buckets
// and steps of those on the page.
func Operations(ctx context.Context, st store.Store, r OperationsRequest) (*api.OperationsResponse, error) {
	if err := checkLimit(&r.Limit, 50, 1000); err != nil {
		return nil, err
	}
	if r.Offset < 0 {
		return nil, Invalid("offset", "offset %d is negative; write 0 or more", r.Offset)
	}
	if err := r.Overlay.check(); err != nil {
		return nil, err
	}
	order, byQuantile, err := operationOrder(r)
	if err != nil {
		return nil, err
	}
	r.Matchers = slices.Clone(r.Matchers)
	for label, values := range map[string][]string{series.LabelComponent: r.Components, series.LabelKind: r.Kinds} {
		if len(values) > 0 {
			set := map[string]bool{}
			for _, v := range values {
				set[v] = true
			}
			r.Matchers = append(r.Matchers, oneOf(label, set))
		}
	}
	r.Family = series.SpanDuration
	sel, err := resolve(ctx, st, r.Selection, append(slices.Clone(opLabels), series.LabelStatus))
	if err != nil {
		return nil, err
	}
	st = r.Overlay.over(st, lastBase(r.End))
	step, err := r.Grid.choose(r.Start, r.End, 0)
	if err != nil {
		return nil, err
	}
	sel.q.Start, sel.q.End = align(r.Start, r.End, step)
	all, err := gatherOperations(ctx, st, sel.q, byQuantile != nil)
	if err != nil {
		return nil, err
	}
	out := &api.OperationsResponse{Rows: []api.Operation{}, Overlay: r.Overlay.describe(r.Start.Unix(), r.End.Unix())}
	list := make([]*operation, 0, len(all))
	onlyDB := len(all) > 0
	search := strings.ToLower(r.Search)
	for _, o := range all {
		out.Seconds += api.Float(o.sum)
		onlyDB = onlyDB && o.component == series.ComponentDB
		if search == "" || strings.Contains(strings.ToLower(o.operation), search) {
			if byQuantile != nil {
				o.key = o.hist.Quantile(byQuantile.Q)
			}
			list = append(list, o)
		}
	}
	slices.SortFunc(list, order)
	out.Total = len(list)
	page := list[min(r.Offset, len(list)):min(r.Offset+r.Limit, len(list))]
	p := &operationPage{st: st, r: r, q: sel.q, rows: page}
	if err := p.read(ctx, byQuantile == nil); err != nil {
		return nil, err
	}
	out.Range, out.Step, out.Times = api.Range{Start: p.q.Start, End: p.q.End}, p.q.Step, stepStarts(p.q)
	if r.Overlay.Name != "" {
		p.r.Now = time.Time{} // an earlier day is stored
	}
	if len(page) > 0 {
		if err := p.readMeasured(ctx); err != nil {
			return nil, err
		}
	}
	repeated, err := p.repeated(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range page {
		row := p.render(o, float64(out.Seconds))
		row.NPlusOne = repeated[partKey{o.service, o.component, o.operation, o.system}]
		out.Rows = append(out.Rows, row)
	}
	if onlyDB {
		out.Verbs, err = verbs(ctx, st, p)
	}
	return out, err
}

// operationOrder returns the comparison of the asked order; byQuantile is the
// quantile that it needs, or nil.
func operationOrder(r OperationsRequest) (func(a, b *operation) int, *Quantile, error) {
	key, down := strings.TrimPrefix(r.Sort, "-"), true
	var cmp func(a, b *operation) int
	var byQuantile *Quantile
	switch key {
	case "", "total", "seconds", "share":
		cmp = func(a, b *operation) int { return compare(a.sum, b.sum) }
	case "calls", "rate":
		cmp = func(a, b *operation) int { return compare(a.calls, b.calls) }
	case "errors":
		cmp = func(a, b *operation) int { return compare(a.errors, b.errors) }
	case "mean":
		cmp = func(a, b *operation) int { return compare(a.mean(), b.mean()) }
	case "name":
		down = false
		cmp = func(a, b *operation) int { return strings.Compare(a.operation, b.operation) }
	default:
		if byQuantile = quantileNamed(r.Quantiles, key); byQuantile == nil {
			keys := []string{"total", "calls", "errors", "mean", "name"}
			for _, q := range r.Quantiles {
				keys = append(keys, q.Key)
			}
			return nil, nil, Invalid("sort", "cannot sort by %s; write one of %s", quote(r.Sort), strings.Join(keys, ", "))
		}
		cmp = func(a, b *operation) int { return compare(a.key, b.key) }
	}
	if strings.HasPrefix(r.Sort, "-") {
		down = !down
	}
	return func(a, b *operation) int {
		c := cmp(a, b)
		if down {
			c = -c
		}
		if c == 0 {
			c = compareOps(a.opKey, b.opKey)
		}
		return c
	}, byQuantile, nil
}

// quantileNamed finds the asked quantile that is meant by 0.99 or p99.
func quantileNamed(qs []Quantile, name string) *Quantile {
	i := slices.IndexFunc(qs, func(q Quantile) bool { return q.Key == name })
	if i < 0 {
		if p, err := ParseQuantiles(percentile(name), ""); err == nil {
			i = slices.IndexFunc(qs, func(q Quantile) bool { return q.Q == p[0].Q })
		}
	}
	if i < 0 {
		return nil
	}
	return &qs[i]
}

// percentile turns p99 into 0.99 and p99.9 into 0.999, without rounding.
func percentile(name string) string {
	digits, ok := strings.CutPrefix(name, "p")
	whole, rest, _ := strings.Cut(digits, ".")
	if !ok || len(whole) == 0 || len(whole) > 2 || strings.Trim(whole+rest, "0123456789") != "" {
		return "none"
	}
	return "0." + strings.Repeat("0", 2-len(whole)) + whole + rest
}

func compareOps(a, b opKey) int {
	for _, c := range [...]int{
		strings.Compare(a.operation, b.operation), strings.Compare(a.service, b.service),
		strings.Compare(a.component, b.component), strings.Compare(a.kind, b.kind), strings.Compare(a.system, b.system),
	} {
		if c != 0 {
			return c
		}
	}
	return 0
}

// gatherOperations sums every operation, in the order of their labels; with
// buckets too if they are sorted by.
func gatherOperations(ctx context.Context, st store.Store, q store.Query, buckets bool) ([]*operation, error) {
	q.By = append(slices.Clone(opLabels), series.LabelStatus)
	if !buckets {
		q.Measure = store.Moments
	}
	res, err := st.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := checkGroups(len(res.Groups)); err != nil {
		return nil, err
	}
	byKey := make(map[opKey]*operation, len(res.Groups))
	all := make([]*operation, 0, len(res.Groups))
	for _, g := range res.Groups {
		if len(g.Points) == 0 || g.Points[0].Hist == nil || g.Points[0].Hist.Count == 0 {
			continue
		}
		h := g.Points[0].Hist
		k := opOf(g.Labels)
		o := byKey[k]
		if o == nil {
			o = &operation{opKey: k}
			byKey[k] = o
			all = append(all, o)
		}
		o.calls += h.Count
		o.sum += h.Sum
		if g.Labels.Get(series.LabelStatus) == statusError {
			o.errors += h.Count
		}
		switch {
		case !buckets:
		case o.hist == nil:
			o.hist = h
		default:
			if err := o.hist.Merge(h); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func compare[T uint64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
