package weekday

import "testing"

func TestParseSet(t *testing.T) {
	for text, want := range map[string]Set{
		"mon": 1 << 1, "Sunday": 1 << 0, " mon-wed ": 1<<1 | 1<<2 | 1<<3, "fri-mon": 1<<5 | 1<<6 | 1<<0 | 1<<1, "mon-sun": All,
		"mon-mon": 1 << 1, "moon": 0, "mon-": 0, "": 0, "mon-tue-wed": 0,
	} {
		if got, ok := ParseSet(text); got != want || ok != (want != 0) {
			t.Errorf("%q: %07b, %v, want %07b", text, got, ok, want)
		}
	}
	if s, _ := ParseSet("sat-sun"); !s.Has(0) || !s.Has(6) || s.Has(1) {
		t.Errorf("sat-sun is %07b", s)
	}
}
