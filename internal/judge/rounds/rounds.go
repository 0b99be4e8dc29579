// Package rounds says what the rounds of an experiment amount to.
//
// A round measures every setting once, in random order: it is a block of a
// randomised block design (Fisher 1935, The Design of Experiments, chapter IV).
// What a round makes slower makes all its settings slower, so only comparisons
// within rounds count: each round gives one number, the log ratio of two
// settings' figures, and the rounds' numbers are referred to Student's t with as
// many degrees of freedom as there are rounds, less one. Requests are never
// counted as if they were independent. Settings have variances of their own:
// nothing is pooled over them.
//
// The number of rounds may follow the data in two ways, and the interval follows
// the rule (Rule): Stein's two stages, and an interval that holds at every look.
// With those, as with a fixed number, the interval leaves out the truth as often
// as it says, from three rounds on.
//
// Slots play no part, however short a round is, and so neither do those of one second of
// package seconds. A figure of a round is that of the load's own histogram, which holds
// exactly the requests of the round; slots cut from it would share what made the round
// slow, and count as independent what is not. Input.Slots alone is of slots: a live
// experiment estimates elsewhere, see its liveSlot.
//
// Nothing here reads a clock, does I/O or draws random numbers.
package rounds

import (
	"math"
	"slices"

	"tailscope/internal/judge"
)

// Fewest is how many rounds any interval needs.
const Fewest = 3

// Key is what a figure is of: a query, a tenant, or, with both empty, everything.
type Key struct{ Query, Tenant string }

// Cell is what was measured of one key in one run.
type Cell struct {
	// Values by measure; a measure that cannot be told, as too few requests were
	// made, is absent or NaN.
	Values           map[string]float64
	Requests, Errors uint64
}

// Run is one setting in one round, valid.
type Run struct {
	Round, Setting int // from 0
	Cells          map[Key]Cell
}

// Input is what is judged. Only runs that count are in it.
type Input struct {
	Settings  []string // names, the control first
	Runs      []Run
	Contrasts []Contrast
	// Measures that are judged; nil stands for all there are.
	Measures []string
	// Decides is the measure by which rows are read first; empty if none.
	Decides string
	Rule    Rule
	Level   float64 // confidence; 0 stands for 0.95
	Within  float64 // margin of sameness of ratios; 0 stands for 0.05
	Closed  bool    // the load is a closed loop, whose judge.Rate is an outcome
	Slots   bool    // estimates are of slots of time, not of rounds
}

func (in *Input) defaults() {
	if in.Level == 0 {
		in.Level = 0.95
	}
	if in.Within == 0 {
		in.Within = 0.05
	}
	if in.Rule.Live && in.Rule.Stage > 0 {
		in.Rule.Stage = 0
	}
}

// Measure is one figure of a row. Effect is a ratio, or a difference of shares.
type Measure struct {
	Name             string
	Control, Variant float64
	Estimate         Estimate // on its own scale: the log of the ratio, or the difference
	Effect           float64  // variant / control; of errors the difference
	Low, High        float64
	Adjusted         float64
	Verdict          judge.Verdict
	Sentence         string
	Needs            string
	Short            string
}

// Row is one contrast of one key.
type Row struct {
	Contrast Contrast
	Key      Key
	Rounds   int
	Requests uint64
	Verdict  judge.Verdict
	Lead     string
	Measures []Measure
}

// Rows judges each contrast of each key: everything first, then queries, then
// tenants. Probabilities are adjusted (Benjamini & Hochberg 1995) over all rows
// and measures of everything together, of the queries, and of the tenants: three
// families, as each answers a question of its own.
func Rows(in Input) []Row {
	in.defaults()
	t := tabulate(in.Runs)
	var rows []Row
	for _, k := range t.keys() {
		for _, c := range in.Contrasts {
			rows = append(rows, t.row(&in, k, c))
		}
	}
	Conclude(in, rows)
	return rows
}

// Conclude adjusts the probabilities of rows that were estimated elsewhere, and
// gives every measure and row its verdict.
func Conclude(in Input, rows []Row) {
	in.defaults()
	families := map[int][]*Measure{}
	for i := range rows {
		f := family(rows[i].Key)
		for j := range rows[i].Measures {
			families[f] = append(families[f], &rows[i].Measures[j])
		}
	}
	for _, ms := range families {
		judge.Adjust(ms, func(m *Measure) float64 {
			if m.Verdict == judge.TooLittle || m.Name == judge.Rate && !in.Closed {
				return math.NaN()
			}
			return m.Estimate.P
		}, func(m *Measure, adjusted float64) { m.Adjusted = adjusted })
	}
	for i := range rows {
		r := &rows[i]
		for j := range r.Measures {
			r.Measures[j].conclude(&in, r)
		}
		r.conclude(&in)
	}
}

func family(k Key) int {
	switch {
	case k.Tenant != "":
		return 2
	case k.Query != "":
		return 1
	}
	return 0
}

// table has runs by round and setting.
type table struct {
	rounds []int                // ascending
	runs   map[[2]int]*Run      // by round and setting
	names  map[string]struct{}  // of measures
	of     map[Key]struct{}     //
	total  map[Key]uint64       // requests, for the order of tenants
	all    map[int]map[int]bool // settings by round
}

