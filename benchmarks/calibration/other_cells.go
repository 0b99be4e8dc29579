package calibration

import (
	"fmt"
	"math"
	"math/rand/v2"

	"tailscope/stat"
)

// others are the cells without a change of what is judged besides two equal
// hours of requests; add numbers and keeps them.
func others(add func(name string, hours int, correlation float64, a, b Load, c Cell)) {
	minutes := func(phi float64) Load {
		return Load{Slots: 50, Rate: 600, Correlation: phi, Spread: 0.15, Strata: Plain()}
	}
	for _, phi := range correlations {
		l := minutes(phi)
		add("50 slots of a minute", 1, phi, l, l, Cell{Methods: figures([]float64{0.5, 0.95, 0.99}, nil, stat.Options{})})
	}
	for _, phi := range []float64{0, 0.9} {
		l := minutes(phi)
		add("50 slots of a minute, paired", 1, phi, l, l, Cell{Shared: true, Methods: figures([]float64{0.5, 0.95, 0.99}, nil, stat.Options{Paired: true})})
	}
	for _, phi := range correlations {
		add("rate of a counter", 1, phi, Load{}, Load{}, Cell{Methods: counters(load(1, phi, nil))})
		add("a counter for each request", 1, phi, Load{}, Load{}, Cell{Methods: eachRequest(load(1, phi, nil))})
	}
	for _, phi := range correlations {
		day := load(1, phi, Plain())
		day.Season, day.Start = 0.5, 8640/8*7
		add("daily season, same hour of four earlier days", 1, phi, day, day, Cell{Methods: earlierDays(day, 4, []float64{0.5, 0.95, 0.99})})
	}
	for _, phi := range []float64{0, 0.6, 0.9} {
		for _, few := range []struct {
			name string
			rate float64
		}{{"", 100}, {", one request a slot", 1}} {
			l := load(1, phi, Plain())
			l.Rate, l.Poisson = few.rate, few.rate < 10
			add("a share by itself"+few.name, 1, phi, l, Load{}, Cell{Methods: aloneShares(l)})
		}
	}
	for _, paired := range []bool{false, true} {
		name := "1 to 200 requests a side in 20 to 100 slots"
		if paired {
			name += ", paired"
		}
		for _, phi := range []float64{0, 0.6} {
			add(name, 1, phi, Load{}, Load{}, Cell{Methods: handful(phi, paired)})
		}
	}
}

// counters are increments of 100 a slot whose logarithm wanders, over the
// seconds of the slots.
func counters(l Load) func(*rand.Rand, []*Counts, []*Counts) ([]Outcome, error) {
	return func(r *rand.Rand, _, _ []*Counts) ([]Outcome, error) {
		side := func() []stat.Tally {
			t := stat.Tally{Num: make([]float64, l.Slots), Den: make([]float64, l.Slots)}
			for i, m := range l.medians(r) {
				n := l.Rate * math.Exp(m)
				t.Num[i], t.Den[i] = math.Max(0, math.Round(n+math.Sqrt(n)*r.NormFloat64())), 10
			}
			return []stat.Tally{t}
		}
		c, err := stat.Ratios(side(), side(), nil, stat.LogRatio, stat.Options{})
		return []Outcome{outcome("rate", c)}, err
	}
}

// eachRequest is CPU time over requests: how many there are wanders by itself,
// far and long, and what one takes wanders as l says.
func eachRequest(l Load) func(*rand.Rand, []*Counts, []*Counts) ([]Outcome, error) {
	traffic := Load{Slots: l.Slots, Correlation: 0.9, Spread: 0.3}
	return func(r *rand.Rand, _, _ []*Counts) ([]Outcome, error) {
		side := func() []stat.Tally {
			t := stat.Tally{Num: make([]float64, l.Slots), Den: make([]float64, l.Slots)}
			many := traffic.medians(r)
			for i, m := range l.medians(r) {
				n := max(1, math.Round(l.Rate*math.Exp(many[i])))
				t.Num[i], t.Den[i] = 0.01*n*math.Exp(m)*math.Max(0, 1+0.6*r.NormFloat64()/math.Sqrt(n)), n
			}
			return []stat.Tally{t}
		}
		c, err := stat.Ratios(side(), side(), nil, stat.LogRatio, stat.Options{})
		return []Outcome{outcome("for each request", c)}, err
	}
}

