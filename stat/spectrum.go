package stat

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

// Autocorrelations and shares of persistent variance among which the spectrum
// is averaged. Beyond 0.97 an hour of slots cannot tell persistence from a
// trend.
var (
	persistence = [...]float64{0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.86, 0.9, 0.93, 0.95, 0.97}
	signal      = [...]float64{0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1}
)

const (
	// How much of the power at frequency 0 the cosines may miss on average, as
	// the fitted spectrum falls: it is put back. More cosines mean more degrees
	// of freedom and more reliance on the fit; measured, see the calibration in
	// benchmarks/results.
	spectralDrop = 0.3
	minCosines   = 8
	maxCosines   = 80
	// independent is the prior probability of no dependence at all.
	independent = 0.5
)

// spectrum knows, for sequences of one length, how the power of a first-order
// autoregression under noise lies over the frequencies πj/T, j = 1…T−1.
type spectrum struct {
	slots int
	fft   *fourier.FFT
	edges []int // bin b covers j in [edges[b], edges[b+1])
	shape []model
	other *spectrum // for the other side's length, once asked for
}

// model is one shape, of unit variance.
type model struct {
	prior  float64
	power  []float64 // mean over each bin
	logs   float64   // Σ over frequencies of ln(power of the bin)
	zero   float64   // power at frequency 0
	lowest []float64 // mean over the first K frequencies, by K−1
}

func newSpectrum(slots int) *spectrum {
	s := &spectrum{slots: slots, fft: fourier.NewFFT(max(1, slots)), edges: []int{1}}
	for e := 1; e < slots; {
		e = min(slots, e+max(1, e*3/20))
		s.edges = append(s.edges, e)
	}
	if slots < 2 {
		return s
	}
	cosines := make([]float64, slots)
	for j := range cosines {
		cosines[j] = math.Cos(math.Pi * float64(j) / float64(slots))
	}
	each := (1 - independent) / float64(len(persistence)*len(signal))
	s.shape = append(s.shape, s.model(0, 0, independent, cosines))
	for _, phi := range persistence {
		for _, share := range signal {
			s.shape = append(s.shape, s.model(phi, share, each, cosines))
		}
	}
	return s
}

func (s *spectrum) model(phi, share, prior float64, cosines []float64) model {
	at := func(j int) float64 { return 1 - share + share*(1-phi*phi)/(1-2*phi*cosines[j]+phi*phi) }
	m := model{prior: math.Log(prior), zero: 1 - share + share*(1+phi)/(1-phi)}
	for b := 0; b+1 < len(s.edges); b++ {
		sum := 0.0
		for j := s.edges[b]; j < s.edges[b+1]; j++ {
			sum += at(j)
		}
		n := float64(s.edges[b+1] - s.edges[b])
		m.power = append(m.power, sum/n)
		m.logs += n * math.Log(sum/n)
	}
	sum := 0.0
	for k := 1; k <= min(maxCosines, s.slots-1); k++ {
		sum += at(k)
		m.lowest = append(m.lowest, sum/float64(k))
	}
	return m
}

// cosines returns the orthonormal cosine transform of z (type II; Makhoul,
// 1980, IEEE Trans. ASSP 28), z_t = Σ_j c_j cos(πj(t+½)/T)·√(2/T): element 0
// is √T times the mean.
func (s *spectrum) cosines(z []float64) []float64 {
	n := len(z)
	v := make([]float64, n)
	for t := range z {
		if t%2 == 0 {
			v[t/2] = z[t]
		} else {
			v[n-1-t/2] = z[t]
		}
	}
	f := s.fft.Coefficients(nil, v)
	scale := math.Sqrt(2 / float64(n))
	for j := range v {
		sin, cos := math.Sincos(math.Pi * float64(j) / float64(2*n))
		c := f[min(j, n-j)]
		re, im := real(c), imag(c)
		if j > n-j {
			im = -im
		}
		v[j] = scale * (re*cos + im*sin)
	}
	if n > 0 {
		v[0] /= math.Sqrt2
	}
	return v
}

// fit is what the periodograms of one figure say of its dependence.
type fit struct {
	cosines int
	// missing is the factor by which the mean power of the first cosines is
	// below that at frequency 0.
	missing float64
	// dependence is the power at frequency 0 in units of the variance.
	dependence float64
	weight     []float64 // of each model: its posterior probability
}

// fit averages the models by their Whittle likelihood; transforms are of
// sequences thought to depend alike, each in its own unit.
func (s *spectrum) fit(transforms ...[]float64) fit {
	bins := len(s.edges) - 1
	power := make([]float64, bins)
	used := 0.0
	for _, c := range transforms {
		whole := 0.0
		for _, v := range c[1:] {
			whole += v * v
		}
		if !(whole > 0) {
			continue
		}
		used++
		for b := range bins {
			sum := 0.0
			for _, v := range c[s.edges[b]:s.edges[b+1]] {
				sum += v * v
			}
			power[b] += sum / whole
		}
	}
	f := fit{cosines: min(minCosines, s.slots-1), missing: 1, dependence: 1}
	if used == 0 {
		return f
	}
	n := used * float64(s.slots-1)
	weight := make([]float64, len(s.shape))
	top := math.Inf(-1)
	for i := range s.shape {
		m := &s.shape[i]
		q := 0.0
		for b, p := range power {
			q += p / m.power[b]
		}
		weight[i] = m.prior - 0.5*(n*math.Log(q)+used*m.logs)
		top = max(top, weight[i])
	}
	sum := 0.0
	for i := range weight {
		weight[i] = math.Exp(weight[i] - top)
		sum += weight[i]
	}
	f.dependence = 0
	low := make([]float64, min(maxCosines, s.slots-1))
	for i := range weight {
		weight[i] /= sum
		m := &s.shape[i]
		f.dependence += weight[i] * m.zero
		if weight[i] < 1e-4 {
			continue
		}
		for k := range low {
			low[k] += weight[i] * m.lowest[k] / m.zero
		}
	}
	f.weight = weight
	for f.cosines < len(low) && f.cosines < s.slots/3 && low[f.cosines] >= 1-spectralDrop {
		f.cosines++
	}
	if f.cosines > 0 {
		f.missing = 1 / max(0.4, min(1, low[f.cosines-1]))
	}
	return f
}

// covariance is the long-run covariance of Σx and Σy from their transforms: the
// mean product of the first cosines, what they miss restored.
func (f fit) covariance(x, y []float64) float64 {
	sum := 0.0
	for j := 1; j <= f.cosines; j++ {
		sum += x[j] * y[j]
	}
	return sum / float64(f.cosines) * float64(len(x)) * f.missing
}
