package scaling

import (
	"encoding/csv"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// dataset is data as they were published, and what others found in them.
type dataset struct {
	name                 string
	n, x                 []float64
	lambda, sigma, kappa float64
	// Profile-likelihood intervals of λ, σ and κ by R's confint.nls (MASS); nil where
	// a bound holds, which it does not know.
	intervals [][2]float64
	residual  float64 // residual standard error, 0 if nobody says
	peak      float64
	source    string
}

func datasets(t testing.TB) []dataset {
	oracle := dataset{
		name:   "oracledb",
		lambda: 3.386078549, sigma: 0.4413718539, kappa: 0.04529824794, residual: 0.7586904508,
		intervals: [][2]float64{{3.26352693361, 3.5062553395}, {0.33804032394, 0.5352769452}, {0.01398792422, 0.0812246202}},
		source:    "OLTP database of 2012, 360 intervals of two minutes; data set of R's usl 3.0, coefficients by its nls",
	}
	oracle.n, oracle.x = table(t, "testdata/oracledb.csv")
	return []dataset{
		{
			name:   "raytracer",
			n:      []float64{1, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64},
			x:      []float64{20, 78, 130, 170, 190, 200, 210, 230, 260, 280, 310},
			lambda: 21.8488, sigma: 0.05777, kappa: 0, residual: 9.336,
			source: "Gunther (2007), table 5.1; coefficients of R's usl 3.0, tests/confint.Rout.save",
		},
		{
			name:   "specsdm91",
			n:      []float64{1, 18, 36, 72, 108, 144, 216},
			x:      []float64{64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2},
			lambda: 89.99522677, sigma: 0.02772846999, kappa: 0.0001043655007, residual: 82.84582003, peak: 96.51956,
			intervals: [][2]float64{{61.30037351, 144.5644450}, {0.009500417763, 0.06412285530}, {3.858092207e-05, 1.611813461e-04}},
			source:    "Gunther (2007), SPEC SDM91; R's usl 3.0, tests/summary.Rout.save and peak-scalability.Rout.save",
		},
		{
			name:   "gunther",
			n:      []float64{1, 2, 4, 6, 8, 10},
			x:      []float64{1, 1.8868, 3.0769, 3.5294, 3.5398, 3.3557},
			lambda: 1, sigma: 0.02, kappa: 0.02, peak: 7,
			source: "R's usl 3.0, tests/coef.Rout.save: made of σ = κ = 0.02",
		},
		{
			name: "cisco",
			n:    sequence(1, 32),
			x: []float64{955.16, 1878.91, 2688.01, 3548.68, 4315.54, 5130.43, 5931.37, 6531.08, 7219.8, 7867.61, 8278.71,
				8646.7, 9047.84, 9426.55, 9645.37, 9897.24, 10097.6, 10240.5, 10532.39, 10798.52, 11151.43, 11518.63, 11806,
				12089.37, 12075.41, 12177.29, 12211.41, 12158.93, 12155.27, 12118.04, 12140.4, 12074.39},
			lambda: 995.6486, sigma: 0.02671591, kappa: 7.690945e-4, residual: 187.8966632, peak: 35.57,
			intervals: [][2]float64{{939.7211658, 1055.672108}, {0.01802307734, 0.03613509039}, {5.881846030e-04, 9.369694088e-04}},
			source:    "Schwartz (2015), Practical Scalability Analysis with the Universal Scalability Law; coefficients of usl4j 0.7",
		},
		oracle,
	}
}

func sequence(from, to int) []float64 {
	var s []float64
	for i := from; i <= to; i++ {
		s = append(s, float64(i))
	}
	return s
}

func table(t testing.TB, path string) (n, x []float64) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		a, err1 := strconv.ParseFloat(row[0], 64)
		b, err2 := strconv.ParseFloat(row[1], 64)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		n, x = append(n, a), append(x, b)
	}
	return n, x
}

