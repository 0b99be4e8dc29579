package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/scaling"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

const (
	// mostConfigurations is the number of configurations told apart, the newest ones.
	mostConfigurations = 12
	// closeMarks is the least number of steps of a configuration; a mark that is nearer to
	// the one before belongs to the same change.
	closeMarks = 5
	// fewMarks bounds the marks that a headline names one by one.
	fewMarks = 3
	// mostStrata is the number of operations held in the same shares, those with the most
	// requests; the others are one.
	mostStrata = 50
)

// scaled is the answer while it is made.
type scaled struct {
	ScalingRequest
	st     store.Store
	found  *Requested
	points []scaling.Point
	out    *api.ScalingResponse
}

// part parts the range at the marks of a service, and says of each point which
// configuration it is of. A step that holds a mark is of none.
func (s *scaled) part(marks []store.Mark, service string) {
	step := s.found.Step
	all := []api.ScalingConfiguration{{Range: s.out.Range, Marks: []api.Mark{}}}
	for _, m := range marks {
		if m.Service != "" && m.Service != service {
			continue
		}
		at := m.Time.Unix() - (m.Time.Unix()-s.found.Start)%step
		last := &all[len(all)-1]
		if at <= s.found.Start || at >= s.found.End {
			continue
		}
		if len(last.Marks) > 0 && at-last.Start < closeMarks*step {
			last.Start = max(last.Start, at+step)
			last.Marks = append(last.Marks, m.API())
			continue
		}
		last.End = at
		all = append(all, api.ScalingConfiguration{Range: api.Range{Start: at + step, End: s.found.End}, Marks: []api.Mark{m.API()}})
	}
	if len(all) > mostConfigurations {
		s.warn("marks", "the range holds %d marks: only the time since %s is parted by them; ask for a shorter range",
			len(all)-1, time.Unix(all[len(all)-mostConfigurations].Start, 0).UTC().Format("2006-01-02 15:04 MST"))
		all = all[len(all)-mostConfigurations:]
	}
	for i := range all {
		var names []string
		for _, m := range all[i].Marks {
			names = append(names, m.Name)
		}
		all[i].Name = figure.Listed(names)
		for k := range s.points {
			if t := int64(s.points[k].Time); t >= all[i].Start && t < all[i].End {
				s.points[k].Configuration = i
			}
		}
	}
	s.out.Configurations = all
}

func (s *scaled) warn(code, format string, args ...any) {
	s.out.Warnings = append(s.out.Warnings, api.CompareWarning{Code: code, Text: fmt.Sprintf(format, args...)})
}

// describe gives configuration i its law and figures.
func (s *scaled) describe(ctx context.Context, i int) (err error) {
	c := &s.out.Configurations[i]
	if err := s.fit(i); err != nil {
		return err
	}
	c.Quantiles = map[string]api.Float{}
	c.CPU, c.Memory = api.Float(math.NaN()), api.Float(math.NaN())
	sel := s.Selection
	sel.Start, sel.End = time.Unix(c.Start, 0), time.Unix(min(c.End, s.End.Unix()), 0)
	all, failed := hist.New(hist.MaxSchema), uint64(0) // a coarser schema would be a ceiling
	good, requests := 0.0, uint64(0)
	if sel.End.After(sel.Start) {
		whole, err := Requests(ctx, s.st, RequestsRequest{Selection: sel, Whole: true, By: []string{series.LabelOperation}})
		if err != nil {
			return err
		}
		for _, g := range whole.Groups {
			bad := uint64(0)
			for _, h := range []*hist.Histogram{g.Good[0], g.Failed[0]} {
				if h != nil {
					if err := all.Merge(h); err != nil {
						return err
					}
				}
			}
			if h := g.Failed[0]; h != nil {
				bad = h.Count
			}
			if a := ScoreApdex(g.Good[0], bad, s.Target(g.Labels.Get(series.LabelService), g.Labels.Get(series.LabelOperation))); a.Requests > 0 {
				good += a.Score * float64(a.Requests)
				requests += a.Requests
			}
			failed += bad
		}
		measured, err := NewMeasured(ctx, s.st, s.Matchers, time.Unix(whole.Start, 0), time.Unix(whole.End, 0), s.Now, nil)
		if err != nil {
			return err
		}
		lasts, err := measured.Seconds(nil)
		if err != nil {
			return err
		}
		c.Rate = api.Float(float64(all.Count) / lasts)
	}
	n := float64(all.Count) // of nothing, shares are NaN
	c.Requests, c.Mean, c.Errors, c.Apdex = all.Count, api.Float(all.Sum/n), api.Float(float64(failed)/n), api.Float(good/float64(requests))
	for _, q := range []float64{0.5, 0.95, 0.99} {
		c.Quantiles[figure.Percentile(q)] = api.Float(all.Quantile(q))
	}
	return nil
}

