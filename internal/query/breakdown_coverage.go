package query

import (
	"context"
	"fmt"
	"math"
	"strings"

	"tailscope/hist"
	"tailscope/internal/figure"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// fewerThan is the share of requests whose breakdown may be missing before the
// answer says so: spans that came late, and traces on the edge of a step, are a
// few at any time.
const fewerThan = 0.98

// coverage says how many of the service's requests the breakdown is of, where it
// is noticeably fewer than its own spans count: a crash loses the breakdown of
// the traces that were open, and a missing trace id leaves spans out. It says so too where
// some were broken down for all. Steps that are too fresh to be whole are passed over. It is
// empty where all is well.
func (b *breakdown) coverage(ctx context.Context) (string, error) {
	matchers := without(b.r.Matchers, series.LabelCohort) // by which spans are not kept
	view, ok := ViewOf(series.SpanDuration, append(matcherNames(matchers), series.LabelKind)...)
	if !ok {
		return "", nil
	}
	res, err := b.st.Query(ctx, store.Query{
		Family: series.SpanDuration, View: view, Matchers: matchers, Start: b.q.Start, End: b.q.End, Step: b.q.Step,
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
	spans := make([]hist.Moment, b.n)
	for _, g := range res.Groups {
		if !isRequest(g) {
			continue
		}
		for _, p := range g.Points {
			if i := b.step(p.Start); i >= 0 && whole(i) && p.Hist != nil {
				spans[i].Merge(p.Hist.Moment())
			}
		}
	}
	var seen, counted uint64
	var broken, variance float64 // requests broken down, and the variance of counted
	for i, n := range b.out.Requests {
		if !whole(i) {
			continue
		}
		seen, counted = seen+spans[i].Count, counted+n
		if n == 0 {
			continue
		}
		sent := 1.0 // weight of a span, as its sender sampled it
		if spans[i].Count > 0 {
			sent = spans[i].SquaredWeights() / float64(spans[i].Count)
		}
		weight := max(b.squares[i]/float64(n), sent)
		broken += float64(n) * sent / weight
		variance += float64(n) * (weight - sent)
	}
	var notes []string
	if oneIn := float64(counted) / broken; oneIn*fewerThan > 1 {
		notes = append(notes, fmt.Sprintf("about 1 in %s requests was broken down and counts for the others, chosen by trace id, because memory for traces was short; raise traces.memory or limits.memory to have all", figure.TwoDigits(oneIn)))
	}
	if !named(b.r.Matchers, series.LabelCohort) && float64(counted)+3*math.Sqrt(variance) < fewerThan*float64(seen) {
		notes = append(notes, fmt.Sprintf("of %s requests %s were broken down; the others' traces were open when the server was killed, came without trace ids, or found no room (see tailscope_trace_* in /metrics)", figure.Thousands(seen), figure.Thousands(counted)))
	}
	return strings.Join(notes, "; "), nil
}
