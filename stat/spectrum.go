package stat

import (
	"math"

	"gonum.org/v1/gonum/dsp/fourier"
)

// persistence and signal are the autocorrelations, and shares of persistent variance,
// among which the spectrum is averaged. Beyond 0.97 an hour of slots cannot distinguish
// persistence from a trend.
var (
	persistence = [...]float64{0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.86, 0.9, 0.93, 0.95, 0.97}
	signal      = [...]float64{0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1}
	// memories are what slots may depend by for longer than a side lasts, and longSignal
	// the shares of persistent variance then.
	memories = [...]memory{
		{order: 0.1}, {order: 0.2}, {order: 0.3}, {order: 0.4}, {order: 0.47},
		{persistence: 0.95}, {persistence: 0.97}, {persistence: 0.98}, {persistence: 0.99}, {persistence: 0.995},
	}
	longSignal = [...]float64{0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1}
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
	// remembering is that of one of the memories, and rememberingPaired that of one in the
	// difference of two sides that were measured together: what moves both is not in it.
	remembering, rememberingPaired = 0.4, 0.02
)

// spectrum holds, for sequences of one length, the power of a first-order autoregression
// and of fractional noise, under independent noise, by frequency πj/T, j = 1…T−1. Models
// are of unit variance; number 0 is independence, then come all signals for each
// persistence, then all signals for each memory.
type spectrum struct {
	slots int
	fft   *fourier.FFT
	turn  []complex128 // exp(−iπj/2T)·√(2/T), by j
	edges []int        // bin b covers j in [edges[b], edges[b+1])
	power [][]float64  // model that forgets, bin: mean
	logs  []float64    // model that forgets: Σ over frequencies of ln(power of the bin)
	low   [][]float64  // persistence, K−1: mean of the autoregression's first K
	// longPower and longLogs are those of models that remember, long the power of a
	// memory at the first cosines: by memory and j−1.
	longPower [][]float64
	longLogs  []float64
	long      [][]float64
	other     *spectrum // for the other side's length, once it was used
}

