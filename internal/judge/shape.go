package judge

import (
	"fmt"
	"math"
	"strings"

	"tailscope/api"
	"tailscope/internal/figure"
)

// Shapes.
const (
	Spike  api.ShapeKind = "spike"
	Step   api.ShapeKind = "step"
	Drift  api.ShapeKind = "drift"
	Season api.ShapeKind = "season"
)

// SpikeText says what came and went: p99 of POST /orders was 1.02 s for 20 s.
func SpikeText(figure, value string, seconds int64) string {
	return fmt.Sprintf("%s was %s for %s", figure, value, Span(seconds))
}

// Value writes a value of a unit, seconds, bytes or empty, as people read it.
func Value(v float64, unit string) string {
	type scale struct {
		of   float64
		name string
	}
	var larger []scale
	last := ""
	switch unit {
	case "seconds":
		larger, last = []scale{{1, " s"}, {1e-3, " ms"}, {1e-6, " µs"}}, " s"
	case "bytes":
		larger, last = []scale{{1 << 30, " GiB"}, {1 << 20, " MiB"}, {1 << 10, " KiB"}}, " bytes"
	}
	for _, u := range larger {
		if math.Abs(v) >= u.of {
			return figure.ThreeDigits(v/u.of) + u.name
		}
	}
	return figure.ThreeDigits(v) + last
}

// SignedValue writes Value with a plus or a minus sign before it.
func SignedValue(v float64, unit string) string {
	if v < 0 {
		return "−" + Value(-v, unit)
	}
	return "+" + Value(v, unit)
}

// Span writes a length in seconds up to two minutes, then in minutes, then in hours.
func Span(seconds int64) string {
	of := func(unit int64, name string) string {
		v := math.Round(10*float64(seconds)/float64(unit)) / 10
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " " + name
	}
	switch {
	case seconds <= 120:
		return fmt.Sprintf("%d s", seconds)
	case seconds <= 2*3600:
		return of(60, "min")
	}
	return of(3600, "h")
}

// WithShapes returns the sentence of a verdict, which is of what lasts, behind what came
// and went at the moment: a spike comes first.
func WithShapes(shapes []api.Shape, v Verdict, lasting string) string {
	for i := range shapes {
		switch s := &shapes[i]; {
		case s.Kind != Spike || s.Side != "":
		case Moved(v):
			return s.Sentence + "; apart from that, " + lasting
		case v == TooLittle:
			return s.Sentence + "; " + lasting
		default:
			return s.Sentence + ", then as before"
		}
	}
	for i := range shapes {
		if s := &shapes[i]; s.Kind == Drift && Moved(v) {
			return lasting + "; " + s.Sentence
		}
	}
	return lasting
}
