package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tailscope/benchmarks/changepoints"
	"tailscope/benchmarks/report"
	"tailscope/stat"
	"tailscope/test/program"
)

const (
	otavaDefault = "Otava 0.8.0, p 0.001"
	otavaFive    = "Otava 0.8.0, p 0.05"
	pelt         = "ruptures 1.1.10, PELT"
)

// changes finds change points where it is known or labelled where they are.
func changes(ctx context.Context, o *options, r *report.Report) error {
	cache, err := program.CacheDir()
	if err != nil {
		return err
	}
	var peers *changepoints.Peers
	missing := ""
	if o.peers {
		if peers, err = changepoints.StartPeers(ctx, cache); err != nil {
			o.logf("peers: %v", err)
			missing = " The peers are missing: python3 with pip could not install them here."
			peers = nil
		} else {
			defer peers.Close()
		}
	}
	if err := labelled(ctx, o, r, peers, cache, missing); err != nil {
		return err
	}
	if err := simulated(ctx, o, r, peers, missing); err != nil {
		return err
	}
	return unchanged(ctx, o, r)
}

// unchanged counts series without a change in which one is found.
func unchanged(ctx context.Context, o *options, r *report.Report) error {
	trials := max(1, o.trials/4)
	if o.quick {
		trials = max(1, trials/100)
	}
	section := r.Section("False alarms", fmt.Sprintf("Of %d series of %d slots without a change, those in which any is found, at a nominal 5 %%.", trials, changepoints.Slots))
	for _, k := range changepoints.Unchanged() {
		for _, correlation := range []float64{0, 0.3, 0.6, 0.9} {
			what := fmt.Sprintf("%s, correlation %.1f", k.Name, correlation)
			if !o.wants(what) {
				continue
			}
			alarms := 0
			for i := range trials {
				if err := ctx.Err(); err != nil {
					return err
				}
				points, err := find(k, uint64(1000+i), correlation)
				if err != nil {
					return err
				}
				if len(points) > 0 {
					alarms++
				}
			}
			section.Add(what, "tailscope", "% of series", 0, 100*float64(alarms)/float64(trials))
			o.logf("%s: %d of %d", what, alarms, trials)
		}
	}
	return nil
}

func find(k changepoints.Kind, seed uint64, correlation float64) ([]stat.ChangePoint, error) {
	slots, err := k.Simulate(seed, correlation)
	if err != nil {
		return nil, err
	}
	s, err := stat.NewSeries(slots)
	if err != nil {
		return nil, err
	}
	return stat.ChangePoints(s, stat.ChangeOptions{})
}

// flat makes one of moments found in several columns close to each other.
func flat(columns [][]int) []int {
	if len(columns) == 1 {
		return columns[0]
	}
	return changepoints.Merge(slices.Concat(columns...))
}

// labelled scores the public series.
func labelled(ctx context.Context, o *options, r *report.Report, peers *changepoints.Peers, cache, missing string) error {
	dir := o.tcpd
	if dir == "" {
		var err error
		if dir, err = changepoints.FetchTuring(ctx, cache); err != nil {
			o.logf("%v", err)
			r.Section("Public series", "Left out: the Turing Change Point Dataset could not be fetched. Give a copy of it by -tcpd.")
			return nil
		}
	}
	series, err := changepoints.LoadTuring(dir)
	if err != nil {
		return err
	}
	mean := r.Section("Public series", fmt.Sprintf("The %d series of the Turing Change Point Dataset that may be passed on, each labelled by several people. "+
		"Scores are those of van den Burg & Williams (2020): slot 0 is a change to everybody, a moment found is right within a margin of %d slots of anybody's, recall is the mean over people. "+
		"Means over series. Finding nothing is scored too: most people see no change in most series. "+
		"All have their defaults; Tailscope removes the season of a year from months, as it does that of a day in the product. A moment found in several columns counts once.%s", len(series), changepoints.Margin, missing))
	each := r.Section("Public series, one by one", "F1 as above.")
	for _, s := range series {
		if !o.wants(s.Name) {
			continue
		}
		points, err := stat.ChangePointsOf(s.Rows, stat.ChangeOptions{Season: s.Season})
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		add := func(who string, found []int) {
			score := changepoints.Agree(s.Labels, found, len(s.Rows))
			mean.Add("precision", who, "mean of 1", 0, score.Precision)
			mean.Add("recall", who, "mean of 1", 0, score.Recall)
			mean.Add("F1", who, "mean of 1", 0, score.F1)
			mean.Add("covering", who, "mean of 1", 0, score.Covering)
			each.Add(s.Name, who, "of 1", 0, score.F1).Note = ""
			o.logf("%s: %s finds %v: F1 %.3f", s.Name, who, found, score.F1)
		}
		add("tailscope", changepoints.Moments(points))
		if peers != nil {
			f, err := peers.Find(s.Rows)
			if err != nil {
				return err
			}
			add(otavaDefault, flat(f.Otava))
			add(otavaFive, flat(f.Otava05))
			add(pelt, flat(f.Pelt))
		}
		add("nothing found", nil)
	}
	for _, f := range mean.Figures {
		sum := 0.0
		for _, v := range f.Values {
			sum += v
		}
		f.Values = []float64{sum / float64(len(f.Values))}
	}
	slices.SortStableFunc(mean.Figures, func(a, b *report.Figure) int { return order(a.What) - order(b.What) })
	return nil
}

