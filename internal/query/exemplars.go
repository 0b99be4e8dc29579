package query

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// maxExemplars bounds the requests answered for one selector.
const maxExemplars = 1000

// Exemplars returns the requests of kept traces that stand for their buckets
// and that a selector of span_duration_seconds selects, in order of time. A
// request is a span of kind server or consumer and component app. Kept traces
// know no other labels, so a selector that needs one selects none of them, as
// does one of another family. Start and end are inclusive.
func Exemplars(ctx context.Context, st store.Store, ms []*labels.Matcher, start, end time.Time) ([]store.TraceHit, error) {
	q := store.TraceQuery{
		StartNanos: max(nanosOf(start), 0), EndNanos: max(nanosOf(end.Add(time.Nanosecond)), 0),
		Why: store.WhyExemplar, Order: store.Newest, Limit: maxExemplars,
	}
	var known []*labels.Matcher
	for _, m := range ms {
		selects := true
		switch m.Name {
		case labels.MetricName:
			selects = m.Matches(series.SpanDuration)
		case series.LabelComponent:
			selects = m.Matches(series.ComponentApp)
		case series.LabelKind:
			selects = m.Matches("server") || m.Matches("consumer")
		case series.LabelStatus:
			if selects = m.Matches("ok") || m.Matches(statusError); selects {
				known = append(known, m)
			}
		case series.LabelService, series.LabelOperation, series.LabelTenant:
			known = append(known, m)
		default:
			selects = m.Matches("")
		}
		if !selects {
			return nil, nil
		}
	}
	filter, err := traceFilter(&q, known)
	if err != nil {
		return nil, err
	}
	hits, err := filteredTraces(ctx, st, q, filter)
	slices.Reverse(hits)
	return hits, err
}
