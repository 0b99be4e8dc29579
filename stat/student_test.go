package stat

import (
	"math"
	"testing"
)

func TestCriticalAbout(t *testing.T) {
	for _, df := range []float64{2, 5, 6, 8, 12, 20, 50, 200, 1e4, 1e9} {
		for _, p := range []float64{1e-6, 1e-4, 1e-3, 0.005, 0.025, 0.1, 0.2, 0.45} {
			got, want := criticalAbout(p, df), critical(p, df)
			if math.Abs(got/want-1) > 0.005 {
				t.Errorf("criticalAbout(%v, %v) = %v, want %v", p, df, got, want)
			}
		}
	}
}

func BenchmarkCritical(b *testing.B) {
	for name, f := range map[string]func(p, df float64) float64{"exact": critical, "about": criticalAbout} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f(0.025, 17)
			}
		})
	}
}
