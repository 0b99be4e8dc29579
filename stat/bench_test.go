package stat

import (
	"fmt"
	"testing"

	"tailscope/hist"
)

var percentiles = []float64{0.5, 0.75, 0.9, 0.95, 0.99, 0.999}

func BenchmarkQuantiles(b *testing.B) {
	for _, slots := range []int{360, 1440, 8640} {
		r := source(1)
		x, y := Side{side(r, slots, 50, 0.6, 0.15)}, Side{side(r, slots, 50, 0.6, 0.15)}
		for _, paired := range []bool{false, true} {
			b.Run(fmt.Sprintf("slots=%d/paired=%v", slots, paired), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Quantiles(x, y, percentiles, nil, Options{Paired: paired}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkLikeForLike(b *testing.B) {
	r := source(1)
	var x, y Side
	for range 20 {
		x, y = append(x, side(r, 360, 10, 0, 0.15)), append(y, side(r, 360, 10, 0, 0.15))
	}
	mix, _ := CommonMix(x.Counts(), y.Counts())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Quantiles(x, y, percentiles, mix, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDistribution(b *testing.B) {
	for _, slots := range []int{360, 1440} {
		r := source(1)
		x, y := Side{side(r, slots, 50, 0.6, 0.15)}, Side{side(r, slots, 50, 0.6, 0.15)}
		b.Run(fmt.Sprintf("slots=%d/resamples=1000", slots), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Distribution(x, y, nil, Energy, 1000, 1, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNewSeries(b *testing.B) {
	r := source(1)
	slots := make([]*hist.Histogram, 1440)
	for i := range slots {
		slots[i] = hist.New(hist.DefaultSchema)
		for range 50 {
			if err := slots[i].Record(0.1 + r.ExpFloat64()); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewSeries(slots); err != nil {
			b.Fatal(err)
		}
	}
}
