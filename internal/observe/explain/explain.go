// Package explain finds what is special about a rectangle of the heatmap: which labels,
// and which pairs of them, the observations inside it have more often than all others of
// the range.
//
// It needs only counts per slot and series: how many observations lie within the
// rectangle's values, and how many there are. The effect of a label is its share inside
// minus its share outside. Its interval is computed from slots, never from requests
// (package stat): inside and outside share the slots of the rectangle's time, where
// common movements cancel, and the rest of the range has slots of its own.
package explain

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Request asks what is over-represented in a rectangle: [From, To) by (Low, High]. It is
// widened to whole slots and whole buckets.
type Request struct {
	query.Selection
	From, To  time.Time // the zero time: the range's own end
	Low, High float64   // in the family's unit; −Inf and +Inf: no bound
	// Labels restricts the labels to examine; empty for all.
	Labels []string
	// Alone leaves out pairs of labels.
	Alone bool
	Limit int // bound on items; default 20

	most int // bound on series read one by one; default mostSeries
}

const (
	defaultLimit = 20
	maxLimit     = 200
	// level is the confidence of intervals, discovery the false discovery rate of labels
	// and of pairs.
	level     = 0.95
	discovery = 0.05
	// fewest is the least number of observations inside that a label needs to be listed,
	// and of the range to be examined.
	fewest = 10
)

// question is an explanation in progress.
type question struct {
	Request
	st   store.Store
	span bool
	out  *api.ExplainResponse
	band band
	// first and last bound the observations within the range.
	first, last int64
	what        string // what is counted: requests, samples
}

// check validates the request and fills in defaults. It reads the family and the labels
// of match by asking about an instant.
func (r *Request) check(ctx context.Context, st store.Store) error {
	sel := r.Selection
	if sel.End.After(sel.Start) {
		sel.End = sel.Start.Add(time.Second)
	}
	if _, err := query.Distribution(ctx, st, query.DistributionRequest{Selection: sel}); err != nil {
		return err
	}
	if r.Limit == 0 {
		r.Limit = defaultLimit
	}
	if r.Limit < 0 || r.Limit > maxLimit {
		return query.Invalid("limit", "limit %d is not between 1 and %d", r.Limit, maxLimit)
	}
	if r.Family == "" {
		r.Family = series.SpanDuration
	}
	if r.most == 0 {
		r.most = mostSeries
	}
	if r.From.IsZero() {
		r.From = r.Start
	}
	if r.To.IsZero() {
		r.To = r.End
	}
	switch {
	case !r.From.Before(r.End):
		return query.Invalid("from", "the rectangle begins (%s) after the range ends (%s); write an earlier from or a later end", timeText(r.From), timeText(r.End))
	case !r.To.After(r.Start):
		return query.Invalid("to", "the rectangle ends (%s) before the range begins (%s); write a later to or an earlier start", timeText(r.To), timeText(r.Start))
	case !r.To.After(r.From):
		return query.Invalid("to", "the rectangle ends (%s) before it begins (%s); write a later to", timeText(r.To), timeText(r.From))
	case math.IsNaN(r.Low) || math.IsInf(r.Low, 1):
		return query.Invalid("low", "low is not a number; write the value above which the rectangle lies, such as 0.2")
	case math.IsNaN(r.High) || math.IsInf(r.High, -1):
		return query.Invalid("high", "high is not a number; write the value up to which the rectangle reaches, such as 0.4")
	case r.High <= r.Low:
		return query.Invalid("high", "the rectangle is empty: high (%g) is not above low (%g); write a greater high", r.High, r.Low)
	}
	if r.From.Before(r.Start) {
		r.From = r.Start
	}
	if r.To.After(r.End) {
		r.To = r.End
	}
	if !r.From.After(r.Start) && !r.To.Before(r.End) && math.IsInf(r.Low, -1) && math.IsInf(r.High, 1) {
		return query.Invalid("low", "the rectangle holds the whole range; write low or high, or a narrower from and to")
	}
	return r.checkLabels(ctx, st)
}

func (r *Request) checkLabels(ctx context.Context, st store.Store) error {
	if len(r.Labels) == 0 {
		return nil
	}
	var known []string
	for _, view := range []series.View{series.Full, series.Marginal} {
		names, err := st.LabelNames(ctx, r.Family, view, nil, r.Start.Unix(), r.End.Unix())
		if err != nil {
			return err
		}
		known = append(known, names...)
	}
	for _, name := range r.Labels {
		if len(known) > 0 && !slices.Contains(known, name) {
			return query.Invalid("labels", "no series of %s has the label %s; %s", r.Family, strconv.Quote(name), query.Suggest(name, known))
		}
	}
	return nil
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Explain lists what is over-represented, the largest effects first.
func Explain(ctx context.Context, st store.Store, r Request) (*api.ExplainResponse, error) {
	if err := r.check(ctx, st); err != nil {
		return nil, err
	}
	q := &question{Request: r, st: st, span: query.IsSpanFamily(r.Family), what: "samples"}
	if q.span {
		q.what = "requests"
	}
	q.out = &api.ExplainResponse{Family: r.Family, Level: level, Items: []api.ExplainItem{}, Notes: []string{}}
	whole, err := q.rectangle(ctx)
	if err != nil || whole == nil {
		return q.out, err
	}
	main, tenants, err := q.read(ctx)
	if err != nil {
		return nil, err
	}
	total := main.total()
	q.out.Inside, q.out.Outside = uint64(total.inside()), uint64(total.outside())
	if q.out.Inside < fewest || q.out.Outside < fewest {
		side := "inside"
		if q.out.Inside >= fewest {
			side = "outside"
		}
		q.note("there are fewer than %d %s %s the rectangle: draw another", fewest, q.what, side)
		return q.out, nil
	}
	q.judge(main, tenants, total)
	return q.out, nil
}