func points(n, x []float64) []Point {
	p := make([]Point, len(n))
	for i := range n {
		p[i] = Point{N: n[i], Rate: x[i], Time: math.NaN()}
	}
	return p
}

// near fails unless got is within share of want, or within absolute of a want of 0.
func near(t testing.TB, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*math.Abs(want)+1e-9 {
		t.Errorf("%s is %.8g, want %.8g within %g %%", what, got, want, 100*share)
	}
}

// Coefficients, residual error and intervals agree with what others publish.
func TestPublished(t *testing.T) {
	for _, d := range datasets(t) {
		t.Run(d.name, func(t *testing.T) {
			l, err := Fit(points(d.n, d.x), Options{})
			if err != nil {
				t.Fatal(err)
			}
			near(t, "λ", l.Lambda.Value, d.lambda, 0.001)
			near(t, "σ", l.Sigma.Value, d.sigma, 0.001)
			near(t, "κ", l.Kappa.Value, d.kappa, 0.001)
			if d.residual > 0 {
				near(t, "residual error", l.Error, d.residual, 0.001)
			}
			if d.peak > 0 {
				near(t, "peak", l.PeakN.Value, d.peak, 0.001)
			} else if d.kappa == 0 && !math.IsNaN(l.PeakN.Value) {
				t.Errorf("a peak at %v without κ", l.PeakN.Value)
			}
			for i, want := range d.intervals {
				got := []Value{l.Lambda, l.Sigma, l.Kappa}[i]
				name := []string{"λ", "σ", "κ"}[i]
				near(t, "low end of "+name, got.Low, want[0], 0.005)
				near(t, "high end of "+name, got.High, want[1], 0.005)
			}
			t.Logf("%s", l.Sentence())
		})
	}
}

// The fit is where no neighbour is better, whatever the law, its bounds kept.
func TestFitIsTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := params{
			rapid.Float64Range(0.1, 1e4).Draw(t, "λ"),
			rapid.Float64Range(0, 0.9).Draw(t, "σ"),
			math.Pow(10, rapid.Float64Range(-6, -1).Draw(t, "κ")),
		}
		count := rapid.IntRange(4, 20).Draw(t, "points")
		top := rapid.Float64Range(5, 500).Draw(t, "top")
		noise := rapid.Float64Range(0, 0.2).Draw(t, "noise")
		var d data
		for i := range count {
			n := math.Pow(top, float64(i)/float64(count-1))
			d.n = append(d.n, n)
			d.x = append(d.x, p.rate(n)*(1+noise*rapid.Float64Range(-1, 1).Draw(t, "error")))
		}
		best := d.fit(d.starts()...)
		if best.sse > d.sse(p)*(1+1e-9)+1e-12*p[lambda]*p[lambda] {
			t.Fatalf("the law that the data were made of has %v, the fit %+v has %v", d.sse(p), best.params, best.sse)
		}
		for range 50 {
			q := best.params
			q[sigma] = min(1, max(0, q[sigma]+rapid.Float64Range(-0.05, 0.05).Draw(t, "Δσ")))
			q[kappa] = max(0, q[kappa]*(1+rapid.Float64Range(-0.5, 0.5).Draw(t, "Δκ")))
			if _, sse, _ := d.best(q[sigma], q[kappa]); sse < best.sse*(1-1e-6)-1e-12*p[lambda]*p[lambda] {
				t.Fatalf("%+v has %v, the fit %+v has %v", q, sse, best.params, best.sse)
			}
		}
	})
}

