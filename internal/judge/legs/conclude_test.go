package legs

import (
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
)

func TestConclude(t *testing.T) {
	m := func(name string, verdict judge.Verdict, low, high api.Float, sentence string) api.MirrorMeasure {
		return api.MirrorMeasure{Name: name, Verdict: verdict, Effect: (low + high) / 2, Low: low, High: high, Sentence: sentence}
	}
	no := []api.MirrorMeasure{m("ratio", judge.NoEvidence, 0.98, 1.04, "no evidence of the ratio"), m("p99", judge.NoEvidence, 0.9, 1.2, "no evidence of p99")}
	slower := m("p99", judge.Slower, 1.3, 1.5, "p99 is slower")
	row := func(name string, ms ...api.MirrorMeasure) api.MirrorRow {
		r := api.MirrorRow{Name: name, Verdict: direction(ms), Measures: ms}
		return r
	}
	fastSearch := row("GET /search", m("ratio", judge.Faster, 0.9, 0.95, "the typical request of GET /search is faster"), m("p99", judge.Faster, 0.58, 0.67, "p99 of GET /search is 38 % faster"))
	slowCart := row("GET /cart", m("p50", judge.Slower, 1.1, 1.2, "p50 of GET /cart is slower"))
	nothing := row("GET /", no...)
	for _, tc := range []struct {
		name                string
		measures            []api.MirrorMeasure
		operations, tenants []api.MirrorRow
		judged              int
		verdict             judge.Verdict
		headline            string
	}{
		{"nothing", no, []api.MirrorRow{nothing}, nil, 3, judge.NoEvidence, "No evidence of the ratio"},
		{"nothing measured", nil, nil, nil, 0, judge.TooLittle, ""},
		{"the mission", no, []api.MirrorRow{fastSearch, nothing, nothing}, nil, 3, judge.Faster, "p99 of GET /search is 38 % faster, everything else: no evidence of change"},
		{"an operation, and not enough of another", no, []api.MirrorRow{fastSearch, row("GET /rare", m("p99", judge.TooLittle, 0, 0, ""))}, nil, 2, judge.Faster, "p99 of GET /search is 38 % faster, everything else that there is enough data of: no evidence of change"},
		{"an operation, and not enough of the slowest of all", append(no[:2:2], m("p99.9", judge.TooLittle, 0, 0, "")), []api.MirrorRow{fastSearch, nothing}, nil, 2, judge.Faster, "p99 of GET /search is 38 % faster, everything else that there is enough data of: no evidence of change"},
		{"an operation, and noise", append(no[:1:1], m("p50", judge.WithinFloor, 1.01, 1.02, "")), []api.MirrorRow{fastSearch, nothing}, nil, 2, judge.Faster, "p99 of GET /search is 38 % faster, everything else: nothing outside the noise floor"},
		{"two operations, one way each", no, []api.MirrorRow{fastSearch, slowCart, nothing}, nil, 9, judge.Mixed, "p99 of GET /search is 38 % faster, and 1 more operation differs, everything else: no evidence of change"},
		{"an operation, and all", []api.MirrorMeasure{no[0], slower}, []api.MirrorRow{slowCart, nothing, nothing}, nil, 3, judge.Slower, "p50 of GET /cart is slower; of everything together p99 is slower"},
		{"all, and most operations", []api.MirrorMeasure{no[0], slower}, []api.MirrorRow{slowCart, slowCart}, nil, 3, judge.Slower, "p99 is slower"},
		{"all but one the other way", []api.MirrorMeasure{no[0], slower}, []api.MirrorRow{fastSearch}, nil, 9, judge.Mixed, "p99 of GET /search is 38 % faster; of everything together p99 is slower"},
		{"a tenant", no, nil, []api.MirrorRow{slowCart}, 0, judge.Slower, "p50 of GET /cart is slower, everything else: no evidence of change"},
		{"a tenant, and all", []api.MirrorMeasure{slower}, nil, []api.MirrorRow{slowCart}, 0, judge.Slower, "p99 is slower"},
		{"more errors, and faster", []api.MirrorMeasure{m("p99", judge.Faster, 0.5, 0.6, "p99 is faster"), m("errors", judge.MoreErrors, 0.01, 0.02, "the share of errors is higher")}, nil, nil, 0, judge.Mixed, "The share of errors is higher"},
		{"larger answers", append(no[:1:1], m("bytes", judge.Higher, 1.1, 1.2, "the mean size of answers is higher")), nil, nil, 0, judge.NoEvidence, "No evidence of the ratio"},
		{"within the floor", []api.MirrorMeasure{m("ratio", judge.WithinFloor, 1.01, 1.02, "the ratio may be noise"), no[1]}, nil, nil, 0, judge.WithinFloor, "The ratio may be noise"},
		{"the same", []api.MirrorMeasure{m("ratio", judge.Same, 0.99, 1.01, "the ratio is the same"), m("p99.9", judge.NoEvidence, 0.5, 2, "no evidence of p99.9")}, nil, nil, 0, judge.Same, "The ratio is the same"},
		{"the same, but for the slowest", []api.MirrorMeasure{m("ratio", judge.Same, 0.99, 1.01, "the ratio is the same"), m("p99", judge.TooLittle, 0, 0, "")}, nil, nil, 0, judge.NoEvidence, "The ratio is the same"},
		{"the same, of few errors", []api.MirrorMeasure{m("ratio", judge.Same, 0.99, 1.01, "the ratio is the same"), m("errors", judge.TooLittle, 0, 0, "")}, nil, nil, 0, judge.Same, "The ratio is the same"},
	} {
		v := &api.MirrorVerdict{Measures: tc.measures, Operations: tc.operations, Tenants: tc.tenants, OperationsJudged: tc.judged}
		if conclude(v, true); v.Verdict != tc.verdict || v.Headline != tc.headline {
			t.Errorf("%s: %s, %q\nwant %s, %q", tc.name, v.Verdict, v.Headline, tc.verdict, tc.headline)
		}
	}
}

