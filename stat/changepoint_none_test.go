package stat

import (
	"fmt"
	"slices"
	"tailscope/internal/trials"
	"testing"
)

// Errors that begin after hours without any, or all but without, are dated to the slots that
// can show it. An interval of 95 % is some times as wide as errors are apart.
func TestChangePointsOfErrorsFromNone(t *testing.T) {
	trials := trials.Of(40)
	const slots, at = 1440, 1200 // of ten seconds
	for _, before := range []float64{0, 0.001} {
		for _, rate := range []float64{0.2, 1, 10, 60} {
			for _, after := range []float64{1, 0.3, 0.03} {
				if before > 0 && (rate < 1 || after < 0.3) {
					continue // far less is known of the moment
				}
				t.Run(fmt.Sprintf("before=%v,rate=%v,after=%v", before, rate, after), func(t *testing.T) {
					covered := 0
					var wide []float64
					for i := range trials {
						r := source(uint64(7000 + i))
						p, err := ChangePointsOfTally(drawTally(r, ShareTally, slots, 10*rate, 0, 0, steps(at, before, after)), ShareTally, ChangeOptions{})
						if err != nil {
							t.Fatal(err)
						}
						for _, x := range p {
							if x.Low <= at+60 && x.High >= at-60 {
								wide = append(wide, float64(x.High-x.Low))
								if x.Low <= at && at <= x.High {
									covered++
								}
							}
						}
					}
					slices.Sort(wide)
					if float64(len(wide)) < 0.95*float64(trials) {
						t.Fatalf("%d found in %d trials", len(wide), trials)
					}
					t.Logf("%d found, %d intervals hold the moment, width %v, at most %v", len(wide), covered, sortedMedian(wide), wide[len(wide)-1])
					apart := 1 / (10 * rate * after) // slots between errors
					if most := max(2, 4*apart); float64(covered) < 0.9*float64(len(wide)) || sortedMedian(wide) > most {
						t.Errorf("%d of %d intervals hold the moment, width %v, want %v at most", covered, len(wide), sortedMedian(wide), most)
					}
				})
			}
		}
	}
}
