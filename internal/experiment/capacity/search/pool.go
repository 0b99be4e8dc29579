package search

import "math"

// Priors of how requests clump: the logarithm of the factor by which their sum varies
// more than that of independent ones, its spread, and its growth with the logarithm
// of the load, as queues near saturation have it.
const (
	clumpFirst  = 2.7
	clumpSpread = 1.5
	clumpGrows  = 20.0
	growsSpread = 12.0
	// clumpCurve is the rate at which steps at other loads lose their weight.
	clumpCurve = 8.0
	clumpFar   = 0.15 // beyond it is as at it: a queue cannot clump more than it waits
	// Errors differ from latencies: they come one by one or a few at a time, until a
	// step has more of them than is allowed. Then the kind of the limit is not known,
	// and the errors of a cliff come in bursts of seconds.
	errorsFirst  = 1.1
	errorsSpread = 0.7
)

// pooled returns the evidence of a step on condition i, with its clump estimated from
// all steps: the logarithm of their clumps is a line in that of the load, nearby.
func (s *Search) pooled(i int, o seen) seen {
	if o.n == 0 {
		return o
	}
	// Normal equations of height and slope at o.v, and the priors.
	first, spread, grows := clumpFirst, clumpSpread, clumpGrows
	if o.stray = o.of.c.Measure == "errors" && !s.errs(i, o); o.stray {
		first, spread, grows = errorsFirst, errorsSpread, 0
	}
	a, b, c := 1/(spread*spread), 0.0, 1/(growsSpread*growsSpread)
	y, z := a*first, c*grows
	add := func(other seen) {
		if other.df <= 0 || !(other.clump > 0) {
			return
		}
		d := min(max(other.v-o.v, -clumpFar), clumpFar)
		w := 1 / (2/other.df + clumpCurve*clumpCurve*(other.v-o.v)*(other.v-o.v))
		// The mean of a logarithm of chi-square is lower by about 1/df.
		l := math.Log(other.clump) + 1/other.df
		a, b, c = a+w, b+w*d, c+w*d*d
		y, z = y+w*l, z+w*d*l
	}
	for _, w := range s.steps {
		// A step that broke was on its way to another state, which is not a clump.
		if other := w.measured(i); other.of != o.of && w.broke == "" {
			add(other)
		}
	}
	det := a*c - b*b
	o.clump = math.Exp((c*y - b*z) / det)
	o.df = max(2*det/c, 2) // the variance of the height is c/det, that of a logarithm of chi-square 2/df
	if !o.mean {
		o.clump = max(o.clump, 1)
	}
	return o
}

// errs reports whether a step had more errors than condition i allows.
func (s *Search) errs(i int, o seen) bool {
	beyond := func(o seen) bool { return o.y >= beyondErrors && o.y > o.target*o.n }
	if beyond(o) {
		return true
	}
	for _, w := range s.steps {
		if beyond(w.measured(i)) {
			return true
		}
	}
	return false
}

// beyondErrors is the number of errors that are no accident any more.
const beyondErrors = 3
