package bench_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/experiment/bench"
)

type arrival struct {
	due   time.Duration
	phase int
}

// all returns the arrivals of a plan over so many loops, in order.
func all(t testing.TB, p bench.Plan, loops int) (arrivals []arrival) {
	t.Helper()
	for loop := range loops {
		pacer, err := p.Pacer(loop, loops)
		if err != nil {
			t.Fatal(err)
		}
		last := time.Duration(0)
		for {
			due, phase, ok := pacer.Next()
			if !ok {
				break
			}
			if due < last {
				t.Fatalf("loop %d: %s after %s", loop, due, last)
			}
			last = due
			arrivals = append(arrivals, arrival{due, phase})
		}
	}
	slices.SortFunc(arrivals, func(a, b arrival) int { return int(a.due - b.due) })
	return arrivals
}

func TestPlansArrive(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		text string
		d    time.Duration
		want []arrival
	}{
		{"4", s, []arrival{{0, 0}, {250 * ms, 0}, {500 * ms, 0}, {750 * ms, 0}}},
		{"3", s, []arrival{{0, 0}, {333333333, 0}, {666666667, 0}}},
		{"0.1", 30 * s, []arrival{{0, 0}, {10 * s, 0}, {20 * s, 0}}}, // 0.1 is not a binary fraction
		// From 0 to 4 within 2 s the integral is t²: 0, 1, √2, √3.
		{"0..4", 2 * s, []arrival{{0, 0}, {s, 0}, {1414213562, 0}, {1732050808, 0}}},
		// And back: 4t − t², due at 2 − √(4 − k).
		{"4..0", 2 * s, []arrival{{0, 0}, {267949192, 0}, {585786438, 0}, {s, 0}}},
		// The third request is due where the second phase has half of one behind it.
		{"2.5 for 1s, 1 for 2s", 0, []arrival{{0, 0}, {400 * ms, 0}, {800 * ms, 0}, {1500 * ms, 1}, {2500 * ms, 1}}},
		{"2 for 1s, 0 for 10s, 1 for 2s", 0, []arrival{{0, 0}, {500 * ms, 0}, {11 * s, 2}, {12 * s, 2}}}, // a pause
		{"1,2,3", 3 * s, []arrival{{0, 0}, {s, 1}, {1500 * ms, 1}, {2 * s, 2}, {2333333333, 2}, {2666666667, 2}}},
	} {
		phases, err := bench.ParsePhases("", c.text, c.d)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		p := bench.Plan{Phases: phases}
		for loops := 1; loops <= 3; loops++ {
			if got := all(t, p, loops); !slices.Equal(got, c.want) {
				t.Errorf("%s over %d loops:\n got %v\nwant %v", c.text, loops, got, c.want)
			}
		}
		if n, ok := p.Requests(); !ok || n != uint64(len(c.want)) {
			t.Errorf("%s: %d requests, %v", c.text, n, ok)
		}
	}
}

func drawPlan(t *rapid.T, arrivals bench.Arrivals) bench.Plan {
	rate := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 2000), rapid.Map(rapid.IntRange(0, 2000), func(n int) float64 { return float64(n) }))
	phase := rapid.Custom(func(t *rapid.T) bench.Phase {
		return bench.Phase{From: rate.Draw(t, "from"), To: rate.Draw(t, "to"), For: time.Duration(rapid.Int64Range(1, 3e9).Draw(t, "for"))}
	})
	return bench.Plan{Arrivals: arrivals, Seed: rapid.Uint64().Draw(t, "seed"), Phases: rapid.SliceOfN(phase, 1, 4).Draw(t, "phases")}
}

