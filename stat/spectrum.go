package stat

import (
	"math"
	"sync"
)

// persistence and signal are the autocorrelations, and shares of persistent variance,
// among which the spectrum is averaged. Beyond 0.97 an hour of slots cannot distinguish
// persistence from a trend.
var (
	persistence = [...]float64{0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.86, 0.9, 0.93, 0.95, 0.97}
	signal      = [...]float64{0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1}
)

const (
	// spectralDrop bounds how much of the power at frequency 0 the cosines may miss on
	// average, as the fitted spectrum falls: it is restored. More cosines mean more
	// degrees of freedom and more reliance on the fit; measured, see the calibration in
	// benchmarks/results.
	spectralDrop = 0.3
	minCosines   = 8
	// leastShare bounds the power that is restored.
	leastShare = 0.1
	maxCosines = 80
	// independent is the prior probability of no dependence at all.
	independent = 0.5
)

// spectrum holds, for sequences of one length, the power of a first-order autoregression
// under noise by frequency πj/T, j = 1…T−1. Models are of unit variance; number 0 is
// independence, then come all signals for each persistence. All but fft and other is
// shared and read only. A spectrum is used by one goroutine.
type spectrum struct {
	slots int
	fft   *transform
	turn  []complex128 // exp(−iπj/2T)·√(2/T), by j
	edges []int        // bin b covers j in [edges[b], edges[b+1])
	power [][]float64  // model, bin: mean
	logs  []float64    // model: Σ over frequencies of ln(power of the bin)
	low   [][]float64  // persistence, K−1: mean of the autoregression's first K
	other *spectrum    // for the other side's length, once it was used

	// slow and long are spectra of other models, without a transform; see slowly and remembering.
	slow, long func() *spectrum
}

// spectra are those of the lengths that were used last: many series of a comparison have
// one length, and making a spectrum takes as long as using it some ten times.
var spectra = struct {
	sync.Mutex
	of map[int]*spectrum
}{of: map[int]*spectrum{}}

// mostSpectra bounds those that are kept, some 300 kB each for a day of slots.
const mostSpectra = 32

// newSpectrum returns the spectrum for sequences of this length.
func newSpectrum(slots int) *spectrum {
	spectra.Lock()
	s := spectra.of[slots]
	spectra.Unlock()
	if s == nil {
		s = makeSpectrum(slots)
		spectra.Lock()
		if len(spectra.of) >= mostSpectra {
			clear(spectra.of)
		}
		spectra.of[slots] = s
		spectra.Unlock()
	}
	own := *s
	own.fft = newTransform(max(1, slots)) // has working space
	return &own
}

func makeSpectrum(slots int) *spectrum {
	s := &spectrum{slots: slots, edges: []int{1}, turn: make([]complex128, slots)}
	for j := range s.turn {
		sin, cos := math.Sincos(math.Pi * float64(j) / float64(2*slots))
		s.turn[j] = complex(cos, -sin) * complex(math.Sqrt(2/float64(slots)), 0)
	}
	for e := 1; e < slots; {
		e = min(slots, e+max(1, e*3/20))
		s.edges = append(s.edges, e)
	}
	white := make([]float64, len(s.edges)-1)
	for b := range white {
		white[b] = 1
	}
	s.power, s.logs = append(s.power, white), append(s.logs, 0)
	for _, phi := range persistence {
		at := s.autoregression(phi)
		s.add(signal[:], at)
		low := make([]float64, min(maxCosines, max(0, slots-1)))
		sum := 0.0
		for k := range low {
			sum += at(float64(k + 1))
			low[k] = sum / float64(k+1)
		}
		s.low = append(s.low, low)
	}
	s.slow, s.long = sync.OnceValue(s.slowly), sync.OnceValue(s.remembering)
	return s
}

// autoregression returns the power of a first-order autoregression by frequency.
func (s *spectrum) autoregression(phi float64) func(j float64) float64 {
	return func(j float64) float64 {
		return (1 - phi*phi) / (1 - 2*phi*math.Cos(math.Pi*j/float64(s.slots)) + phi*phi)
	}
}

// add adds a model for each share of the variance that has this power by frequency, under
// noise.
func (s *spectrum) add(shares []float64, at func(j float64) float64) {
	mean := make([]float64, len(s.edges)-1)
	for b := range mean {
		// Where a bin is wide, the power is smooth within: four points do.
		from, n := float64(s.edges[b]), float64(s.edges[b+1]-s.edges[b])
		points := min(n, 4)
		for i := range int(points) {
			mean[b] += at(from-0.5+n*(float64(i)+0.5)/points) / points
		}
	}
	for _, share := range shares {
		power, logs := make([]float64, len(mean)), 0.0
		for b, v := range mean {
			power[b] = 1 - share + share*v
			logs += float64(s.edges[b+1]-s.edges[b]) * math.Log(power[b])
		}
		s.power, s.logs = append(s.power, power), append(s.logs, logs)
	}
}

