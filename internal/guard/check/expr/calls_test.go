package expr

import "testing"

func TestCalls(t *testing.T) {
	for source, want := range map[string]bool{
		`p50(span_duration_seconds{operation="GET /account"}[-60M:-0M])`:    false,
		`count(span_duration_seconds[-60M:-0M]) / 3600`:                     true,
		`max(1, 2 * sum(span_duration_seconds[-60M:-0M]))`:                  true,
		`-avg({check="summary"}[-5M:-0M])`:                                  false,
		`if(p99(span_duration_seconds[-5M:-0M]) > 1, count(a[-5M:-0M]), 0)`: true,
	} {
		p, err := Parse(source, Options{})
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if got := p.Calls("count", "sum"); got != want {
			t.Errorf("%s: got %v, want %v", source, got, want)
		}
	}
}