// Whatever the plan, loops share its schedule exactly, every request lies in its
// phase, and Λ at the k-th is k to within what a nanosecond makes.
func TestLoopsShareAPlan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt, bench.Even)
		if p.Validate() != nil {
			rt.Skip()
		}
		one := all(t, p, 1)
		loops := rapid.IntRange(2, 9).Draw(rt, "loops")
		if many := all(t, p, loops); !slices.Equal(one, many) {
			rt.Fatalf("%d loops: %d arrivals, not %d", loops, len(many), len(one))
		}
		if n, ok := p.Requests(); !ok || n != uint64(len(one)) {
			rt.Fatalf("%d requests said, %d came", n, len(one))
		}
		for k, a := range one {
			behind, start := 0.0, time.Duration(0)
			for _, ph := range p.Phases[:a.phase] {
				behind, start = behind+ph.Due(), start+ph.For
			}
			ph := p.Phases[a.phase]
			in := (a.due - start).Seconds()
			if a.due < start || a.due >= start+ph.For {
				rt.Fatalf("request %d at %s is not in phase %d", k, a.due, a.phase)
			}
			got := behind + ph.From*in + (ph.To-ph.From)/ph.For.Seconds()*in*in/2
			if math.Abs(got-float64(k)) > 2e-9*max(ph.From, ph.To)+1e-9 {
				rt.Fatalf("Λ at request %d, %s, is %v", k, a.due, got)
			}
		}
	})
}

func TestPoissonIsTheSameOverAnyNumberOfLoops(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt, bench.Poisson)
		if p.Validate() != nil {
			rt.Skip()
		}
		loops := rapid.IntRange(2, 9).Draw(rt, "loops")
		if one, many := all(t, p, 1), all(t, p, loops); !slices.Equal(one, many) {
			rt.Fatalf("%d loops: %d arrivals, not %d", loops, len(many), len(one))
		}
	})
}

// Λ at the arrivals of a Poisson plan is a Poisson process of rate 1 (change of
// time), so its gaps are exponential and independent of the rate's shape: their
// empirical distribution is within the Kolmogorov–Smirnov bound of 1 in 10^6,
// and counts of halves of the run are as Poisson has them.
func TestPoissonRamp(t *testing.T) {
	p := bench.Plan{Arrivals: bench.Poisson, Seed: 11, Phases: []bench.Phase{{From: 0, To: 2000, For: 10 * time.Second}, {From: 2000, To: 500, For: 8 * time.Second}}}
	arrivals := all(t, p, 3)
	lambda := func(a arrival) float64 {
		s := a.due.Seconds()
		if a.phase == 0 {
			return 100 * s * s
		}
		s -= 10
		return 10000 + 2000*s - 1500.0/16*s*s
	}
	var gaps []float64
	last := 0.0
	for _, a := range arrivals {
		gaps = append(gaps, lambda(a)-last)
		last = lambda(a)
	}
	slices.Sort(gaps)
	n := float64(len(gaps))
	worst := 0.0
	for i, g := range gaps {
		f := 1 - math.Exp(-g)
		worst = max(worst, math.Abs(f-float64(i)/n), math.Abs(f-float64(i+1)/n))
	}
	if bound := math.Sqrt(math.Log(2/1e-6) / 2 / n); worst > bound {
		t.Errorf("gaps are %v off exponential ones, beyond %v", worst, bound)
	}
	if math.Abs(n-20000) > 5*math.Sqrt(20000) {
		t.Errorf("%v arrivals, 20000 expected", n)
	}
	if most, ok := p.Requests(); !ok || float64(most) < n || most > 21500 {
		t.Errorf("at most %d requests said, %v came", most, n)
	}
}

