package marks

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// byChance is the probability at which as many changes as there are among marks of one
// name are taken for chance, where each is found without one with probability discovery.
const byChance = 0.05

// Groups judges marks of one name and service together: what came and went each time, and
// whether more lasts than chance shows among so many.
func Groups(all []api.Mark) []api.MarkGroup {
	type key struct{ name, service string }
	var order []key
	members := map[key][]*api.MarkVerdict{}
	for i := range all {
		m := &all[i]
		if m.Verdict == nil || m.Verdict.State == Waiting {
			continue
		}
		k := key{m.Name, m.Service}
		if members[k] == nil {
			order = append(order, k)
		}
		members[k] = append(members[k], m.Verdict)
	}
	out := []api.MarkGroup{}
	for _, k := range order {
		if len(members[k]) > 1 {
			out = append(out, group(k.name, k.service, members[k]))
		}
	}
	slices.SortStableFunc(out, func(a, b api.MarkGroup) int { return cmp.Compare(b.Marks, a.Marks) })
	return out
}

func group(name, service string, of []*api.MarkVerdict) api.MarkGroup {
	g := api.MarkGroup{Name: name, Service: service, Marks: len(of), Higher: api.Float(math.NaN()), Seconds: api.Float(math.NaN())}
	type figureOf struct{ service, operation, measure string }
	found := map[figureOf][]api.Shape{}
	var order []figureOf
	for _, v := range of {
		switch v.Verdict {
		case judge.Regression:
			g.Regressions++
		case judge.Improvement:
			g.Improvements++
		case judge.Mixed:
			g.Mixed++
		}
		spiked := false
		for _, s := range v.Services {
			for _, shape := range s.Shapes {
				if shape.Kind != judge.Spike {
					continue
				}
				spiked = true
				k := figureOf{s.Service, shape.Operation, shape.Measure}
				if found[k] == nil {
					order = append(order, k)
				}
				found[k] = append(found[k], shape)
			}
		}
		if spiked {
			g.Spikes++
		}
	}
	said := []string{}
	if len(order) > 0 {
		most := slices.MaxFunc(order, func(a, b figureOf) int { return cmp.Compare(len(found[a]), len(found[b])) })
		var higher, seconds []float64
		for _, s := range found[most] {
			higher, seconds = append(higher, float64(s.Value-s.Usual)), append(seconds, float64(s.End-s.Start))
		}
		g.Operation, g.Measure, g.Higher, g.Seconds = most.operation, most.measure, api.Float(median(higher)), api.Float(median(seconds))
		often := "each time"
		if n := len(found[most]); n < len(of) {
			often = fmt.Sprintf("%d times", n)
		}
		by := judge.Value(float64(g.Higher), "seconds")
		if g.Measure == judge.ErrorShare {
			by = figure.Points(float64(g.Higher)) + " points"
		}
		said = append(said, fmt.Sprintf("%s %s +%s for about %s", often, judge.Title(g.Measure, cmp.Or(g.Operation, most.service)), by, judge.Span(int64(math.Round(float64(g.Seconds))))))
	}
	moved := g.Regressions + g.Improvements + g.Mixed
	g.Verdict = judge.NoEvidence
	switch {
	case moved == 0 && !slices.ContainsFunc(of, func(v *api.MarkVerdict) bool { return v.Verdict != judge.TooLittle }):
		g.Verdict = judge.TooLittle
		said = append(said, "too little data to say whether anything lasts")
	case moved == 0:
		said = append(said, "nothing lasting")
	case atLeast(moved, len(of), discovery) > byChance:
		said = append(said, fmt.Sprintf("nothing lasting beyond chance (%d of %d changed)", moved, len(of)))
	default:
		var sum judge.Sum
		var words []string
		for _, c := range []struct {
			n    int
			v    judge.Verdict
			word string
		}{{g.Regressions, judge.Regression, "a regression"}, {g.Improvements, judge.Improvement, "an improvement"}, {g.Mixed, judge.Mixed, "mixed"}} {
			if c.n > 0 {
				sum.Add(c.v, "")
				words = append(words, fmt.Sprintf("%s at %d", c.word, c.n))
			}
		}
		g.Verdict = sum.Verdict()
		said = append(said, figure.Listed(words)+" of them lasts")
	}
	g.Sentence = fmt.Sprintf("%d × %s: %s", len(of), name, strings.Join(said, ", "))
	return g
}

func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// atLeast returns the probability of k or more of n, each with probability p.
func atLeast(k, n int, p float64) float64 {
	sum, term := 0.0, math.Pow(1-p, float64(n))
	for i := range n + 1 {
		if i >= k {
			sum += term
		}
		term *= float64(n-i) / float64(i+1) * p / (1 - p)
	}
	return sum
}