func tabulate(runs []Run) *table {
	t := &table{runs: map[[2]int]*Run{}, names: map[string]struct{}{}, of: map[Key]struct{}{}, total: map[Key]uint64{}, all: map[int]map[int]bool{}}
	for i := range runs {
		r := &runs[i]
		if t.all[r.Round] == nil {
			t.all[r.Round] = map[int]bool{}
			t.rounds = append(t.rounds, r.Round)
		}
		t.all[r.Round][r.Setting] = true
		t.runs[[2]int{r.Round, r.Setting}] = r
		for k, c := range r.Cells {
			t.of[k] = struct{}{}
			t.total[k] += c.Requests
			for m := range c.Values {
				t.names[m] = struct{}{}
			}
		}
	}
	slices.Sort(t.rounds)
	return t
}

// keys are in order: everything, queries by name, tenants from the heaviest.
func (t *table) keys() []Key {
	var out []Key
	for k := range t.of {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b Key) int {
		if d := family(a) - family(b); d != 0 {
			return d
		}
		switch {
		case a.Tenant != b.Tenant && t.total[a] != t.total[b]:
			if t.total[a] > t.total[b] {
				return -1
			}
			return 1
		case a.Tenant+a.Query < b.Tenant+b.Query:
			return -1
		}
		return 1
	})
	return out
}

// measures of a table, in the order in which they are shown.
func (t *table) measures(in *Input) []string {
	var out []string
	for m := range t.names {
		if in.Measures == nil || slices.Contains(in.Measures, m) || m == in.Decides {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, compareMeasures)
	return out
}

func (t *table) row(in *Input, k Key, c Contrast) Row {
	r := Row{Contrast: c, Key: k}
	var complete []int
	for _, n := range t.rounds {
		if t.complete(n, k, c) {
			complete = append(complete, n)
		}
	}
	r.Rounds = len(complete)
	for _, n := range complete {
		for s, w := range c.Weights {
			if w != 0 {
				r.Requests += t.runs[[2]int{n, s}].Cells[k].Requests
			}
		}
	}
	for _, name := range t.measures(in) {
		if m, ok := t.measure(in, k, c, name, complete); ok {
			r.Measures = append(r.Measures, m)
		}
	}
	return r
}

// complete says that a round has every setting that a contrast takes.
func (t *table) complete(round int, k Key, c Contrast) bool {
	for s, w := range c.Weights {
		if w == 0 {
			continue
		}
		r := t.runs[[2]int{round, s}]
		if r == nil {
			return false
		}
		if _, ok := r.Cells[k]; !ok {
			return false
		}
	}
	return true
}

// measure is one figure; false if no run has it at all.
func (t *table) measure(in *Input, k Key, c Contrast, name string, rounds []int) (Measure, bool) {
	log := !difference(name)
	m := Measure{Name: name, Control: math.NaN(), Variant: math.NaN(), Effect: math.NaN(), Low: math.NaN(), High: math.NaN(), Adjusted: math.NaN()}
	var each []float64
	var sides [2]mean
	var counts [2]struct{ errors, requests uint64 }
	missing, known := 0, 0
	for _, n := range rounds {
		value, ok := 0.0, true
		var part [2]mean
		for s, w := range c.Weights {
			if w == 0 {
				continue
			}
			cell := t.runs[[2]int{n, s}].Cells[k]
			v, has := cell.Values[name]
			if !has || math.IsNaN(v) || log && v <= 0 {
				ok = false
				continue
			}
			known++
			if log {
				v = math.Log(v)
			}
			value += w * v
			side := 0
			if w > 0 {
				side = 1
			}
			part[side].add(v, math.Abs(w))
			counts[side].errors += cell.Errors
			counts[side].requests += cell.Requests
		}
		if !ok {
			missing++
			continue
		}
		each = append(each, value)
		for i := range sides {
			sides[i].add(part[i].value(), 1)
		}
	}
	if known == 0 && len(rounds) > 0 {
		return m, false
	}
	m.Control, m.Variant = sides[0].value(), sides[1].value()
	if log {
		m.Control, m.Variant = math.Exp(m.Control), math.Exp(m.Variant)
	}
	switch {
	case missing > 0 && isQuantile(name):
		m.Short = TooFew(name)
	case missing > 0:
		m.Short = "not every round has it"
	case len(each) < Fewest:
		m.Short = needRounds(len(each), in.Rule.least())
	case in.Rule.Stage > 0 && len(each) < in.Rule.Stage:
		m.Short = needRounds(len(each), in.Rule.Stage)
	}
	m.Estimate = in.Rule.estimate(each, in.Level)
	if name == judge.ErrorShare && m.Short == "" && c.Effect == "interaction" && m.Estimate.SE == 0 {
		m.Short = "every round has as many" // which of few errors is no knowledge
	}
	if name == judge.ErrorShare && m.Short == "" && c.Effect != "interaction" {
		m.Estimate.widen(counts[0].errors, counts[0].requests, counts[1].errors, counts[1].requests, in.Level)
	}
	m.Effect, m.Low, m.High = m.Estimate.Effect, m.Estimate.Low, m.Estimate.High
	if log {
		m.Effect, m.Low, m.High = math.Exp(m.Effect), math.Exp(m.Low), math.Exp(m.High)
	}
	if m.Short != "" {
		m.Verdict, m.Low, m.High, m.Estimate.P = judge.TooLittle, math.NaN(), math.NaN(), math.NaN()
	}
	return m, true
}

// mean is a weighted mean, NaN of nothing.
type mean struct{ sum, weight float64 }

func (m *mean) add(v, w float64) { m.sum += v * w; m.weight += w }
func (m *mean) value() float64   { return m.sum / m.weight }
