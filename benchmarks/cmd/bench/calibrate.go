package main

import (
	"context"
	"fmt"
	"strings"

	"tailscope/benchmarks/calibration"
	"tailscope/benchmarks/report"
)

// calibrate counts how often judgements alarm without a change and how often
// they find one. Every figure is a share of trials, so a single value.
func calibrate(ctx context.Context, o *options, r *report.Report) error {
	trials := o.trials
	if o.quick {
		trials = max(1, trials/100)
	}
	alarms := r.Section("False alarms", fmt.Sprintf("Nothing changes in %d trials a cell (%d for whole distributions and bands, %d for repeated looks and for the bootstrap); alarms at a nominal 5 %%. "+
		"Unless the cell says otherwise: 360 slots of 10 s an hour, 100 requests a slot, log standard deviation 0.6 within a slot and 0.15 among the slots' medians, "+
		"which follow a first-order autoregression. Shares between 3 and 7 %% are as they should be, up to 9 %% for one hour at correlation 0.9; "+
		"a share over 4000 trials has a standard error of 0.35 points.", trials, trials/2, trials/4))
	for _, cell := range calibration.Unchanged() {
		if !o.wants(cell.Name) {
			continue
		}
		tallies, err := cell.Run(ctx, trials)
		if err != nil {
			return err
		}
		line := cell.Name + ":"
		for _, t := range tallies {
			line += fmt.Sprintf(" %s %.1f %%", t.Method, 100*t.Rate())
			if t.Drifts > 0 {
				line += fmt.Sprintf(", drifts in %.1f %%", 100*t.Drifting())
			}
			line += ";"
		}
		o.logf("%s", strings.TrimSuffix(line, ";"))
		for _, t := range tallies {
			who, what, target := "tailscope", cell.Name+": "+t.Method, cell.Limit
			for _, peer := range []string{"Mann–Whitney", "bootstrap", "batch means", "looked at as often"} {
				if strings.Contains(t.Method, peer) {
					who, what, target = t.Method, cell.Name, 0
				}
			}
			f := alarms.Add(what, who, "% of trials", target, 100*t.Rate())
			if s := t.StandardError(); target > 0 && (s < 0.93 || s > 1.07) {
				f.Note = fmt.Sprintf("the standard errors claimed are %.2f of the true one", s)
			}
			if t.Drifts > 0 {
				alarms.Add(what+", drifts", who, "% of trials", 0, 100*t.Drifting())
			}
		}
	}
	power := r.Section("Changes found", "One hour a side, intervals at 95 %. The oracle makes the same estimate and knows its standard deviation, "+
		"as if it knew the covariance of the slots. Given are the trials in which the change is missed, and by how much the power is below the oracle's.")
	for _, cell := range calibration.Changed() {
		if !o.wants(cell.Name) {
			continue
		}
		found, err := cell.Tally(ctx, trials)
		if err != nil {
			return err
		}
		ours, oracle := found.Rate(), found.Oracle()
		o.logf("%s: %s found in %.1f %%, drifts in %.1f %%, found by the oracle in %.1f %%", cell.Name, cell.Judged, 100*ours, 100*found.Drifting(), 100*oracle)
		must := 0.0
		if cell.Must {
			must = 10
		}
		power.Add(cell.Name+": "+cell.Judged+" missed", "tailscope", "% of trials", must, 100*(1-ours))
		power.Add(cell.Name+": "+cell.Judged+" missed", "oracle", "% of trials", 0, 100*(1-oracle))
		if found.Drifts > 0 {
			power.Add(cell.Name+": "+cell.Judged+", drifts", "tailscope", "% of trials", 0, 100*found.Drifting())
		}
		if oracle > 0 && !cell.Drifts {
			power.Add(cell.Name+": "+cell.Judged+", power below the oracle's", "tailscope", "%", 10, 100*(1-ours/oracle))
		}
	}
	return nil
}
