package compare

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"strconv"

	"tailscope/api"
	"tailscope/stat"
)

// resamples is how many permutations the test of whole distributions draws.
const resamples = 1000

// Verdict of whole distributions, beside NoEvidence and TooLittle.
const Different = "different"

// distribution tests whether the two distributions are the same, like for like
// if that is possible. A permutation test is good for one look only, so there
// is none of what is watched while it runs.
func (c *comparison) distribution(whole, s *strata) error {
	if c.Live {
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
		out.Verdict, out.P = TooLittle, api.Float(math.NaN())
		out.Sentence = "too little data to judge the whole distribution: " + w.Short
	case w.P <= 1-c.Level:
		out.Verdict = Different
		out.Sentence = fmt.Sprintf("the distributions differ (%s)%s", chance(w.P), c.widest(s, w.At))
	default:
		out.Verdict = NoEvidence
		out.Sentence = fmt.Sprintf("no evidence that the distributions differ (%s)", chance(w.P))
	}
	c.out.Whole = out
	return nil
}

// widest says where two distributions are farthest apart.
func (c *comparison) widest(s *strata, at float64) string {
	v := []float64{at}
	a, b := s.a.AtMost(v, s.mix)[0], s.b.AtMost(v, s.mix)[0]
	if math.IsNaN(a) || math.IsNaN(b) {
		return ""
	}
	return fmt.Sprintf(", most at %s: %s of A and %s of B take no longer", seconds(at), percent(a), percent(b))
}

// chance writes a probability of so many resamples.
func chance(p float64) string {
	if p < 1.5/resamples {
		return "p < 0.001"
	}
	return "p = " + digits(p)
}

// seconds writes a time as people read it.
func seconds(v float64) string {
	for _, u := range []struct {
		of   float64
		name string
	}{{1, " s"}, {1e-3, " ms"}, {1e-6, " µs"}} {
		if v >= u.of {
			return digits3(v/u.of) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + " s"
}

func digits3(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// seed makes random choices follow the question: the same one has the same answer.
func (c *comparison) seed() uint64 {
	h := fnv.New64a()
	for _, m := range c.Matchers {
		io.WriteString(h, m.String()+"\x00")
	}
	fmt.Fprint(h, c.Family, c.Mark, c.Label, c.ValueA, c.ValueB, c.a.span, c.b.span, c.step)
	return h.Sum64()
}