// Of what was not looked at nothing is said.
func TestConcludeOfSome(t *testing.T) {
	faster := api.MirrorMeasure{Name: "p99", Verdict: judge.Faster, Low: 0.5, High: 0.6, Sentence: "p99 of GET /search is 45 % faster"}
	v := &api.MirrorVerdict{Operations: []api.MirrorRow{{Verdict: judge.Faster, Measures: []api.MirrorMeasure{faster}}}}
	if conclude(v, false); v.Headline != "p99 of GET /search is 45 % faster" {
		t.Error(v.Headline)
	}
}

func TestSentences(t *testing.T) {
	for _, tc := range []struct {
		name, of                 string
		verdict                  judge.Verdict
		effect, low, high, floor float64
		want                     string
	}{
		{"p99", "GET /search", judge.Faster, 0.62, 0.58, 0.67, 0.03, "p99 of GET /search is 38 % faster than control (95 % interval 33 … 42 %; noise floor ±3 %)"},
		{"ratio", "", judge.Slower, 1.052, 1.048, 1.056, 0.022, "the typical request is 5.2 % slower than control (95 % interval 4.8 … 5.6 %; noise floor ±2.2 %)"},
		{"mean", "acme", judge.Slower, 3.14159, 2.9, 3.4, 0.03, "the mean of acme is 3.1 times as slow as control (95 % interval 2.9 … 3.4; noise floor ±3 %)"},
		{"errors", "", judge.MoreErrors, 0.0052, 0.004, 0.0064, 0.0004, "the share of errors is 0.52 points higher than control (95 % interval 0.4 … 0.64 points; noise floor ±0.04 points)"},
		{"errors", "", judge.FewerErrors, -0.3, -0.32, -0.28, 0.0004, "the share of errors is 30 points lower than control (95 % interval 28 … 32 points; noise floor ±0.04 points)"},
		{"bytes", "", judge.Lower, 0.5, 0.49, 0.51, 0.001, "the mean size of answers is 50 % lower than control (95 % interval 49 … 51 %; noise floor ±0.1 %)"},
		{"bytes", "", judge.Higher, 12, 11.9, 12.1, 0.001, "the mean size of answers is 12 times as high as control (95 % interval 12 … 12; noise floor ±0.1 %)"},
		{"p50", "", judge.NoEvidence, 1.01, 0.96, 1.06, 0.03, "no evidence that p50 differs from control (95 % interval −4 % … +6 %; noise floor ±3 %)"},
		{"mean", "", judge.NoEvidence, 0.93, 0.9, 0.96, 0.035, "the mean differs from control by −7 %, which is no evidence among so many figures (95 % interval −10 % … −4 %; noise floor ±3.5 %)"},
		{"p50", "", judge.Same, 1.01, 1, 1.02, 0.03, "p50 is the same as control within 5 % (95 % interval 0 % … +2 %; noise floor ±3 %)"},
		{"first_byte", "", judge.WithinFloor, 1.02, 1.01, 1.03, 0.03, "the median to the first byte differs from control by +2 %, not surely more than control from the primary (95 % interval +1 % … +3 %; noise floor ±3 %)"},
	} {
		for _, m := range measures {
			if m.Name != tc.name {
				continue
			}
			f := judge.Finding{Figure: m.Figure, Of: tc.of, Against: "control", Level: level, Margin: margin, Verdict: tc.verdict, Effect: tc.effect, Low: tc.low, High: tc.high, Noise: tc.floor}
			if got := f.Sentence(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		}
	}
}
