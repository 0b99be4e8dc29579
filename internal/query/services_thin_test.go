package query

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/trials"
)

// heavyTails are durations in seconds whose p99 lies far above their p50.
var heavyTails = []struct {
	name string
	draw func(*rand.Rand) float64
}{
	{"log-normal", func(rng *rand.Rand) float64 { return 0.02 * math.Exp(rng.NormFloat64()) }},
	{"Pareto", func(rng *rand.Rand) float64 { return 0.01 * math.Pow(1-rng.Float64(), -1/1.5) }},
	{"one in fifty waits", func(rng *rand.Rand) float64 {
		d := 0.02 * math.Exp(0.3*rng.NormFloat64())
		if rng.Float64() < 0.02 {
			d *= 10
		}
		return d
	}},
}

// thinService draws minutes of a service: so many requests a minute, each of which stands for
// weight, and whose durations deviate from minute to minute by wander, as a logarithm.
type thinService struct {
	rng       *rand.Rand
	draw      func(*rand.Rand) float64
	perMinute float64
	weight    uint64
	wander    float64
}

func (s thinService) minute(t *testing.T, start int64) (minute, *hist.Histogram) {
	t.Helper()
	h, slower := hist.New(hist.DefaultSchema), math.Exp(s.wander*s.rng.NormFloat64())
	for range trials.Poisson(s.rng, s.perMinute) {
		if err := h.RecordN(slower*s.draw(s.rng), s.weight); err != nil {
			t.Fatal(err)
		}
	}
	m := minute{start: start, count: float64(h.Count), squares: h.SquaredWeights(), apdex: math.NaN()}
	if err := m.durations(h); err != nil {
		t.Fatal(err)
	}
	return m, h
}

func (s thinService) minutes(t *testing.T, from, n int64) (out []minute) {
	t.Helper()
	for i := range n {
		m, _ := s.minute(t, from+i*minuteLong)
		out = append(out, m)
	}
	return out
}

