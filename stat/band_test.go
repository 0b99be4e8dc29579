package stat

import (
	"math"
	"testing"
)

func TestBandIsWiderThanItsIntervals(t *testing.T) {
	r := source(8)
	m := medians(r, 240, 0.5, 0.2)
	a, b := Side{sideAround(r, m, 60, 0)}, Side{sideAround(r, m, 60, math.Log(1.1))}
	ps := []float64{0.05, 0.25, 0.5, 0.75, 0.95, 0.99}
	for _, paired := range []bool{false, true} {
		o := Options{Paired: paired}
		points, err := Quantiles(a, b, ps, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		band, err := Band(a, b, ps, nil, 3, o)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Band(a, b, ps, nil, 3, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ps {
			wider := (band[i].CI.High - band[i].CI.Low) / (points[i].CI.High - points[i].CI.Low)
			// Six intervals need no more than what six independent ones would, 2.64
			// standard errors for 1.96, and here they go together.
			if wider < 1.02 || wider > 1.42 {
				t.Errorf("paired %v, p%g: the band is %.2f times as wide", paired, 100*ps[i], wider)
			}
			if band[i].CI != again[i].CI {
				t.Errorf("paired %v, p%g: the same seed gives another band", paired, 100*ps[i])
			}
			if !band[i].CI.Contains(math.Log(1.1)) || band[i].P != points[i].P {
				t.Errorf("paired %v, p%g: %+v, %+v", paired, 100*ps[i], band[i], points[i])
			}
		}
	}
	if _, err := Band(a, b, ps, nil, 1, Options{Live: &Live{}}); err == nil {
		t.Error("no error of a band watched live")
	}
}
