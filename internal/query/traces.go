package query

import (
	"cmp"
	"context"
	"encoding/hex"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Orders of traces.
const (
	SortSlowest = "slowest"
	SortNewest  = "newest"
	SortNearest = "nearest"
)

// TracesRequest asks for requests of kept traces.
type TracesRequest struct {
	Selection          // Family is ignored
	Min, Max  float64  // seconds; Max 0: no bound
	Why       []string // slow, failed, exemplar; empty: any
	Sort      string   // default SortSlowest
	Limit     int      // default 100

	// For SortNearest: the duration and the moment, and for how long after it
	// the moment lasts (a column of a heatmap; default a base slot).
	At   float64 // seconds
	Time time.Time
	Step time.Duration
}

var whyNames = []struct {
	why  store.Why
	name string
}{{store.WhySlow, "slow"}, {store.WhyFailed, "failed"}, {store.WhyExemplar, "exemplar"}}

// Traces lists requests of kept traces.
func Traces(ctx context.Context, st store.Store, r TracesRequest) (*api.TracesResponse, error) {
	if err := checkLimit(&r.Limit, 100, 1000); err != nil {
		return nil, err
	}
	if err := checkRange(r.Start, r.End); err != nil {
		return nil, err
	}
	if r.Max != 0 && r.Max < r.Min {
		return nil, Invalid("max", "max (%g s) is less than min (%g s); write a greater one", r.Max, r.Min)
	}
	q := store.TraceQuery{StartNanos: nanosOf(r.Start), EndNanos: nanosOf(r.End), MinNanos: int64(r.Min * 1e9), MaxNanos: int64(r.Max * 1e9), Limit: r.Limit}
	var err error
	if q.Why, err = parseWhy(r.Why); err != nil {
		return nil, err
	}
	filter, err := traceFilter(&q, r.Matchers)
	if err != nil {
		return nil, err
	}
	var hits []store.TraceHit
	switch r.Sort {
	case "", SortSlowest:
		q.Order = store.Slowest
		hits, err = filteredTraces(ctx, st, q, filter)
	case SortNewest:
		q.Order = store.Newest
		hits, err = filteredTraces(ctx, st, q, filter)
	case SortNearest:
		hits, err = nearestTraces(ctx, st, q, filter, r)
	default:
		err = Invalid("sort", "cannot sort by %s; write one of slowest, newest, nearest", quote(r.Sort))
	}
	if err != nil {
		return nil, err
	}
	out := &api.TracesResponse{Range: api.Range{Start: r.Start.Unix(), End: ceilSecond(r.End)}, Traces: make([]api.TraceRow, 0, len(hits))}
	for _, h := range hits {
		out.Traces = append(out.Traces, traceRow(h))
	}
	return out, nil
}

func ceilSecond(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// nanosOf is the moment in Unix nanoseconds, as far as they reach.
func nanosOf(t time.Time) int64 {
	const most = math.MaxInt64 / int64(time.Second)
	if t.Unix() >= most {
		return math.MaxInt64
	}
	return t.UnixNano()
}

func parseWhy(names []string) (store.Why, error) {
	var out store.Why
	for _, n := range names {
		i := slices.IndexFunc(whyNames[:], func(w struct {
			why  store.Why
			name string
		}) bool {
			return w.name == n
		})
		if i < 0 {
			return 0, Invalid("why", "no trace is kept for being %s; write slow, failed or exemplar", quote(n))
		}
		out |= whyNames[i].why
	}
	return out, nil
}

// traceFilter moves what a store can look up into q, and returns what is left
// to be asked of each request; nil if nothing is.
func traceFilter(q *store.TraceQuery, ms []*labels.Matcher) (func(*store.TraceHit) bool, error) {
	var rest []*labels.Matcher
	for _, m := range ms {
		var field *string
		switch m.Name {
		case series.LabelService:
			field = &q.Service
		case series.LabelOperation:
			field = &q.Operation
		case series.LabelTenant:
			field = &q.Tenant
		case series.LabelStatus:
			ok, failed := m.Matches("ok"), m.Matches(statusError)
			if !ok && !failed {
				return nil, Invalid("match", `a request's status is ok or error; write status="error"`)
			}
			if ok != failed && q.Failed == nil {
				q.Failed = &failed
			} else if ok != failed && *q.Failed != failed {
				rest = append(rest, m)
			}
			continue
		case series.LabelKind:
			if !m.Matches("server") && !m.Matches("consumer") {
				return nil, Invalid("match", "traces are found by their requests, which are of kind server or consumer; leave kind out")
			}
			continue
		default:
			return nil, Invalid("match", "traces are found by service, operation, tenant and status, not by %s; leave it out", m.Name)
		}
		if m.Type == labels.MatchEqual && m.Value != "" && *field == "" {
			*field = m.Value
		} else {
			rest = append(rest, m)
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	return func(h *store.TraceHit) bool {
		for _, m := range rest {
			v := h.Service
			switch m.Name {
			case series.LabelOperation:
				v = h.Operation
			case series.LabelTenant:
				v = h.Tenant
			case series.LabelStatus:
				v = "ok"
				if h.Failed {
					v = statusError
				}
			}
			if !m.Matches(v) {
				return false
			}
		}
		return true
	}, nil
}

// maxHits bounds the requests of kept traces that one question looks through.
const maxHits = 20_000

// filteredTraces asks for more than was asked for when the filter may refuse some.
func filteredTraces(ctx context.Context, st store.Store, q store.TraceQuery, filter func(*store.TraceHit) bool) ([]store.TraceHit, error) {
	limit := q.Limit
	if filter == nil {
		return st.Traces(ctx, q)
	}
	for q.Limit = limit * 4; ; q.Limit *= 4 {
		q.Limit = min(q.Limit, maxHits)
		hits, err := st.Traces(ctx, q)
		if err != nil {
			return nil, err
		}
		found := len(hits)
		hits = slices.DeleteFunc(hits, func(h store.TraceHit) bool { return !filter(&h) })
		if len(hits) >= limit || found < q.Limit || q.Limit == maxHits {
			return hits[:min(limit, len(hits))], nil
		}
	}
}

func traceRow(h store.TraceHit) api.TraceRow {
	out := api.TraceRow{
		TraceID: hex.EncodeToString(h.ID[:]), SpanID: hex.EncodeToString(h.Span[:]),
		Service: h.Service, Operation: h.Operation, Tenant: h.Tenant, Failed: h.Failed, Why: []string{},
		Start: api.Float(float64(h.StartNanos/1000) / 1e6), Duration: api.Float(float64(h.DurationNanos) / 1e9),
	}
	for _, w := range whyNames {
		if h.Why&w.why != 0 {
			out.Why = append(out.Why, w.name)
		}
	}
	return out
}

// nearestTraces finds the requests closest to a duration and a moment. One unit
// of distance is a factor of √2 in duration, or a minute (a column, if that is
// longer) in time: traces are kept for each of these. The search widens until
// nothing outside can be closer.
func nearestTraces(ctx context.Context, st store.Store, q store.TraceQuery, filter func(*store.TraceHit) bool, r TracesRequest) ([]store.TraceHit, error) {
	if !(r.At > 0) || math.IsInf(r.At, 0) {
		return nil, Invalid("at", "nearest needs the duration that is meant; write seconds, such as at=0.25")
	}
	if r.Time.IsZero() {
		return nil, Invalid("time", "nearest needs the moment that is meant; write a time, such as time=now-5m")
	}
	step := max(r.Step, time.Duration(series.Base)*time.Second)
	unit := float64(max(step, time.Minute))
	from, to := nanosOf(r.Time), nanosOf(r.Time.Add(step))
	distance := func(h *store.TraceHit) float64 {
		// A request is in the column in which it ends.
		end := h.StartNanos + h.DurationNanos
		d := 2 * math.Abs(math.Log2(max(float64(h.DurationNanos), 1)/(r.At*1e9)))
		t := float64(max(from-end, end-to, 0)) / unit
		return math.Hypot(d, t)
	}
	q.Order = store.Newest
	limit, whole := q.Limit, q
	for reach := 1.0; ; reach *= 2 {
		q = whole
		least, most := r.At*1e9*math.Exp2(-reach/2), r.At*1e9*math.Exp2(reach/2)
		q.MinNanos = max(q.MinNanos, int64(min(least, math.MaxInt64/2)))
		if top := int64(min(most, math.MaxInt64/2)); q.MaxNanos == 0 || top < q.MaxNanos {
			q.MaxNanos = max(top, 1)
		}
		// Started so early that a request of the longest duration ends in reach.
		q.StartNanos = max(q.StartNanos, int64(max(float64(from)-reach*unit-most, 0)))
		q.EndNanos = min(q.EndNanos, int64(min(float64(to)+reach*unit, math.MaxInt64/2)))
		all := q.StartNanos == whole.StartNanos && q.EndNanos == whole.EndNanos && reach > 60
		q.Limit = maxHits
		var hits []store.TraceHit
		if q.StartNanos < q.EndNanos && q.MinNanos <= q.MaxNanos {
			var err error
			if hits, err = st.Traces(ctx, q); err != nil {
				return nil, err
			}
		}
		hits = slices.DeleteFunc(hits, func(h store.TraceHit) bool { return filter != nil && !filter(&h) || !all && distance(&h) > reach })
		if len(hits) < limit && !all && reach < 1e9 {
			continue
		}
		slices.SortStableFunc(hits, func(a, b store.TraceHit) int { return cmp.Compare(distance(&a), distance(&b)) })
		return hits[:min(limit, len(hits))], nil
	}
}
