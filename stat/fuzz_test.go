package stat

import (
	"math"
	"testing"
)

// Whatever the counts, answers are finite or said to be short, and agree with
// themselves.
func FuzzChange(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8}, uint8(50), false, false)
	f.Add([]byte{0, 0, 255, 0, 0, 1}, uint8(99), true, true)
	f.Fuzz(func(t *testing.T, data []byte, percentile uint8, paired, live bool) {
		const buckets = 4
		draw := func(from int) *Series {
			counts := make([][]float64, 30)
			for i := range counts {
				counts[i] = make([]float64, buckets)
				for k := range buckets {
					if len(data) > 0 {
						counts[i][k] = float64(data[(from+i*buckets+k*k)%len(data)])
					}
				}
			}
			s, err := NewSeriesOfCounts([]float64{-1, 0, 0.5, 2, math.Inf(1)}, counts, nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		a, b := Side{draw(0)}, Side{draw(3)}
		o := Options{Paired: paired}
		if live {
			o.Live = &Live{Slots: 30}
		}
		p := float64(1+percentile%99) / 100
		c, err := Quantile(a, b, p, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		share, err := Shares([]Tally{Apdex(a[0], 0.4)}, []Tally{Apdex(b[0], 0.4)}, nil, Difference, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []Change{c, share} {
			if c.Short == "" && (math.IsNaN(c.Effect) || !c.CI.Contains(c.Effect) || math.IsNaN(c.SE)) || math.IsNaN(c.CI.Low) || math.IsNaN(c.CI.High) || !(c.P >= 0 && c.P <= 1) {
				t.Fatalf("%+v", c)
			}
			if v := c.Verdict(0.05); (v == More && c.Effect <= 0) || (v == Less && c.Effect >= 0) {
				t.Fatalf("%v of %+v", v, c)
			}
		}
		if w, err := Distribution(a, b, nil, AndersonDarling, 5, 1, o); err != nil || !(w.P > 0 && w.P <= 1) || w.Short == "" && !(w.Distance >= 0) {
			t.Fatalf("%+v, %v", w, err)
		}
	})
}
