package sla

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// BenchmarkReport asks for eight weeks of a service with 500 tenants, kept by
// the hour: 1.3 million points of tenants.
func BenchmarkReport(b *testing.B) {
	st := pebble(b)
	end := time.Unix(1_779_062_400, 0).UTC() // a Monday
	const tenants, hours = 500, 8 * 168
	one := hist.New(hist.DefaultSchema)
	for i := range 100 {
		if err := one.Record(0.01 * float64(1+i%60)); err != nil {
			b.Fatal(err)
		}
	}
	data, err := one.AppendBinary(nil)
	if err != nil {
		b.Fatal(err)
	}
	batch := &store.Batch{Writer: "test", Generation: 1, Resolution: series.Hour}
	of := func(view series.View, pairs ...string) {
		l := append(pairs, series.LabelService, checkout, series.LabelKind, "server")
		batch.Series = append(batch.Series, series.Series{Family: series.SpanDuration, View: view, Labels: labels.FromStrings(l...)})
	}
	for _, status := range []string{"ok", "error"} {
		of(series.Total, series.LabelStatus, status)
		of(series.Marginal, series.LabelStatus, status, series.LabelOperation, "GET /")
		for i := range tenants {
			of(series.Full, series.LabelStatus, status, series.LabelOperation, "GET /", series.LabelTenant, fmt.Sprintf("tenant-%d", i))
		}
	}
	for h := range int64(hours) {
		for i := range batch.Series {
			batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: end.Unix() - (hours-h)*3600, Data: data})
		}
	}
	if err := st.Put(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	targets := NewTargets(st)
	r := ReportRequest{Selection: query.Selection{End: end, Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, checkout)}},
		Now: end, Count: 8, Objective: 0.99, Under: 0.5}
	for b.Loop() {
		out, err := Report(b.Context(), st, targets, r)
		if err != nil {
			b.Fatal(err)
		}
		if out.All.Requests != 2*hours*100 || len(out.Notes) > 0 {
			b.Fatalf("%+v %v", out.All, out.Notes)
		}
	}
}