// Families of how much processor time and memory a service takes, as OpenTelemetry's
// semantic conventions and Prometheus' client libraries name them, the most telling first.
var (
	cpuFamilies    = []string{"process.cpu.time", "process_cpu_seconds_total", "container.cpu.time", "container_cpu_usage_seconds_total", "k8s.pod.cpu.time", "process.cpu.utilization", "container.cpu.usage", "k8s.pod.cpu.usage"}
	memoryFamilies = []string{"process.memory.usage", "process_resident_memory_bytes", "container.memory.usage", "container_memory_working_set_bytes", "k8s.pod.memory.working_set", "jvm.memory.used"}
)

// usage gives each configuration the processor time and memory of all instances.
func (s *scaled) usage(ctx context.Context) error {
	sel := s.Selection
	sel.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, Named(s.Matchers, series.LabelService))}
	known, err := Families(ctx, s.st, FamiliesRequest{Service: Named(s.Matchers, series.LabelService), Start: sel.Start, End: sel.End})
	if err != nil {
		return err
	}
	for _, u := range []struct {
		names []string
		name  *string
		of    func(*api.ScalingConfiguration) *api.Float
	}{
		{cpuFamilies, &s.out.CPU, func(c *api.ScalingConfiguration) *api.Float { return &c.CPU }},
		{memoryFamilies, &s.out.Memory, func(c *api.ScalingConfiguration) *api.Float { return &c.Memory }},
	} {
		i := slices.IndexFunc(u.names, func(name string) bool {
			return slices.ContainsFunc(known.Families, func(f api.Family) bool { return f.Name == name && f.Kind != KindName(series.Distribution) })
		})
		if i < 0 {
			continue
		}
		sel.Family, *u.name = u.names[i], u.names[i]
		for k := range s.out.Configurations {
			c := &s.out.Configurations[k]
			if c.End <= c.Start {
				continue
			}
			sel.Start, sel.End = time.Unix(c.Start, 0), time.Unix(c.End, 0)
			slots, err := Slots(ctx, s.st, SlotsRequest{Selection: sel, Step: s.found.Step})
			if err != nil {
				return err
			}
			*u.of(c) = api.Float(slots.mean())
		}
	}
	return nil
}

// mean returns the mean figure of all series together, NaN if none is known. A slot in
// which some series sent nothing counts as the mean of the others.
func (s *Slotted) mean() float64 {
	total := 0.0
	for _, g := range s.Groups {
		num, den, most := 0.0, 0.0, 0.0
		for i := range g.Num {
			num, den, most = num+g.Num[i], den+g.Den[i], max(most, g.Den[i])
		}
		if s.Counter {
			most = 1 // its slots are seconds, of all series
		}
		total += num / den * most
	}
	if len(s.Groups) == 0 {
		return math.NaN()
	}
	return total
}

