package query

import (
	"context"
	"fmt"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// fewerThan is the share of requests whose breakdown may be missing before the
// answer says so: spans that came late, and traces on the edge of a step, are a
// few at any time.
const fewerThan = 0.98

// coverage says how many of the service's requests the breakdown is of, where it
// is noticeably fewer than its own spans count: a crash loses the breakdown of
// the traces that were open, and memory or a missing trace id leave spans out.
// Steps that are too fresh to be whole are passed over. It is empty where all is
// well, and for a cohort, by which spans are not kept.
func (b *breakdown) coverage(ctx context.Context) (string, error) {
	if named(b.r.Matchers, series.LabelCohort) {
		return "", nil
	}
	view, ok := ViewOf(series.SpanDuration, append(matcherNames(b.r.Matchers), series.LabelKind)...)
	if !ok {
		return "", nil
	}
	res, err := b.st.Query(ctx, store.Query{
		Family: series.SpanDuration, View: view, Matchers: b.r.Matchers, Start: b.q.Start, End: b.q.End, Step: b.q.Step,
		By: []string{series.LabelKind}, Measure: store.Moments, Schema: hist.DefaultSchema,
	})
	if err != nil {
		return "", err
	}
	complete := b.q.End
	if !b.r.Now.IsZero() {
		complete = min(complete, b.r.Now.Add(-assembled).Unix())
	}
	whole := func(i int) bool { return b.q.Start+int64(i+1)*b.q.Step <= complete }
	var seen, broken uint64
	for _, g := range res.Groups {
		if !isRequest(g) {
			continue
		}
		for _, p := range g.Points {
			if i := b.step(p.Start); i >= 0 && whole(i) && p.Hist != nil {
				seen += p.Hist.Count
			}
		}
	}
	for i, n := range b.out.Requests {
		if whole(i) {
			broken += n
		}
	}
	if seen == 0 || float64(broken) >= fewerThan*float64(seen) {
		return "", nil
	}
	return fmt.Sprintf("of %d requests %d were broken down; the others' traces were open when the server was killed, came without trace ids, or found no room (see tailscope_trace_* in /metrics)", seen, broken), nil
}
