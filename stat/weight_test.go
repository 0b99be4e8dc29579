package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tailscope/hist"
)

// sampled returns slots of log-normal durations, each of about n observations that stand
// for a weight of the list each.
func sampled(r *rand.Rand, slots int, n float64, weights ...uint64) []*hist.Histogram {
	out := make([]*hist.Histogram, slots)
	for t := range out {
		out[t] = hist.New(hist.DefaultSchema)
		for k := 0.0; k < n*(0.8+0.4*r.Float64()); k++ {
			ns := int64(math.Exp(17 + 0.6*r.NormFloat64()))
			if r.IntN(200) == 0 {
				ns *= 20
			}
			_ = out[t].RecordNanos(ns, weights[r.IntN(len(weights))])
		}
	}
	return out
}

// Traffic of which each request in 32 was sampled says what as many requests would
// without sampling: intervals, tests and change points are the same.
func TestOneWeightChangesNothing(t *testing.T) {
	for seed := range uint64(6) {
		var figures [2]string
		for i, w := range []uint64{1, 32} {
			r := rand.New(rand.NewPCG(seed, 18))
			n := []float64{3, 12, 100}[seed%3]
			sa, sb := sampled(r, 120, n, w), sampled(r, 90, n, w)
			a, b := seriesOf(t, sa), seriesOf(t, sb)
			if math.Abs(a.Effective()-a.Count()/float64(w)) > 1e-6*a.Count() {
				t.Errorf("weight %d: effective %v of %v", w, a.Effective(), a.Count())
			}
			out := ""
			say := func(c Change, err error) {
				if err != nil {
					t.Fatal(err)
				}
				out += fmt.Sprintf("%.6g %.6g %.6g p %.6g of %.6g and %.6g, %s\n", c.Effect, c.CI.Low, c.CI.High, c.P, c.EffectiveA, c.EffectiveB, c.Short)
			}
			mix := []float64{0.3, 0.7}
			for _, o := range []Options{{}, {Paired: true}} {
				x, y := a.Slice(0, 90), b
				for _, q := range []float64{0.5, 0.95, 0.999} {
					say(Quantile(Side{x}, Side{y}, q, nil, o))
					say(Quantile(Side{x, a.Slice(30, 120)}, Side{y, y}, q, mix, o))
				}
				say(Shares([]Tally{Apdex(x, 0.05)}, []Tally{Apdex(y, 0.05)}, nil, Difference, o))
				say(Shares([]Tally{Apdex(x, 1e-9)}, []Tally{Apdex(y, 1e-9)}, nil, Difference, o)) // slots that all agree
				say(Shares([]Tally{rare(x, float64(w), 8)}, []Tally{rare(y, float64(w), 8)}, nil, LogRatio, o))
				say(Mean(Side{x}, Side{y}, nil, o))
			}
			shares, err := EachShare([]Tally{Apdex(a, 0.05), Apdex(a, 1e-9)}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			out += fmt.Sprintf("%.6g %.6g\n", shares[0].CI, shares[1].CI)
			d, err := Distribution(Side{a}, Side{b}, nil, Energy, 99, 1, Options{})
			if err != nil {
				t.Fatal(err)
			}
			out += fmt.Sprintf("distance %.6g, p %v\n", d.Distance, d.P)
			points, err := ChangePoints(seriesOf(t, append(sa, sb...)), ChangeOptions{Alpha: 0.9})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range points {
				out += fmt.Sprintf("change at %d in %d to %d, p %.6g\n", p.At, p.Low, p.High, p.P)
			}
			figures[i] = out
		}
		if figures[0] != figures[1] {
			t.Errorf("seed %d: weight 1:\n%s\nweight 32:\n%s", seed, figures[0], figures[1])
		}
	}
}

// Errors and rates of sampled requests change where those of as many unsampled ones do.
func TestOneWeightChangesNoTally(t *testing.T) {
	for _, kind := range []TallyKind{ShareTally, CountTally} {
		for _, each := range []float64{4, 100} {
			r := rand.New(rand.NewPCG(18, uint64(each)))
			plain := drawTally(r, kind, 240, each, 0, 0.05, steps(120, []float64{0.05, 1}[kind], []float64{0.12, 1.5}[kind]))
			weighed := Tally{Num: make([]float64, 240), Den: make([]float64, 240)}
			for i := range plain.Num {
				weighed.Num[i], weighed.Den[i] = 32*plain.Num[i], plain.Den[i]
				weighed.NumSquares += 32 * 32 * plain.Num[i]
				if kind == ShareTally {
					weighed.Den[i] *= 32
					weighed.DenSquares += 32 * 32 * plain.Den[i]
				}
			}
			want, err := ChangePointsOfTally(plain, kind, ChangeOptions{Alpha: 0.5})
			got, err2 := ChangePointsOfTally(weighed, kind, ChangeOptions{Alpha: 0.5})
			if err != nil || err2 != nil || len(want) == 0 || len(got) != len(want) {
				t.Fatalf("kind %d of %v a slot: %v, %v and %v, %v", kind, each, want, err, got, err2)
			}
			for i := range want {
				if g, w := got[i], want[i]; g.At != w.At || g.Low != w.Low || g.High != w.High || math.Abs(g.P-w.P) > 1e-6 {
					t.Errorf("kind %d of %v a slot: got %+v, want %+v", kind, each, g, w)
				}
			}
		}
	}
}

// rare returns a tally with so many events of a weight.
func rare(s *Series, weight float64, events int) Tally {
	out := Tally{Num: make([]float64, s.Slots()), Den: make([]float64, s.Slots()), DenSquares: s.Count() * weight}
	for t := range out.Den {
		out.Den[t] = s.count(t)
		if t%11 == 0 && events > 0 {
			out.Num[t] = weight
			out.NumSquares += weight * weight
			events--
		}
	}
	return out
}

// A series of many sampled requests has no more false changes than Alpha.
func TestChangePointsOfWeights(t *testing.T) {
	const trials, slots = 60, 120
	for _, c := range []struct {
		name    string
		n       float64
		weights []uint64
		then    uint64 // from the middle on; as before if 0
	}{
		{"1", 220, []uint64{1}, 0},
		{"8", 28, []uint64{8}, 0},
		{"32", 7, []uint64{32}, 0},
		{"1, 8 and 32", 16, []uint64{1, 8, 32}, 0},
		{"1, then 8", 220, []uint64{1}, 8},
		{"1, then 32", 220, []uint64{1}, 32},
		{"8, then 1", 28, []uint64{8}, 1},
	} {
		r := rand.New(rand.NewPCG(7, 32))
		found := 0
		for range trials {
			all := sampled(r, slots, c.n, c.weights...)
			if c.then > 0 {
				all = append(all[:slots/2], sampled(r, slots/2, c.n*float64(c.weights[0])/float64(c.then), c.then)...)
			}
			points, err := ChangePoints(seriesOf(t, all), ChangeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(points) > 0 {
				found++
			}
		}
		t.Logf("weights %s: a change in %d of %d stationary series", c.name, found, trials)
		// 5 % of 60 are 3; 9 or more have a chance of 0.3 %.
		if found >= 9 {
			t.Errorf("weights %s: a change in %d of %d stationary series, at most 5 %% expected", c.name, found, trials)
		}
	}
}
