package stat

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// jumps draws a series of log-normal slots whose log median shifts by what
// shift says.
func jumps(r *rand.Rand, slots, n int, phi float64, shift func(t int) float64) *Series {
	m := medians(r, slots, phi, 0.15)
	for t := range m {
		m[t] += shift(t)
	}
	return sideAround(r, m, n, 0)
}

// within is f between two slots and 1 elsewhere, as a logarithm.
func within(from, to int, f float64) func(int) float64 {
	return func(t int) float64 {
		if from <= t && t < to {
			return math.Log(f)
		}
		return 0
	}
}

func TestChangePoints(t *testing.T) {
	// The slowest 1 % twice as slow: nothing else moves.
	tail := func(r *rand.Rand) *Series {
		m := medians(r, 360, 0.3, 0.15)
		edges, counts := []float64{}, make([][]float64, len(m))
		for k := -160; k <= 320; k++ {
			edges = append(edges, math.Exp2(float64(k)/32))
		}
		for s := range counts {
			counts[s] = make([]float64, len(edges)-1)
			for range 400 {
				z := r.NormFloat64()
				x := m[s] + 0.6*z
				if s >= 180 && z > 2.3263 {
					x += math.Ln2
				}
				counts[s][int(math.Floor(x*32/math.Ln2))+160]++
			}
		}
		s, err := NewSeriesOfCounts(edges, counts, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	shifted := func(phi float64, shift func(int) float64) func(*rand.Rand) *Series {
		return func(r *rand.Rand) *Series { return jumps(r, 360, 100, phi, shift) }
	}
	for _, c := range []struct {
		name string
		draw func(*rand.Rand) *Series
		want []int
	}{
		{"none", shifted(0.6, within(0, 0, 1)), nil},
		{"lone slots", shifted(0.3, func(t int) float64 { return within(50, 51, 20)(t % 90) }), nil},
		{"median", shifted(0.3, within(200, 360, 1.3)), []int{200}},
		{"all of it", shifted(0.3, within(100, 360, 3)), []int{100}},
		{"near the end", shifted(0, within(324, 360, 1.5)), []int{324}},
		{"pulse", shifted(0.3, within(150, 170, 2)), []int{150, 170}},
		{"several", shifted(0, func(t int) float64 { return math.Log(1.5) * float64(t/90%2) }), []int{90, 180, 270}},
		{"tail", tail, []int{180}},
	} {
		got, err := ChangePoints(c.draw(source(5)), ChangeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v, want %v", c.name, got, c.want)
			continue
		}
		for i, p := range got {
			if p.Low > c.want[i] || p.High < c.want[i] || p.At < p.Low || p.At > p.High || p.P > 0.05 || p.Before == p.After {
				t.Errorf("%s: %+v, want one at %v", c.name, p, c.want[i])
			}
		}
	}
}

// What a day does again and again is not a change, if it is declared as a season.
func TestChangePointsOfSeasons(t *testing.T) {
	const day = 240
	season := func(t int) float64 { return 0.3 * math.Sin(2*math.Pi*float64(t)/day) }
	for _, c := range []struct {
		name  string
		shift func(int) float64
		want  []int
	}{
		{"none", season, nil},
		{"one", func(t int) float64 { return season(t) + within(500, 960, 1.4)(t) }, []int{500}},
	} {
		got, err := ChangePoints(jumps(source(2), 4*day, 60, 0.3, c.shift), ChangeOptions{Season: day})
		if err != nil {
			t.Fatal(err)
		}
		ok := len(c.want) > 0 || len(got) == 0
		for _, want := range c.want { // the season left over may show beside it
			ok = ok && slices.ContainsFunc(got, func(p ChangePoint) bool { return p.P < 1e-4 && p.Low <= want && want <= p.High })
		}
		if !ok {
			t.Errorf("%s: %+v, want %v", c.name, got, c.want)
		}
	}
}

func TestChangePointsOfNumbers(t *testing.T) {
	r := source(4)
	rows := make([][]float64, 60)
	for i := range rows {
		rows[i] = []float64{100 + r.NormFloat64(), 10 * r.NormFloat64()}
		if i >= 40 {
			rows[i][0] += 4
		}
	}
	rows[7][0], rows[50][1] = math.NaN(), 1e6
	got, err := ChangePointsOf(rows, ChangeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].At != 40 || got[0].Column != 0 || math.Abs(got[0].After-got[0].Before-4) > 1 {
		t.Errorf("%+v, want column 0 four higher from 40 on", got)
	}
}

func TestChangePointsRefuse(t *testing.T) {
	s := side(source(1), 60, 20, 0, 0.1)
	for _, o := range []ChangeOptions{{Alpha: 1}, {Alpha: -0.1}, {Least: -1}, {Most: -1}, {Season: -1}} {
		if _, err := ChangePoints(s, o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v, want it refused", o, err)
		}
	}
	for _, rows := range [][][]float64{{{1}, {1, 2}}, {{}}, {{math.Inf(1)}}} {
		if _, err := ChangePointsOf(rows, ChangeOptions{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v, want it refused", rows, err)
		}
	}
	if _, err := ChangePoints(nil, ChangeOptions{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no series: %v, want it refused", err)
	}
	for _, short := range []int{0, 1, 5, 19} {
		got, err := ChangePoints(side(source(1), short, 20, 0, 0.1), ChangeOptions{})
		if err != nil || got != nil {
			t.Errorf("%d slots: %v, %v", short, got, err)
		}
	}
}

// A short form of the calibration in benchmarks: without a change hardly ever
// one is found, however long slots depend on each other, and the interval of
// the moment holds the truth.
func TestChangePointsCalibrated(t *testing.T) {
	const trials = 36
	for _, phi := range []float64{0, 0.6, 0.9} {
		alarms, found, covered := 0, 0, 0
		for i := range trials {
			r := source(uint64(100 + i))
			none, err := ChangePoints(side(r, 200, 50, phi, 0.15), ChangeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(none) > 0 {
				alarms++
			}
			some, err := ChangePoints(jumps(r, 200, 50, phi, within(120, 200, 1.6)), ChangeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range some {
				if math.Abs(float64(p.At-120)) <= 20 {
					found++
					if p.Low <= 120 && 120 <= p.High {
						covered++
					}
				}
			}
		}
		if alarms > 6 { // 1 in 100 at a rate of 6 %
			t.Errorf("correlation %v: %d of %d series without a change show one", phi, alarms, trials)
		}
		least := 0.85
		if phi == 0.9 { // noise that wanders for a tenth of the series hides the moment
			least = 0.75
		}
		if float64(covered) < least*float64(found) || found < trials/3 {
			t.Errorf("correlation %v: %d found, %d intervals hold the truth", phi, found, covered)
		}
	}
}

// A unit changes nothing, time turned round turns a clear moment round, and
// asking again gives the same.
func TestChangePointsKeep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		factor := rapid.Float64Range(0.5, 3).Draw(t, "factor")
		at := rapid.IntRange(30, 90).Draw(t, "at")
		octaves := rapid.IntRange(-3, 3).Draw(t, "octaves")
		r := source(seed)
		m := medians(r, 120, 0.3, 0.15)
		const buckets = 300
		counts := make([][]float64, len(m))
		for s := range counts {
			counts[s] = make([]float64, buckets)
			for range 40 {
				x := m[s] + 0.6*r.NormFloat64() + within(at, 120, factor)(s)
				counts[s][min(buckets-1, max(0, 150+int(x*32/math.Ln2)))]++
			}
		}
		find := func(counts [][]float64, unit float64) []ChangePoint {
			edges := make([]float64, buckets+1)
			for k := range edges {
				edges[k] = unit * math.Exp2(float64(k-150)/32)
			}
			s, err := NewSeriesOfCounts(edges, counts, nil)
			if err != nil {
				t.Fatal(err)
			}
			p, err := ChangePoints(s, ChangeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		got := find(counts, 1)
		if again := find(counts, 1); !reflect.DeepEqual(got, again) {
			t.Fatalf("%+v, then %+v", got, again)
		}
		scaled := find(counts, math.Exp2(float64(octaves)))
		if len(scaled) != len(got) {
			t.Fatalf("%+v, in another unit %+v", got, scaled)
		}
		for i, p := range got {
			q := scaled[i]
			if q.At != p.At || q.Low != p.Low || q.High != p.High || math.Abs(q.Value/p.Value-math.Exp2(float64(octaves))) > 1e-9*math.Exp2(float64(octaves)) {
				t.Fatalf("%+v, in another unit %+v", p, q)
			}
		}
		turned := make([][]float64, len(counts))
		for s := range counts {
			turned[len(counts)-1-s] = counts[s]
		}
		back := find(turned, 1)
		// Turned round it may be clearest elsewhere on the value axis, a few slots
		// away, and what is found beside it by chance may be another one.
		if len(got) == 1 && got[0].P < 1e-6 && !slices.ContainsFunc(back, func(p ChangePoint) bool {
			return p.Low-defaultLeast <= len(counts)-got[0].Low && len(counts)-got[0].High <= p.High+defaultLeast
		}) {
			t.Fatalf("%+v, turned round %+v", got, back)
		}
	})
}
