package judge

import (
	"fmt"

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

// SignedValue writes figure.Value with a plus or a minus sign before it.
func SignedValue(v float64, unit string) string {
	if v < 0 {
		return "−" + figure.Value(-v, unit)
	}
	return "+" + figure.Value(v, unit)
}

// Span writes a length in seconds as figure.Span does.
func Span(seconds int64) string { return figure.Span(float64(seconds)) }

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
