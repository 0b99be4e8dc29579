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
	"tailscope/stat"
)

// conclude controls what was found over all services, puts the worst first,
// and says what they amount to.
func conclude(v *api.MarkVerdict) {
	among(v.Services)
	for i := range v.Services {
		of := &v.Services[i]
		if judge.Moved(of.Verdict) && !weigh(of) {
			demote(of)
		}
		of.Operations = of.Operations[:min(len(of.Operations), mostRows)]
		of.Tenants = of.Tenants[:min(len(of.Tenants), mostRows)]
	}
	order := []judge.Verdict{judge.Regression, judge.Mixed, judge.Improvement, judge.Drifts, judge.NoEvidence, judge.WithinTolerance, judge.Same, judge.TooLittle}
	slices.SortStableFunc(v.Services, func(a, b api.ServiceVerdict) int {
		return cmp.Or(slices.Index(order, a.Verdict)-slices.Index(order, b.Verdict), spikes(&b)-spikes(&a))
	})
	for i := range v.Services {
		of := &v.Services[i]
		of.Sentence = judge.WithShapes(of.Shapes, of.Verdict, of.Sentence)
	}
	v.Verdict, v.Sentence = whole(v.Services)
	v.Sentence = figure.Sentence(v.Sentence)
	for i := range v.Services {
		v.Services[i].Sentence = figure.Sentence(v.Services[i].Sentence)
	}
}

// spikes counts what came and went of a service at the mark.
func spikes(v *api.ServiceVerdict) (n int) {
	for _, s := range v.Shapes {
		if s.Kind == judge.Spike {
			n++
		}
	}
	return n
}

// among adjusts the probabilities of services for how many there are: where R of
// m are selected, by Benjamini–Hochberg over the least of each, a figure is
// tested at R/m of the level, which is to multiply its probability by m/R. A
// service that is not selected has then none that is small enough.
func among(services []api.ServiceVerdict) {
	p := make([]float64, len(services))
	judged, selected := 0, 0
	for i := range services {
		if p[i] = least(&services[i]); !math.IsNaN(p[i]) {
			judged++
		}
	}
	for _, q := range stat.BenjaminiHochberg(p) {
		if q <= discovery {
			selected++
		}
	}
	if selected == judged {
		return
	}
	times := api.Float(judged) / api.Float(max(1, selected))
	adjust := func(p *api.Float) {
		if *p *= times; *p > 1 {
			*p = 1
		}
	}
	for i := range services {
		of := &services[i]
		for j := range of.Measures {
			adjust(&of.Measures[j].Adjusted)
		}
		for _, rows := range [][]api.CompareRow{of.Operations, of.Tenants} {
			for j := range rows {
				row := &rows[j]
				adjust(&row.Adjusted)
				for k := range row.Measures {
					adjust(&row.Measures[k].Adjusted)
				}
			}
		}
	}
}

// whole is what services, the worst first, amount to.
func whole(services []api.ServiceVerdict) (verdict judge.Verdict, sentence string) {
	if len(services) == 0 {
		return judge.TooLittle, "too little data: no request is within the times before and after"
	}
	var sum judge.Sum
	moved := 0
	for _, s := range services {
		sum.Add(s.Verdict, "")
		if judge.Moved(s.Verdict) {
			moved++
		}
	}
	verdict = sum.Verdict()
	switch n := len(services); {
	case n == 1:
		sentence = services[0].Sentence
	case moved == 0 && verdict == judge.Drifts:
		sentence = fmt.Sprintf("none of %d services surely changed by more than drift: %s", n, services[0].Sentence)
	case moved == 0 && verdict == judge.NoEvidence:
		sentence = fmt.Sprintf("no evidence that any of %d services changed", n)
	case moved == 0 && verdict == judge.WithinTolerance:
		sentence = fmt.Sprintf("whatever could be judged of %d services is within tolerance", n)
	case moved == 0 && verdict == judge.Same:
		sentence = fmt.Sprintf("whatever could be judged of %d services is the same", n)
	case moved == 0:
		sentence = fmt.Sprintf("too little data of all %d services", n)
	case moved == 1:
		sentence = fmt.Sprintf("1 of %d services changed, %s: %s", n, services[0].Service, services[0].Sentence)
	default:
		var names []string
		for _, s := range services[:min(moved, 3)] {
			names = append(names, s.Service)
		}
		if moved > 3 {
			names = append(names, fmt.Sprintf("%d more", moved-3))
		}
		sentence = fmt.Sprintf("%d of %d services changed, %s: %s", moved, n, strings.Join(names, ", "), services[0].Sentence)
	}
	// Of one service, or of the first that changed, its own sentence has it.
	if i := slices.IndexFunc(services, func(s api.ServiceVerdict) bool { return spikes(&s) > 0 }); i > 0 || i == 0 && moved == 0 && len(services) > 1 {
		sentence = services[i].Service + ": " + services[i].Shapes[0].Sentence + "; " + sentence
	}
	return verdict, sentence
}
