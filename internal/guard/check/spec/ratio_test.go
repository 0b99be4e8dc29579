package spec

import "testing"

// Shares are written in per cent unless the check says otherwise.
func TestSharesAreRatios(t *testing.T) {
	const file = `checks:
  errors: {every: 1m, value: {query: {measure: errors, series: 'x{a="b"}'}}}
  own: {every: 1m, unit: parts, value: {query: {measure: errors, series: 'x{a="b"}'}}}
  above: {every: 1m, value: {query: {measure: above, t: 1, series: 'x{a="b"}'}}}
  rate: {every: 1m, value: {query: {measure: rate, series: 'x{a="b"}'}}}
`
	f, problems := Read([]string{"ratio_test.go"}, Options{ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := map[string]string{"errors": "ratio", "own": "parts", "above": "ratio", "rate": ""}
	for _, c := range f.Checks {
		if c.Unit != want[c.Name] {
			t.Errorf("%s: unit %q, want %q", c.Name, c.Unit, want[c.Name])
		}
	}
}
