package legs

import (
	"math"
	"testing"

	"tailscope/internal/judge"
	"tailscope/internal/judge/legs/legstest"
)

// What is the same for candidate and control is not told of the candidate,
// however much the primary's path differs.
func TestNoiseFloor(t *testing.T) {
	s := session{legstest.Session{Seed: 3, Slots: 60, Per: 200, Shared: 0.1, Own: 0.005, Unlike: 0.6, Noise: 0.2}}
	for _, tc := range []struct {
		name         string
		path, slower float64
		noControl    bool
		want         judge.Verdict
	}{
		{"nothing differs", 1, 1, false, judge.Same},
		{"shadows are slower by their path", 1.2, 1, false, judge.Same},
		{"candidate no more than control", 1.2, 1.1, false, judge.WithinFloor},
		{"candidate much more than control", 1.05, 1.3, false, judge.Slower},
		{"the path of shadows is told without a control", 1.2, 1, true, judge.Slower},
	} {
		s.Path, s.Slower, s.NoControl = tc.path, tc.slower, tc.noControl
		v, err := s.verdict(false)
		if err != nil {
			t.Fatal(err)
		}
		if m := measureOf(v, judge.Ratio); m.Verdict != tc.want || (v.Caveat != "") != tc.noControl {
			t.Errorf("%s: %s; caveat %q", tc.name, m.Sentence, v.Caveat)
		}
	}
}

// Claims hold in both directions: candidate and control changed round, what was
// slower is faster, and intervals are each other's inverse.
func TestVerdictIsAntisymmetric(t *testing.T) {
	for seed := range uint64(10) {
		s := session{legstest.Session{Seed: seed, Slots: 40, Per: 60, Shared: 0.1, Own: 0.02, Unlike: 0.6, Noise: 0.2, Slower: 1 + float64(seed)/20}}
		d := s.data()
		turned := &data{grid: d.grid, duration: legs{}, ratio: legs{}}
		for k, l := range d.duration {
			turned.duration[k] = l
		}
		a, b := legKey{variant: "control"}, legKey{variant: "candidate"}
		turned.duration[a], turned.duration[b] = d.duration[b], d.duration[a]
		for _, m := range measures[1:8] {
			x, err := m.change(figures{duration: d.duration}, "control", "candidate", steadyOptions)
			if err != nil {
				t.Fatal(err)
			}
			y, err := m.change(figures{duration: turned.duration}, "control", "candidate", steadyOptions)
			if err != nil {
				t.Fatal(err)
			}
			near := func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-6 }
			if !near(x.Effect, -y.Effect) || !near(x.CI.Low, -y.CI.High) || !near(x.CI.High, -y.CI.Low) {
				t.Errorf("%s: %+v, turned round %+v", m.Name, x.CI, y.CI)
			}
		}
	}
}
