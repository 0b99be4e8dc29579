package calibration

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"tailscope/stat"
)

// Cell is one row of simulated trials.
type Cell struct {
	Name    string
	A, B    Load
	Shared  bool // both sides have the same slots
	Apart   int  // side B begins so many slots after side A began; 0 if they have nothing in common
	Fewer   int  // trials are divided by this where a trial is costly
	Limit   float64
	Methods func(r *rand.Rand, a, b []*Counts) ([]Outcome, error)
}

// Run draws the cell's trials.
func (c *Cell) Run(ctx context.Context, trials int) ([]*Tally, error) {
	seed := uint64(14695981039346656037)
	for _, x := range c.Name {
		seed = (seed ^ uint64(x)) * 1099511628211
	}
	tallies, err := Trials(ctx, max(1, trials/max(1, c.Fewer)), seed, func(r *rand.Rand) ([]Outcome, error) {
		var a, b []*Counts
		switch {
		case c.Shared:
			a, b = DrawPair(r, &c.A, &c.B)
		case c.Apart > 0:
			a, b = DrawApart(r, &c.A, &c.B, c.Apart)
		default:
			a, b = c.A.Draw(r), c.B.Draw(r)
		}
		defer free(a)
		defer free(b)
		return c.Methods(r, a, b)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return tallies, nil
}

func outcome(method string, c stat.Change) Outcome {
	return Outcome{method, alarmed(c), c.Drifts, c.Effect, c.SE}
}

// alarmed says that a change is claimed.
func alarmed(c stat.Change) bool {
	v := c.Verdict(0)
	return v == stat.Less || v == stat.More
}

// figures judges quantiles and the mean.
func figures(ps []float64, mix func(a, b stat.Side) []float64, o stat.Options) func(*rand.Rand, []*Counts, []*Counts) ([]Outcome, error) {
	return func(_ *rand.Rand, ca, cb []*Counts) ([]Outcome, error) {
		a, b, err := both(ca, cb)
		if err != nil {
			return nil, err
		}
		var m []float64
		if mix != nil {
			m = mix(a, b)
		}
		return judged(a, b, ps, m, o)
	}
}

func judged(a, b stat.Side, ps, mix []float64, o stat.Options) ([]Outcome, error) {
	changes, err := stat.Quantiles(a, b, ps, mix, o)
	if err != nil {
		return nil, err
	}
	var out []Outcome
	for i, c := range changes {
		out = append(out, outcome(fmt.Sprintf("p%g", 100*ps[i]), c))
	}
	c, err := stat.Mean(a, b, mix, o)
	return append(out, outcome("mean", c)), err
}

func both(ca, cb []*Counts) (a, b stat.Side, err error) {
	if a, err = Of(ca); err != nil {
		return nil, nil, err
	}
	b, err = Of(cb)
	return a, b, err
}

func common(a, b stat.Side) []float64 {
	m, _ := stat.CommonMix(a.Counts(), b.Counts())
	return m
}

// besides judges p99 by our method and by what others do.
func besides(r *rand.Rand, a, b []*Counts) ([]Outcome, error) {
	out, err := figures([]float64{0.99, 0.5, 0.95, 0.999}, nil, stat.Options{})(r, a, b)
	nan := math.NaN()
	out = append(out,
		Outcome{"Mann–Whitney on requests", MannWhitneyRequests(a[0], b[0]), false, nan, nan},
		Outcome{"Mann–Whitney on slots' p99 (Kayenta)", MannWhitneySlots(a[0], b[0], 0.99), false, nan, nan},
		Outcome{"ten batch means, p99", BatchMeans(a[0], b[0], 0.99), false, nan, nan},
	)
	if r.IntN(4) == 0 { // a quarter of the trials, since it takes as long as all the rest
		out = append(out, Outcome{"stationary bootstrap, p99", Bootstrap(r, a[0], b[0], 0.99, 200), false, nan, nan})
	}
	return out, err
}

// shares judges an error ratio of 0.4 % (log-normal requests above 0.5 s) and
// Apdex.
func shares(_ *rand.Rand, ca, cb []*Counts) ([]Outcome, error) {
	a, b, err := both(ca, cb)
	if err != nil {
		return nil, err
	}
	errorsOf := func(c *Counts, s *stat.Series) stat.Tally {
		t := stat.Apdex(s, 0.1)
		num := make([]float64, len(c.Slots))
		for i, row := range c.Slots {
			for k := 1 - perOctave - lowest; k < len(row); k++ { // above 2^-1
				num[i] += row[k]
			}
		}
		return stat.Tally{Num: num, Den: t.Den}
	}
	var out []Outcome
	for _, m := range []struct {
		name  string
		a, b  stat.Tally
		scale stat.Scale
	}{
		{"error ratio, difference", errorsOf(ca[0], a[0]), errorsOf(cb[0], b[0]), stat.Difference},
		{"error ratio, ratio", errorsOf(ca[0], a[0]), errorsOf(cb[0], b[0]), stat.LogRatio},
		{"Apdex, difference", stat.Apdex(a[0], 0.1), stat.Apdex(b[0], 0.1), stat.Difference},
	} {
		c, err := stat.Shares([]stat.Tally{m.a}, []stat.Tally{m.b}, nil, m.scale, stat.Options{})
		if err != nil {
			return nil, err
		}
		out = append(out, outcome(m.name, c))
	}
	return out, nil
}

// band alarms if the band around 19 quantiles leaves out no change anywhere.
func band(o stat.Options) func(*rand.Rand, []*Counts, []*Counts) ([]Outcome, error) {
	var ps []float64
	for p := 5; p < 100; p += 5 {
		ps = append(ps, float64(p)/100)
	}
	return func(_ *rand.Rand, ca, cb []*Counts) ([]Outcome, error) {
		a, b, err := both(ca, cb)
		if err != nil {
			return nil, err
		}
		changes, err := stat.Band(a, b, ps, nil, 1, o)
		alarm := false
		for _, c := range changes {
			alarm = alarm || c.Short == "" && !c.CI.Contains(0)
		}
		return []Outcome{{"anywhere", alarm, false, math.NaN(), math.NaN()}}, err
	}
}

// wholes tests whole distributions.
func wholes(o stat.Options) func(*rand.Rand, []*Counts, []*Counts) ([]Outcome, error) {
	return func(_ *rand.Rand, ca, cb []*Counts) ([]Outcome, error) {
		a, b, err := both(ca, cb)
		if err != nil {
			return nil, err
		}
		var out []Outcome
		for _, by := range []struct {
			name string
			w    stat.Weighting
		}{{"energy", stat.Energy}, {"Cramér–von Mises", stat.CramerVonMises}, {"Anderson–Darling", stat.AndersonDarling}} {
			w, err := stat.Distribution(a, b, nil, by.w, 199, 1, o)
			if err != nil {
				return nil, err
			}
			out = append(out, Outcome{by.name, w.P <= 0.05, false, math.NaN(), math.NaN()})
		}
		return out, nil
	}
}

// watched looks from slot first of side B on, after every so many more, until it ends,
// and alarms if any look does.
func watched(fixed bool, first, every int, ps ...float64) func(*rand.Rand, []*Counts, []*Counts) ([]Outcome, error) {
	return func(_ *rand.Rand, ca, cb []*Counts) ([]Outcome, error) {
		a, b, err := both(ca, cb)
		if err != nil {
			return nil, err
		}
		live := &stat.Live{}
		if fixed {
			live.Fixed = a[0].Slots()
		}
		peek := make([]bool, len(ps))
		out := make([]Outcome, 0, 2*len(ps))
		alarm := make([]bool, len(ps))
		for n := first; n <= b[0].Slots(); n += every {
			sa, sb := a, stat.Side{b[0].Slice(0, n)}
			if !fixed {
				sa = stat.Side{a[0].Slice(0, n)}
			}
			for _, o := range []stat.Options{{Live: live, Paired: !fixed}, {Paired: !fixed}} {
				cs, err := stat.Quantiles(sa, sb, ps, nil, o)
				if err != nil {
					return nil, err
				}
				for i, c := range cs {
					if claimed := c.Short == "" && !c.CI.Contains(0); claimed && (o.Live == nil || alarmed(c)) {
						if o.Live != nil {
							alarm[i] = true
						} else {
							peek[i] = true
						}
					}
				}
			}
		}
		for i, p := range ps {
			out = append(out,
				Outcome{fmt.Sprintf("p%g, live", 100*p), alarm[i], false, math.NaN(), math.NaN()},
				Outcome{fmt.Sprintf("p%g, fixed interval looked at as often", 100*p), peek[i], false, math.NaN(), math.NaN()})
		}
		return out, nil
	}
}

var correlations = []float64{0, 0.3, 0.6, 0.9}

func load(hours int, correlation float64, strata []Stratum) Load {
	return Load{Slots: 360 * hours, Rate: 100, Correlation: correlation, Spread: 0.15, Strata: strata}
}

// limit returns the greatest share of false alarms that is allowed.
func limit(hours int, correlation float64) float64 {
	if hours == 1 && correlation > 0.6 {
		return 9
	}
	return 7
}

// Unchanged returns the cells in which nothing changes.
func Unchanged() (cells []Cell) {
	add := func(name string, hours int, correlation float64, a, b Load, c Cell) {
		c.Name = fmt.Sprintf("%s, %d h, correlation %g", name, hours, correlation)
		c.A, c.B = a, b
		if c.Limit == 0 {
			c.Limit = limit(hours, correlation)
		}
		cells = append(cells, c)
	}
	for _, kind := range []struct {
		name   string
		strata []Stratum
	}{{"log-normal", Plain()}, {"Pareto 1.5", Heavy()}} {
		for _, hours := range []int{1, 4} {
			for _, phi := range correlations {
				l := load(hours, phi, kind.strata)
				add(kind.name, hours, phi, l, l, Cell{Methods: besides})
			}
		}
	}
	// The slow operation goes from 20 % to 40 % of the requests.
	shifted := func(slow float64) []Stratum {
		return []Stratum{{Share: 1 - slow, Median: 0.1}, {Share: slow, Median: 0.5}}
	}
	for _, hours := range []int{1, 4} {
		for _, phi := range correlations {
			add("mix shift, like for like", hours, phi, load(hours, phi, shifted(0.2)), load(hours, phi, shifted(0.4)),
				Cell{Methods: figures([]float64{0.5, 0.95, 0.99}, common, stat.Options{})})
		}
	}
	for _, phi := range []float64{0, 0.9} {
		few := load(1, phi, Plain())
		few.Rate, few.Poisson = 5, true
		add("five requests a slot", 1, phi, few, few, Cell{Methods: figures([]float64{0.5, 0.95}, nil, stat.Options{})})
		few.Rate = 0.5
		add("every other slot empty", 1, phi, few, few, Cell{Methods: figures([]float64{0.5, 0.9}, nil, stat.Options{})})
	}
	for _, phi := range correlations {
		l := load(1, phi, Plain())
		add("shares", 1, phi, l, l, Cell{Methods: shares})
		add("whole distribution", 1, phi, l, l, Cell{Methods: wholes(stat.Options{}), Fewer: 2})
	}
	for _, phi := range []float64{0, 0.9} {
		l := load(1, phi, Plain())
		add("paired", 1, phi, l, l, Cell{Shared: true, Methods: figures([]float64{0.5, 0.95, 0.99, 0.999}, nil, stat.Options{Paired: true})})
		add("whole distribution, paired", 1, phi, l, l, Cell{Shared: true, Methods: wholes(stat.Options{Paired: true}), Fewer: 2})
	}
	for _, phi := range []float64{0, 0.6, 0.9} {
		l := load(1, phi, Plain())
		add("band of 19 quantiles", 1, phi, l, l, Cell{Methods: band(stat.Options{}), Fewer: 2})
	}
	l := load(1, 0.9, Plain())
	add("band of 19 quantiles, paired", 1, 0.9, l, l, Cell{Shared: true, Methods: band(stat.Options{Paired: true}), Fewer: 2})
	// The same hour of another day, its slots set against those of the same time.
	for _, phi := range correlations {
		day := load(1, phi, Plain())
		day.Season, day.Start = 0.5, 8640/8*7
		add("daily season, same hour", 1, phi, day, day, Cell{Methods: figures([]float64{0.5, 0.95, 0.99}, nil, stat.Options{Paired: true})})
	}
	for _, phi := range []float64{0, 0.6, 0.9} {
		add("looked at each minute for two hours after a mark", 1, phi, load(1, phi, Plain()), load(2, phi, Plain()), Cell{Methods: watched(true, 30, 6, 0.95), Fewer: 4})
	}
	l = load(2, 0.9, Plain())
	add("looked at each minute for two hours, paired", 2, 0.9, l, l, Cell{Shared: true, Methods: watched(false, 30, 6, 0.95), Fewer: 4})
	others(add)
	drifting(add)
	return cells
}

// Power is a cell with a change.
type Power struct {
	Cell
	// Must says that the change is to be found in nine trials of ten; the others
	// are held against the oracle.
	Must bool
	// Judged is the method whose power is asked for.
	Judged string
	// Drifts says that its slots remember, so that the oracle is only for comparison.
	Drifts bool
}

// Changed returns the cells with a change, one hour a side.
func Changed() (cells []Power) {
	type change struct {
		name   string
		judged string
		strata []Stratum
		before []Stratum
		rate   float64
		p      float64
	}
	slower := func(s Stratum, by, tail float64) []Stratum {
		s.Slower, s.Tail = by, tail
		return []Stratum{s}
	}
	plain := Plain()[0]
	for _, ch := range []change{
		{"all requests 5 % slower", "p95", slower(plain, 1.05, 1), Plain(), 100, 0.95},
		{"all requests 5 % faster", "p95", slower(plain, 0.95, 1), Plain(), 100, 0.95},
		{"the slowest 1 % 20 % slower, tapering off to 3 %", "p99", slower(plain, 1.2, 0.01), Plain(), 100, 0.99},
		{"the largest 1 % of tenants 40 % slower, their cohort", "p50", slower(plain, 1.4, 1), Plain(), 1, 0.5},
		{"all requests 10 % slower, Pareto 1.5", "p95", slower(Heavy()[0], 1.1, 1), Heavy(), 100, 0.95},
	} {
		for _, phi := range correlations {
			for _, paired := range []bool{false, true} {
				if paired && phi != 0 && phi != 0.9 {
					continue
				}
				a := load(1, phi, ch.before)
				a.Rate = ch.rate
				b := a
				b.Strata = ch.strata
				how := "windows"
				if paired {
					how = "paired"
				}
				cells = append(cells, Power{
					Cell: Cell{
						Name: fmt.Sprintf("%s, %s, correlation %g", ch.name, how, phi), A: a, B: b, Shared: paired,
						Methods: figures([]float64{ch.p}, nil, stat.Options{Paired: paired}),
					},
					Must: (paired || phi == 0) && ch.before[0].Pareto == 0, Judged: ch.judged,
				})
			}
		}
	}
	return append(cells, drifted()...)
}

// Tally returns the outcomes of the judged method.
func (p *Power) Tally(ctx context.Context, trials int) (*Tally, error) {
	tallies, err := p.Cell.Run(ctx, trials)
	if err != nil {
		return nil, err
	}
	for _, t := range tallies {
		if t.Method == p.Judged {
			return t, nil
		}
	}
	return nil, fmt.Errorf("%s: nothing judges %s", p.Name, p.Judged)
}

// Found returns the power of the judged method, and of the oracle.
func (p *Power) Found(ctx context.Context, trials int) (ours, oracle float64, err error) {
	t, err := p.Tally(ctx, trials)
	if err != nil {
		return 0, 0, err
	}
	return t.Rate(), t.Oracle(), nil
}
