// Package explain finds what is special about a rectangle of the heatmap: which labels,
// and which pairs of them, became slow in it, or are slow in it.
//
// It needs only counts per slot and series: how many observations lie within the
// rectangle's values, and how many there are. Intervals are computed from slots, never
// from requests (package stat).
//
// Against the time before, the effect of a label is the share of its requests that lie
// inside, minus that share before, like for like: requests are compared with those of the
// same labels, so that a moved mix has no effect (became.go). Against the rest of the
// range, it is the label's share inside minus its share outside: inside and outside have
// the slots of the rectangle's time in common, where common movements cancel, and the
// rest of the range has slots of its own (items.go).
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
	// Against says what the rectangle is compared with; default Before.
	Against string
	// BeforeStart and BeforeEnd are the stretch before; the zero time: see stretch.
	BeforeStart, BeforeEnd time.Time
	// Changes, if not nil, returns the changes of a selection of one service, in order of
	// time: the stretch before holds none of them.
	Changes func(ctx context.Context, of query.Selection) ([]api.Change, error)
	// Labels restricts the labels to examine; empty for all.
	Labels []string
	// Alone leaves out pairs of labels.
	Alone bool
	Limit int // bound on items; default 20

	most int // bound on series read one by one; default mostSeries
}

// What a rectangle is compared with.
const (
	Before = "before" // the same labels in the same band in the stretch before
	Day    = "day"    // likewise, at the same time of the day before
	Rest   = "rest"   // all other observations of the range
)

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
	own  map[operation]band // bands above its own threshold
	// pieces are read: those of the rectangle's time first, window slots.
	pieces       []piece
	window, rest int
	what         string // what is counted: requests, observations
	// each is the number of observations that an independent one stands for: 1, or more of sampled
	// ones. Tables hold numbers of independent ones.
	each   float64
	judged bool // there is enough to say something
	// tries is the factor on probabilities for the stretches that it is compared with.
	tries float64
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
	switch r.Against {
	case "":
		r.Against = Before
	case Before, Day, Rest:
	default:
		return query.Invalid("against", "%s is not something to compare with; %s", strconv.Quote(r.Against), query.Suggest(r.Against, []string{Before, Day, Rest}))
	}
	if named := !r.BeforeStart.IsZero() || !r.BeforeEnd.IsZero(); named && r.Against != Before {
		return query.Invalid("before", "the stretch before is named by against=%s already; leave one of the two out", r.Against)
	} else if named && !r.BeforeEnd.After(r.BeforeStart) {
		return query.Invalid("before", "the stretch before ends (%s) before it begins (%s); write start/end, such as now-2h/now-1h", timeText(r.BeforeEnd), timeText(r.BeforeStart))
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

// Explain lists what became slow, in the order in which it accounts for the rectangle, or
// what is over-represented, the largest effects first.
func Explain(ctx context.Context, st store.Store, r Request) (*api.ExplainResponse, error) {
	if err := r.check(ctx, st); err != nil {
		return nil, err
	}
	q := &question{Request: r, st: st, span: query.IsSpanFamily(r.Family), what: "observations", each: 1}
	if q.span {
		q.what = "requests"
		start, end := query.Base(r.Start, r.End)
		var err error
		if q.Matchers, err = query.MatchTenants(ctx, st, r.Family, r.Matchers, start, end); err != nil {
			return nil, err
		}
	}
	q.out = &api.ExplainResponse{Family: r.Family, Against: r.Against, Level: level, Items: []api.ExplainItem{}, Notes: []string{}}
	explain := q.became
	if r.Against == Rest {
		explain = q.slow
	}
	err := explain(ctx)
	q.conclude()
	return q.out, err
}

// slow explains the rectangle against the rest of the range.
func (q *question) slow(ctx context.Context) error {
	whole, err := q.rectangle(ctx)
	if err != nil || whole == nil {
		return err
	}
	main, tenants, err := q.read(ctx)
	if err != nil {
		return err
	}
	total := main.total()
	q.out.Inside, q.out.Outside = q.counted(total.inside()), q.counted(total.outside())
	if total.inside() < fewest || total.outside() < fewest {
		side := "inside"
		if total.inside() >= fewest {
			side = "outside"
		}
		q.note("there are fewer than %d %s %s the rectangle: draw another", fewest, q.what, side)
		return nil
	}
	q.judge(main, tenants, total)
	return nil
}
