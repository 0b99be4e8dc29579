package figure

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Thousands(0), "0"},
		{Thousands(999), "999"},
		{Thousands(-123456), "−123,456"},
		{Thousands(uint64(86_400_000)), "86,400,000"},
		{Rounded(1e21), "1,000,000,000,000,000,000,000"},
		{Rounded(-1499.6), "−1,500"},
		{Counted(1, "trace"), "1 trace"},
		{Counted(0, "trace"), "0 traces"},
		{Counted(1200, "request"), "1,200 requests"},
		{TwoDigits(0), "0"},
		{TwoDigits(0.0416), "0.04"},
		{TwoDigits(0.96), "1"},
		{TwoDigits(4.12), "4.1"},
		{TwoDigits(9.951), "10"},
		{TwoDigits(1234.5), "1234"},
		{TwoDigits(math.Inf(-1)), "∞"},
		{Planned(40.2), "41 s"},
		{Planned(60.000000001), "60 s"},
		{Planned(340), "6 min"},
		{Planned(11520), "4 h"},
		{Planned(817564), "10 days"},
		{Signed(0), "0"},
		{Signed(-4.12), "−4.1"},
		{Signed(38), "+38"},
		{Points(0.62), "62"},
		{Points(0.04), "4.0"},
		{Points(0.0004), "0.04"},
		{Points(0), "0"},
		{Duration(0), "0s"},
		{Duration(10 * time.Second), "10s"},
		{Duration(10*time.Minute + 10*time.Second), "10m10s"},
		{Duration(5 * time.Minute), "5m"},
		{Duration(time.Hour), "1h"},
		{Duration(90 * time.Minute), "1h30m"},
		{Sentence(""), ""},
		{Sentence("p99 of all"), "p99 of all"},
		{Sentence("part of all"), "Part of all"},
		{Sentence("too little data"), "Too little data"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Seconds(math.NaN()), "-"}, {Seconds(math.Inf(1)), "∞"}, {Value(math.Inf(-1), "bytes"), "−∞"}, {ThreeDigits(math.NaN()), "-"}, {ThreeDigits(math.Inf(1)), "∞"}, {Rounded(math.Inf(1)), "∞"},
		{Quantity(math.Inf(1), "s"), "∞"}, {Quantity(math.NaN(), ""), "-"}, {Quantity(math.Inf(-1), "ratio"), "−∞"}, {Percent(math.NaN()), "-"}, {Percent(0.05), "5 %"},
		{Tick(0), "0 s"}, {Tick(math.NaN()), "-"}, {Tick(math.Inf(1)), "∞"}, {Span(0.25), "250 ms"}, {Span(4.25), "4.3 s"}, {Span(-250), "−4.2 min"}, {Span(math.Inf(1)), "∞"}, {Span(math.NaN()), "-"},
		{PluginUnit("seconds"), "s"}, {PluginUnit("B"), "B"}, {PluginUnit("ms"), "ms"}, {PluginUnit("ratio"), ""}, {PluginUnit("orders"), ""},
		{Percentile(0.99), "p99"}, {Percentile(0.999), "p99.9"}, {Percentile(0.5), "p50"},
		{Listed(nil), ""}, {Listed([]string{"a"}), "a"}, {Listed([]string{"a", "b"}), "a and b"}, {Listed([]string{"a", "b", "c"}), "a, b and c"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// The page's figures are tested with the same cases (ui/src/shared/text/format.test.ts).
func TestAsThePage(t *testing.T) {
	text, err := os.ReadFile("testdata/figures.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Figure, Unit, Text string
		Of                 float64
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	write := map[string]func(v float64, unit string) string{
		"digits":   func(v float64, _ string) string { return ThreeDigits(v) },
		"value":    Value,
		"ratio":    func(v float64, _ string) string { return Ratio(v) },
		"quantity": Quantity,
		"span":     func(v float64, _ string) string { return Span(v) },
		"tick":     func(v float64, _ string) string { return Tick(v) },
	}
	for _, c := range cases {
		if got := write[c.Figure](c.Of, c.Unit); got != c.Text {
			t.Errorf("%s of %v %s is %q, want %q", c.Figure, c.Of, c.Unit, got, c.Text)
		}
	}
}
