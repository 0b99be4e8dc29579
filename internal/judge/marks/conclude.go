package marks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/stat"
)

// conclude controls what was found over all services, puts the worst first,
// and says what they amount to. More is known at the next look.
func conclude(v *api.MarkVerdict, next api.Float) {
	among(v.Services)
	for i := range v.Services {
		of := &v.Services[i]
		for j := range of.Measures {
			if m := &of.Measures[j]; m.Change != "" && !sure(m) {
				compare.TakeBack(m, judge.Where(of.Service, of.Environment, ""))
			}
		}
		if judge.Moved(of.Verdict) && !weigh(of) {
			demote(of)
		}
		if of.Verdict == judge.NoEvidence && v.State == Early && of.Then == nil {
			of.Sentence = tooEarly(of.Service, next)
		}
		of.Sentence = judge.WithShapes(of.Shapes, of.Verdict, of.Sentence)
		of.Verdict, of.Sentence = withThen(of.Verdict, of.Sentence, of.Shapes, of.Then)
		of.Verdict, of.Sentence = withBeside(of.Verdict, of.Sentence, of.Outage, of.Together)
		of.Operations = of.Operations[:min(len(of.Operations), mostRows)]
		of.Tenants = of.Tenants[:min(len(of.Tenants), mostRows)]
	}
	worstFirst(v.Services)
	v.Verdict, v.Sentence = whole(v, next)
	v.Sentence = figure.Sentence(v.Sentence)
	for i := range v.Services {
		of := &v.Services[i]
		of.Headline = of.Sentence
		if of.Sentence = figure.Sentence(of.Sentence); of.Then != nil {
			of.Then.Sentence = figure.Sentence(of.Then.Sentence)
		}
	}
}

// tooEarly is said in place of no evidence while looks are to come: an early look has a
// small part of the error, so it finds less than a comparison of the same sides.
func tooEarly(name string, next api.Float) string {
	return fmt.Sprintf("too early to say whether %s changed; the next look is at %s UTC", name, next.Time().UTC().Format(time.TimeOnly))
}

// spiked reports whether something came and went at the mark.
func spiked(shapes []api.Shape) bool {
	return slices.ContainsFunc(shapes, func(s api.Shape) bool { return s.Kind == judge.Spike && s.Side == "" })
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

// among adjusts the probabilities of services for how many there are, by the least of each.
// A service that is not selected has then none that is small enough.
func among(services []api.ServiceVerdict) {
	p := make([]float64, len(services))
	for i := range services {
		p[i] = least(&services[i])
	}
	times := api.Float(stat.AmongFamilies(p, discovery))
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
		for _, rows := range [][]api.CompareRow{of.Operations, of.Tenants, of.Cohorts} {
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

// worstFirst orders what was found of services.
func worstFirst(services []api.ServiceVerdict) {
	order := []judge.Verdict{judge.Regression, judge.Mixed, judge.Improvement, judge.Drifts, judge.NoEvidence, judge.WithinTolerance, judge.Same, judge.TooLittle}
	slices.SortStableFunc(services, func(a, b api.ServiceVerdict) int {
		return cmp.Or(slices.Index(order, a.Verdict)-slices.Index(order, b.Verdict), spikes(&b)-spikes(&a))
	})
}

// whole is what the services of a mark, the worst first, amount to.
func whole(v *api.MarkVerdict, next api.Float) (verdict judge.Verdict, sentence string) {
	services := v.Services
	if len(services) == 0 {
		return judge.TooLittle, "too little data: no request is within the times before and after"
	}
	var sum judge.Sum
	for _, s := range services {
		sum.Add(s.Verdict, "")
	}
	verdict = sum.Verdict()
	names, moved, n := changedIn(services)
	of := fmt.Sprintf("%d services", n)
	if n == 1 {
		of = fmt.Sprintf("%d environments of %s", len(services), services[0].Service)
	}
	switch {
	case len(services) == 1:
		sentence = services[0].Sentence
	case moved == 0 && verdict == judge.Drifts:
		sentence = fmt.Sprintf("none of %s surely changed by more than drift: %s", of, services[0].Sentence)
	case moved == 0 && verdict == judge.NoEvidence && (v.State == Early || v.State == Provisional):
		sentence = tooEarly("any of "+of, next)
	case moved == 0 && verdict == judge.NoEvidence && n == 1:
		sentence = fmt.Sprintf("no evidence that %s changed in any of %d environments", services[0].Service, len(services))
	case moved == 0 && verdict == judge.NoEvidence:
		sentence = fmt.Sprintf("no evidence that any of %s changed", of)
	case moved == 0 && verdict == judge.WithinTolerance:
		sentence = fmt.Sprintf("whatever could be judged of %s is within tolerance", of)
	case moved == 0 && verdict == judge.Same:
		sentence = fmt.Sprintf("whatever could be judged of %s is the same", of)
	case moved == 0:
		sentence = fmt.Sprintf("too little data of all %s", of)
	case n == 1:
		sentence = fmt.Sprintf("%s: %s", names[0], services[0].Sentence)
	default:
		if len(names) > 3 {
			names = append(names[:3], fmt.Sprintf("%d more", len(names)-3))
		}
		sentence = fmt.Sprintf("%d of %d services changed, %s: %s", moved, n, strings.Join(names, ", "), services[0].Sentence)
	}
	// Of one service, or of the first that changed, its own sentence has it.
	if i := slices.IndexFunc(services, func(s api.ServiceVerdict) bool { return spikes(&s) > 0 }); i > 0 || i == 0 && moved == 0 && len(services) > 1 {
		sentence = judge.Where(services[i].Service, services[i].Environment, "") + ": " + services[i].Shapes[0].Sentence + "; " + sentence
	}
	return verdict, sentence
}

// changedIn returns the names of the services that changed, in their order, with the
// environments in which they did and those in which they did not, how many they are, and
// how many services there are.
func changedIn(services []api.ServiceVerdict) (names []string, moved, n int) {
	in := map[string][2][]string{} // environments of a service: not changed, changed
	var order []string
	for i := range services {
		s := &services[i]
		of, ok := in[s.Service]
		if !ok {
			order = append(order, s.Service)
		}
		k := 0
		if judge.Moved(s.Verdict) {
			k = 1
		}
		of[k] = append(of[k], cmp.Or(s.Environment, "no environment"))
		in[s.Service] = of
	}
	for _, service := range order {
		switch of := in[service]; {
		case len(of[1]) == 0:
		case len(of[0])+len(of[1]) == 1:
			names = append(names, service)
		case len(of[0]) == 0:
			names = append(names, service+" in "+figure.Listed(of[1]))
		default:
			names = append(names, service+" in "+figure.Listed(of[1])+"; not in "+figure.Listed(of[0]))
		}
	}
	return names, len(names), len(order)
}
