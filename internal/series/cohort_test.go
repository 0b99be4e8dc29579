package series

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTenantListOfAFile(t *testing.T) {
	thresholds := CohortSizes{VeryLarge: 1000, Large: 100, Medium: 10}
	for _, c := range []struct {
		text  string
		sizes CohortSizes
		want  map[string]string // tenant, cohort; "error" for words of the error
	}{
		{"tenant,size\nacme,1200\nglobex,100\ninitech, 9.5\n", thresholds, map[string]string{"acme": VeryLarge, "globex": Large, "initech": Small}},
		{"\ufeffsize,tenant\n94,acme\n5,globex\n0.9,initech\n0.1,hooli", CohortSizes{}, map[string]string{"acme": VeryLarge, "globex": VeryLarge, "initech": Medium, "hooli": Medium}},
		{"tenant,cohort\nacme,Very Large\n# nobody\n\"a, b\",small\n", thresholds, map[string]string{"acme": VeryLarge, "a, b": Small}},
		{"tenant,size,cohort\nacme,1,very large\nglobex,5000,\n", thresholds, map[string]string{"acme": VeryLarge, "globex": VeryLarge}},
		{`[{"tenant": "acme", "size": 1200}, {"tenant": "globex", "cohort": "medium"}]`, thresholds, map[string]string{"acme": VeryLarge, "globex": Medium}},
		{"", thresholds, map[string]string{"error": "no tenant is listed"}},
		{"tenant,size\n", thresholds, map[string]string{"error": "no tenant is listed"}},
		{"tenant\nacme", thresholds, map[string]string{"error": "line 1: write the columns"}},
		{"tenant,seats\nacme,3", thresholds, map[string]string{"error": `line 1: the column "seats"`}},
		{"tenant,size\nacme,3\n\nglobex,many", thresholds, map[string]string{"error": `line 4: "many" is not a size`}},
		{"tenant,size\nacme,-3", thresholds, map[string]string{"error": "line 2"}},
		{"tenant,size\nacme,3\nacme,4", thresholds, map[string]string{"error": `line 3: tenant "acme" is already on line 2`}},
		{"tenant,size,cohort\nacme,3,huge", thresholds, map[string]string{"error": `line 2: tenant "acme" has the cohort "huge"`}},
		{"tenant,size,cohort\nacme,,", thresholds, map[string]string{"error": "neither a size nor a cohort"}},
		{"tenant,size\nacme", thresholds, map[string]string{"error": "line 2"}},
		{`[{"tenant": "acme", "seats": 3}]`, thresholds, map[string]string{"error": `unknown field "seats"`}},
		{`{"acme": 1200}`, thresholds, map[string]string{"error": `write an array such as [{"tenant": "acme"`}},
		{`[{"tenant": "acme", "size": 3}] x`, thresholds, map[string]string{"error": "something follows"}},
		{"tenant,size\nacme,3", CohortSizes{VeryLarge: 1, Large: 2, Medium: 3}, map[string]string{"error": "have to fall"}},
	} {
		l, err := ParseTenantList([]byte(c.text), c.sizes)
		if words := c.want["error"]; words != "" {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%q: got %v, want %q", c.text, err, words)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if l.Len() != len(c.want) || l.By() != CohortsByList {
			t.Errorf("%q: %d tenants, by %s", c.text, l.Len(), l.By())
		}
		for name, want := range c.want {
			if got := l.CohortOf(name, 0); got != want {
				t.Errorf("%q: %s is %s, want %s", c.text, name, got, want)
			}
		}
		if got := l.CohortOf("stranger", 0.9); got != Small {
			t.Errorf("who is not listed is %s", got)
		}
	}
}

// Without a list cohorts are by share, and what has no name of its own is small.
// Whoever wrote a list learns of all that is wrong in it at once.
func TestBadLinesOfATenantList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(path, []byte("tenant,size,cohort\nacme,many,\nglobex,3,\ninitech\nglobex,4,\nhooli,,huge\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadTenantList(path, CohortSizes{})
	if err == nil {
		t.Fatal("no error")
	}
	got := strings.Split(strings.ReplaceAll(err.Error(), path, "FILE"), "\n")
	for i, want := range []string{
		`FILE: line 2: "many" is not a size`, "FILE: line 4: there are 1 fields, not 3", `FILE: line 5: tenant "globex" is already on line 3`, `FILE: line 6: tenant "hooli" has the cohort "huge"`,
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("line %d of %q does not begin with %q", i, got, want)
		}
	}
	if _, err := ParseTenantList([]byte(`[{"tenant":"acme","size":1},{"tenant":"acme","size":2},{"tenant":"globex"}]`), CohortSizes{}); err == nil || len(strings.Split(err.Error(), "\n")) != 2 {
		t.Errorf("of an array: %v, want both", err)
	}
	for bad, want := range map[int]int{mostBad: mostBad, mostBad + 1: mostBad + 1, 1000: mostBad + 1} {
		_, err := ParseTenantList([]byte("tenant,size\n"+strings.Repeat("acme,many\n", bad)), CohortSizes{})
		if err == nil {
			t.Fatal("no error")
		}
		if got := strings.Split(err.Error(), "\n"); len(got) != want || (bad > mostBad) != strings.HasPrefix(got[len(got)-1], "lines after") {
			t.Errorf("%d bad lines: %d are reported, want %d: %q", bad, len(got), want, got)
		}
	}
}

func TestNoTenantList(t *testing.T) {
	var l *TenantList
	for _, c := range []struct {
		name  string
		share float64
		want  string
	}{{"acme", 0.05, VeryLarge}, {"acme", 0.049, Large}, {"acme", 0.001, Medium}, {"acme", 0.0009, Small}, {Other, 0.5, Small}, {"", 0.5, Small}} {
		if got := l.CohortOf(c.name, c.share); got != c.want {
			t.Errorf("%q with %v: got %s, want %s", c.name, c.share, got, c.want)
		}
	}
	if l.By() != CohortsByShare || !math.IsNaN(l.Size("acme")) {
		t.Errorf("by %s, size %v", l.By(), l.Size("acme"))
	}
}

func FuzzTenantList(f *testing.F) {
	f.Add([]byte("tenant,size,cohort\nacme,3,\nglobex,,small"))
	f.Add([]byte(`[{"tenant": "acme", "size": 3}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseTenantList(b, CohortSizes{})
		if err == nil && l.Len() == 0 {
			t.Fatal("an empty list is not an error")
		}
	})
}
