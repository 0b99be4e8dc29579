package stat

import (
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"
)

// largestFactor bounds the prime factors of lengths that are transformed factor by factor, which
// takes a time proportional to the length and the sum of its factors. Beyond it a transform by
// way of a longer one takes less: of 1,087 slots, a prime, a fifth.
const largestFactor = 160

// transform is the discrete Fourier transform of real sequences of one length. It has working
// space: a transform is used by one goroutine.
type transform struct {
	plain *fourier.FFT // nil where the length has a large prime factor
	chirp *chirp
}

func newTransform(n int) *transform {
	if primeFactor(n) <= largestFactor {
		return &transform{plain: fourier.NewFFT(n)}
	}
	return &transform{chirp: newChirp(n)}
}

// coefficients returns the first half of the coefficients of x, that of frequency 0 first. The
// result is valid until the next call.
func (t *transform) coefficients(x []float64) []complex128 {
	if t.plain != nil {
		return t.plain.Coefficients(nil, x)
	}
	return t.chirp.coefficients(x)
}

// primeFactor returns the largest prime factor of n, 1 of 1.
func primeFactor(n int) int {
	largest := 1
	for p := 2; p*p <= n; p++ {
		for n%p == 0 {
			largest, n = p, n/p
		}
	}
	return max(largest, n)
}

// chirp transforms a sequence of any length as a convolution, which takes two transforms of a
// convenient length, at least twice as long (Bluestein 1970, IEEE Trans. Audio Electroacoust. 18).
type chirp struct {
	n       int
	fft     *fourier.CmplxFFT
	turn    []complex128 // exp(−iπj²/n)
	kernel  []complex128 // the transform of the conjugate of turn, around 0, over its length
	product []complex128
}

func newChirp(n int) *chirp {
	long := 2*n - 1
	for primeFactor(long) > 5 {
		long++
	}
	c := &chirp{n: n, fft: fourier.NewCmplxFFT(long), turn: make([]complex128, n), product: make([]complex128, long)}
	around := make([]complex128, long)
	scale := complex(1/float64(long), 0)
	for j := range n {
		sin, cos := math.Sincos(math.Pi * float64(j*j%(2*n)) / float64(n))
		c.turn[j] = complex(cos, -sin)
		around[j] = complex(cos, sin) * scale
		around[(long-j)%long] = around[j]
	}
	c.kernel = c.fft.Coefficients(nil, around)
	return c
}

func (c *chirp) coefficients(x []float64) []complex128 {
	clear(c.product)
	for j, v := range x {
		c.product[j] = complex(v, 0) * c.turn[j]
	}
	c.fft.Coefficients(c.product, c.product)
	// The inverse transform is the conjugate of the transform of the conjugate.
	for j, k := range c.kernel {
		c.product[j] = cmplx.Conj(c.product[j] * k)
	}
	c.fft.Coefficients(c.product, c.product)
	out := c.product[:c.n/2+1]
	for j := range out {
		out[j] = cmplx.Conj(out[j]) * c.turn[j]
	}
	return out
}
