package stat

import (
	"math/cmplx"
	"math/rand/v2"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/dsp/fourier"
)

// Lengths with a large prime factor have the coefficients that a transform of their own has.
func TestTransformOfAnyLength(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 29, 37, 105, 163, 720, 1009, 1079, 1435, 1440, 2 * 1087} {
		own, plain := newTransform(n), fourier.NewFFT(n)
		if _, chirped := own.inner.(*chirp); chirped != (primeFactor(n) > largestFactor) {
			t.Errorf("%d slots: by way of a longer transform %v, largest prime factor %d", n, chirped, primeFactor(n))
		}
		for range 2 { // the working space is used again
			x := make([]float64, n)
			for i := range x {
				x[i] = r.NormFloat64()
			}
			want := plain.Coefficients(nil, x)
			got := own.coefficients(x)
			if len(got) != len(want) {
				t.Fatalf("%d slots: %d coefficients, want %d", n, len(got), len(want))
			}
			for j := range want {
				if cmplx.Abs(got[j]-want[j]) > 1e-10*float64(n) {
					t.Errorf("%d slots: coefficient %d is %v, want %v", n, j, got[j], want[j])
				}
			}
		}
	}
}

func TestPrimeFactor(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 2, 8: 2, 1440: 5, 1079: 83, 1087: 1087, 1078: 11} {
		if got := primeFactor(n); got != want {
			t.Errorf("largest prime factor of %d is %d, want %d", n, got, want)
		}
	}
}

// BenchmarkTransform has 1,440 slots, the windows in which changes are searched, and others of
// about that length with large prime factors.
func BenchmarkTransform(b *testing.B) {
	for _, n := range []int{1440, 1079, 1087, 1432} {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(i % 7)
		}
		own, plain := newTransform(n), fourier.NewFFT(n)
		b.Run("own/"+strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				own.coefficients(x)
			}
		})
		b.Run("plain/"+strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				plain.Coefficients(nil, x)
			}
		})
	}
}