func newSpectrum(slots int) *spectrum {
	s := &spectrum{slots: slots, fft: fourier.NewFFT(max(1, slots)), edges: []int{1}, turn: make([]complex128, slots)}
	for j := range s.turn {
		sin, cos := math.Sincos(math.Pi * float64(j) / float64(2*slots))
		s.turn[j] = complex(cos, -sin) * complex(math.Sqrt(2/float64(slots)), 0)
	}
	for e := 1; e < slots; {
		e = min(slots, e+max(1, e*3/20))
		s.edges = append(s.edges, e)
	}
	bins := len(s.edges) - 1
	add := func(power []float64) {
		logs := 0.0
		for b, v := range power {
			logs += float64(s.edges[b+1]-s.edges[b]) * math.Log(v)
		}
		s.power, s.logs = append(s.power, power), append(s.logs, logs)
	}
	white := make([]float64, bins)
	for b := range white {
		white[b] = 1
	}
	add(white)
	signals := func(signal []float64, at func(j float64) float64) {
		mean := make([]float64, bins)
		for b := range mean {
			// Where a bin is wide, the power is smooth within: four points do.
			from, n := float64(s.edges[b]), float64(s.edges[b+1]-s.edges[b])
			points := min(n, 4)
			for i := range int(points) {
				mean[b] += at(from-0.5+n*(float64(i)+0.5)/points) / points
			}
		}
		for _, share := range signal {
			power := make([]float64, bins)
			for b, v := range mean {
				power[b] = 1 - share + share*v
			}
			add(power)
		}
	}
	for _, phi := range persistence {
		at := func(j float64) float64 { return memory{persistence: phi}.power(j, slots) }
		signals(signal[:], at)
		low := make([]float64, min(maxCosines, max(0, slots-1)))
		sum := 0.0
		for k := range low {
			sum += at(float64(k + 1))
			low[k] = sum / float64(k+1)
		}
		s.low = append(s.low, low)
	}
	for _, m := range memories {
		signals(longSignal[:], func(j float64) float64 { return m.power(j, slots) })
		long := make([]float64, min(maxCosines, max(0, slots-1)))
		for k := range long {
			long[k] = m.power(float64(k+1), slots)
		}
		s.long = append(s.long, long)
	}
	s.power, s.longPower = s.power[:models], s.power[models:]
	s.logs, s.longLogs = s.logs[:models], s.logs[models:]
	return s
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
	f := s.fft.Coefficients(nil, v)
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

// fit is the dependence of one figure, estimated from its periodograms: of models that
// forget, averaged, and of each memory.
type fit struct {
	cosines int
	// missing is the factor by which the mean power of the first cosines is below that
	// at frequency 0.
	missing float64
	// dependence is the power at frequency 0 in units of the variance.
	dependence float64
	long       [len(memories)]remembered // how it is if slots do not forget
}

// model returns the power of a model, and its logs.
func (s *spectrum) model(i int) (power []float64, logs float64) {
	if i < models {
		return s.power[i], s.logs[i]
	}
	return s.longPower[i-models], s.longLogs[i-models]
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
	for i := range logs {
		model, whole := s.model(i)
		q := 0.0
		for b, p := range power {
			q += p / model[b]
		}
		logs[i] -= 0.5 * (n*math.Log(q) + used*whole)
	}
}

// posterior turns the models' log likelihoods into their probabilities, of which those
// that remember have this one together before.
func posterior(logs []float64, remembering float64) []float64 {
	forgets := 1.0
	if len(logs) > models {
		forgets -= remembering
	}
	top := math.Inf(-1)
	for i := range logs {
		switch {
		case i == 0:
			logs[i] += math.Log(forgets * independent)
		case i < models:
			logs[i] += math.Log(forgets * (1 - independent) / float64(models-1))
		default:
			logs[i] += math.Log(remembering / float64(len(logs)-models))
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

// models is the number of models that forget, and allModels that of all.
const (
	models    = 1 + len(persistence)*len(signal)
	allModels = models + len(memories)*len(longSignal)
)

// fit averages the first so many models; transforms are of sequences of one length that
// are assumed to depend alike.
func (s *spectrum) fit(of int, transforms ...[]float64) fit {
	logs := make([]float64, of)
	s.likelihood(logs, transforms...)
	return s.under(posterior(logs, rememberingPaired))
}

// under returns how to estimate a variance if the models have these probabilities.
func (s *spectrum) under(weight []float64) fit {
	f := fit{cosines: min(minCosines, s.slots-1)}
	forgets := 0.0
	for _, w := range weight[:models] {
		forgets += w
	}
	f.dependence = weight[0]
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
	f.dependence /= forgets
	for k := range low {
		low[k] = (low[k] + constant) / forgets
	}
	for f.cosines < len(low) && f.cosines < s.slots/3 && low[f.cosines] >= 1-spectralDrop {
		f.cosines++
	}
	if f.cosines > 0 {
		f.missing = 1 / max(leastShare, min(1, low[f.cosines-1]))
	}
	if len(weight) == models {
		return f
	}
	for h, of := range memories {
		m := &f.long[h]
		constant, factor := 0.0, 0.0
		for k, share := range longSignal {
			w := weight[models+h*len(longSignal)+k]
			m.weight += w
			z := 1 - share + share*of.sum(float64(s.slots))/float64(s.slots)
			constant += w * (1 - share) / z
			factor += w * share / z
		}
		if !(m.weight > leastWeight) {
			continue // it has no part in the spread
		}
		m.power = make([]float64, f.cosines)
		for j := range m.power {
			m.power[j] = (constant + factor*s.long[h][j]) / m.weight
		}
	}
	return f
}

// leastWeight is the least probability of a memory that is considered.
const leastWeight = 1e-6

// remembered is how to estimate a variance if slots are fractional noise of an order.
type remembered struct {
	weight float64   // its probability
	power  []float64 // j−1: mean power of the first cosines, over that of the mean
}

// variance is covariance for one transform if slots have this memory.
func (m *remembered) variance(x []float64) float64 {
	sum := 0.0
	for j, p := range m.power {
		sum += sq(x[j+1]) / p
	}
	return sum / float64(len(m.power)) * float64(len(x))
}

// wider returns how much wider an interval of Σx is for what slots may remember.
func (f *fit) wider(x []float64) float64 {
	s := spread{df: float64(f.cosines), rest: 1}
	if v := f.covariance(x, x); v > 0 {
		for h := range f.long {
			s.remember(h, f.long[h].weight, f.long[h].variance(x)/v)
		}
	}
	return s.wider()
}

// covariance returns the long-run covariance of Σx and Σy from their transforms: the
// mean product of the first cosines, with the missing power restored.
func (f *fit) covariance(x, y []float64) float64 {
	sum := 0.0
	for j := 1; j <= f.cosines; j++ {
		sum += x[j] * y[j]
	}
	return sum / float64(f.cosines) * float64(len(x)) * f.missing
}
