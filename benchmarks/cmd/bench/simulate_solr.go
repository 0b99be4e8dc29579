package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"tailscope/api"
	"tailscope/benchmarks/report"
	"tailscope/benchmarks/solr"
	"tailscope/internal/experiment/simulate"
	"tailscope/test/program"
)

// solrRate is queries a second where they come at random.
const solrRate = 40

// simulateSolr says what a SolrCloud in 4 and in 8 shards will do, of what its leaves
// take alone and what queries to 1 and 2 shards do, and holds it against what it does.
func simulateSolr(ctx context.Context, o *options, r *report.Report) error {
	program.Precede(-10)
	const slices = 5 // of a repetition
	each, warm := 10*time.Second, time.Minute
	if o.quick {
		each, warm = 6*time.Second, 20*time.Second
	}
	all := []int{1, 2, 4, 8}
	o.logf("starting Solr and loading 200,000 documents four times")
	c, p, err := solr.Start(ctx, filepath.Join(os.TempDir(), "tailscope-solr-simulate"), 200_000, all...)
	if err != nil {
		return err
	}
	defer c.Close()
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_, _ = p.Stop(end) // a JVM that was asked to end says 143
	}()
	chance := rand.New(rand.NewPCG(1, 1))
	o.logf("warming up for %s", warm)
	if err := c.WarmUp(ctx, chance, warm, all...); err != nil {
		return err
	}

	for _, part := range []struct {
		name string
		rate float64
		text string
	}{
		{"One query at a time", 0, "Fifteen kinds of questions by their weights to a SolrCloud of two nodes on two cores, each when the one before is answered. Leaves were measured at each size alone, the same question to one shard after another, with the CPU time of Solr meanwhile; what queries cost beside leaves was told by collections of one and two shards. The simulation knows nothing of queries to 4 and 8 shards."},
		{"At a rate", solrRate, fmt.Sprintf("The same questions at random moments, %d a second. Leaves and queries to one and two shards were measured again, with pauses between them as long as between queries: after a pause a core is slower for a while.", solrRate)},
	} {
		if !o.wants(part.name) || o.quick && part.rate > 0 {
			continue
		}
		side := &solrSide{Measured: solr.Measured{Classes: c.Classes, Leaves: map[int][]solr.Pair{}}, answers: map[int][]solr.Answer{}, rate: part.rate}
		during := each / slices
		if part.rate > 0 {
			during *= 2 // most of it is pauses
		}
		for rep := range o.reps {
			for range slices {
				if err := side.measure(ctx, c, chance, during); err != nil {
					return err
				}
			}
			o.logf("%s: %d/%d", part.name, rep+1, o.reps)
		}
		if err := side.writeSection(ctx, o, r, part.name, part.text); err != nil {
			return err
		}
	}
	return nil
}

// solrSide holds the measurements under one way of asking.
type solrSide struct {
	solr.Measured
	rate        float64 // queries a second; 0 is one after another
	answers     map[int][]solr.Answer
	alone, both time.Duration
}

// measure asks for so long at each size, in an order of chance: leaves, at the largest
// size twice as long, and queries. Little by little, since Solr gets faster while it
// runs.
func (s *solrSide) measure(ctx context.Context, c *solr.Cluster, chance *rand.Rand, each time.Duration) error {
	pause := time.Duration(0)
	if s.rate > 0 {
		pause = time.Duration(float64(time.Second) / s.rate)
	}
	for _, i := range chance.Perm(4) {
		n, during := 1<<i, each
		if n == 8 {
			during *= 2
		}
		pairs, err := c.Pairs(ctx, n, chance, pause, during)
		if err != nil {
			return err
		}
		s.Leaves[n] = append(s.Leaves[n], pairs...)
		if n == 1 {
			continue
		}
		var answers []solr.Answer
		if s.rate > 0 {
			answers, err = c.AtRate(ctx, n, chance, s.rate, each)
		} else {
			answers, err = c.OneByOne(ctx, n, chance, each)
		}
		if err != nil {
			return err
		}
		s.answers[n] = append(s.answers[n], answers...)
	}
	alone, both, err := c.Neighbours(ctx, chance, 100)
	if err != nil {
		return err
	}
	s.alone, s.both = s.alone+alone, s.both+both
	s.Neighbours = max(0, float64(s.both)/float64(s.alone)-1)
	return nil
}

