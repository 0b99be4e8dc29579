package stat

import (
	"math"
	"math/cmplx"
	"sync"
)

// largestFactor bounds the prime factors of lengths that are transformed factor by factor, which
// takes a time proportional to the length and the sum of its factors. Beyond it a transform by
// way of a longer one takes less.
const largestFactor = 31

// transform is the discrete Fourier transform of real sequences of one length. It has working
// space: a transform is used by one goroutine.
type transform struct {
	*transformPlan
	in, out, space []complex128
}

// transformPlan is what transforms of one length share. It is read only.
type transformPlan struct {
	n     int
	turns []complex128 // exp(−2πik/n) up to n/2, of an even length
	inner complexTransform
}

// complexTransform transforms x, of its length, and may use out and space, of its workingLength, for
// that. The result is valid until the next call and may be in any of them.
type complexTransform interface {
	apply(x, out, space []complex128) []complex128
	workingLength() int
}

// transformPlans are those of the lengths that were used last, as spectra are.
var transformPlans = struct {
	sync.Mutex
	of map[int]*transformPlan
}{of: map[int]*transformPlan{}}

func newTransform(n int) *transform {
	transformPlans.Lock()
	p := transformPlans.of[n]
	transformPlans.Unlock()
	if p == nil {
		p = makeTransformPlan(n)
		transformPlans.Lock()
		if len(transformPlans.of) >= mostSpectra {
			clear(transformPlans.of)
		}
		transformPlans.of[n] = p
		transformPlans.Unlock()
	}
	long := p.inner.workingLength()
	return &transform{p, make([]complex128, long), make([]complex128, long), make([]complex128, long)}
}

// makeTransformPlan plans a transform of n real values: those of an even length are half as many complex ones.
func makeTransformPlan(n int) *transformPlan {
	p := &transformPlan{n: n}
	m := n
	if n%2 == 0 {
		m = n / 2
		p.turns = turnsOf(n)[:m+1]
	}
	if primeFactor(m) <= largestFactor {
		p.inner = newFactored(m)
	} else {
		p.inner = newChirp(m)
	}
	return p
}

// turnsOf returns exp(−2πik/n) by k.
func turnsOf(n int) []complex128 {
	out := make([]complex128, n)
	for k := range out {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(n))
		out[k] = complex(cos, -sin)
	}
	return out
}

// coefficients returns the first half of the coefficients of x, that of frequency 0 first. The
// result is valid until the next call.
func (t *transform) coefficients(x []float64) []complex128 {
	if t.turns == nil {
		in := t.in[:t.n]
		for i, v := range x {
			in[i] = complex(v, 0)
		}
		return t.inner.apply(in, t.out, t.space)[:t.n/2+1]
	}
	half := t.n / 2
	in := t.in[:half]
	for i := range in {
		in[i] = complex(x[2*i], x[2*i+1])
	}
	z := t.inner.apply(in, t.out, t.space)[:half]
	to := t.out
	if &z[0] == &to[0] {
		to = t.space
	}
	return t.split(z, to[:half+1])
}

