package stat

import (
	"math"
	"math/rand/v2"
	"tailscope/internal/trials"
	"testing"
)

// aroundAMark draws an hour before a mark, its two slots and an hour after, n
// observations a slot. Level is what is added to the logarithm of slot t, with that of the
// mark 0, and noise what a slot varies by.
func aroundAMark(r *rand.Rand, n int, noise func(*rand.Rand, []float64), level func(t int) float64) *Series {
	m := make([]float64, 722)
	noise(r, m)
	for t := range m {
		m[t] += level(t - 360)
	}
	return sideAround(r, m, n, 0)
}

func autoregressive(phi, spread float64) func(*rand.Rand, []float64) {
	return func(r *rand.Rand, m []float64) { copy(m, medians(r, len(m), phi, spread)) }
}

// heavy is a slot's own movement with Student's t of three degrees of freedom.
func heavy(r *rand.Rand, m []float64) {
	for t := range m {
		a, b, c := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
		m[t] = 0.1 * r.NormFloat64() / math.Sqrt((a*a+b*b+c*c)/3)
	}
}

// pauses makes one slot in fifty twice as slow, as a collector or a compaction does.
func pauses(r *rand.Rand, m []float64) {
	for t := range m {
		if r.Float64() < 0.02 {
			m[t] = math.Ln2
		}
	}
}

func atAMark(s *Series) (Spike, bool, error) {
	return FindSpike(s.Beyond(0, 360), SpikeOptions{Reference: [2]int{0, 360}, Starts: [2]int{359, 372}})
}

func unchanged(int) float64 { return 0 }

// Where there is no spike none is found at more than 1 % of marks, whatever the noise;
// neither where a change stays, nor where everything drifts.
func TestFalseSpikes(t *testing.T) {
	trials := trials.Of(150)
	steps := func(ratio float64) func(int) float64 {
		return func(t int) float64 {
			if t >= 0 {
				return math.Log(ratio)
			}
			return 0
		}
	}
	worst, all, found := 0.0, 0, 0
	for _, c := range []struct {
		name  string
		n     int
		noise func(*rand.Rand, []float64)
		level func(int) float64
	}{
		{"independent slots", 40, autoregressive(0, 0.1), unchanged},
		{"few requests", 4, autoregressive(0, 0.1), unchanged},
		{"autocorrelation 0.6", 40, autoregressive(0.6, 0.2), unchanged},
		{"autocorrelation 0.9", 40, autoregressive(0.9, 0.3), unchanged},
		{"heavy tails", 40, heavy, unchanged},
		{"pauses", 40, pauses, unchanged},
		{"a step of 1.5", 40, autoregressive(0.6, 0.2), steps(1.5)},
		{"a step of 4", 40, autoregressive(0.6, 0.2), steps(4)},
		{"a drift", 40, autoregressive(0.3, 0.1), func(t int) float64 { return float64(t) / 720 }},
	} {
		r, alarms := source(21), 0
		for range trials {
			x, ok, err := atAMark(aroundAMark(r, c.n, c.noise, c.level))
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				alarms++
				t.Logf("%s: %+v", c.name, x)
			}
		}
		t.Logf("%s: a spike at %d of %d marks without one, %.2f %%", c.name, alarms, trials, 100*float64(alarms)/float64(trials))
		worst, all, found = max(worst, float64(alarms)/float64(trials)), all+trials, found+alarms
	}
	t.Logf("%d of %d marks, %.2f %%, %.2f %% in the worst", found, all, 100*float64(found)/float64(all), 100*worst)
	if float64(found) > 0.01*float64(all) || worst > 0.03 { // 4 of 150 have a chance of 7 % at 1 %
		t.Errorf("spikes at %d of %d marks without one, at %.1f %% in the worst: want 1 %%", found, all, 100*worst)
	}
}

// Where each slot of a range is searched, a spike is found in some 5 % without one; in
// more where single slots move by themselves so far that they look like one.
func TestFalseSpikesOfRanges(t *testing.T) {
	trials := trials.Of(100)
	for _, c := range []struct {
		name  string
		n     int
		noise func(*rand.Rand, []float64)
		most  float64
	}{
		{"independent slots", 40, autoregressive(0, 0.1), 0.01}, {"few requests", 4, autoregressive(0, 0.1), 0.01},
		{"autocorrelation 0.9", 40, autoregressive(0.9, 0.3), 0.07}, {"heavy tails", 40, heavy, 0.14}, {"pauses", 40, pauses, 0.01},
	} {
		r, alarms := source(25), 0
		for range trials {
			s := aroundAMark(r, c.n, c.noise, unchanged).Slice(0, 360)
			_, ok, err := FindSpike(s.Beyond(0, 360), SpikeOptions{Alpha: 0.05})
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				alarms++
			}
		}
		t.Logf("%s: a spike in %d of %d ranges without one, %.2f %%", c.name, alarms, trials, 100*float64(alarms)/float64(trials))
		if float64(alarms) > c.most*float64(trials)+5 {
			t.Errorf("%s: a spike in %d of %d ranges without one", c.name, alarms, trials)
		}
	}
}

