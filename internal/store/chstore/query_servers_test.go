//go:build servers

package chstore

import (
	"fmt"
	"testing"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// TestPackedKeys asks for schemas and for other forms at once: the answer is that of the twin,
// whether the key of a bucket is one number or three.
func TestPackedKeys(t *testing.T) {
	ctx := t.Context()
	s := open(t, on(t, nodes(t, 1)))
	defer func() { check(t, s.Close()) }()
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base}
	put := func(tenant string, data []byte) {
		b.Series = append(b.Series, storetest.Span(series.Full, "service", "shop", "tenant", tenant))
		for slot := range int64(3) {
			b.Points = append(b.Points, store.Point{Series: uint32(len(b.Series) - 1), Slot: storetest.T0 + 10*slot, Data: data})
		}
	}
	put("usual", storetest.Dist(0.1, 0.1001, 3, -2))
	for i := range 3 { // zero thresholds of their own
		h := hist.New(hist.MaxSchema)
		check(t, h.SetZeroThreshold(float64(i+1)/1000))
		for _, v := range []float64{0.0005, 0.1, -2, 70} {
			check(t, h.RecordN(v, uint64(i+1)))
		}
		data, err := h.AppendBinary(nil)
		check(t, err)
		put(fmt.Sprint("other", i), data)
	}
	twin := storetest.NewTwin()
	check(t, s.Put(ctx, b))
	check(t, twin.Put(ctx, b))
	for _, by := range [][]string{nil, {"tenant"}} {
		for _, step := range []int64{0, 10} {
			for _, schema := range []int8{hist.MaxSchema, 3} {
				q := store.Query{Family: series.SpanDuration, View: series.Full, By: by, Start: storetest.T0, End: storetest.T0 + 30, Step: step, Measure: store.Buckets, Schema: schema}
				want, err := twin.Query(ctx, q)
				check(t, err)
				if len(want.Groups) == 0 {
					t.Fatalf("by %v, step %d: no answer", by, step)
				}
				for _, s.packedForms = range []int{defaultPackedForms, 0} {
					got, err := s.Query(ctx, q)
					check(t, err)
					if d := storetest.Diff(got, want); d != "" {
						t.Errorf("by %v, step %d, schema %d, %d packed forms: %s", by, step, schema, s.packedForms, d)
					}
				}
			}
		}
	}
}
