package query

import (
	"context"
	"time"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// First returns the start of the first slot that has spans, Unix seconds; nil without any. The
// range is widened to whole slots of ten minutes, of which one is read in shorter slots.
func First(ctx context.Context, st store.Store, start, end time.Time) (*int64, error) {
	var first *int64
	from, to := align(start, end, int64(series.TenMin))
	for _, step := range []int64{int64(series.TenMin), int64(series.Base)} {
		res, err := st.Query(ctx, store.Query{Family: series.SpanDuration, View: series.Total, Measure: store.Moments, Schema: hist.DefaultSchema, Start: from, End: to, Step: step})
		if err != nil {
			return nil, err
		}
		if len(res.Groups) == 0 || len(res.Groups[0].Points) == 0 {
			return first, nil
		}
		first = &res.Groups[0].Points[0].Start
		from, to = *first, *first+step
	}
	return first, nil
}