// What comes and goes is found where it is, also some four minutes after it.
func TestSpikesAreFound(t *testing.T) {
	trials := trials.Of(60)
	during := func(from, to int, ratio float64) func(int) float64 {
		return func(t int) float64 {
			if t >= from && t < to {
				return math.Log(ratio)
			}
			return 0
		}
	}
	for _, c := range []struct {
		name     string
		from, to int
		ratio    float64
		after    int // slots after the mark that there are
		least    float64
	}{
		{"ten times as slow for 10 s", 0, 1, 10, 362, 0.99},
		{"ten times as slow for 10 s, four minutes ago", 1, 2, 10, 24, 0.95},
		{"three times as slow for a minute", 2, 8, 3, 362, 0.65},
		{"twice as slow for three minutes", 0, 18, 2, 362, 0.25},
		{"twice as slow for ten minutes", 0, 60, 2, 362, 0.8},
	} {
		r, found, placed := source(22), 0, 0
		for range trials {
			s := aroundAMark(r, 40, autoregressive(0.6, 0.2), during(c.from, c.to, c.ratio))
			x, ok, err := atAMark(s.Slice(0, 360+c.after))
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				found++
				// Noise that persists moves the ends of what is only twice as slow.
				off := max(1, (c.to-c.from)/3)
				if abs(x.From-360-c.from) <= off && abs(x.To-360-c.to) <= off {
					placed++
				}
			}
		}
		t.Logf("%s: found in %d of %d trials, where it is in %d", c.name, found, trials, placed)
		if float64(found) < c.least*float64(trials) || float64(placed) < 0.6*float64(found) {
			t.Errorf("%s: found in %d of %d trials, where it is in %d: want %.0f %%", c.name, found, trials, placed, 100*c.least)
		}
	}
}

func abs(n int) int { return max(n, -n) }

// While everything stands still nothing ends: the stop begins with the slot without
// requests, and its length is that of the stop.
func TestAStopIsASpike(t *testing.T) {
	r := source(23)
	var tally Tally
	for i := range 400 {
		n, slow := 50.0, float64(r.IntN(2))
		switch i {
		case 300:
			n = 0
			slow = 0
		case 301:
			n, slow = 90, 60
		}
		tally.Num, tally.Den = append(tally.Num, slow), append(tally.Den, n)
	}
	for _, o := range []SpikeOptions{{Reference: [2]int{0, 300}, Starts: [2]int{299, 312}}, {}} {
		x, ok, err := FindSpike([]Tally{tally}, o)
		if err != nil || !ok || x.From != 300 || x.To != 302 || math.Abs(x.Share-2.0/3) > 1e-9 {
			t.Errorf("%+v: %+v, %v, %v; want slots 300 and 301", o, x, ok, err)
		}
	}
	// The answer is of when it is, not of what is called first: reversed, it is found too.
	back := Tally{Num: make([]float64, 400), Den: make([]float64, 400)}
	for i := range 400 {
		back.Num[i], back.Den[i] = tally.Num[399-i], tally.Den[399-i]
	}
	if x, ok, _ := FindSpike([]Tally{back}, SpikeOptions{}); !ok || x.From > 98 || x.To != 99 {
		t.Errorf("reversed: %+v, %v", x, ok)
	}
	// Without the slots after it nobody knows whether it is back.
	cut := Tally{Num: tally.Num[:303], Den: tally.Den[:303]}
	if x, ok, _ := FindSpike([]Tally{cut}, SpikeOptions{Reference: [2]int{0, 300}}); ok {
		t.Errorf("one slot after it: %+v", x)
	}
	if _, _, err := FindSpike([]Tally{tally}, SpikeOptions{Starts: [2]int{5, 500}}); err == nil {
		t.Error("slots that there are not are no error")
	}
}

// A spike is the same whatever the tallies are counted in, and wherever it lies.
func FuzzSpikes(f *testing.F) {
	f.Add(uint64(1), 40, 5, 3)
	f.Fuzz(func(t *testing.T, seed uint64, at, length, times int) {
		const n = 200
		at, length, times = 60+abs(at%80), 1+abs(length%10), 1+abs(times%7)
		r := source(seed)
		a, b := Tally{}, Tally{}
		for i := range n {
			den := float64(1 + r.IntN(60))
			num := float64(r.IntN(3))
			if i >= at && i < at+length {
				num = den * 0.9
			}
			num = min(num, den)
			a.Num, a.Den = append(a.Num, num), append(a.Den, den)
			b.Num, b.Den = append(b.Num, num*float64(times)), append(b.Den, den*float64(times))
		}
		x, ok, err := FindSpike([]Tally{a}, SpikeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if ok && (x.From < 0 || x.From >= x.To || x.To > n || !(x.Share > x.Usual) || !(x.P > 0 && x.P <= 0.01)) {
			t.Fatalf("%+v of %d slots", x, n)
		}
		y, more, _ := FindSpike([]Tally{b}, SpikeOptions{})
		if ok && more && (x.From != y.From || x.To != y.To) {
			t.Errorf("%+v, counted %d times %+v", x, times, y)
		}
	})
}

// A step is hardly ever called a drift, nor a drift a step.
func TestStepOrDrift(t *testing.T) {
	trials := trials.Of(200)
	r := source(24)
	called := map[string]map[Trend]int{"step": {}, "drift": {}}
	for range trials {
		for name, level := range map[string]func(int) float64{
			"step": func(t int) float64 {
				if t >= 0 {
					return math.Log(1.3)
				}
				return 0
			},
			"drift": func(t int) float64 { return math.Log(1.6) * float64(t+360) / 720 },
		} {
			s := aroundAMark(r, 40, autoregressive(0.6, 0.1), level)
			called[name][StepOrDrift(Side{s.Slice(0, 360)}, Side{s.Slice(362, 722)}, 0.95)]++
		}
	}
	t.Logf("of %d each: %v", trials, called)
	for name, wrong := range map[string]Trend{"step": Drift, "drift": Step} {
		right := Step + Drift - wrong
		if n := called[name][wrong]; n > trials/100+1 {
			t.Errorf("%s: called a %v in %d of %d trials", name, wrong, n, trials)
		}
		if n := called[name][right]; n < trials*7/10 {
			t.Errorf("%s: said so in %d of %d trials", name, n, trials)
		}
	}
}
