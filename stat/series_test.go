package stat

import (
	"math"
	"testing"

	"tailscope/hist"
)

// Negative values, zeros and explicit buckets read as hist reads them.
func TestSeriesOfOtherHistograms(t *testing.T) {
	exponential := func(schema int8, values ...float64) *hist.Histogram {
		h := hist.New(schema)
		for _, v := range values {
			if err := h.Record(v); err != nil {
				t.Fatal(err)
			}
		}
		return h
	}
	explicit := func(bounds []float64, values ...float64) *hist.Histogram {
		h, err := hist.NewExplicit(bounds)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if err := h.Record(v); err != nil {
				t.Fatal(err)
			}
		}
		return h
	}
	wide := exponential(5, 0.001, 2)
	if err := wide.SetZeroThreshold(0.25); err != nil {
		t.Fatal(err)
	}
	high := exponential(0, 4000)
	if err := high.SetZeroThreshold(128); err != nil {
		t.Fatal(err)
	}
	for name, slots := range map[string][]*hist.Histogram{
		"negative":        {exponential(5, -4, -3, -1, 0, 0, 2), nil, exponential(5, -2, 8, 9)},
		"coarser later":   {exponential(8, 1, 2, 3), exponential(2, 4, 5), exponential(8, 6)},
		"explicit":        {explicit([]float64{1, 2, 5}, 0.5, 1.5, 9), explicit([]float64{1, 2, 5}, 3, 4, 4)},
		"unequal bounds":  {explicit([]float64{1, 2, 5}, 0.5, 1.5, 9), explicit([]float64{1, 5}, 3, 4, 4)},
		"explicit beside": {explicit([]float64{1, 2, 5}, 1.5, 1.5, 4), exponential(3, 3, 4, 4)},
		"wide zero":       {wide, exponential(5, 0, 1, 3)},
		// The first slot has room for the second below its lowest bucket.
		"below a later zero": {exponential(0, 4000, 1000), exponential(0, 30), high},
		"only zeros":         {exponential(5, 0, 0), exponential(5, 0)},
	} {
		whole := slots[0].Clone()
		for _, h := range slots[1:] {
			if h != nil {
				if err := whole.Merge(h); err != nil {
					t.Fatal(err)
				}
			}
		}
		s, err := NewSeries(slots)
		if err != nil {
			t.Fatal(err)
		}
		if s.Count() != float64(whole.Count) || s.Slots() != len(slots) {
			t.Errorf("%s: %v observations in %d slots, want %d in %d", name, s.Count(), s.Slots(), whole.Count, len(slots))
		}
		sum := 0.0
		for _, v := range s.sum {
			sum += v
		}
		if math.Abs(sum-whole.Sum) > 1e-9 {
			t.Errorf("%s: sum %v, want %v", name, sum, whole.Sum)
		}
		for _, p := range []float64{0.1, 0.3, 0.55, 0.77, 0.95} {
			if got, want := s.quantile(p), whole.Quantile(p); math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
				t.Errorf("%s: quantile %v is %v, want %v", name, p, got, want)
			}
		}
		if s.err != whole.RelativeError() {
			t.Errorf("%s: relative error %v, want %v", name, s.err, whole.RelativeError())
		}
	}
}