// Intervals hold as often as they say: of laws with noise on them about 95 % hold
// the truth, also with the bootstrap on blocks where neighbours depend on each other.
func TestIntervalsHold(t *testing.T) {
	for _, tc := range []struct {
		name        string
		o           Options
		points      int
		depend      float64
		rounds      int
		least, most int // of rounds, for each coefficient
	}{
		{name: "steps", points: 12, rounds: 200, least: 180, most: 199},
		{name: "slots", points: 240, o: Options{Block: 12, Resamples: 200}, depend: 0.7, rounds: 40, least: 35, most: 40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			truth := params{100, 0.05, 0.002}
			noise := rand.New(rand.NewPCG(7, 1)).NormFloat64
			var held [figures]int
			for round := range tc.rounds {
				var n, x []float64
				e := 0.0
				for i := range tc.points {
					e = tc.depend*e + math.Sqrt(1-tc.depend*tc.depend)*noise()
					v := math.Pow(50, float64((i*7)%tc.points)/float64(tc.points-1))
					n, x = append(n, v), append(x, truth.rate(v)+15*e)
				}
				o := tc.o
				o.Seed = uint64(round)
				l, err := Fit(points(n, x), o)
				if err != nil {
					t.Fatal(err)
				}
				for i, v := range []Value{l.Lambda, l.Sigma, l.Kappa, l.PeakN, l.PeakRate, l.Ceiling} {
					if want := truth.figure(i); v.Low <= want && want <= v.High {
						held[i]++
					}
				}
			}
			t.Logf("of %d: λ %d, σ %d, κ %d, peak %d at %d, ceiling %d", tc.rounds, held[lambda], held[sigma], held[kappa], held[peakRate], held[peakN], held[ceiling])
			for i, h := range held {
				if h < tc.least || h > tc.most {
					t.Errorf("figure %d: %d of %d intervals hold the truth, want %d to %d", i, h, tc.rounds, tc.least, tc.most)
				}
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		points []Point
		o      Options
		want   string
	}{
		{"none", nil, Options{}, "too little data: 0 points at 0 concurrencies"},
		{"three", points([]float64{1, 2, 3}, []float64{1, 2, 3}), Options{}, "too little data: 3 points"},
		{"two concurrencies", points([]float64{1, 2, 1, 2}, []float64{1, 2, 1, 2}), Options{}, "4 points at 2 concurrencies"},
		{"left out", append(points([]float64{1, 2, 3}, []float64{1, 2, 3}), Point{N: 4, Rate: 4, Left: true}), Options{}, "3 points"},
		{"nothing done", points([]float64{1, 2, 3, 4}, []float64{0, 0, 0, 0}), Options{}, "no point has any throughput"},
		{"no concurrency", points([]float64{1, 0, 3, 4}, []float64{1, 2, 3, 4}), Options{}, "point 2: concurrency 0"},
		{"not a number", points([]float64{1, 2, 3, 4}, []float64{1, math.NaN(), 3, 4}), Options{}, "point 2"},
		{"level", points([]float64{1, 2, 3, 4}, []float64{1, 2, 3, 4}), Options{Level: 95}, "level 95: must lie between 0 and 1"},
	} {
		_, err := Fit(tc.points, tc.o)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// Data without a law: a constant load whose latency moves, a constant load with
// moments that stand out, rates that something else moves, and latency that falls with
// load.
func TestNoLaw(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	of := func(count int, point func(i int) (n, x float64)) []Point {
		var n, x []float64
		for i := range count {
			a, b := point(i)
			n, x = append(n, a), append(x, b)
		}
		return points(n, x)
	}
	for name, tc := range map[string]struct {
		points []Point
		want   string
	}{
		"constant": {of(240, func(int) (float64, float64) { return 3 + 0.5*random.Float64(), 50 + random.Float64() }), "nearly always there were 3.0"},
		"moments": {of(240, func(i int) (float64, float64) {
			if i%60 == 9 {
				return 30, 50
			}
			return 3 + 0.2*random.Float64(), 50 + random.Float64()
		}), "nearly always there were 3"},
		"a stop": {of(30, func(i int) (float64, float64) {
			if i == 11 || i == 12 {
				return 10, 24
			}
			return 0.3 + 0.02*random.Float64(), 24 + random.Float64()
		}), ""},
		"flat":  {of(240, func(int) (float64, float64) { return 1 + 9*random.Float64(), 50 + random.Float64() }), "hardly depends"},
		"equal": {of(10, func(i int) (float64, float64) { return float64(1 + i), 50 }), "hardly depends"},
		"falls": {of(40, func(i int) (float64, float64) { n := 1.2 + 0.1*float64(i); return n, 100 * math.Pow(n, -1.5) }), "from the first on"},
	} {
		for _, block := range []int{0, 12} {
			l, err := Fit(tc.points, Options{Block: block, Resamples: 50})
			if !errors.Is(err, ErrNoLaw) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, %s", name, err, l.Sentence())
			}
		}
	}
}

func TestWarnings(t *testing.T) {
	law := func(p params, n ...float64) (x []float64) {
		for i, v := range n {
			x = append(x, p.rate(v)*(1+0.002*math.Sin(float64(5*i))))
		}
		return x
	}
	wide := []float64{1, 2, 4, 8, 16, 32}
	for _, tc := range []struct {
		name string
		p    params
		n    []float64
		want []string // parts, one a warning
	}{
		{"good", params{100, 0.05, 0.005}, wide, nil},
		{"few", params{100, 0.05, 0.02}, []float64{1, 4, 8, 16}, []string{"only 4 points"}},
		{"narrow", params{100, 0.3, 0.05}, []float64{4, 5, 6, 7, 8, 9}, []string{"ranges only from 4 to 9"}},
		{"straight", params{100, 0, 0}, wide, []string{"in proportion to concurrency"}},
		{"beyond", params{100, 0.01, 0.0005}, wide, []string{"lies beyond the highest concurrency that was seen, 32"}},
	} {
		l, err := Fit(points(tc.n, law(tc.p, tc.n...)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		ok := len(l.Warnings) == len(tc.want)
		for i := range min(len(l.Warnings), len(tc.want)) {
			ok = ok && strings.Contains(l.Warnings[i], tc.want[i])
		}
		if !ok {
			t.Errorf("%s: %q, want %q (%s)", tc.name, l.Warnings, tc.want, l.Sentence())
		}
	}
}

// A queue levels off at what its workers do. The law has a peak where it bends, which
// what was left out beyond denies.
func TestPeakDenied(t *testing.T) {
	queue := points([]float64{0.6, 1.1, 2.4, 2.9, 3.6, 5.5, 5.8, 6.5, 7.5, 8.6, 11.5}, []float64{55.6, 96.4, 202, 232, 269, 314, 312, 316, 323, 334, 330})
	for _, tc := range []struct {
		n, rate float64
		denied  bool
	}{{34, 391, true}, {34, 300, false}, {9, 391, false}} {
		l, err := Fit(append(queue, Point{N: tc.n, Rate: tc.rate, Left: true}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(l.Warnings, func(w string) bool { return strings.Contains(w, "levels off there rather than falls") }); got != tc.denied {
			t.Errorf("left out at %v, %v/s: warnings %q (%s)", tc.n, tc.rate, l.Warnings, l.Sentence())
		}
	}
}

func TestSentence(t *testing.T) {
	want := map[string]string{
		"raytracer": "throughput nears 378 requests/s (95 % interval 347 … 460) and has no peak that data show",
		"specsdm91": "throughput peaks at 1,884 requests/s (95 % interval 1,748 … 2,031) with 96.5 requests at a time (95 % interval 77.9 … 157)",
	}
	for _, d := range datasets(t) {
		if want[d.name] == "" {
			continue
		}
		l, err := Fit(points(d.n, d.x), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Sentence(); got != want[d.name] {
			t.Errorf("%s:\ngot  %s\nwant %s", d.name, got, want[d.name])
		}
	}
}

func BenchmarkFit(b *testing.B) {
	for _, d := range datasets(b) {
		if d.name != "oracledb" {
			continue
		}
		for _, block := range []int{0, 10} {
			b.Run("block "+strconv.Itoa(block), func(b *testing.B) {
				for b.Loop() {
					if _, err := Fit(points(d.n, d.x), Options{Block: block}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