// split sets out to the coefficients of a sequence of which z transforms the even places and, as
// imaginary parts, the odd ones.
func (t *transform) split(z, out []complex128) []complex128 {
	half := len(z)
	for k := range out {
		a, b := z[k%half], cmplx.Conj(z[(half-k)%half])
		even, odd := (a+b)/2, (a-b)/2
		w := t.turns[k]
		odd = complex(imag(odd), -real(odd)) // over i
		out[k] = even + w*odd
	}
	return out
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

// factored transforms a complex sequence factor by factor, in order of its factors (Stockham 1966,
// AFIPS 28).
type factored struct {
	n       int
	factors []int
	turns   []complex128 // exp(−2πik/n)
}

func newFactored(n int) *factored {
	f := &factored{n: n, turns: turnsOf(n)}
	rest := n
	for _, p := range []int{4, 2, 3, 5} {
		for ; rest%p == 0; rest /= p {
			f.factors = append(f.factors, p)
		}
	}
	for p := 7; rest > 1; p += 2 {
		for ; rest%p == 0; rest /= p {
			f.factors = append(f.factors, p)
		}
	}
	return f
}

// workingLength is one more than the length, for what split makes of it.
func (f *factored) workingLength() int { return f.n + 1 }

func (f *factored) apply(x, out, space []complex128) []complex128 {
	x, y := x[:f.n], out[:f.n]
	rest, done := f.n, 1
	for i, p := range f.factors {
		rest /= p
		switch p {
		case 2:
			f.by2(x, y, rest, done)
		case 3:
			f.by3(x, y, rest, done)
		case 4:
			f.by4(x, y, rest, done)
		case 5:
			f.by5(x, y, rest, done)
		default:
			f.by(p, x, y, rest, done)
		}
		done *= p
		if x, y = y, x; i == 0 {
			y = space[:f.n] // x is then only read
		}
	}
	return x
}

func (f *factored) by2(x, y []complex128, m, s int) {
	for p := range m {
		w := f.turns[p*s]
		a, b := x[s*p:][:s], x[s*(p+m):][:s]
		y0, y1 := y[s*2*p:][:s], y[s*(2*p+1):][:s]
		for q := range a {
			u, v := a[q], b[q]
			y0[q], y1[q] = u+v, (u-v)*w
		}
	}
}

func (f *factored) by3(x, y []complex128, m, s int) {
	sin := math.Sqrt(3) / 2
	for p := range m {
		w1, w2 := f.turns[p*s], f.turns[2*p*s]
		a, b, c := x[s*p:][:s], x[s*(p+m):][:s], x[s*(p+2*m):][:s]
		y0, y1, y2 := y[s*3*p:][:s], y[s*(3*p+1):][:s], y[s*(3*p+2):][:s]
		for q := range a {
			u, sum, d := a[q], b[q]+c[q], b[q]-c[q]
			mid := complex(real(u)-real(sum)/2, imag(u)-imag(sum)/2)
			turned := complex(imag(d)*sin, -real(d)*sin)
			y0[q], y1[q], y2[q] = u+sum, (mid+turned)*w1, (mid-turned)*w2
		}
	}
}

func (f *factored) by4(x, y []complex128, m, s int) {
	for p := range m {
		w1, w2, w3 := f.turns[p*s], f.turns[2*p*s], f.turns[3*p*s]
		a, b, c, d := x[s*p:][:s], x[s*(p+m):][:s], x[s*(p+2*m):][:s], x[s*(p+3*m):][:s]
		y0, y1, y2, y3 := y[s*4*p:][:s], y[s*(4*p+1):][:s], y[s*(4*p+2):][:s], y[s*(4*p+3):][:s]
		for q := range a {
			t0, t1, t2, t3 := a[q]+c[q], a[q]-c[q], b[q]+d[q], b[q]-d[q]
			t3 = complex(imag(t3), -real(t3))
			y0[q], y1[q], y2[q], y3[q] = t0+t2, (t1+t3)*w1, (t0-t2)*w2, (t1-t3)*w3
		}
	}
}

func (f *factored) by5(x, y []complex128, m, s int) {
	sin1, cos1 := math.Sincos(2 * math.Pi / 5)
	sin2, cos2 := math.Sincos(4 * math.Pi / 5)
	for p := range m {
		w1, w2, w3, w4 := f.turns[p*s], f.turns[2*p*s], f.turns[3*p*s], f.turns[4*p*s]
		a, b, c, d, e := x[s*p:][:s], x[s*(p+m):][:s], x[s*(p+2*m):][:s], x[s*(p+3*m):][:s], x[s*(p+4*m):][:s]
		y0, y1, y2, y3, y4 := y[s*5*p:][:s], y[s*(5*p+1):][:s], y[s*(5*p+2):][:s], y[s*(5*p+3):][:s], y[s*(5*p+4):][:s]
		for q := range a {
			u, b4, b3, d4, d3 := a[q], b[q]+e[q], c[q]+d[q], b[q]-e[q], c[q]-d[q]
			m1 := complex(real(u)+cos1*real(b4)+cos2*real(b3), imag(u)+cos1*imag(b4)+cos2*imag(b3))
			m2 := complex(real(u)+cos2*real(b4)+cos1*real(b3), imag(u)+cos2*imag(b4)+cos1*imag(b3))
			t1 := complex(sin1*imag(d4)+sin2*imag(d3), -sin1*real(d4)-sin2*real(d3))
			t2 := complex(sin2*imag(d4)-sin1*imag(d3), -sin2*real(d4)+sin1*real(d3))
			y0[q], y1[q], y2[q], y3[q], y4[q] = u+b4+b3, (m1+t1)*w1, (m2+t2)*w2, (m2-t2)*w3, (m1-t1)*w4
		}
	}
}

// by divides by any factor.
func (f *factored) by(r int, x, y []complex128, m, s int) {
	for p := range m {
		for j := range r {
			w := f.turns[j*p*s]
			for q := range s {
				sum := complex128(0)
				for k := range r {
					sum += x[q+s*(p+k*m)] * f.turns[j*k%r*(f.n/r)]
				}
				y[q+s*(r*p+j)] = sum * w
			}
		}
	}
}

// chirp transforms a sequence of any length as a convolution, which takes two transforms of a
// convenient length, at least twice as long (Bluestein 1970, IEEE Trans. Audio Electroacoust. 18).
type chirp struct {
	n, long int
	fft     *factored
	turn    []complex128 // exp(−iπj²/n)
	kernel  []complex128 // the transform of the conjugate of turn, around 0, over its length
}

func newChirp(n int) *chirp {
	long := 2*n - 1
	for primeFactor(long) > 5 {
		long++
	}
	c := &chirp{n: n, long: long, fft: newFactored(long), turn: make([]complex128, n)}
	around := make([]complex128, long)
	scale := complex(1/float64(long), 0)
	for j := range n {
		sin, cos := math.Sincos(math.Pi * float64(j*j%(2*n)) / float64(n))
		c.turn[j] = complex(cos, -sin)
		around[j] = complex(cos, sin) * scale
		around[(long-j)%long] = around[j]
	}
	c.kernel = c.fft.apply(around, make([]complex128, long), make([]complex128, long))
	return c
}

func (c *chirp) workingLength() int { return c.long }

func (c *chirp) apply(x, out, space []complex128) []complex128 {
	x = x[:c.long]
	for j, turn := range c.turn {
		x[j] *= turn
	}
	clear(x[c.n:])
	// The inverse transform is the conjugate of the transform of the conjugate.
	product := c.fft.apply(x, out, space)
	for j, k := range c.kernel {
		product[j] = cmplx.Conj(product[j] * k)
	}
	// Of the three one is not the product, and is only read from then on.
	free := [][]complex128{x, out, space}
	for i, f := range free {
		if &f[0] == &product[0] {
			free[i] = free[0]
			break
		}
	}
	back := c.fft.apply(product, free[1], free[2])[:c.n]
	for j, turn := range c.turn {
		back[j] = cmplx.Conj(back[j]) * turn
	}
	return back
}
