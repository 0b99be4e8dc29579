package compare

import (
	"fmt"
	"testing"

	"tailscope/api"
)

// A cohort is named where most of its tenants may have changed, and not for one alone.
func TestOfSingleTenants(t *testing.T) {
	for _, c := range []struct {
		tenants         int
		alone           string
		changed, judged int
		want            bool
	}{
		{40, "", 0, 0, false}, // too small to be told apart
		{40, "light-7", 0, 0, true},
		{40, "light-7", 1, 1, true},
		{40, "", 1, 4, false}, // 37 others may have changed
		{8, "", 1, 8, true},
		{8, "", 5, 8, false},
		{1, "", 1, 1, true},
		{1, "", 0, 0, false},
		{0, "", 1, 1, false}, // how many there are is not known
	} {
		if got := OfSingleTenants(&api.CompareRow{Tenants: c.tenants, Alone: c.alone}, c.changed, c.judged); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestAloneOf(t *testing.T) {
	equal := map[string]float64{}
	for i := range 40 {
		equal[fmt.Sprint(i)] = 0.001
	}
	for _, c := range []struct {
		name    string
		tenants map[string]float64
		more    func(name string) float64
		want    string
	}{
		{"one", equal, func(name string) float64 {
			if name == "7" {
				return 18
			}
			return 0.1
		}, "7"},
		{"all", equal, func(string) float64 { return 1 }, ""},
		{"nothing", equal, func(string) float64 { return 0 }, ""},
		{"the larger of two that both changed", map[string]float64{"a": 0.6, "b": 0.4}, func(name string) float64 { return map[string]float64{"a": 6, "b": 4}[name] }, ""},
		{"none", nil, nil, ""},
	} {
		if got := aloneOf(c.tenants, c.more); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