// writeSection predicts, compares and writes.
func (s *solrSide) writeSection(ctx context.Context, o *options, r *report.Report, title, text string) error {
	parts, err := s.Parts()
	if err != nil {
		return err
	}
	made := r.Section(title+": what queries cost beside leaves", fmt.Sprintf("By queries to one and two shards, milliseconds with standard errors. Work takes %.1f %% longer while the other core is busy.", 100*s.Neighbours))
	made.Table = [][]string{{"class", "weight", "gather, CPU of a query", "asked again, CPU of a leaf", "apart, of a query", "idle, of a leaf", "leaf of 1, 2, 4, 8 shards, CPU", "alike"}}
	models := map[int]simulate.Model{}
	for _, n := range []int{1, 2, 4, 8} {
		if models[n], err = s.Model(n, parts); err != nil {
			return err
		}
	}
	ms := func(e solr.Estimate) string { return fmt.Sprintf("%.2f ± %.2f", 1e3*e.Value, 1e3*e.Error) }
	for i, p := range parts {
		again, leaves := "–", ""
		if p.Again.Value != 0 {
			again = ms(p.Again)
		}
		for _, n := range []int{1, 2, 4, 8} {
			leaves += fmt.Sprintf("%.2f ", 1e3*models[n].Classes[i].Sizes[0].Slots[0].Mean())
		}
		made.Table = append(made.Table, []string{p.Name, fmt.Sprintf("%.1f %%", 100*s.Classes[i].Weight), ms(p.Gather), again, ms(p.Apart), ms(p.Idle), leaves, fmt.Sprintf("%.2f", models[8].Classes[i].Together)})
	}

	section := r.Section(title, text)
	section.Table = [][]string{{"shards", "questions", "answers", "quantile", "measured", "simulated", "difference"}}
	for _, n := range []int{2, 4, 8} {
		l := s.Layout(n, parts)
		if s.rate > 0 {
			l.Arrivals, l.Users, l.Rate = simulate.Poisson, 0, s.rate
		}
		res, err := simulate.Run(ctx, models[n], l, simulate.Options{Queries: 400_000, Seed: 1})
		if err != nil {
			return err
		}
		if !res.Stable {
			return fmt.Errorf("%s: %s", l.Name, res.Why)
		}
		of := func(class int) (seconds []float64) {
			for _, a := range s.answers[n] {
				if class < 0 || a.Class == class {
					seconds = append(seconds, a.Seconds)
				}
			}
			return seconds
		}
		name := strconv.Itoa(n)
		if n == 2 {
			name += ", calibration"
		}
		for _, q := range []string{"0.5", "0.95", "0.99"} {
			p, _ := strconv.ParseFloat(q, 64)
			took := of(-1)
			seen, sim := sectioned(took, p), res.Quantiles[q]
			off := float64(sim.Value)/float64(seen.Value) - 1
			section.Table = append(section.Table, []string{name, "*all*", strconv.Itoa(len(took)), "p" + strconv.Itoa(int(100*p)), span(seen), span(sim), effect("", api.Float(1+off))})
			o.logf("%s, %d shards: %s measured %s, simulated %s, %+.1f %%", title, n, q, span(seen), span(sim), 100*off)
			if n > 2 && q != "0.95" {
				section.Add(fmt.Sprintf("p%.0f of %d shards is off by", 100*p, n), "tailscope", "%", 20, 100*math.Abs(off))
			}
		}
		for i, k := range res.Classes {
			took := of(i)
			if len(took) < 50 {
				continue
			}
			seen, sim := sectioned(took, 0.5), k.Quantiles["0.5"]
			section.Table = append(section.Table, []string{name, k.Name, strconv.Itoa(len(took)), "p50", span(seen), amount("", api.Float(sim)), effect("", api.Float(sim/float64(seen.Value)))})
		}
		o.logf("%s, %d shards: cores busy %.0f %%", title, n, 100*float64(res.Utilisation))
	}
	return nil
}