func TestAPlanWithoutAnEnd(t *testing.T) {
	phases, err := bench.ParsePhases("", "1000 for 1s, 1000000", 0)
	if err != nil {
		t.Fatal(err)
	}
	p := bench.Plan{Phases: phases}
	if d, _ := p.Requests(); p.Duration() != 0 || d != 0 || p.Rate() != 1e6 || p.PhaseAt(time.Hour) != 1 || p.PhaseAt(time.Second-1) != 0 {
		t.Errorf("duration %s, rate %v, phase %d", p.Duration(), p.Rate(), p.PhaseAt(time.Hour))
	}
	pacer, err := p.Pacer(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	// No drift: the millionth is due when arithmetic says.
	var due time.Duration
	for range 1_000_000 + 1000 + 1 {
		due, _, _ = pacer.Next()
	}
	if due != 2*time.Second {
		t.Errorf("due at %s", due)
	}
	if n := testing.AllocsPerRun(1000, func() { pacer.Next() }); n != 0 {
		t.Errorf("%v allocations a request", n)
	}
}

func TestParsePhases(t *testing.T) {
	for _, c := range []struct {
		name, text string
		d          time.Duration
		want       string // names and phases
	}{
		{"", "200", 30 * time.Second, "=200 for 30s"},
		{"base", "200/s", 30 * time.Second, "base=200 for 30s"},
		{"", "12000/m", 0, "=200"},
		{"", "200..800", time.Minute, "=200..800 for 1m0s"},
		{"", "600..1200/m", time.Minute, "=10..20 for 1m0s"},
		{"", "200,400, 800", time.Minute, "200=200 for 20s; 400=400 for 20s; 800=800 for 20s"},
		{"up", "1,2,1", 10 * time.Second, "up 1=1 for 3.333333333s; up 2=2 for 3.333333333s; up 1 (2)=1 for 3.333333334s"},
		{"", "200 for 1m, 200..800 for 30s, 800", 2 * time.Minute, "200=200 for 1m0s; 200..800=200..800 for 30s; 800=800 for 30s"},
	} {
		phases, err := bench.ParsePhases(c.name, c.text, c.d)
		var got []string
		for _, p := range phases {
			got = append(got, p.Name+"="+p.String())
		}
		if text := strings.Join(got, "; "); err != nil || text != c.want {
			t.Errorf("%s: %s, %v; want %s", c.text, text, err, c.want)
		}
	}
}

func TestBadPlansSayWhatToWrite(t *testing.T) {
	for _, c := range []struct {
		text string
		d    time.Duration
		want string
	}{
		{"fast", 0, `rate "fast": "fast" is not a number of requests a second (hint: write 200, 200..800 for a ramp, or 200,400,800 for steps)`},
		{"200/d", 0, `rate "200/d": unit /d is not known (hint: /s, /m or /h, or none for requests a second)`},
		{"-1", 0, `rate "-1": -1 is not from 0 to 100000000 requests a second`},
		{"1..2", 0, `rate "1..2": nothing says how long it takes (hint: say for how long, such as 1..2 for 30s)`},
		{"1,2", 0, `rate "1,2": nothing says how long it takes (hint: say for how long, such as 1 for 30s)`},
		{"1 for soon", 0, `rate "1 for soon": "soon" is not a duration (hint: write it as 30s, 5m or 1h30m)`},
		{"1 for 5s", 6 * time.Second, `rate "1 for 5s": its steps take 5s, and the whole 6s (hint: leave one of the two out)`},
		{"1 for 5s, 2", 5 * time.Second, `rate "1 for 5s, 2": nothing of 5s is left for 2 (hint: make the whole longer)`},
	} {
		if _, err := bench.ParsePhases("", c.text, c.d); err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	const s = time.Second
	for _, c := range []struct {
		plan bench.Plan
		want string
	}{
		{bench.Plan{}, "a plan needs a phase (hint: say a rate and for how long, such as 200 for 30s)"},
		{bench.Plan{Phases: []bench.Phase{{For: s}}}, "a plan of rate 0 sends nothing (hint: say a positive rate)"},
		{bench.Plan{Phases: []bench.Phase{{From: 1, To: 1}, {From: 1, To: 1}}}, "phase 1: it has no end, so that phase 2 never begins (hint: say for how long)"},
		{bench.Plan{Phases: []bench.Phase{{Name: "up", From: 1, To: 2}}}, "phase up: the rate changes from 1 to 2, and nothing says by when (hint: say for how long)"},
		{bench.Plan{Phases: []bench.Phase{{From: math.NaN(), For: s}}}, "phase 1: rate NaN: must be from 0 to 100000000 requests per second"},
		{bench.Plan{Arrivals: bench.Recorded, Phases: make([]bench.Phase, 2)}, "2 phases: a recording has its own times and takes one phase (hint: leave phases out, or their rates decide and not the recording)"},
	} {
		if err := c.plan.Validate(); err == nil || err.Error() != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
	for _, a := range []bench.Arrivals{bench.Closed, bench.Recorded} {
		p := bench.Plan{Arrivals: a, Phases: []bench.Phase{{For: s}}}
		if _, err := p.Pacer(0, 1); err == nil || p.Validate() != nil {
			t.Errorf("%s: %v, %v", a, err, p.Validate())
		}
	}
}

func FuzzParsePhases(f *testing.F) {
	for _, s := range []string{"200", "200..800/m", "1 for 1s, 2..3", "1,,2", "1e9..", "0.1 for 1ns"} {
		f.Add(s, int64(30e9))
	}
	f.Fuzz(func(t *testing.T, text string, d int64) {
		phases, err := bench.ParsePhases("x", text, time.Duration(d))
		if err != nil {
			return
		}
		total := time.Duration(0)
		for _, p := range phases {
			total += p.For
		}
		if d > 0 && total != time.Duration(d) {
			t.Errorf("%q takes %s, not %s", text, total, time.Duration(d))
		}
		p := bench.Plan{Phases: phases}
		if p.Validate() == nil {
			if pacer, err := p.Pacer(1, 2); err != nil {
				t.Error(err)
			} else {
				pacer.Next()
			}
		}
	})
}

func BenchmarkPacer(b *testing.B) {
	for _, c := range []struct {
		name string
		plan bench.Plan
	}{
		{"even", bench.Plan{Phases: []bench.Phase{{From: 5000, To: 5000}}}},
		{"ramp", bench.Plan{Phases: []bench.Phase{{From: 0, To: 1e6, For: time.Hour}}}},
		{"poisson", bench.Plan{Arrivals: bench.Poisson, Phases: []bench.Phase{{From: 5000, To: 5000}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			pacer, err := c.plan.Pacer(0, 2)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				pacer.Next()
			}
		})
	}
}

// A grid keeps the number of requests, their phases and their order. It moves a request
// by half of the grid at most, over any number of loops. A phase that
// has no two requests within the grid and a plan of another law stay as they were.
func TestGridMovesWithinPhases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		exact := drawPlan(t, rapid.SampledFrom([]bench.Arrivals{bench.Even, bench.Poisson}).Draw(t, "arrivals"))
		if exact.Validate() != nil {
			t.Skip()
		}
		grouped := exact
		grouped.Grid = time.Duration(rapid.Int64Range(1, int64(5*time.Second)).Draw(t, "grid"))
		loops := rapid.IntRange(1, 3).Draw(t, "loops")
		var moved bool
		for loop := range loops {
			a, err := exact.Pacer(loop, loops)
			if err != nil {
				t.Fatal(err)
			}
			b, err := grouped.Pacer(loop, loops)
			if err != nil {
				t.Fatal(err)
			}
			for last := time.Duration(0); ; {
				was, phase, more := a.Next()
				is, samePhase, same := b.Next()
				if more != same || phase != samePhase {
					t.Fatalf("due at %s in phase %d (%t), on the grid at %s in phase %d (%t)", was, phase, more, is, samePhase, same)
				}
				if !more {
					break
				}
				start := time.Duration(0)
				for _, ph := range exact.Phases[:phase] {
					start += ph.For
				}
				if is < last || is < start || (is-was).Abs() > (grouped.Grid+1)/2 {
					t.Fatalf("due at %s, on a grid of %s from %s at %s after %s", was, grouped.Grid, start, is, last)
				}
				if is != was && (is-start)%grouped.Grid != 0 && is != start+exact.Phases[phase].For-1 {
					t.Fatalf("moved to %s, %s after the phase began: not on a grid of %s", is, is-start, grouped.Grid)
				}
				last, moved = is, moved || is != was
			}
		}
		if moved && !grouped.Grouped() {
			t.Fatalf("requests of %+v were moved, and it says that none is", grouped)
		}
	})
}

func TestGridSparesWakes(t *testing.T) {
	for _, c := range []struct{ rate, wakes int }{{1000, 1000}, {2500, 2500}, {5000, 2500}, {20000, 2501}} {
		phase := bench.Phase{From: float64(c.rate), To: float64(c.rate), For: time.Second}
		p := bench.Plan{Phases: []bench.Phase{phase}, Grid: bench.FrugalGrid}
		got := all(t, p, 1)
		times := slices.CompactFunc(slices.Clone(got), func(a, b arrival) bool { return a.due == b.due })
		if len(got) != c.rate || len(times) != c.wakes {
			t.Errorf("%d requests are due at %d times, want %d at %d", len(got), len(times), c.rate, c.wakes)
		}
		if p.Grouped() != (c.wakes < c.rate) {
			t.Errorf("%d/s: grouped %t", c.rate, p.Grouped())
		}
		if p.Arrivals = bench.Poisson; p.Grouped() {
			t.Errorf("%d/s: Poisson arrivals are grouped", c.rate)
		}
	}
}
