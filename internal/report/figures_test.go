package report

import (
	"math"
	"strings"
	"testing"

	"tailscope/api"
	"tailscope/internal/figure"
)

func TestNumbers(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{figure.Seconds(0), "0 s"}, {figure.Seconds(0.00000085), "850 ns"}, {figure.Seconds(0.00085), "850 µs"},
		{figure.Seconds(0.0123), "12.3 ms"}, {figure.Seconds(0.9996), "1.00 s"}, {figure.Seconds(1.234), "1.23 s"},
		{figure.Seconds(100), "100 s"}, {figure.Seconds(125), "125 s"}, {figure.Seconds(3600), "60.0 min"}, {figure.Seconds(-0.5), "−500 ms"},
		{figure.Thousands(0), "0"}, {figure.Thousands(999), "999"}, {figure.Thousands(1000), "1,000"}, {figure.Thousands(1234567), "1,234,567"},
		{Percent(0.98), "98.0 %"}, {Percent(0.0123), "1.23 %"}, {Percent(0.00001), "0.001 %"}, {Percent(api.Float(math.NaN())), "-"},
		{QuantileName("0.99"), "p99"}, {QuantileName("0.999"), "p99.9"}, {QuantileName("0.07"), "p7"}, {QuantileName("1"), "p100"},
		{bytesUnit.Value(1536), "1.54 kB"}, {Number.Value(1234567), "1234567"}, {Number.Value(0.5), "0.5"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
}

func TestLevel(t *testing.T) {
	if got := level(1, 1_000_000, 10); got != 0 {
		t.Errorf("one of a million: level %d, want 0", got)
	}
	if got := level(1_000_000, 1_000_000, 10); got != 9 {
		t.Errorf("all of a million: level %d, want 9", got)
	}
	if got := level(1, 1, 10); got != 9 {
		t.Errorf("the only one: level %d, want 9", got)
	}
}

// Of sampled requests people and scripts are told how many unsampled ones say as much.
func TestWorth(t *testing.T) {
	services := Services(&api.ServicesResponse{Services: []api.Service{{Name: "shop", Requests: 3200, Effective: 100}, {Name: "stock", Requests: 3200}}})
	var text, csv strings.Builder
	if err := services.Write(&text, Text); err != nil {
		t.Fatal(err)
	}
	if err := services.Write(&csv, CSV); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(text.String(), "\n"); !strings.Contains(lines[1], "3,200 worth 100 ") || strings.Contains(lines[2], "worth") {
		t.Errorf("text:\n%s", &text)
	}
	if lines := strings.Split(csv.String(), "\n"); !strings.HasSuffix(lines[0], ",effective") || !strings.HasSuffix(lines[1], ",100") || !strings.HasSuffix(lines[2], ",") {
		t.Errorf("CSV:\n%s", &csv)
	}
}
