//go:build unix

package scenario

import (
	"math"
	"testing"
	"time"
)

// A reading that grows is of the second before it, so that the one at a step's very
// beginning is of what was before.
func TestReadingsBetweenTwoMoments(t *testing.T) {
	r := &readings{rows: map[[2]string]*row{}}
	start := time.Unix(1_000_000, 0)
	for s := range 11 {
		at := start.Add(time.Duration(s) * time.Second)
		busy := 0.5 * float64(s) // cores, until it is loaded
		if s > 5 {
			busy = 2.5 + 2*float64(s-5)
		}
		r.addReading(at, "app", "cpu_cores", "cores", true, busy)
		r.addReading(at, "db", "cpu_cores", "cores", true, 0.1*float64(s))
		r.addReading(at, "app", "resident_bytes", "bytes", false, float64(1000+s))
	}
	at := func(s float64) time.Time { return start.Add(time.Duration(s * 1e9)) }
	cores, means := r.between(at(5), at(8))
	if math.Abs(cores-2.1) > 1e-9 || math.Abs(means["app cpu_cores"]-2) > 1e-9 || math.Abs(means["db cpu_cores"]-0.1) > 1e-9 || means["app resident_bytes"] != 1007 {
		t.Errorf("%v cores, %v", cores, means)
	}
	if cores, _ := r.between(at(1.2), at(4)); math.Abs(cores-0.6) > 1e-9 {
		t.Errorf("%v cores before it was loaded", cores)
	}
	if cores, means := r.between(at(8.2), at(8.6)); !math.IsNaN(cores) || len(means) != 0 {
		t.Errorf("%v cores in a time without readings, %v", cores, means)
	}
}