// changes compares the mean of each configuration with that of the one before, both with
// the mix of operations of the whole range, and says what each gave of the whole.
func (s *scaled) changes() error {
	n := len(s.out.Configurations)
	if n < 2 {
		return nil
	}
	strata, mix, covered := s.strata()
	if len(mix) == 0 {
		s.warn("mix", "no operation has requests in all configurations: their means are not compared")
		return nil
	}
	sides := make([]stat.Side, n)
	for i := range sides {
		for _, g := range strata {
			of, err := s.means(g, i)
			if err != nil {
				return err
			}
			sides[i] = append(sides[i], of)
		}
	}
	first, last := math.NaN(), math.NaN()
	var parts []string
	most, largest := 0.0, ""
	for i := 1; i < n; i++ {
		c := &s.out.Configurations[i]
		change, err := stat.Mean(sides[i-1], sides[i], mix, stat.Options{Level: s.Level})
		if err != nil {
			return err
		}
		ratio, ci := change.Ratio()
		f := judge.Finding{
			Figure: judge.Figure{Name: judge.Mean, Kind: judge.Time, Ratio: true}, Effect: ratio, Low: ci.Low, High: ci.High, Level: s.Level,
			Noise: math.NaN(), Evidence: judge.EvidenceOf(change.Verdict(0), change.Short),
		}
		f.Conclude()
		c.Change = &api.ScalingChange{
			Before: api.Float(change.A), After: api.Float(change.B), Covered: api.Float(covered), Sentence: f.Sentence(),
			Ratio: api.ScalingValue{Value: api.Float(ratio), Low: api.Float(ci.Low), High: api.Float(ci.High)},
		}
		if i == 1 {
			first = change.A
		}
		last = change.B
		gave := judge.SignedValue(change.B-change.A, "seconds") + " with " + c.Name
		if !judge.Moved(f.Verdict) {
			gave += " (" + string(f.Verdict) + ")"
		}
		parts = append(parts, gave)
		if by := math.Abs(change.B - change.A); largest == "" || by > most {
			most, largest = by, gave
		}
	}
	went := fmt.Sprintf("with one mix of operations the mean went from %s to %s", figure.Value(first, "seconds"), figure.Value(last, "seconds"))
	s.out.Sentence = went + ": " + figure.Listed(parts)
	s.out.Headline = s.out.Sentence
	if len(parts) > fewMarks {
		s.out.Headline = fmt.Sprintf("%s over %d marks; the largest change is %s", went, len(parts), largest)
	}
	if covered < 0.95 {
		s.warn("mix", "the means of configurations are of the operations that all of them have, %s of the requests", figure.Percent(covered))
	}
	return nil
}

// strata returns the groups of operations that all configurations have requests of, their
// shares of the requests of the whole range, and the least share of a configuration's
// requests that they hold.
func (s *scaled) strata() (strata [][]RequestGroup, mix []float64, covered float64) {
	groups := slices.Clone(s.found.Groups)
	count := func(g *RequestGroup) (n uint64) {
		for i := range g.Good {
			n += g.Count(i)
		}
		return n
	}
	slices.SortStableFunc(groups, func(a, b RequestGroup) int { return cmp.Compare(count(&b), count(&a)) })
	var candidates [][]RequestGroup
	for i, g := range groups {
		if i < mostStrata {
			candidates = append(candidates, []RequestGroup{g})
		} else {
			candidates[mostStrata-1] = append(candidates[mostStrata-1], g)
		}
	}
	held := make([]float64, len(s.out.Configurations))
	for _, of := range candidates {
		share, everywhere := 0.0, true
		own := make([]float64, len(held))
		for i := range own {
			for _, k := range s.slotsOf(i) {
				for j := range of {
					own[i] += float64(of[j].Count(k))
				}
			}
			share += own[i]
			everywhere = everywhere && own[i] > 0
		}
		if everywhere {
			strata, mix = append(strata, of), append(mix, share)
			for i := range held {
				held[i] += own[i]
			}
		}
	}
	total := 0.0
	for _, x := range mix {
		total += x
	}
	for i := range mix {
		mix[i] /= total
	}
	covered = 1
	for i, c := range s.out.Configurations {
		covered = min(covered, held[i]/float64(max(1, c.Requests)))
	}
	return strata, mix, min(1, covered)
}

// slotsOf returns the steps of configuration i, ended ones.
func (s *scaled) slotsOf(i int) (slots []int) {
	c, r := s.out.Configurations[i], s.found
	for t := c.Start; t+r.Step <= min(c.End, r.Until); t += r.Step {
		slots = append(slots, int((t-r.Start)/r.Step))
	}
	return slots
}

// means returns the counts and sums of operations in the steps of configuration i.
func (s *scaled) means(of []RequestGroup, i int) (*stat.Series, error) {
	slots := s.slotsOf(i)
	counts, sums := make([][]float64, len(slots)), make([]float64, len(slots))
	for k, slot := range slots {
		n := uint64(0)
		for j := range of {
			c, sum := of[j].total(slot)
			n += c
			sums[k] += sum
		}
		counts[k] = []float64{float64(n)}
	}
	return stat.NewSeriesOfCounts([]float64{math.Inf(-1), math.Inf(1)}, counts, sums)
}
