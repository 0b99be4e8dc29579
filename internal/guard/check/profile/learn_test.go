package profile

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/guard/check/spec"
)

// shop makes four weeks of samples, one a minute, of a shop in Stockholm that
// is busy from nine to five on weekdays, up to the change of the clock in March.
// bend changes a sample, or leaves it out by NaN.
func shop(cal *Calendar, end time.Time, bend func(time.Time, float64) float64) iter.Seq2[time.Time, float64] {
	return func(yield func(time.Time, float64) bool) {
		r := rand.New(rand.NewPCG(1, 2))
		for m := end.AddDate(0, 0, -28); m.Before(end); m = m.Add(time.Minute) {
			m := m.In(cal.Zone())
			v := 100 + 10*r.NormFloat64()
			if w := m.Weekday(); w >= 1 && w <= 5 && m.Hour() >= 9 && m.Hour() < 17 {
				v += 900
			}
			if bend != nil {
				v = bend(m, v)
			}
			if !yield(m, v) {
				return
			}
		}
	}
}

func learn(t testing.TB, l spec.Learn, cal *Calendar, end time.Time, samples iter.Seq2[time.Time, float64]) *Learned {
	t.Helper()
	r, err := Learn(l, cal, end, samples)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	stockholm = spec.Calendar{Zone: "Europe/Stockholm"}
	march     = time.Date(2026, 4, 9, 0, 0, 0, 0, time.UTC) // the four weeks before hold the change of March 29
)

// The quantiles of a normal distribution: 0.05 and 0.95 lie 1.6449 deviations
// from the middle.
func TestLearn(t *testing.T) {
	cal := calendar(t, stockholm)
	l := learn(t, spec.Learn{}, cal, march, shop(cal, march, nil))
	if len(l.Kinds) != 7 || l.Low != 0.05 || l.Mid != 0.5 || l.High != 0.95 || l.Over != 28*86400 || l.Least != 20 {
		t.Fatalf("got %+v", l)
	}
	if l.Empty() {
		t.Error("learned nothing")
	}
	for _, k := range l.Kinds {
		for h, got := range k.Hours {
			middle := 100.0
			if k.Weekdays[0] >= 1 && k.Weekdays[0] <= 5 && h >= 9 && h < 17 {
				middle = 1000
			}
			// Some 240 samples: the quantile's standard error is some 1.4.
			if math.Abs(got.Middle-middle) > 5 || math.Abs(got.Low-middle+16.4) > 6 || math.Abs(got.High-middle-16.4) > 6 || got.None || got.Window != 0 {
				t.Errorf("%s %02d:00: got %+v, want about %g, %g, %g", k.Name, h, got, middle-16.4, middle, middle+16.4)
			}
			want := 240 // but for the skipped hour of the change, and the days cut at both ends
			if k.Name == "sun" && h == 2 {
				want = 180
			}
			if n := got.Samples + got.Outliers; n != want && !(k.Name == "thu" || k.Name == "wed") {
				t.Errorf("%s %02d:00: %d samples, want %d", k.Name, h, n, want)
			}
		}
	}
}

// An outage of an hour, another of 25 minutes, absurd values, and a gap of two
// days, one of which leaves three of the day of the outage, move no bound by more
// than half a deviation of the noise.
func TestLearnIsRobust(t *testing.T) {
	cal := calendar(t, stockholm)
	clean := learn(t, spec.Learn{}, cal, march, shop(cal, march, nil))
	bent := learn(t, spec.Learn{}, cal, march, shop(cal, march, func(m time.Time, v float64) float64 {
		switch {
		case m.Month() == 3 && m.Day() == 17 && m.Hour() == 10, m.Month() == 4 && m.Day() == 6 && m.Hour() == 3 && m.Minute() < 25:
			return v * 20
		case m.Weekday() == time.Friday && m.Hour() == 12 && m.Minute() == 0:
			return -1e12
		case m.Month() == 3 && (m.Day() == 24 || m.Day() == 25):
			return math.NaN()
		case m.Weekday() == time.Saturday && m.Minute() == 7:
			return math.Inf(1)
		}
		return v
	}))
	for k := range clean.Kinds {
		for h, want := range clean.Kinds[k].Hours {
			got := bent.Kinds[k].Hours[h]
			if got.None || math.Abs(got.Low-want.Low) > 5 || math.Abs(got.High-want.High) > 5 || math.Abs(got.Middle-want.Middle) > 3 {
				t.Errorf("%s %02d:00: got %+v, want about %+v", clean.Kinds[k].Name, h, got, want)
			}
		}
	}
	if tue := bent.Kinds[1].Hours[10]; tue.Outliers < 60 {
		t.Errorf("%d outliers in the hour of the outage", tue.Outliers)
	}
}

