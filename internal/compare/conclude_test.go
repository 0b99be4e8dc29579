package compare

import (
	"math"
	"testing"

	"tailscope/api"
)

// The sentence of all is that of a measure that shares the verdict of all.
func TestHeadline(t *testing.T) {
	nan := math.NaN()
	of := func(name, verdict, change string, effect, low, high float64) api.CompareMeasure {
		m := api.CompareMeasure{Name: name, Verdict: verdict, Change: change, Sentence: name + " is " + verdict, Adjusted: 0.5, Scale: "ratio",
			Raw: api.CompareFigure{Effect: api.Float(effect), Low: api.Float(low), High: api.Float(high)}}
		if change != "" {
			m.Adjusted = 0.001
		}
		if name == errorsName || name == apdexName {
			m.Scale = "difference"
		}
		return m
	}
	late := of("p99", Slower, Worse, 1.08, 1.01, 1.15)
	late.Adjusted = 0.2 // one of many
	likely := of("p50", Slower, Worse, 1.01, 1.005, 1.015)
	likely.Like = &api.CompareFigure{Effect: 1.4, Low: 1.3, High: 1.5}
	for _, c := range []struct {
		name              string
		measures          []api.CompareMeasure
		verdict, sentence string
	}{
		{"too little but for errors", []api.CompareMeasure{
			of("p50", TooLittle, "", 1.2, nan, nan), of("p99", TooLittle, "", 1.2, nan, nan), of(errorsName, NoEvidence, "", 0.001, -0.01, 0.01),
		}, TooLittle, "p99 is too little data"},
		{"errors rise and nothing else is known", []api.CompareMeasure{
			of("p99", TooLittle, "", 1.2, nan, nan), of(errorsName, Higher, Worse, 0.1, 0.05, 0.15),
		}, Regression, "Errors is higher"},
		{"all alike", []api.CompareMeasure{
			of("p50", Faster, Better, 0.7, 0.69, 0.71), of("p95", Faster, Better, 0.7, 0.68, 0.72), of("p99", Faster, Better, 0.7, 0.65, 0.75),
		}, Improvement, "p99 is faster"},
		{"the median moved more than a quantile seems to", []api.CompareMeasure{
			of("p50", Slower, Worse, 1.14, 1.12, 1.16), of("p75", Slower, Worse, 1.053, 1.03, 1.07), of("p99", NoEvidence, "", 1.02, 0.95, 1.1),
		}, Regression, "p50 is slower"},
		{"the tail hardly, the median much", []api.CompareMeasure{
			of("p50", Faster, Better, 0.7, 0.68, 0.72), of("p95", Faster, Better, 0.95, 0.91, 0.99), of("p99", Faster, Better, 0.96, 0.93, 0.99),
		}, Improvement, "p50 is faster"},
		{"of two directions the worse", []api.CompareMeasure{
			of("p50", Slower, Worse, 1.1, 1.05, 1.15), of("p99", Faster, Better, 0.5, 0.4, 0.6),
		}, Mixed, "p50 is slower"},
		{"many errors, a little slower", []api.CompareMeasure{
			of("p99", Slower, Worse, 1.1, 1.05, 1.15), of(errorsName, Higher, Worse, 0.1, 0.08, 0.12),
		}, Regression, "Errors is higher"},
		{"chance among many", []api.CompareMeasure{
			of("p95", NoEvidence, "", 1.02, 0.95, 1.1), late, of("p75", Same, "", 1, 0.99, 1.01),
		}, NoEvidence, "p95 is no evidence"},
		{"like for like counts", []api.CompareMeasure{
			likely, of("p99", Slower, Worse, 1.1, 1.05, 1.15),
		}, Regression, "p50 is slower"},
		{"same", []api.CompareMeasure{
			of("p50", Same, "", 1, 0.99, 1.01), of("p99", TooLittle, "", 1, nan, nan),
		}, Same, "p50 is same"},
		{"all by chance", []api.CompareMeasure{late}, NoEvidence, "No evidence of a change, as many measures were looked at"},
	} {
		k := &comparison{Request: Request{Within: 0.05}, out: &api.CompareResponse{Measures: c.measures}}
		k.conclude()
		if k.out.Verdict != c.verdict || k.out.Sentence != c.sentence {
			t.Errorf("%s: %s: %q, want %s: %q", c.name, k.out.Verdict, k.out.Sentence, c.verdict, c.sentence)
		}
	}
}
