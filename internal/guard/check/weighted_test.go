package check

import (
	"testing"

	"tailscope/hist"
	"tailscope/internal/guard/check/spec"
)

// Spans that stand for 32 each give the value of those that stand for one, and the reading
// says how few they are.
func TestWeightedReading(t *testing.T) {
	for _, c := range []struct {
		weight uint64
		want   string
	}{{1, "of 100 observed"}, {32, "of 3200 observed, worth 100"}} {
		good, failed := hist.New(hist.MaxSchema), hist.New(hist.MaxSchema)
		for i := range 100 {
			h := good
			if i%4 == 0 {
				h = failed
			}
			if err := h.RecordN(0.1, c.weight); err != nil {
				t.Fatal(err)
			}
		}
		got := (&measurer{}).readTally(t.Context(), &spec.Query{Measure: "errors"}, &tally{good: good, failed: failed}, 0)
		if got.Value != 0.25 || got.Text != c.want {
			t.Errorf("weight %d: %v, %q; want 0.25, %q", c.weight, got.Value, got.Text, c.want)
		}
	}
}
