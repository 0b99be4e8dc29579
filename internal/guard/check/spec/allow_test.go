package spec

import (
	"os"
	"path/filepath"
	"testing"
)

// A gate in the grammar of comparisons is a direction and a distance.
func TestAllow(t *testing.T) {
	for allow, want := range map[string]struct {
		must  string
		share float64
	}{"increase:3%": {"<", 0.03}, "decrease:0.1": {">", 0.1}, "5%": {"=", 0.05}, "increase:0": {"<", 0}} {
		name := filepath.Join(t.TempDir(), "a.yaml")
		if err := os.WriteFile(name, []byte("checks:\n  a:\n    every: 10s\n    value: 1\n    threshold: {of: 'avg(x[-1H:-0M])', allow: '"+allow+"'}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, problems := Read([]string{name}, Options{})
		if len(problems) > 0 || f == nil || len(f.Checks) != 1 {
			t.Fatalf("%s: %v", allow, problems)
		}
		got := f.Checks[0].Threshold
		if got.Must != want.must || got.Critical == nil || *got.Critical != (Distance{Share: want.share}) || got.Warning != nil {
			t.Errorf("%s is must %s, critical %+v, want %+v", allow, got.Must, got.Critical, want)
		}
	}
}
