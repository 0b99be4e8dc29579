package profile

import (
	"math"
	"testing"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

func TestBands(t *testing.T) {
	nan := math.NaN()
	share := func(v float64) *spec.Distance { return &spec.Distance{Share: v} }
	amount := func(v float64) *spec.Distance { return &spec.Distance{Absolute: v} }
	type bounds [5]float64 // T, low critical, low warning, high warning, high critical
	f := func(name, must string, low, T, high float64, w, c *spec.Distance, want bounds) {
		t.Helper()
		b := Bands(must, T, low, high, w, c)
		for i, got := range (bounds{b.Threshold, b.LowCritical, b.LowWarning, b.HighWarning, b.HighCritical}) {
			if math.Abs(got-want[i]) > 1e-9 || math.IsNaN(got) != math.IsNaN(want[i]) {
				t.Errorf("%s: got %+v, want %v", name, b, want)
				return
			}
		}
	}
	// Bischeck prints (11000 > W > 9900 > C > 7700) for 10 % and 30 %.
	f("above", ">", nan, 11000, nan, share(0.1), share(0.3), bounds{11000, 7700, 9900, nan, nan})
	f("below", "<", nan, 11000, nan, share(0.1), share(0.3), bounds{11000, nan, nan, 12100, 14300})
	f("near", "=", nan, 100, nan, amount(5), share(0.2), bounds{100, 80, 95, 105, 120})
	f("of |T|", "<", nan, -100, nan, share(0.1), share(0.2), bounds{-100, nan, nan, -90, -80})
	f("only critical", "<", nan, 10, nan, nil, amount(1), bounds{10, nan, nan, nan, 11})
	f("only warning", ">", nan, 10, nan, amount(1), nil, bounds{10, nan, 9, nan, nan})
	f("neither", "<", nan, 10, nan, nil, nil, bounds{10, nan, nan, nan, 10})
	f("null", "=", nan, nan, nan, share(0.1), share(0.2), bounds{nan, nan, nan, nan, nan})
	f("band near", "=", 80, 100, 150, amount(0), share(0.2), bounds{100, 60, 80, 150, 170})
	f("band below", "<", 80, 100, 150, amount(0), share(0.2), bounds{100, nan, nan, 150, 170})
	f("band above", ">", 80, 100, 150, amount(0), share(0.2), bounds{100, 60, 80, nan, nan})
	f("band neither", "=", 80, 100, 150, nil, nil, bounds{100, 80, nan, nan, 150})
}

// An interval's distances take the place of the threshold's, each by itself.
func TestBandsOfABlend(t *testing.T) {
	p := compile(t, spec.Profile{Days: []spec.ProfileDay{{Intervals: []spec.Interval{
		{From: "00:00", To: "12:00", Value: "10 .. 20..40", Warning: &spec.Distance{Absolute: 1}},
	}}}}, nil)
	b := p.At(time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC))
	got := b.Bands("=", number64(b), &spec.Distance{Absolute: 2}, &spec.Distance{Share: 0.5})
	if want := (event.Bands{Threshold: 20, LowCritical: 0, LowWarning: 9, HighWarning: 41, HighCritical: 50, Rule: "profile office, default, 00:00–12:00"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A band moves in straight lines as its middle does.
func TestBandInterpolates(t *testing.T) {
	p := compile(t, spec.Profile{Days: []spec.ProfileDay{hourlyBands(map[int]string{9: "0..10..20", 10: "10..30..80"})}}, nil)
	b := p.At(time.Date(2026, 1, 1, 9, 15, 0, 0, time.UTC))
	if b.Low != 2.5 || number64(b) != 15 || b.High != 35 {
		t.Errorf("got %g, %g, %g", b.Low, number64(b), b.High)
	}
	if b := p.At(time.Date(2026, 1, 1, 10, 15, 0, 0, time.UTC)); !b.None() || !math.IsNaN(b.Low) || !math.IsNaN(b.High) {
		t.Errorf("got %+v", b)
	}
}

func hourlyBands(bands map[int]string) (d spec.ProfileDay) {
	for h := range 24 {
		text := "none"
		if b, ok := bands[h]; ok {
			text = b
		}
		d.Hours = append(d.Hours, text)
	}
	return d
}