// earlierDays merges side A of so many days like l, slot by slot, and sets it
// against B of the same time of day.
func earlierDays(l Load, days int, ps []float64) func(*rand.Rand, []*Counts, []*Counts) ([]Outcome, error) {
	judge := figures(ps, nil, stat.Options{Paired: true})
	return func(r *rand.Rand, a, b []*Counts) ([]Outcome, error) {
		for range days - 1 {
			day := l.Draw(r)
			for i, c := range day {
				c.addTo(a[i])
			}
			free(day)
		}
		return judge(r, a, b)
	}
}

// addTo adds all slots' observations to those of another side's.
func (c *Counts) addTo(to *Counts) {
	for t, row := range c.Slots {
		for k := c.Used[t][0]; k < c.Used[t][1]; k++ {
			to.Slots[t][k] += row[k]
		}
		if c.Used[t][1] > c.Used[t][0] {
			to.Used[t][0], to.Used[t][1] = min(to.Used[t][0], c.Used[t][0]), max(to.Used[t][1], c.Used[t][1])
		}
		to.Sums[t] += c.Sums[t]
	}
}

// aloneShares alarms if the interval of one share, of requests above a bound,
// leaves out the true one.
func aloneShares(l Load) func(*rand.Rand, []*Counts, []*Counts) ([]Outcome, error) {
	deviation := math.Hypot(0.6, l.Spread)
	return func(_ *rand.Rand, a, _ []*Counts) ([]Outcome, error) {
		var tallies []stat.Tally
		var truths []float64
		octaves := []int{-3, -2, -1}
		for _, octave := range octaves {
			t := stat.Tally{Num: make([]float64, l.Slots), Den: make([]float64, l.Slots)}
			for i, row := range a[0].Slots {
				for k, n := range row {
					t.Den[i] += n
					if k > octave*perOctave-lowest {
						t.Num[i] += n
					}
				}
			}
			tallies = append(tallies, t)
			z := (float64(octave)*math.Ln2 - math.Log(0.1)) / deviation
			truths = append(truths, math.Erfc(z/math.Sqrt2)/2)
		}
		shares, err := stat.EachShare(tallies, stat.Options{})
		if err != nil {
			return nil, err
		}
		var out []Outcome
		for i, s := range shares {
			out = append(out, Outcome{fmt.Sprintf("%.2g %% of requests", 100*truths[i]), s.Short == "" && !s.CI.Contains(truths[i]), false, math.NaN(), math.NaN()})
		}
		return out, nil
	}
}

// handful draws sides of few requests. Too few to judge is not an alarm.
func handful(phi float64, paired bool) func(*rand.Rand, []*Counts, []*Counts) ([]Outcome, error) {
	judge := figures([]float64{0.5, 0.75, 0.95, 0.99}, nil, stat.Options{Paired: paired})
	return func(r *rand.Rand, _, _ []*Counts) ([]Outcome, error) {
		slots := 20 + r.IntN(81)
		side := func() Load {
			return Load{Slots: slots, Rate: float64(1+r.IntN(200)) / float64(slots), Poisson: true, Correlation: phi, Spread: 0.15, Strata: Plain()}
		}
		la, lb := side(), side()
		var a, b []*Counts
		if paired {
			a, b = DrawPair(r, &la, &lb)
		} else {
			a, b = la.Draw(r), lb.Draw(r)
		}
		defer free(a)
		defer free(b)
		out, err := judge(r, a, b)
		if err != nil {
			return nil, err
		}
		// Beside how often of all: how often of those that were judged.
		for _, o := range out {
			if !math.IsNaN(o.SE) && !math.IsInf(o.SE, 0) {
				out = append(out, Outcome{o.Method + " where it is judged", o.Alarm, o.Drifts, math.NaN(), math.NaN()})
			}
		}
		return out, nil
	}
}