// What happens on every such day is no outlier, however odd, and nor is what a
// constant value does now and then, until it is rare among many days.
func TestLearnKeepsHabits(t *testing.T) {
	cal := calendar(t, stockholm)
	l := learn(t, spec.Learn{}, cal, march, shop(cal, march, func(m time.Time, v float64) float64 {
		if m.Weekday() == time.Monday && m.Hour() == 3 && m.Minute() < 10 {
			return v * 20 // a job of every week
		}
		return v
	}))
	if h := l.Kinds[0].Hours[3]; h.High < 1500 || h.Outliers > 0 {
		t.Errorf("got %+v", h)
	}
	// By hour alone weekends are 8 of 28 days: the band holds both.
	l = learn(t, spec.Learn{By: "hour"}, cal, march, shop(cal, march, nil))
	if h := l.Kinds[0].Hours[12]; h.Low > 120 || h.High < 1000 || h.Outliers > 0 {
		t.Errorf("got %+v", h)
	}
	errors := func(m time.Time, _ float64) float64 {
		if m.Month() == 3 && m.Day() == 18 && m.Hour() == 12 {
			return 0.3
		}
		return 0
	}
	one := learn(t, spec.Learn{}, cal, march, shop(cal, march, errors)).Kinds[2].Hours[12]
	many := learn(t, spec.Learn{By: "weekday-weekend"}, cal, march, shop(cal, march, errors)).Kinds[0].Hours[12]
	if one.High != 0.3 || one.Outliers != 0 || many.High != 0 || many.Outliers != 60 {
		t.Errorf("one of four days: %+v, one of twenty: %+v", one, many)
	}
}

// Heavy tails are not taken for outliers: what is left out of lognormal noise
// moves the upper bound by 6 per cent at most.
func TestLearnKeepsTails(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, sigma := range []float64{0.3, 0.6, 1} {
		v := make([]float64, 20000)
		for i := range v {
			v[i] = math.Exp(sigma * r.NormFloat64())
		}
		slices.Sort(v)
		kept := inliers(v)
		was, is := quantile(v, 0.95), quantile(kept, 0.95)
		t.Logf("sigma %g: %.2f%% left out, 0.95-quantile %.3f to %.3f", sigma, 100-float64(len(kept))/200, was, is)
		if is < was*0.94 {
			t.Errorf("sigma %g: the 0.95-quantile falls from %g to %g", sigma, was, is)
		}
	}
}

// inliers is what lies within the limits.
func inliers(sorted []float64) []float64 {
	low, high := limits(sorted)
	return slices.DeleteFunc(slices.Clone(sorted), func(v float64) bool { return v < low || v > high })
}

func TestLimits(t *testing.T) {
	f := func(v []float64, want ...float64) {
		t.Helper()
		if got := inliers(v); !slices.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", v, got, want)
		}
	}
	f(nil)
	f([]float64{1, 2, 1000}, 1, 2, 1000) // too few to tell
	f([]float64{1, 2, 3, 4, 1000}, 1, 2, 3, 4)
	f([]float64{-1000, 1, 2, 3, 4}, 1, 2, 3, 4)
	f([]float64{5, 5, 5, 5, 5}, 5, 5, 5, 5, 5)
	f(append(make([]float64, 12), 7), make([]float64, 12)...)
	f([]float64{0, 0, 0, 0, 0, 0, 1, 1, 2}, 0, 0, 0, 0, 0, 0, 1, 1, 2)
}

