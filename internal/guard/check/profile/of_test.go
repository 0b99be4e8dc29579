package profile

import (
	"strings"
	"testing"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/spec"
)

// A label's value is nothing but a value, in expressions of profiles too.
func TestOf(t *testing.T) {
	parse := func(src string, _ int) (*expr.Program, error) { return expr.Parse(src, expr.Options{}) }
	s := spec.Profile{Days: []spec.ProfileDay{{Intervals: []spec.Interval{
		{From: "00:00", To: "24:00", Value: `avg(x{a=$operation, b="$operation", c=~"$operation.*"}[4 weeks])`},
	}}}}
	p, err := Compile("office", s, nil, parse)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	for _, op := range []string{"GET /a", `"}[0] + y{z="`, "$operation", `a\\b'`, ""} {
		of, err := p.Of(map[string]string{"operation": op})
		if err != nil {
			t.Fatal(err)
		}
		ms := of.At(at).From.Program.Selectors()[0].Matchers
		if len(ms) != 3 || ms[0].Value != op || ms[1].Value != op || !ms[2].Matches(op+"x") || op != "" && ms[2].Matches("x"+op+"y") {
			t.Errorf("%q: got %v", op, ms)
		}
	}
	if _, err := p.Of(nil); err == nil || !strings.Contains(err.Error(), "$operation") {
		t.Errorf("without the label: %v", err)
	}
	s.Days[0].Intervals[0].Value = "1"
	plain, err := Compile("office", s, nil, parse)
	if err != nil {
		t.Fatal(err)
	}
	if of, err := plain.Of(nil); of != plain || err != nil {
		t.Errorf("got %v, %v", of, err)
	}
}