// before returns what is usual of the service before the minute at: by a day and a week before,
// if it was there, else by the hours.
func (s thinService) before(t *testing.T, at int64, days bool) *usual {
	t.Helper()
	var earlier []minute
	if days {
		for _, d := range usualDays {
			earlier = append(earlier, s.minutes(t, at-d*86400-aroundClock, 2*aroundClock/minuteLong+1)...)
		}
	}
	u, err := usualBefore(earlier, settled(s.minutes(t, at-usualHours, usualHours/minuteLong), at))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// judged returns the service as it is by a minute that begins at at.
func (s thinService) judged(t *testing.T, u *usual, at int64) api.Service {
	t.Helper()
	m, h := s.minute(t, at)
	out := api.Service{Now: serviceNow(m.start+minuteLong, h, 0)}
	u.judge(&out, h)
	return out
}

// Of the minutes of a service whose durations stay as they are at most 1 % are worse than usual,
// however few requests the usual ones have, and however many more there are now.
func TestThinServicesAreWell(t *testing.T) {
	const at, looks = 30 * 86400, 50
	for _, tail := range heavyTails {
		for _, c := range []struct {
			usual  float64 // requests that a usual minute measures
			weight uint64  // requests that each stands for
			now    float64
		}{{2, 1, 2}, {3, 1, 3}, {5, 1, 5}, {20, 1, 20}, {60, 1, 60}, {4, 1, 240}, {4, 60, 240}, {10, 24, 240}, {24, 10, 240}} {
			for _, wander := range []float64{0, 0.15} {
				for _, days := range []bool{true, false} {
					rng := rand.New(rand.NewPCG(trials.First(), 11))
					worse, worlds := 0, trials.Of(20)
					for range worlds {
						u := thinService{rng, tail.draw, c.usual, c.weight, wander}.before(t, at, days)
						now := thinService{rng, tail.draw, c.now, 1, wander}
						for range looks {
							if now.judged(t, u, at).State == api.Worse {
								worse++
							}
						}
					}
					tell := t.Logf
					if worse > worlds*looks/100 {
						tell = t.Errorf
					}
					tell("%s, %v a minute, usually %v of weight %d, which wander by %v, of days %v: %d of %d are worse", tail.name, c.now, c.usual, c.weight, wander, days, worse, worlds*looks)
				}
			}
		}
	}
}

// What takes three times as long, of 60 requests a minute, is worse within two minutes.
func TestThinServicesThatAreSlowAreWorse(t *testing.T) {
	const at, rate, slower = 30 * 86400, 60, 3
	for _, tail := range heavyTails {
		rng := rand.New(rand.NewPCG(trials.First(), 12))
		seen, worlds := 0, trials.Of(100)
		for range worlds {
			u := thinService{rng, tail.draw, rate, 1, 0}.before(t, at, false)
			slow := thinService{rng, func(rng *rand.Rand) float64 { return slower * tail.draw(rng) }, rate, 1, 0}
			for minute := range int64(2) {
				if slow.judged(t, u, at+minute*minuteLong).State == api.Worse {
					seen++
					break
				}
			}
		}
		t.Logf("%s: worse within two minutes in %d of %d", tail.name, seen, worlds)
		if 100*seen < 95*worlds {
			t.Errorf("%s: worse within two minutes in %d of %d, want 95 %%", tail.name, seen, worlds)
		}
	}
}

// What a p99 usually is, is known where days, or days and hours together, have the 300 requests
// that hold it. A minute is slow by three requests at least, and of so few no more is said than
// how slow they are at least.
func TestUsualOfFewRequests(t *testing.T) {
	const at = 30 * 86400
	rng := rand.New(rand.NewPCG(3, 13))
	for _, c := range []struct {
		perMinute float64
		days      bool
		slow      int // requests of a minute, all of them slow
		want      string
	}{
		{1, true, 3, "days worse p50 2.00 s, usually 18.9 … 32.1 ms"},
		{3.5, false, 3, "hours worse p99 at least 2.00 s, usually 24.7 … 36.2 ms; p50 2.00 s, usually 20.8 … 30.5 ms"},
		{3.5, true, 3, "days worse p99 at least 2.00 s, usually 24.0 … 37.1 ms; p50 2.00 s, usually 20.3 … 31.3 ms"},
		{8, true, 3, "days worse p99 at least 2.00 s, usually 24.1 … 37.1 ms; p50 2.00 s, usually 20.2 … 31.1 ms"},
		{8, true, 2, "days well "},
	} {
		service := thinService{rng, func(rng *rand.Rand) float64 { return 0.02 + 0.01*rng.Float64() }, c.perMinute, 1, 0}
		slow := hist.New(hist.DefaultSchema)
		for range c.slow {
			if err := slow.Record(2); err != nil {
				t.Fatal(err)
			}
		}
		u := service.before(t, at, c.days)
		s := api.Service{Now: serviceNow(at+minuteLong, slow, 0)}
		u.judge(&s, slow)
		if got := fmt.Sprintf("%s %s %s", u.bands.Of, s.State, s.Why); got != c.want {
			t.Errorf("%v a minute, of days %v, and then %d slow ones:\ngot  %s\nwant %s", c.perMinute, c.days, c.slow, got, c.want)
		}
	}
}

// Packed durations count with the memory of the minutes that are kept.
func TestKeptMinutesAreBounded(t *testing.T) {
	for _, c := range []struct {
		packed int // bytes of each minute
		kept   bool
	}{{0, true}, {packedMinute / 2, true}, {packedMinute, false}} {
		ms := make([]minute, mostMinutes*2/3)
		for i := range ms {
			ms[i] = minute{start: int64(i) * minuteLong, packed: make([]byte, c.packed)}
		}
		var cache minuteCache
		to := int64(len(ms)) * minuteLong
		if _, err := cache.read("shop", 0, to, to+pastAfter, func(int64, int64) (map[serviceIn][]minute, error) {
			return map[serviceIn][]minute{{name: "shop"}: ms}, nil
		}); err != nil {
			t.Fatal(err)
		}
		if kept := len(cache.kept) == 1; kept != c.kept {
			t.Errorf("%d minutes of %d bytes each are kept: %v", len(ms), c.packed, kept)
		}
	}
}
