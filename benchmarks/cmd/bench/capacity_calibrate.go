package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"tailscope/benchmarks/report"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/experiment/capacity/virtual"
)

// capacityCalibrate searches servers in virtual time, whose limits are known.
func capacityCalibrate(ctx context.Context, o *options, r *report.Report) error {
	trials := max(4, o.trials/20)
	if o.quick {
		trials = max(2, trials/50)
	}
	for _, budget := range []time.Duration{5 * time.Minute, 2 * time.Minute} {
		section := r.Section(fmt.Sprintf("Searches of at most %v", budget), fmt.Sprintf("%d searches of each server, between 50 and 10,000 requests/s, until the interval is ±3 %% or the time is up. "+
			"Times are virtual; errors and widths are percent of the true limit. Intervals are at 95 %%: a share over %d searches has a standard error of %.1f points.", trials, trials, 100*math.Sqrt(0.05*0.95/float64(trials))))
		for _, s := range virtual.Shapes() {
			if !o.wants(s.Name) {
				continue
			}
			sum, err := virtual.Calibrate(ctx, trials, s.Truth, func(seed uint64) (virtual.Trial, error) {
				return virtual.Try(s, search.Options{Lowest: 50, Highest: 10000, Budget: budget}, seed+1000)
			})
			if err != nil {
				return err
			}
			share := func(n int) float64 { return 100 * float64(n) / float64(sum.Trials) }
			name := fmt.Sprintf("%s, %s, %.0f/s", s.Name, s.Objective, s.Truth)
			o.logf("%-55s covered %5.1f %%, within 3 %%: %5.1f %%, error %.2f %% (a tenth beyond %.2f %%), bias %+.2f %%, interval ±%.2f %%, took %.0f s (a tenth beyond %.0f s), %.0f s of it 10 %% beyond the limit",
				name, share(sum.Covered), share(sum.Within), sum.Error, sum.Worse, sum.Bias, sum.Half, sum.Took, sum.Longer, sum.Beyond)
			section.Add(name+": intervals without the truth", "tailscope", "% of searches", 10, 100-share(sum.Covered))
			section.Add(name+": error, median", "tailscope", "%", 3, sum.Error)
			section.Add(name+": error, a tenth beyond", "tailscope", "%", 0, sum.Worse)
			section.Add(name+": half the interval's width, median", "tailscope", "%", 0, sum.Half)
			section.Add(name+": time, median", "tailscope", "s", 0, sum.Took)
			section.Add(name+": of it a tenth or more beyond the limit, median", "tailscope", "s", 0, sum.Beyond)
		}
	}
	pools := r.Section("Pools that are shrunk", fmt.Sprintf("%d searches of each pool from 11 servers on, at most 5 minutes.", trials))
	for _, p := range virtual.Pools() {
		if !o.wants(p.Name) {
			continue
		}
		sum, err := virtual.Calibrate(ctx, trials, float64(p.Truth), func(seed uint64) (virtual.Trial, error) {
			return virtual.TryPool(p, search.Options{Lowest: 1, Highest: 11}, seed+1000)
		})
		if err != nil {
			return err
		}
		exact := sum.Within // there is no other whole number within 3 %
		o.logf("%s: %d of %d answers are right, %d intervals hold the truth, took %.0f s", p.Name, exact, sum.Trials, sum.Covered, sum.Took)
		pools.Add(p.Name+": answers other than the truth", "tailscope", "% of searches", 10, 100-100*float64(exact)/float64(sum.Trials))
		pools.Add(p.Name+": intervals without the truth", "tailscope", "% of searches", 10, 100-100*float64(sum.Covered)/float64(sum.Trials))
		pools.Add(p.Name+": time, median", "tailscope", "s", 0, sum.Took)
	}
	return nil
}