// An hour with too few samples takes in its neighbours; one that still has too
// few has no threshold.
func TestLearnWindow(t *testing.T) {
	cal := calendar(t, spec.Calendar{})
	end := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) // a Monday
	samples := func(perHour map[string]int) iter.Seq2[time.Time, float64] {
		return func(yield func(time.Time, float64) bool) {
			for _, k := range slices.Sorted(maps.Keys(perHour)) {
				m, err := time.Parse("2006-01-02 15", k)
				if err != nil {
					t.Error(err)
				}
				for i := range perHour[k] {
					if !yield(m.Add(time.Duration(i)*time.Second), float64(i)) {
						return
					}
				}
			}
		}
	}
	f := func(by string, perHour map[string]int, kind, hour, samplesWant, window int) {
		t.Helper()
		l := learn(t, spec.Learn{By: by}, cal, end, samples(perHour))
		h := l.Kinds[kind].Hours[hour]
		if h.None != (samplesWant < 20) || h.Samples != samplesWant || h.Window != window {
			t.Errorf("%s %v: got %+v, want %d samples of ±%d", by, perHour, h, samplesWant, window)
		}
	}
	thu := func(h string) string { return "2026-05-28 " + h }
	f("weekday", map[string]int{thu("10"): 20, thu("11"): 99}, 3, 10, 20, 0)
	f("weekday", map[string]int{thu("10"): 19, thu("11"): 99}, 3, 10, 118, 1)
	f("weekday", map[string]int{thu("08"): 30, thu("10"): 1}, 3, 10, 31, 2)
	f("weekday", map[string]int{thu("07"): 30, thu("10"): 1}, 3, 10, 1, 2)
	f("weekday", map[string]int{"2026-05-27 23": 40, "2026-05-29 00": 40}, 3, 0, 40, 1) // Wednesday before Thursday
	f("weekday", map[string]int{"2026-05-27 23": 40, "2026-05-29 00": 41}, 3, 23, 41, 1)
	f("weekday", map[string]int{"2026-05-31 23": 40}, 0, 0, 40, 1)        // Sunday before Monday
	f("weekday-weekend", map[string]int{"2026-05-31 23": 40}, 0, 0, 0, 2) // the end of the week is not looked over
	f("hour", map[string]int{"2026-05-31 23": 40}, 0, 0, 40, 1)           // around
	f("hour", map[string]int{"2026-05-03 10": 40}, 0, 10, 0, 2)           // before the four weeks
	f("hour", map[string]int{"2026-06-01 00": 40}, 0, 0, 0, 2)            // the end is open
	f("hour", map[string]int{"2026-05-04 00": 40}, 0, 0, 40, 0)           // the start is closed
}

// A holiday counts as a Sunday, in learning and in what is learned.
func TestLearnHolidays(t *testing.T) {
	cal := calendar(t, spec.Calendar{Zone: "Europe/Stockholm", Holidays: []string{"easter-2", "easter+1"}})
	closed := func(m time.Time, v float64) float64 {
		if cal.Holiday(m) {
			return 100
		}
		return v
	}
	for _, by := range []string{"weekday", "weekday-weekend"} {
		l := learn(t, spec.Learn{By: by}, cal, march, shop(cal, march, closed))
		p, err := l.Compile("p", cal)
		if err != nil {
			t.Fatal(err)
		}
		if b := p.At(at(t, "2027-03-26 11:00", "Europe/Stockholm")); math.Abs(number64(b)-100) > 5 || b.Rule != "profile p, holidays, 11:00–12:00" {
			t.Errorf("by %s, Good Friday: got %g by %s", by, number64(b), b.Rule)
		}
		if b := p.At(at(t, "2027-03-19 11:00", "Europe/Stockholm")); math.Abs(number64(b)-1000) > 5 {
			t.Errorf("by %s, a Friday: got %g by %s", by, number64(b), b.Rule)
		}
	}
}

// What was learned survives JSON, and compiles to steps of bands that hold what
// they held before rounding.
func TestLearnedCompiles(t *testing.T) {
	cal := calendar(t, stockholm)
	l := learn(t, spec.Learn{By: "weekday-weekend"}, cal, march, shop(cal, march, nil))
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var again Learned
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	p, err := again.Compile("shop", cal)
	if err != nil {
		t.Fatal(err)
	}
	if p.Learn() != nil {
		t.Error("what was learned is to be learned")
	}
	for m := at(t, "2026-04-10 00:10", "Europe/Stockholm"); m.Before(at(t, "2026-04-12 00:00", "Europe/Stockholm")); m = m.Add(20 * time.Minute) {
		k := 0
		if m.Weekday() == time.Saturday {
			k = 1
		}
		h, b := l.Kinds[k].Hours[m.Hour()], p.At(m)
		if b.Fraction != 0 || b.Low > h.Low || b.Low < h.Low-0.5 || b.High < h.High || b.High > h.High+1.1 || math.Abs(number64(b)-h.Middle) > 0.6 {
			t.Errorf("%s: got %+v of %+v", m, b, h)
		}
		if want := fmt.Sprintf("profile shop, %s, %02d:00–%02d:00", l.Kinds[k].Name, m.Hour(), m.Hour()+1); b.Rule != want {
			t.Errorf("got %q, want %q", b.Rule, want)
		}
	}
}

