package calibration

import (
	"fmt"
	"math"
	"math/rand/v2"

	"tailscope/hist"
	"tailscope/stat"
)

// wandering is a cause for which a side's slots differ, by name.
type wandering struct {
	name        string
	correlation float64
	load        func(hours int) Load
}

// wanderings are what neighbouring hours differ by while nothing is changed.
func wanderings() []wandering {
	return []wandering{
		// Around the busiest hour of a day, at 61 % of what the service can take.
		{"latency that rises with load", 0.9, func(hours int) Load {
			l := load(hours, 0.9, Plain())
			l.Busy, l.Season, l.Start = 0.5, 0.2, day/4-l.Slots
			return l
		}},
		{"latency that rises with load", 0.97, func(hours int) Load {
			l := load(hours, 0.97, Plain())
			l.Busy, l.Season, l.Start = 0.5, 0.2, day/4-l.Slots
			return l
		}},
		{"two regimes of 3 min", 0.9, func(hours int) Load {
			l := load(hours, 0.9, Plain())
			l.Sojourn = 18
			return l
		}},
		{"two regimes of 10 min", 0.97, func(hours int) Load {
			l := load(hours, 0.97, Plain())
			l.Sojourn = 60
			return l
		}},
		{"long memory 0.3", 0, func(hours int) Load {
			l := load(hours, 0, Plain())
			l.Memory = 0.3
			return l
		}},
		{"long memory 0.4", 0, func(hours int) Load {
			l := load(hours, 0, Plain())
			l.Memory = 0.4
			return l
		}},
	}
}

// drifting are the cells without a change in which the sides differ by what one hour and
// the next differ by anyway; add numbers and keeps them.
func drifting(add func(name string, hours int, correlation float64, a, b Load, c Cell)) {
	ps := []float64{0.5, 0.95, 0.99}
	for _, w := range wanderings() {
		for _, hours := range []int{1, 4} {
			l := w.load(hours)
			add(w.name, hours, w.correlation, l, l, Cell{Apart: l.Slots, Fewer: hours, Limit: drift, Methods: figures(ps, nil, stat.Options{})})
		}
	}
	// The slow operation goes from 20 % to 40 % of the requests.
	mixed := func(slow float64) Load {
		l := load(1, 0, []Stratum{{Share: 1 - slow, Median: 0.1}, {Share: slow, Median: 0.5}})
		l.Memory = 0.3
		return l
	}
	add("mix shift, like for like, long memory 0.3", 1, 0, mixed(0.2), mixed(0.4), Cell{Apart: 360, Limit: drift, Methods: figures(ps, common, stat.Options{})})
	for _, phi := range []float64{0.6, 0.9} {
		short := load(1, phi, Plain())
		short.Slots = 30
		add("side A of 30 slots, looked at each slot for an hour", 1, phi, short, load(1, phi, Plain()), Cell{Apart: 30, Limit: drift, Methods: watched(true, 1, 1, ps...), Fewer: 8})
	}
	for _, weights := range [][]uint64{{1}, {8}, {32}, {1, 8, 32}} {
		for _, phi := range []float64{0, 0.6} {
			l := load(1, phi, Plain())
			l.Rate = 30
			add(fmt.Sprintf("30 requests a slot of weight %d", weights), 1, phi, Load{}, Load{}, Cell{Methods: weighted(l, weights)})
		}
	}
}

// weighted judges sampled requests, which stand for one of these weights each.
func weighted(l Load, weights []uint64) func(*rand.Rand, []*Counts, []*Counts) ([]Outcome, error) {
	return func(r *rand.Rand, _, _ []*Counts) ([]Outcome, error) {
		var sides [2]stat.Side
		for i := range sides {
			slots := make([]*hist.Histogram, l.Slots)
			for t, median := range l.medians(r) {
				slots[t] = hist.New(hist.DefaultSchema)
				for range l.requests(r, 1) {
					seconds := 0.1 * math.Exp(median+0.6*r.NormFloat64())
					if err := slots[t].RecordNanos(int64(1e9*seconds), weights[r.IntN(len(weights))]); err != nil {
						return nil, err
					}
				}
			}
			s, err := stat.NewSeries(slots)
			if err != nil {
				return nil, err
			}
			sides[i] = stat.Side{s}
		}
		return judged(sides[0], sides[1], []float64{0.5, 0.95, 0.99}, nil, stat.Options{})
	}
}

// drift is the greatest share of false alarms where slots remember.
const drift = 7

// drifted are the cells of the same with a change, an hour a side.
func drifted() (cells []Power) {
	for _, w := range wanderings() {
		for _, slower := range []float64{1.1, 1.25, 1.5, 2} {
			a := w.load(1)
			b := a
			b.Strata = []Stratum{{Share: 1, Median: 0.1, Slower: slower, Tail: 1}}
			cells = append(cells, Power{
				Cell: Cell{
					Name: fmt.Sprintf("%s, correlation %g, %g times as slow", w.name, w.correlation, slower), A: a, B: b, Apart: a.Slots,
					Methods: figures([]float64{0.95}, nil, stat.Options{}),
				},
				Judged: "p95", Drifts: true,
			})
		}
	}
	return cells
}
