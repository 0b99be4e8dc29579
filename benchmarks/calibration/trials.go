package calibration

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"
)

func studentQuantile(df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(0.975)
}

// Outcome is the result of one method in one trial.
type Outcome struct {
	Method string
	Alarm  bool
	Drifts bool    // said in place of an alarm
	Effect float64 // what it estimated, NaN if it estimates nothing
	SE     float64
}

// Tally counts one method's outcomes.
type Tally struct {
	Method  string
	Trials  int
	Alarms  int
	Drifts  int     // in place of alarms
	squares float64 // Σ effect²
	errors  float64 // Σ SE²
	effects []float64
}

// Rate returns the share of trials with an alarm.
func (t *Tally) Rate() float64 { return float64(t.Alarms) / float64(t.Trials) }

// Drifting returns the share of trials in which drifts are said in place of an alarm.
func (t *Tally) Drifting() float64 { return float64(t.Drifts) / float64(t.Trials) }

// StandardError returns the mean standard error that was claimed over the one that
// the estimates had; NaN for methods that estimate nothing.
func (t *Tally) StandardError() float64 { return math.Sqrt(t.errors / t.squares) }

// Oracle returns the share of trials whose estimate an oracle would call a change:
// one that knows the standard deviation of the estimates around their mean.
func (t *Tally) Oracle() float64 {
	mean, squares := 0.0, 0.0
	for _, v := range t.effects {
		mean += v / float64(t.Trials)
	}
	for _, v := range t.effects {
		squares += (v - mean) * (v - mean)
	}
	deviation := math.Sqrt(squares / float64(t.Trials-1))
	n := 0
	for _, v := range t.effects {
		if math.Abs(v) > z975*deviation {
			n++
		}
	}
	return float64(n) / float64(t.Trials)
}

// Trials runs n trials, two at a time on two cores, and counts by method in the
// order in which they are first named; a trial need not try every method. Trial i draws from a source of its
// own, so results do not depend on who runs it.
func Trials(ctx context.Context, n int, seed uint64, trial func(*rand.Rand) ([]Outcome, error)) ([]*Tally, error) {
	outcomes := make([][]Outcome, n)
	var next sync.Mutex
	i, first := 0, error(nil)
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for {
				next.Lock()
				if first == nil {
					first = ctx.Err()
				}
				if i == n || first != nil {
					next.Unlock()
					return
				}
				k := i
				i++
				next.Unlock()
				out, err := trial(rand.New(rand.NewPCG(seed, uint64(k))))
				if err != nil {
					next.Lock()
					first = err
					next.Unlock()
				}
				outcomes[k] = out
			}
		})
	}
	running.Wait()
	if first != nil {
		return nil, first
	}
	var tallies []*Tally
	for _, out := range outcomes {
		for _, o := range out {
			j := slices.IndexFunc(tallies, func(t *Tally) bool { return t.Method == o.Method })
			if j < 0 {
				j = len(tallies)
				tallies = append(tallies, &Tally{Method: o.Method})
			}
			t := tallies[j]
			t.Trials++
			if o.Alarm {
				t.Alarms++
			}
			if o.Drifts {
				t.Drifts++
			}
			t.squares += o.Effect * o.Effect
			t.errors += o.SE * o.SE
			t.effects = append(t.effects, o.Effect)
		}
	}
	return tallies, nil
}