// zero returns the power at frequency 0 of a model.
func zero(phi, share float64) float64 { return 1 - share + share*(1+phi)/(1-phi) }

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
	f := s.fft.coefficients(v)
	for j, turn := range s.turn {
		c := f[min(j, n-j)]
		im := imag(c)
		if j > n-j {
			im = -im
		}
		v[j] = real(c)*real(turn) - im*imag(turn)
	}
	if n > 0 {
		v[0] /= math.Sqrt2
	}
	return v
}

// fit is the dependence of one figure, estimated from its periodograms.
type fit struct {
	cosines int
	df      float64 // of one that fit made; see degrees
	// missing is the factor by which the mean power of the first cosines is below that
	// at frequency 0.
	missing float64
	// dependence is the power at frequency 0 in units of the variance.
	dependence float64
}

// likelihood adds to logs, by model, the log of Whittle's likelihood of the
// transforms, each in a unit of its own.
func (s *spectrum) likelihood(logs []float64, transforms ...[]float64) {
	power := make([]float64, len(s.edges)-1)
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
		for b := range power {
			sum := 0.0
			for _, v := range c[s.edges[b]:s.edges[b+1]] {
				sum += v * v
			}
			power[b] += sum / whole
		}
	}
	if used == 0 {
		return
	}
	n := used * float64(s.slots-1)
	for i, model := range s.power {
		q := 0.0
		for b, p := range power {
			q += p / model[b]
		}
		logs[i] -= 0.5 * (n*math.Log(q) + used*s.logs[i])
	}
}

// posterior turns the models' log likelihoods into their probabilities.
func posterior(logs []float64) []float64 {
	top := math.Inf(-1)
	for i := range logs {
		if i == 0 {
			logs[i] += math.Log(independent)
		} else {
			logs[i] += math.Log((1 - independent) / float64(len(logs)-1))
		}
		top = max(top, logs[i])
	}
	sum := 0.0
	for i := range logs {
		logs[i] = math.Exp(logs[i] - top)
		sum += logs[i]
	}
	for i := range logs {
		logs[i] /= sum
	}
	return logs
}

// models is the number of models.
const models = 1 + len(persistence)*len(signal)

// fit averages the models; transforms are of sequences of one length that are assumed to
// depend alike.
func (s *spectrum) fit(transforms ...[]float64) fit {
	logs := make([]float64, models)
	s.likelihood(logs, transforms...)
	weight := posterior(logs)
	f := s.under(weight)
	f.df = float64(f.cosines) / (1 + float64(f.cosines)/2*s.spread(weight, f.cosines))
	return f
}

// under returns how to estimate a variance if the models have these probabilities.
func (s *spectrum) under(weight []float64) fit {
	f := fit{cosines: min(minCosines, s.slots-1), dependence: weight[0]}
	// The mean of the first K over what is at 0, (1−share+share·low)/zero, is
	// linear in low: constants and factors add up over the shares.
	low := make([]float64, min(maxCosines, s.slots-1))
	constant := weight[0]
	for h, phi := range persistence {
		factor := 0.0
		for k, share := range signal {
			w := weight[1+h*len(signal)+k]
			z := zero(phi, share)
			f.dependence += w * z
			constant += w * (1 - share) / z
			factor += w * share / z
		}
		for k, v := range s.low[h] {
			low[k] += factor * v
		}
	}
	for k := range low {
		low[k] += constant
	}
	for f.cosines < len(low) && f.cosines < s.slots/3 && low[f.cosines] >= 1-spectralDrop {
		f.cosines++
	}
	if f.cosines > 0 {
		f.missing = 1 / max(leastShare, min(1, low[f.cosines-1]))
	}
	return f
}

// spread returns the variance, over the models, of the log of how much the mean power of
// the first cosines is below that at frequency 0.
func (s *spectrum) spread(weight []float64, cosines int) float64 {
	if cosines == 0 {
		return 0
	}
	sum, squares := 0.0, 0.0
	for h, phi := range persistence {
		for k, share := range signal {
			w := weight[1+h*len(signal)+k]
			log := math.Log((1 - share + share*s.low[h][cosines-1]) / zero(phi, share))
			sum, squares = sum+w*log, squares+w*log*log
		}
	}
	return max(0, squares-sum*sum)
}

// degrees returns the degrees of freedom of the standard error se: as many as cosines, fewer
// where the models differ in what is missing. What does not vary says nothing of models.
func (f fit) degrees(se float64) float64 {
	if se > 0 {
		return f.df
	}
	return float64(f.cosines)
}

// covariance returns the long-run covariance of Σx and Σy from their transforms: the
// mean product of the first cosines, with the missing power restored.
func (f fit) covariance(x, y []float64) float64 {
	sum := 0.0
	for j := 1; j <= f.cosines; j++ {
		sum += x[j] * y[j]
	}
	return sum / float64(f.cosines) * float64(len(x)) * f.missing
}
