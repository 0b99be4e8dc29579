package stat

import (
	"math"
	"testing"
)

// Where no split gains enough to be plain none is looked for: in what is quiet, and there none is.
// A great step is looked for.
func TestPlainSplitsAreLookedForWhereTheyMayBe(t *testing.T) {
	skipped, most := 0, 30
	for seed := range most {
		for _, factor := range []float64{1, 1.05, 1.2, 3} {
			s := jumps(source(uint64(seed+1)), 360, 50, 0.3, func(t int) float64 { return math.Log(factor) * float64(t*2/360) })
			o, err := ChangeOptions{Least: defaultLeast}.check()
			if err != nil {
				t.Fatal(err)
			}
			c := newChangeSearch(viewsOf(s, nil, 0, 360, o), 360, o)
			may := c.mayBePlain()
			if _, p := c.likeliest(c.noises(nil, true)); !may && p < plainly {
				t.Errorf("by %v: a split with a probability of %v is not looked for", factor, p)
			}
			if factor == 1 && !may {
				skipped++
			}
			if factor == 3 && !may {
				t.Error("a great step is not looked for")
			}
		}
	}
	if 10*skipped < 8*most {
		t.Errorf("%d of %d quiet series are not searched for a plain split, want most", skipped, most)
	}
}