// What YAML prints is read back to the same thresholds.
func TestFrozen(t *testing.T) {
	s := spec.Calendar{Zone: "Europe/Stockholm", Holidays: []string{"easter-2", "easter+1"}}
	cal := calendar(t, s)
	toLearn, err := Compile("frozen", spec.Profile{Calendar: "sweden", Learn: &spec.Learn{}}, cal, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"hour", "weekday", "weekday-weekend"} {
		l := learn(t, spec.Learn{By: by}, cal, march, shop(cal, march, func(m time.Time, v float64) float64 {
			if m.Hour() > 3 && m.Hour() < 10 {
				return math.NaN()
			}
			return v
		}))
		text := "calendars: {sweden: {zone: Europe/Stockholm, holidays: [easter-2, easter+1]}}\n" + l.YAML(toLearn)
		name := filepath.Join(t.TempDir(), "checks.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, problems := spec.Read([]string{name}, spec.Options{})
		if len(problems) > 0 {
			t.Fatalf("%v\n%s", problems, text)
		}
		frozen := compile(t, file.Profiles["frozen"], calendar(t, file.Calendars["sweden"]))
		p, err := l.Compile("office", cal)
		if err != nil {
			t.Fatal(err)
		}
		for m := march; m.Before(march.AddDate(0, 0, 28)); m = m.Add(30 * time.Minute) {
			a, b := p.At(m), frozen.At(m)
			if fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatalf("%s: got %+v, want %+v", m, b, a)
			}
		}
		if by == "weekday-weekend" && !strings.Contains(text, "# Learned from 2026-03-12 01:00 to 2026-04-09 02:00: quantiles 0.05, 0.5 and 0.95 of each hour, low..middle..high.\n") {
			t.Errorf("got %s", text)
		}
	}
}

func TestFits(t *testing.T) {
	cal := calendar(t, stockholm)
	l := learn(t, spec.Learn{}, cal, march, func(func(time.Time, float64) bool) {})
	if !l.Fits(spec.Learn{By: "weekday", Refresh: spec.Refresh{Every: time.Hour}}) || l.Fits(spec.Learn{By: "hour"}) || l.Fits(spec.Learn{Least: 5}) {
		t.Error("what was learned fits what it is not, or not what it is")
	}
	p, err := l.Compile("office", cal) // of nothing
	if err != nil || !l.Empty() || !p.At(march).None() {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestOutward(t *testing.T) {
	f := func(v float64, toward int, want string) {
		t.Helper()
		if got := number(outward(v, toward)); got != want {
			t.Errorf("%v toward %d: got %s, want %s", v, toward, got, want)
		}
	}
	f(0.3, -1, "0.3")
	f(0.3, 1, "0.3")
	f(0, -1, "0")
	f(123456, -1, "123400")
	f(123456, 0, "123500")
	f(123456, 1, "123500")
	f(99999, 1, "100000")
	f(-99999, -1, "-100000")
	f(-1.00001, 1, "-1")
	f(-1.00001, -1, "-1.001")
	f(0.000123456, 1, "0.0001235")
	f(1.0001, 0, "1")
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(-1e300, 1e300).Draw(t, "v")
		low, high := outward(v, -1), outward(v, 1)
		if low > v || high < v || math.Abs(v) > 1e-300 && high-low > math.Abs(v)*0.0011 {
			t.Fatalf("%v: %v to %v", v, low, high)
		}
	})
}

func TestNothingLearnedYet(t *testing.T) {
	p := compile(t, spec.Profile{Learn: &spec.Learn{}}, nil)
	if b := p.At(time.Now()); !b.None() || b.Rule != "profile office, nothing learned yet" || p.Learn() == nil {
		t.Errorf("got %+v", b)
	}
}

func TestLearnErrors(t *testing.T) {
	f := func(l spec.Learn, want string) {
		t.Helper()
		if _, err := Compile("p", spec.Profile{Learn: &l, Line: 4}, nil, nil); err == nil || !strings.HasPrefix(err.Error(), "line 4: "+want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := Learn(l, nil, march, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f(spec.Learn{By: "month"}, `learn by "month" is not known; write hour,`)
	f(spec.Learn{Low: 0.9, Middle: 0.5, High: 0.95}, "learn low 0.9, middle 0.5 and high 0.95 do not rise")
	f(spec.Learn{Low: 0.1, Middle: 0.5, High: 1.5}, "learn low 0.1, middle 0.5 and high 1.5 do not rise")
	f(spec.Learn{Over: time.Hour}, "learn over 1h0m0s is less than a day")
	f(spec.Learn{Least: -1}, "learn least -1 is not")
	if _, err := Compile("p", spec.Profile{Learn: &spec.Learn{}, Days: []spec.ProfileDay{{None: true}}}, nil, nil); err == nil || err.Error() != "profile p has both days and learn; leave one of them out" {
		t.Errorf("got %v", err)
	}
}

func BenchmarkLearn(b *testing.B) {
	cal := calendar(b, stockholm)
	b.ReportAllocs()
	for b.Loop() {
		learn(b, spec.Learn{}, cal, march, shop(cal, march, nil))
	}
}