func order(what string) int {
	return slices.Index([]string{"F1", "precision", "recall", "covering"}, what)
}

// simulated scores series of distributions whose truth is known.
func simulated(ctx context.Context, o *options, r *report.Report, peers *changepoints.Peers, missing string) error {
	each := 4 * o.reps
	if o.quick {
		each = 2
	}
	together := r.Section("Simulated distributions, all kinds", fmt.Sprintf("%d series of each kind at each correlation of slots (0, 0.6), %d slots of 100 requests; right within %d slots. "+
		"Tailscope is given the distributions, the peers each slot's p50, p95 and p99; moments within %d slots of each other count once.%s",
		each, changepoints.Slots, changepoints.Margin, changepoints.Margin, missing))
	kinds := r.Section("Simulated distributions, by kind", "F1; where there is nothing to be found, changes found per series.")
	cost := r.Section("Simulated distributions, time", "Of one series of 360 slots, on a machine that does other things too.")
	type tally map[string]*changepoints.Counts
	all := tally{}
	var whos []string
	var spent time.Duration
	n, right, covered := 0, 0, 0
	for _, k := range changepoints.Kinds() {
		if !o.wants(k.Name) {
			continue
		}
		for _, correlation := range []float64{0, 0.6} {
			here := tally{}
			count := func(who string, found []int) {
				for _, t := range []tally{here, all} {
					if t[who] == nil {
						t[who] = &changepoints.Counts{}
					}
					t[who].Add(k.Truth, found)
				}
				if !slices.Contains(whos, who) {
					whos = append(whos, who)
				}
			}
			for i := range each {
				if err := ctx.Err(); err != nil {
					return err
				}
				slots, err := k.Simulate(uint64(i), correlation)
				if err != nil {
					return err
				}
				start := time.Now()
				s, err := stat.NewSeries(slots)
				if err != nil {
					return err
				}
				points, err := stat.ChangePoints(s, stat.ChangeOptions{})
				if err != nil {
					return err
				}
				spent += time.Since(start)
				n++
				count("tailscope", changepoints.Moments(points))
				for _, p := range points {
					for _, at := range k.Truth {
						if p.At-changepoints.Margin <= at && at <= p.At+changepoints.Margin {
							right++
							if p.Low <= at && at <= p.High {
								covered++
							}
						}
					}
				}
				if peers == nil {
					continue
				}
				f, err := peers.Find(changepoints.Metrics(slots))
				if err != nil {
					return err
				}
				count(otavaDefault, flat(f.Otava))
				count(otavaFive, flat(f.Otava05))
				count(pelt, flat(f.Pelt))
			}
			for _, who := range whos {
				what := fmt.Sprintf("%s, correlation %.1f", k.Name, correlation)
				if len(k.Truth) == 0 {
					kinds.Add(what, who, "found per series", 0, float64(here[who].Found)/float64(each))
				} else {
					kinds.Add(what, who, "F1", 0, here[who].Score().F1)
				}
			}
			o.logf("%s, correlation %.1f: %v", k.Name, correlation, here["tailscope"].Score())
		}
	}
	for _, what := range []string{"F1", "precision", "recall"} {
		for _, who := range whos {
			s := all[who].Score()
			together.Add(what, who, "of 1", 0, map[string]float64{"F1": s.F1, "precision": s.Precision, "recall": s.Recall}[what])
		}
	}
	if right > 0 {
		together.Add("intervals of the moment, at 95 %, that hold the truth, of changes found", "tailscope", "%", 0, 100*float64(covered)/float64(right))
	}
	if n > 0 {
		cost.Add("finding change points", "tailscope", "ms", 0, spent.Seconds()*1000/float64(n))
	}
	return nil
}
