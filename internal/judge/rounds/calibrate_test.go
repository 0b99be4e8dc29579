package rounds

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tailscope/hist"
	"tailscope/internal/judge"
)

// noise draws what rounds and runs differ by without any effect.
type noise struct {
	name   string
	rounds float64 // standard deviation of what a round shares
	each   func(r *rand.Rand) float64
}

func normal(s float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return s * r.NormFloat64() }
}

var noises = []noise{
	{"quiet rounds", 0.02, normal(0.03)},
	{"rounds that differ a lot", 0.8, normal(0.03)},
	{"heavy tails", 0.3, func(r *rand.Rand) float64 { // Student's t with 3 degrees of freedom
		chi := 0.0
		for range 3 {
			chi += sqr(r.NormFloat64())
		}
		return 0.03 * r.NormFloat64() / math.Sqrt(chi/3)
	}},
	{"one run in ten is disturbed", 0.1, func(r *rand.Rand) float64 {
		v := 0.02 * r.NormFloat64()
		if r.Float64() < 0.1 {
			v += 0.3
		}
		return v
	}},
}

func sqr(v float64) float64 { return v * v }

// draw makes rounds of settings whose log p99 differ from the control's by shift.
func draw(r *rand.Rand, of noise, from, to int, shift []float64) []Run {
	var out []Run
	for round := from; round < to; round++ {
		block := of.rounds * r.NormFloat64()
		for s, d := range shift {
			v := math.Exp(-3 + block + d + of.each(r))
			out = append(out, Run{Round: round, Setting: s, Cells: map[Key]Cell{{}: {Values: map[string]float64{"p99": v}, Requests: 1000}}})
		}
	}
	return out
}

func input(runs []Run, rule Rule, settings ...string) Input {
	return Input{Settings: settings, Runs: runs, Contrasts: Against(settings), Rule: rule, Decides: "p99"}
}

// rateOf counts how often something happens, and fails if that is beyond what the
// nominal rate allows by three standard deviations.
func rateOf(t *testing.T, name string, times int, nominal float64, happens func(r *rand.Rand) bool) float64 {
	t.Helper()
	r := rand.New(rand.NewPCG(7, uint64(len(name))))
	n := 0
	for range times {
		if happens(r) {
			n++
		}
	}
	share := float64(n) / float64(times)
	t.Logf("%-60s %5.2f %% of %d", name, 100*share, times)
	if limit := nominal + 3*math.Sqrt(nominal*(1-nominal)/float64(times)); share > limit {
		t.Errorf("%s: %.2f %%, above %.2f %%", name, 100*share, 100*limit)
	}
	return share
}

func alarm(runs []Run, rule Rule) bool {
	e := Rows(input(runs, rule, "a", "b"))[0].Measures[0]
	return e.Low > 1 || e.High < 1
}

func TestFixedRoundsAlarmAtTheNominalRate(t *testing.T) {
	for _, of := range noises {
		for _, n := range []int{3, 4, 8, 30} {
			share := rateOf(t, fmt.Sprintf("fixed, %s, %d rounds", of.name, n), 500, 0.05, func(r *rand.Rand) bool {
				return alarm(draw(r, of, 0, n, []float64{0, 0}), Rule{})
			})
			if of.name == "quiet rounds" && share < 0.03 {
				t.Errorf("intervals are wider than they say: %.2f %%", 100*share)
			}
		}
	}
}

func TestPrecisionAlarmsAtTheNominalRate(t *testing.T) {
	for _, of := range noises {
		rateOf(t, "two stages, "+of.name, 2000, 0.05, func(r *rand.Rand) bool {
			in := input(draw(r, of, 0, 6, []float64{0, 0}), Rule{Stage: 6}, "a", "b")
			p := Precision(in, 0.02, 60)
			in.Runs = append(in.Runs, draw(r, of, 6, p.Rounds, []float64{0, 0})...)
			if q := Precision(in, 0.02, 60); !q.Done || q.Rounds != p.Rounds {
				t.Fatalf("the plan changed from %+v to %+v", p, q)
			}
			return alarm(in.Runs, in.Rule)
		})
	}
}

func TestPrecisionReachesWhatWasAsked(t *testing.T) {
	r, wide := rand.New(rand.NewPCG(1, 2)), 0
	for range 200 {
		in := input(draw(r, noises[1], 0, 6, []float64{0, 0.1}), Rule{Stage: 6}, "a", "b")
		p := Precision(in, 0.02, 10_000)
		in.Runs = append(in.Runs, draw(r, noises[1], 6, p.Rounds, []float64{0, 0.1})...)
		e := Rows(in)[0].Measures[0].Estimate
		if half := (e.High - e.Low) / 2; half > math.Log(1.02)+1e-9 {
			wide++
		}
	}
	if wide > 50 { // as the variance of all rounds may be greater than the first stage's
		t.Errorf("%d intervals of 200 are wider than asked", wide)
	}
}

