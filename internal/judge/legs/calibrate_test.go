package legs

import (
	"flag"
	"math"
	"runtime"
	"testing"

	"golang.org/x/sync/errgroup"

	"tailscope/internal/judge"
	"tailscope/internal/judge/legs/legstest"
	"tailscope/stat"
)

// trials of each cell; docs/mirror.md has what 1,000 of them gave:
//
//	go test -run Calibrate -trials 1000 -v ./internal/judge/legs
var trials = flag.Int("trials", 10, "simulated sessions of each cell")

// share is how many of the trials do something.
func share(t *testing.T, does func(seed uint64) (bool, error)) float64 {
	t.Helper()
	if raceEnabled {
		t.Skip("arithmetic that takes too long with the race detector")
	}
	var e errgroup.Group
	e.SetLimit(runtime.GOMAXPROCS(0))
	found := make([]bool, *trials)
	for i := range found {
		e.Go(func() (err error) {
			found[i], err = does(uint64(1000 + i))
			return err
		})
	}
	if err := e.Wait(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range found {
		if f {
			n++
		}
	}
	return float64(n) / float64(len(found))
}

// above is a share that trials of a probability exceed once in a thousand runs.
func above(p float64) float64 { return p + 3.1*math.Sqrt(p*(1-p)/float64(*trials)) }

// Without a difference no more than 5 of 100 sessions show one in anything that
// is looked at: eleven measures of everything, five of each operation.
func TestCalibrateWithoutDifference(t *testing.T) {
	plain := session{legstest.Session{Slots: 60, Per: 60, Shared: 0.15, Unlike: 1, Noise: 0.3}}
	with := func(change func(*session)) session { s := plain; change(&s); return s }
	for _, c := range []struct {
		name string
		session
	}{
		{"as like as can be", plain},
		{"slots that differ by server", with(func(s *session) { s.Own = 0.05 })},
		{"correlation 0.6", with(func(s *session) { s.Phi, s.Own = 0.6, 0.05 })},
		{"correlation 0.9", with(func(s *session) { s.Slots, s.Phi, s.Own = 180, 0.9, 0.05 })},
		{"shadows 10 % slower by their path", with(func(s *session) { s.Path, s.Own = 1.1, 0.02 })},
		{"candidate as unlike as control", with(func(s *session) { s.Path, s.Slower, s.Own = 1.1, 1.1, 0.02 })},
		{"six operations", with(func(s *session) { s.Operations, s.Per = 6, 120 })},
		{"without a control", with(func(s *session) { s.NoControl = true })},
		{"without a control, correlation 0.6", with(func(s *session) { s.NoControl, s.Phi, s.Own = true, 0.6, 0.05 })},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := share(t, func(seed uint64) (bool, error) {
				v, err := c.session.seeded(seed).verdict(false)
				return err == nil && alarms(v), err
			})
			t.Logf("%.1f %% of %d sessions alarm", 100*got, *trials)
			if got > above(0.05) {
				t.Errorf("%.1f %% alarm", 100*got)
			}
		})
	}
}

func (s session) seeded(seed uint64) session { s.Seed = seed; return s }

// Looked at each minute while it runs, a session without a difference shows one
// at some look in no more than 5 of 100.
func TestCalibrateLive(t *testing.T) {
	s := session{legstest.Session{Slots: 180, Per: 30, Shared: 0.15, Unlike: 1, Noise: 0.3, Own: 0.03, NoControl: true}}
	looks := func(live bool) float64 {
		return share(t, func(seed uint64) (bool, error) {
			d := s.seeded(seed).data()
			for n := 20; n <= s.Slots; n += 8 {
				j := &judgement{d: d.upTo(n), primary: "primary", measures: measures, limit: 20, o: stat.Options{Level: level}}
				if live {
					j.o.Live = liveIn(10)
				}
				v, err := j.candidate("candidate")
				if err != nil {
					return false, err
				}
				if alarms(v) {
					return true, nil
				}
			}
			return false, nil
		})
	}
	live, plain := looks(true), math.NaN()
	if *trials > 100 {
		plain = looks(false)
	}
	t.Logf("at some of 21 looks %.1f %% alarm, with plain intervals %.1f %%", 100*live, 100*plain)
	if live > above(0.05) {
		t.Errorf("%.1f %% alarm", 100*live)
	}
}

// upTo is the first slots.
func (d *data) upTo(n int) *data {
	cut := func(of legs) legs {
		out := legs{}
		for k, l := range of {
			c := &leg{ok: l.ok[:n], failed: l.failed[:n], all: l.all[:n]}
			for _, h := range c.ok {
				if h != nil {
					c.good += h.Count
				}
			}
			out[k] = c
		}
		return out
	}
	return &data{grid: grid{d.start, d.step, n}, tenantStep: 10, duration: cut(d.duration), ratio: cut(d.ratio), first: legs{}, bytes: legs{}}
}

// Every request that takes 5 % longer is found by the ratio in minutes; by p50 of
// sides that are not paired it is not, for what is asked for differs far more.
func TestCalibratePower(t *testing.T) {
	for _, c := range []struct {
		name string
		session
		ratio, apart float64 // at least, at most
	}{
		{"5 min", session{legstest.Session{Slots: 30, Per: 200, Shared: 0.15, Own: 0.01, Unlike: 1, Noise: 0.2, Slower: 1.05}}, 0.5, 0.3},
		{"10 min", session{legstest.Session{Slots: 60, Per: 200, Shared: 0.15, Own: 0.01, Unlike: 1, Noise: 0.2, Slower: 1.05}}, 0.8, 0.4},
		{"10 min, no control", session{legstest.Session{Slots: 60, Per: 200, Shared: 0.15, Own: 0.01, Unlike: 1, Noise: 0.2, Slower: 1.05, NoControl: true}}, 0.9, 0.4},
	} {
		t.Run(c.name, func(t *testing.T) {
			by := func(of func(*data) (bool, error)) float64 {
				return share(t, func(seed uint64) (bool, error) { return of(c.session.seeded(seed).data()) })
			}
			against := "control"
			if c.NoControl {
				against = "primary"
			}
			claim := func(name string) float64 {
				return by(func(d *data) (bool, error) {
					j := &judgement{d: d, primary: "primary", control: map[bool]string{false: "control"}[c.NoControl], measures: measures, limit: 20, o: stat.Options{Level: level}}
					v, err := j.candidate("candidate")
					return err == nil && measureOf(v, name).Verdict == judge.Slower, err
				})
			}
			ratio, paired := claim(judge.Ratio), math.NaN()
			if *trials > 100 {
				paired = claim("p50")
			}
			// The same numbers as if they were of two times: control then, candidate now.
			apart := by(func(d *data) (bool, error) {
				other := c.session.seeded(uint64(len(d.duration)) + 77 + uint64(d.duration[legKey{variant: "candidate"}].ok[0].Sum*1e9)).data()
				x, y, err := sides(other.duration[legKey{variant: against}], d.duration[legKey{variant: "candidate"}])
				if err != nil {
					return false, err
				}
				q, err := stat.Quantile(x, y, 0.5, nil, stat.Options{})
				return err == nil && q.Verdict(0) == stat.More, err
			})
			t.Logf("found by the ratio in %.1f %%, by p50 in the same slots in %.1f %%, by p50 of two times in %.1f %%", 100*ratio, 100*paired, 100*apart)
			if ratio < c.ratio || apart > c.apart {
				t.Errorf("ratio %.2f, p50 of two times %.2f", ratio, apart)
			}
		})
	}
}
