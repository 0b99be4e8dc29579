package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tailscope/hist"
)

// few draws a side of n requests over slots; slots have more and less to do, as
// load says. With values, a request takes one of them.
func few(r *rand.Rand, load []float64, n int, values []float64) *Series {
	slots := make([]*hist.Histogram, len(load))
	sum := 0.0
	for _, v := range load {
		sum += v
	}
	for range n {
		at, t := r.Float64()*sum, 0
		for at -= load[0]; at > 0 && t < len(load)-1; {
			t++
			at -= load[t]
		}
		if slots[t] == nil {
			slots[t] = hist.New(hist.DefaultSchema)
		}
		v := math.Exp(0.6 * r.NormFloat64())
		if values != nil {
			v = values[r.IntN(len(values))]
		}
		if err := slots[t].Record(v); err != nil {
			panic(err)
		}
	}
	s, err := NewSeries(slots)
	if err != nil {
		panic(err)
	}
	return s
}

// above is the tally of what takes longer than v: errors, say.
func above(s *Series, v float64) Tally {
	t := Apdex(s, 1)
	for i := range t.Num {
		t.Num[i] = t.Den[i] - s.atMost(i, s.placeOf(v))
	}
	return t
}

// Of a handful of requests little is claimed: without a change not more often
// than of many, and never with an interval that has no width.
func TestFewRequests(t *testing.T) {
	const trials = 120 // the campaign draws more
	type tally struct{ judged, alarms int }
	found := map[string]*tally{}
	for i := range trials {
		r := source(uint64(i))
		load := make([]float64, 20+r.IntN(81))
		for k := range load {
			load[k] = r.ExpFloat64()
		}
		var values []float64 // a third of the trials repeats the same few durations
		if i%3 == 0 {
			for range 2 + r.IntN(5) {
				values = append(values, math.Exp(0.6*r.NormFloat64()))
			}
		}
		na, nb := 1+r.IntN(200), 1+r.IntN(200)
		if i%4 == 0 {
			na *= 50 // one tenant beside everybody
		}
		two := func(n int) Side { return Side{few(r, load, n-n/3, values), few(r, load, n/3, values)} }
		a, b := two(na), two(nb)
		mix, _ := CommonMix(a.Counts(), b.Counts())
		for _, o := range []Options{{}, {Paired: true}, {Live: &Live{Slots: 60}}, {Live: &Live{Slots: 60}, Paired: true}} {
			name := "apart"
			if o.Paired {
				name = "paired"
			}
			if o.Live != nil {
				name += ", live"
			}
			count := func(what string, c Change, err error) {
				if err != nil {
					t.Fatal(err)
				}
				k := found[name+" "+what]
				if k == nil {
					k = &tally{}
					found[name+" "+what] = k
				}
				if c.Short != "" {
					return
				}
				k.judged++
				// What is the same for all requests, or nearly, has none to scatter.
				if constant := len(values) > 0 && c.Log; c.CI.High-c.CI.Low < 1e-9 && !(constant && c.Effect == 0) {
					t.Errorf("trial %d, %s %s: interval %v of %v and %v requests (%v, %v)", i, name, what, c.CI, c.CountA, c.CountB, c.A, c.B)
				}
				if !c.CI.Contains(0) {
					k.alarms++
				}
			}
			ps := []float64{0.5, 0.75, 0.9, 0.95, 0.99, 0.999}
			for _, with := range []struct {
				name string
				mix  []float64
			}{{"", nil}, {" like for like", mix}} {
				if with.mix == nil && with.name != "" {
					continue
				}
				cs, err := Quantiles(a, b, ps, with.mix, o)
				for k, p := range ps {
					count(fmt.Sprintf("p%g%s", 100*p, with.name), cs[k], err)
				}
				if o.Live == nil {
					cs, err = Band(a, b, ps, with.mix, 1, o)
					for _, c := range cs {
						count("band"+with.name, c, err)
					}
				}
				c, err := Mean(a, b, with.mix, o)
				count("mean"+with.name, c, err)
				slow := func(s Side) (out []Tally) {
					for _, x := range s {
						out = append(out, above(x, 2.5))
					}
					return out
				}
				c, err = Shares(slow(a), slow(b), with.mix, Difference, o)
				count("errors"+with.name, c, err)
				c, err = Ratios(slow(a), slow(b), with.mix, LogRatio, o)
				count("ratio"+with.name, c, err)
			}
		}
	}
	all := tally{}
	for name, k := range found {
		if n := float64(k.judged); float64(k.alarms) > 0.06*n+3*math.Sqrt(0.06*n)+1 {
			t.Errorf("%s: alarms in %d of %d trials without a change", name, k.alarms, k.judged)
		}
		if !strings.Contains(name, "live") {
			all.judged, all.alarms = all.judged+k.judged, all.alarms+k.alarms
		}
	}
	if float64(all.alarms) > 0.06*float64(all.judged) || all.judged < trials*10 {
		t.Errorf("alarms in %d of %d judgements without a change", all.alarms, all.judged)
	}
}

// Where the slowest requests end at the same limit, the greatest value is a
// quantile of a side: that the share of such requests wanders has still to be
// seen.
func TestQuantileAtALimit(t *testing.T) {
	const trials, limit = 60, 30
	draw := func(r *rand.Rand, share, spread float64) *Series {
		slots := make([]*hist.Histogram, 120)
		for k, m := range medians(r, len(slots), 0.6, spread) {
			slots[k] = hist.New(hist.DefaultSchema)
			for range 50 {
				v := math.Exp(0.6 * r.NormFloat64())
				if r.Float64() < share*math.Exp(m) {
					v = limit
				}
				if err := slots[k].Record(v); err != nil {
					t.Fatal(err)
				}
			}
		}
		s, err := NewSeries(slots)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	// As good as half of the time side B has the limit at its p98.5, which lies
	// just below the 1.45 % of requests that reach it in the long run.
	truth := 0.6 * (math.Sqrt2*math.Erfinv(1-2*(0.015-0.0145)/(1-0.0145)) - math.Sqrt2*math.Erfinv(1-2*0.015))
	for _, paired := range []bool{false, true} {
		missed, at := 0, 0
		for i := range trials {
			r := source(uint64(i))
			a, b := Side{draw(r, 0, 0), draw(r, 0, 0)}, Side{draw(r, 0.0145/math.Exp(0.5), 1), draw(r, 0.0145/math.Exp(0.5), 1)}
			c, err := Quantile(a, b, 0.985, nil, Options{Paired: paired})
			if err != nil {
				t.Fatal(err)
			}
			if c.B == limit {
				at++
			}
			if c.Short == "" && !c.CI.Contains(truth) {
				missed++
			}
		}
		if missed > trials/6 || at < trials/4 {
			t.Errorf("paired %v: %d of %d intervals leave out the true ratio; the limit is the quantile in %d", paired, missed, trials, at)
		}
	}
}