func TestEarlyDecisionsAlarmAtMostAtTheNominalRate(t *testing.T) {
	for _, of := range noises {
		rateOf(t, "decided, looked at after each of 4 to 30 rounds, "+of.name, 400, 0.05, func(r *rand.Rand) bool {
			var runs []Run
			for n := range 30 {
				runs = append(runs, draw(r, of, n, n+1, []float64{0, 0})...)
				if n >= 3 && alarm(runs, Rule{Live: true}) {
					return true
				}
			}
			return false
		})
	}
	// An ordinary interval that is looked at as often says more than once in ten
	// what is not so: the reason for the other.
	r, n := rand.New(rand.NewPCG(3, 4)), 0
	for range 500 {
		var runs []Run
		for round := range 30 {
			runs = append(runs, draw(r, noises[0], round, round+1, []float64{0, 0})...)
			if round >= 3 && alarm(runs, Rule{}) {
				n++
				break
			}
		}
	}
	t.Logf("ordinary intervals, looked at as often: %.1f %%", float64(n)/5)
	if n < 60 {
		t.Errorf("ordinary intervals alarmed %d of 500 times; the test tells nothing", n)
	}
}

func TestEarlyDecisionsEnd(t *testing.T) {
	r, total := rand.New(rand.NewPCG(5, 6)), 0
	for range 100 {
		var runs []Run
		for n := range 30 {
			runs = append(runs, draw(r, noises[1], n, n+1, []float64{0, math.Log(1.3)})...)
			if p := Decided(input(runs, Rule{Live: true}, "a", "b"), 4, 30); p.Done {
				total += p.Rounds
				if !p.Decided {
					t.Fatalf("not decided after %d rounds of an effect of 30 %%: %s", p.Rounds, p.Why)
				}
				break
			}
		}
	}
	if mean := float64(total) / 100; mean > 8 {
		t.Errorf("an effect of 30 %% in noise of 4 %% took %.1f rounds", mean)
	}
}

// Rounds that end early end with a verdict, also where it is one of many figures.
func TestEarlyDecisionsAreVerdicts(t *testing.T) {
	r, ended := rand.New(rand.NewPCG(9, 10)), 0
	for range 60 {
		var runs []Run
		for n := range 30 {
			for _, run := range draw(r, noises[0], n, n+1, []float64{0, 0.03}) {
				c := run.Cells[Key{}]
				for _, m := range []string{"p50", "p75", "p90", "p95", "mean", "cpu"} { // of which nothing is known
					c.Values[m] = math.Exp(0.1 * r.NormFloat64())
				}
				runs = append(runs, run)
			}
			in := input(runs, Rule{Live: true}, "a", "b")
			if p := Decided(in, 4, 30); p.Decided {
				ended++
				if m := Rows(in)[0].Of("p99"); m.Verdict == judge.NoEvidence {
					t.Fatalf("decided after %d rounds, and it is %s: %s", n+1, m.Verdict, m.Sentence)
				}
				break
			}
		}
	}
	if ended < 10 {
		t.Errorf("%d of 60 were decided; the test tells little", ended)
	}
}

func TestTheBestIsAmongTheCandidates(t *testing.T) {
	shift := []float64{0.2, 0.05, 0.02, 0, 0.01, 0.3}
	for _, of := range noises[:3] {
		for _, n := range []int{4, 20} {
			left := 0
			rateOf(t, fmt.Sprintf("the best is left out, %s, %d rounds", of.name, n), 500, 0.05, func(r *rand.Rand) bool {
				in := input(draw(r, of, 0, n, shift), Rule{}, "1", "2", "4", "8", "16", "24")
				c := Curves(in, []float64{1, 2, 4, 8, 16, 24})[0]
				left += len(c.Candidates)
				return c.XLow > 8 || c.XHigh < 8
			})
			if n == 20 && of.rounds > 0.5 && float64(left)/500 > 3.5 {
				t.Errorf("%.1f candidates on average", float64(left)/500)
			}
		}
	}
}

// Verdicts of whole experiments, with distributions of requests and many figures.
func TestVerdictsAlarmAtMostAtTheNominalRate(t *testing.T) {
	const times = 150
	measures := map[string]int{}
	verdicts := 0
	r := rand.New(rand.NewPCG(11, 12))
	for range times {
		var runs []Run
		for round := range 6 {
			block := 0.3 * r.NormFloat64()
			for s := range 2 {
				h, own := hist.New(hist.DefaultSchema), 0.03*r.NormFloat64()
				failed := uint64(0)
				for range 1000 {
					_ = h.Record(math.Exp(-5 + block + own + 0.5*r.NormFloat64()))
					if r.Float64() < 0.004 {
						failed++
					}
				}
				runs = append(runs, Run{Round: round, Setting: s, Cells: map[Key]Cell{{}: {Values: Figures(h, 1000, failed, 1), Requests: 1000, Errors: failed}}})
			}
		}
		row := Rows(input(runs, Rule{}, "a", "b"))[0]
		for _, m := range row.Measures {
			if m.Name != judge.Rate && (m.Low > FigureOf(m.Name).None() || m.High < FigureOf(m.Name).None()) {
				measures[m.Name]++
			}
		}
		if row.Verdict != judge.NoEvidence && row.Verdict != judge.Same {
			verdicts++
		}
	}
	t.Logf("of %d: measures %v, verdicts %d", times, measures, verdicts)
	limit := int(times*0.05 + 3*math.Sqrt(times*0.05*0.95))
	for m, n := range measures {
		if n > limit {
			t.Errorf("%s alarmed %d times of %d, above %d", m, n, times, limit)
		}
	}
	if verdicts > limit {
		t.Errorf("%d verdicts of %d, above %d", verdicts, times, limit)
	}
}
