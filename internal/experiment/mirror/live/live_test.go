package live

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/series"
)

// fickle is a sink that returns err.
type fickle struct{ err error }

func (f *fickle) Put(context.Context, []pair.Point) error { return f.err }

func points(at int64, n int, seconds, ratio float64) []pair.Point {
	d, r := hist.New(hist.DefaultSchema), hist.New(hist.DefaultSchema)
	for range n {
		_ = d.Record(seconds)
		_ = r.Record(ratio)
	}
	return []pair.Point{
		{Family: pair.FamilyDuration, Kind: series.Distribution, TimeNanos: at * 1e9, Hist: d, Labels: labels.FromStrings("variant", "candidate", "operation", "GET /")},
		{Family: pair.FamilyRatio, Kind: series.Distribution, TimeNanos: at * 1e9, Hist: r, Labels: labels.FromStrings("variant", "candidate", "against", "control")},
		{Family: pair.FamilyFirstByte, Kind: series.Distribution, TimeNanos: at * 1e9, Hist: d, Labels: labels.FromStrings("variant", "candidate")},
		{Family: pair.FamilyCopies, Kind: series.Counter, TimeNanos: at * 1e9, Value: 3, Labels: labels.FromStrings("variant", "candidate")},
	}
}

func TestWindow(t *testing.T) {
	now := time.Unix(1000, 0)
	next := &fickle{}
	w := New(next, func() time.Time { return now })
	want := func(count uint64) {
		t.Helper()
		f := w.Figures()
		got := uint64(0)
		if h := f.Durations["candidate"]; h != nil {
			got = h.Count
		}
		if got != count || count > 0 && (len(f.Ratios) != 1 || f.Ratios[0].Against != "control" || f.Ratios[0].Hist.Count != count) {
			t.Errorf("%d durations, ratios %+v; want %d of both", got, f.Ratios, count)
		}
	}
	put := func(ps []pair.Point, fails bool) {
		t.Helper()
		next.err = nil
		if fails {
			next.err = errors.New("the server is away")
		}
		if err := w.Put(t.Context(), ps); (err != nil) != fails {
			t.Fatalf("got %v", err)
		}
	}
	want(0)
	put(points(1001, 5, 0.1, 2), false)
	want(5)
	put(points(1003, 7, 0.1, 2), true)
	want(12)
	now = time.Unix(1005, 0)
	put(points(1003, 9, 0.1, 2), true) // the 7, and 2 more
	want(14)
	put(points(1003, 9, 0.1, 2), false)
	want(14)
	f := w.Figures()
	if q := f.Durations["candidate"].Quantile(0.5); math.Abs(q-0.1) > 0.003 {
		t.Errorf("median %v", q)
	}
	if q := f.Ratios[0].Hist.Quantile(0.5); math.Abs(q-2) > 0.05 {
		t.Errorf("ratio %v", q)
	}
	// A long outage: what is too old is not shown when it comes through.
	now = time.Unix(1100, 0)
	want(0)
	put(append(points(1010, 100, 0.1, 2), points(1095, 3, 0.1, 2)...), false)
	want(3)
	now = time.Unix(1109, 0)
	want(3)
	now = time.Unix(1110, 0)
	want(0)
}
