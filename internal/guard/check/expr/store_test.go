package expr_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/history"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

// TestOnStore evaluates over what a store holds: Bischeck's examples, and the
// distributions of an hour.
func TestOnStore(t *testing.T) {
	st, err := pebblestore.Open(t.Context(), pebblestore.Options{Dir: "data", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: 10, Families: []store.FamilyInfo{{Name: expr.ValueFamily, Kind: series.Gauge}, {Name: "d_seconds", Kind: series.Distribution}}}
	examples := expr.BischeckOnStore(func(l labels.Labels, samples []expr.Sample) {
		s := store.Samples{Series: uint32(len(b.Series))}
		for i := len(samples) - 1; i >= 0; i-- {
			s.Samples = append(s.Samples, series.Sample{TimeMillis: samples[i].Time.UnixMilli(), Value: samples[i].Value})
		}
		b.Series = append(b.Series, series.Series{Family: expr.ValueFamily, Kind: series.Gauge, Labels: l.DropReserved(func(n string) bool { return n == labels.MetricName })})
		b.Samples = append(b.Samples, s)
	})
	// 1 … 720 once in each slot of two hours; the last hour is 361 … 720.
	d := uint32(len(b.Series))
	b.Series = append(b.Series, series.Series{Family: "d_seconds", Kind: series.Distribution, Labels: labels.FromStrings("service", "shop")})
	for i := range 720 {
		h := hist.New(hist.DefaultSchema)
		if err := h.Record(float64(i + 1)); err != nil {
			t.Fatal(err)
		}
		data, err := h.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		b.Points = append(b.Points, store.Point{Series: d, Slot: expr.Now.Unix() - 7200 + int64(i)*10, Data: data})
	}
	if err := st.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if len(examples) < 24 {
		t.Errorf("only %d examples", len(examples))
	}
	examples = append(examples, [][2]string{
		{`count(d_seconds[-60M:-0M])`, "360"},
		{`sum(d_seconds{service="shop"}[-60M:-0M])`, "194580"},
		{`min(d_seconds[-60M:-0M])`, "361"},
		{`max(d_seconds[-60M:-0M])`, "720"},
		{`p0(d_seconds[-60M:-0M])`, "361"},
		{`abs(p50(d_seconds[-60M:-0M]) / 540 - 1) < 0.022`, "1"},
		{`abs(above(d_seconds[-60M:-0M], 540) - 0.5) < 0.022`, "1"},
		{`count(d_seconds[0:END]) >= 360`, "1"},
		{`p99(d_seconds{service="bank"}[-60M:-0M])`, "null"},
	}...)
	h := history.New(history.Options{Cache: history.NewCache(st, history.CacheOptions{}), Now: func() time.Time { return expr.Now }}).For(history.ForOptions{})
	for _, c := range examples {
		p, err := expr.Parse(c[0], expr.Options{})
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		r, err := p.Eval(t.Context(), h, expr.Now, expr.EvalOptions{})
		got := "null"
		if !r.Null {
			got = expr.FormatNumber(r.Value)
		}
		if err != nil || got != c[1] {
			t.Errorf("%s: got %s, %v, want %s", c[0], got, err, c[1])
		}
	}
}
