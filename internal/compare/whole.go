package compare

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/stat"
)

// resamples is how many permutations the test of whole distributions draws.
const resamples = 1000

// Different is a verdict of whole distributions, beside judge.NoEvidence and
// judge.TooLittle.
const Different judge.Verdict = "different"

// distribution tests whether the two distributions are the same, like for like
// if that is possible. A permutation test is good for one look only, so there
// is none of what is watched while it runs; and of a few windows there are too few
// permutations.
func (c *comparison) distribution(whole, s *strata) error {
	if c.Live || c.several() {
		return nil
	}
	if s.mix == nil {
		s = whole
	}
	w, err := stat.Distribution(s.a, s.b, s.mix, stat.Energy, resamples, c.seed(), c.opts)
	if err != nil {
		return err
	}
	out := &api.CompareWhole{Test: "energy", P: api.Float(w.P), Resamples: w.Resamples}
	if w.Blocks > 0 {
		out.Block = min(c.a.slots(), c.b.slots()) / w.Blocks
	}
	switch {
	case w.Short != "":
		out.Verdict, out.P = judge.TooLittle, api.Float(math.NaN())
		out.Sentence = "too little data to judge the whole distribution: " + w.Short
	case w.P <= 1-c.Level:
		out.Verdict = Different
		out.Sentence = fmt.Sprintf("the distributions differ (%s)%s", chance(w.P), c.widest(s, w.At))
	default:
		out.Verdict = judge.NoEvidence
		out.Sentence = fmt.Sprintf("no evidence that the distributions differ (%s)", chance(w.P))
	}
	c.out.Whole = out
	return nil
}

// ofMost are the measures of which a change is one of a good part of the requests.
var ofMost = []string{"p50", "p75", "p90"}

// reconcile says how what is known of the whole distribution goes with the verdict, if
// one of them saw a change and the other did not.
func (c *comparison) reconcile() {
	w := c.out.Whole
	switch moved := judge.Moved(c.out.Verdict); {
	case w == nil:
	case moved && w.Verdict == judge.NoEvidence && slices.ContainsFunc(c.out.Measures, func(m api.CompareMeasure) bool { return slices.Contains(ofMost, m.Name) && c.found(&m) }):
		w.Verdict, w.P = judge.TooLittle, api.Float(math.NaN())
		w.Sentence = "too little data to judge the whole distribution: too few slots that do not depend on each other"
	case moved && w.Verdict == judge.NoEvidence:
		w.Sentence = fmt.Sprintf("the whole distribution does not show it (%s): a small part of it changed", chance(float64(w.P)))
		if c.kind == ofSpans {
			w.Sentence += ", or errors did"
		}
	case !moved && w.Verdict == Different:
		w.Sentence += "; by too little for any figure to have surely changed"
	}
}

// widest says where two distributions are farthest apart.
func (c *comparison) widest(s *strata, at float64) string {
	v := []float64{at}
	a, b := s.a.AtMost(v, s.mix)[0], s.b.AtMost(v, s.mix)[0]
	if math.IsNaN(a) || math.IsNaN(b) {
		return ""
	}
	does := "are no more"
	if c.unit == unitSeconds {
		does = "take no longer"
	}
	return fmt.Sprintf(", most at %s: %s of A and %s of B %s", c.value(at), figure.Percent(a), figure.Percent(b), does)
}

// chance writes a probability of so many resamples.
func chance(p float64) string {
	if p < 1.5/resamples {
		return "p < 0.001"
	}
	return "p = " + figure.Digits(p)
}

const unitSeconds, unitBytes = "seconds", "bytes"

// value writes one of the values that are compared as people read it.
func (c *comparison) value(v float64) string { return figure.Value(v, c.unit) }

// seed makes random choices follow the question: the same one has the same answer.
func (c *comparison) seed() uint64 {
	h := fnv.New64a()
	for _, m := range c.Matchers {
		io.WriteString(h, m.String()+"\x00")
	}
	fmt.Fprint(h, c.Family, c.Mark, c.Label, c.ValueA, c.ValueB, c.a.span, c.b.span, c.step)
	return h.Sum64()
}
