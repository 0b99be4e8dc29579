package marks

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// byChance is the probability at which as many changes as there are among marks of one
// name are taken for chance, where each is found without one with probability discovery.
const byChance = 0.05

// falseRepeats is the probability of telling a spike of marks of one name where there is none,
// and that of a spike of one mark.
const falseRepeats = 0.01

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
	for _, v := range of {
		switch v.Verdict {
		case judge.Regression:
			g.Regressions++
		case judge.Improvement:
			g.Improvements++
		case judge.Mixed:
			g.Mixed++
		}
	}
	said := []string{}
	if s := spikesOf(of); s != nil {
		said = append(said, s.name(&g))
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

// repeated is what came and went at several marks of one name.
type repeated struct {
	service, operation string
	errors             bool
	shapes             []api.Shape // one for each mark
}

// spikesOf returns what came and went at most of the marks, nil if that is no more than chance
// shows: of all that are sure by themselves, or of one operation with its hints.
func spikesOf(of []*api.MarkVerdict) *repeated {
	type figureOf struct {
		service, environment, operation string
		errors                          bool
	}
	found := map[figureOf]*repeated{}
	var order []*repeated
	hinted, sure := map[figureOf]int{}, 0
	services := map[figureOf]bool{} // in each of which as many operations may give hints by chance
	for _, v := range of {
		seen, any := map[figureOf]bool{}, false
		for _, s := range v.Services {
			spikes := slices.DeleteFunc(slices.Clone(s.Shapes), func(x api.Shape) bool { return x.Kind != judge.Spike || x.Side != "" })
			any = any || len(spikes) > 0
			for _, x := range slices.Concat(s.Hints, spikes) {
				k := figureOf{s.Service, s.Environment, x.Operation, ofErrors(&x)}
				if seen[k] {
					continue
				}
				seen[k] = true
				if found[k] == nil {
					found[k] = &repeated{service: k.service, operation: k.operation, errors: k.errors}
					order = append(order, found[k])
				}
				found[k].shapes = append(found[k].shapes, x)
			}
			services[figureOf{service: s.Service, environment: s.Environment}] = true
			for _, x := range s.Hints {
				hinted[figureOf{s.Service, s.Environment, x.Operation, ofErrors(&x)}]++
			}
		}
		if any {
			sure++
		}
	}
	if len(order) == 0 {
		return nil
	}
	most := slices.MaxFunc(order, func(a, b *repeated) int {
		return cmp.Or(cmp.Compare(len(a.shapes), len(b.shapes)), cmp.Compare(a.higher(), b.higher()))
	})
	together := 1.0
	for _, n := range hinted {
		together = min(together, atLeast(n, len(of), compare.FalseHints)*float64(compare.MostSpikeOperations*len(services)))
	}
	if together > falseRepeats && atLeast(sure, len(of), falseRepeats) > byChance {
		return nil
	}
	return most
}

// name gives a group the figures of what came and went, and says it.
func (s *repeated) name(g *api.MarkGroup) string {
	count := map[string]int{}
	var seconds []float64
	for _, x := range s.shapes {
		count[x.Measure]++
		if count[x.Measure] > count[g.Measure] {
			g.Measure = x.Measure
		}
		seconds = append(seconds, float64(x.End-x.Start))
	}
	g.Spikes, g.Operation, g.Higher, g.Seconds = len(s.shapes), s.operation, api.Float(s.higher()), api.Float(median(seconds))
	often := fmt.Sprintf("%d times", g.Spikes)
	switch g.Spikes {
	case g.Marks:
		often = "each time"
	case 1:
		often = "once"
	}
	by := figure.Value(float64(g.Higher), "seconds")
	if s.errors {
		by = figure.Points(float64(g.Higher)) + " points"
	}
	return fmt.Sprintf("%s %s +%s for about %s", often, judge.Title(g.Measure, cmp.Or(s.operation, s.service)), by, judge.Span(int64(math.Round(float64(g.Seconds)))))
}

// higher returns by how much a measure was higher than usual, the median of all.
func (s *repeated) higher() float64 {
	var higher []float64
	for _, x := range s.shapes {
		higher = append(higher, float64(x.Value-x.Usual))
	}
	return median(higher)
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
