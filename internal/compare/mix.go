package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/stat"
)

const (
	mixMoved = 0.05 // share of requests that are of another operation
	// sureMix is the probability with which a mix is said to move that did not.
	sureMix = 0.01
	// sureMember is how many standard errors the requests of what is rare are from their
	// share before they surely moved: many are looked at.
	sureMember = 3.3
)

// Mix is how far the shares of operations and tenants moved.
type Mix struct {
	Share float64 // of the requests, that is of others
	Of    string  // what they are of, such as operations and tenants
	Most  string  // says which of them moved most
}

// Text says how the mix of what is named moved.
func (m *Mix) Text(of string) string {
	return fmt.Sprintf("the mix of %s of %s moved: %s of the requests are of others%s", m.Of, of, figure.Percent(m.Share), m.Most)
}

// ByMix says that a measure of all requests changed, and not of those of the same
// operations and tenants, whose interval excludes such a change.
func ByMix(m *api.CompareMeasure) bool {
	return judge.Moved(m.Raw.Verdict) && BesideLike(m) && !judge.Moved(m.Like.Verdict)
}

// BesideLike reports whether a measure of all requests changed by more or less than its
// interval like for like holds: the mix is at least a part of it.
func BesideLike(m *api.CompareMeasure) bool {
	return m.Like != nil && (m.Raw.Effect < m.Like.Low || m.Raw.Effect > m.Like.High)
}

// mix returns how the mix moved: beyond what chance moves, or so that a measure of all
// requests surely changed by it; nil if it did not.
func (c *comparison) mix() *Mix {
	moved, chance := shift(c.fineA, c.fineB)
	if !c.explained() && !(mixed(moved, chance) && surelyMixed(c.fineA, c.fineB)) {
		return nil
	}
	return &Mix{Share: moved, Of: c.strataName(), Most: c.mover()}
}

// explained reports whether the mix is what surely changed a measure of all requests,
// allowing for how many there are. Where some share surely moved, as of a tenant that is new,
// the measure itself may be less sure, or drift.
func (c *comparison) explained() bool {
	beside := func(m api.CompareMeasure) bool { return BesideLike(&m) && float64(m.Raw.P) <= 1-c.opts.Level }
	return slices.ContainsFunc(c.out.Measures, func(m api.CompareMeasure) bool {
		return ByMix(&m) && float64(m.Raw.P)*float64(len(c.out.Measures)) <= sureMix
	}) || slices.ContainsFunc(c.out.Measures, beside) && surelyMixed(c.fineA, c.fineB)
}

// mover names the tenant or the operation whose share of the requests moved the most for its
// size: of a tenant that left, and its operation that has fewer requests for that, the tenant.
func (c *comparison) mover() string {
	type moved struct{ a, b float64 }
	shares := map[string]*moved{}
	add := func(what string, a, b float64) {
		if shares[what] == nil {
			shares[what] = &moved{}
		}
		shares[what].a += a
		shares[what].b += b
	}
	totalA, _ := c.fineA.total()
	totalB, _ := c.fineB.total()
	for _, name := range namesOf(c.fineA, c.fineB) {
		a, b := float64(c.fineA.requestsOf(name))/float64(totalA), float64(c.fineB.requestsOf(name))/float64(totalB)
		add(orNone(name.operation), a, b)
		if c.hasEnvironments(name.service) {
			add("environment "+orNone(name.environment), a, b)
		}
		switch {
		case name.tenant != "":
			add("tenant "+name.tenant, a, b)
		case name.cohort != "":
			add("other "+name.cohort+" tenants", a, b)
		}
	}
	most, farthest := "", 0.0
	for _, what := range slices.Sorted(maps.Keys(shares)) {
		s := shares[what]
		if far := (s.b - s.a) * (s.b - s.a) / (s.a + s.b); far > farthest {
			most, farthest = what, far
		}
	}
	if most == "" {
		return ""
	}
	return fmt.Sprintf(", above all %s, from %s to %s", most, figure.Percent(shares[most].a), figure.Percent(shares[most].b))
}

// shift is how far the mix of strata moved, and how much of it chance alone would show.
func shift(a, b *side) (moved, chance float64) {
	names := namesOf(a, b)
	counts := make([][2]float64, len(names))
	for i, name := range names {
		counts[i] = [2]float64{float64(a.requestsOf(name)), float64(b.requestsOf(name))}
	}
	moved, _ = shiftOf(counts)
	return moved, math.Sqrt(float64(len(names)) / min(a.effective(), b.effective()))
}

// shiftOf is shift of the independent requests of both sides: the share of requests that
// would have to be of another stratum (total variation).
func shiftOf(counts [][2]float64) (moved, chance float64) {
	var totalA, totalB float64
	for _, n := range counts {
		totalA, totalB = totalA+n[0], totalB+n[1]
	}
	if totalA == 0 || totalB == 0 {
		return 0, 0
	}
	for _, n := range counts {
		moved += math.Abs(n[0]/totalA-n[1]/totalB) / 2
	}
	return moved, math.Sqrt(float64(len(counts)) / min(totalA, totalB))
}

// exchanged reports whether the mix of what is taken together moved, though of none of it
// that is sure: as where many that are rare came in place of many that went.
func exchanged(a, b *side, names []operation) bool {
	if len(names) < 2 {
		return false
	}
	return mixed(shiftOf(effectiveOf(a, b, names)))
}

// effectiveOf returns the independent requests that each has on either side.
func effectiveOf(a, b *side, names []operation) [][2]float64 {
	counts := make([][2]float64, len(names))
	for i, name := range names {
		counts[i] = [2]float64{a.effective(name), b.effective(name)}
	}
	return counts
}

// unmoved parts what is taken together into what keeps its share of it and what surely
// does not: taken together, they would be slower where a slow one only has more requests.
func unmoved(a, b *side, names []operation) (kept, moved []operation) {
	if len(names) < 2 {
		return names, nil
	}
	counts := effectiveOf(a, b, names)
	usual, known := usualRatio(counts)
	if !known {
		usual = b.effective() / a.effective()
	}
	var pool [2][]float64 // requests of each slot
	for i, name := range names {
		na, nb := counts[i][0], counts[i][1]
		sure := math.Abs(scoreOf(na, nb, usual)) > sureMember
		if sure && !oneSided(a, b, na, nb, few, few) {
			if pool[0] == nil {
				pool = [2][]float64{a.requests(names...), b.requests(names...)}
			}
			p, judged := chanceOfShare(a, b, name, pool)
			sure = !judged || p <= sureMix
		}
		if sure {
			moved = append(moved, name)
		} else {
			kept = append(kept, name)
		}
	}
	return kept, moved
}

// usualRatio returns the median of the ratios of the requests on side B to those on side A,
// weighted by how well each is known, so that what came, went or grew does not move it; known
// is false if there is no ratio.
func usualRatio(counts [][2]float64) (ratio float64, known bool) {
	type weighted struct{ ratio, weight float64 }
	var all []weighted
	total := 0.0
	for _, n := range counts {
		if weight := n[0] * n[1] / (n[0] + n[1]); weight > 0 {
			all, total = append(all, weighted{n[1] / n[0], weight}), total+weight
		}
	}
	slices.SortFunc(all, func(x, y weighted) int { return cmp.Compare(x.ratio, y.ratio) })
	below := 0.0
	for _, x := range all {
		if below += x.weight; below >= total/2 {
			return x.ratio, true
		}
	}
	return 0, false
}

// scoreOf returns how many standard errors na and nb requests are from a ratio of nb to na:
// the difference of the arcsines of the roots of two shares of na+nb (Anscombe 1948).
func scoreOf(na, nb, ratio float64) float64 {
	n := na + nb
	if !(n > 0) || !(ratio > 0) {
		return 0
	}
	return 2 * math.Sqrt(n) * (math.Asin(math.Sqrt((nb+3./8)/(n+3./4))) - math.Asin(math.Sqrt(ratio/(1+ratio))))
}

// surelyMixed says that the share of some stratum differs by more than slots make it differ
// by themselves: where requests come in bursts, or few, chance moves a mix by more than it
// would move as many requests that come by themselves.
func surelyMixed(a, b *side) bool {
	names := namesOf(a, b)
	all := [2][]float64{a.requests(names...), b.requests(names...)}
	var p []float64
	for _, name := range names {
		if of, judged := chanceOfShare(a, b, name, all); judged {
			p = append(p, of)
		}
	}
	if len(p) == 0 { // too few slots to tell
		return true
	}
	return slices.Min(stat.BenjaminiHochberg(p)) <= sureMix
}

// chanceOfShare returns the probability of a share of all requests, given in slots of either
// side, that differs as much where it did not move; judged is false if slots are too few.
func chanceOfShare(a, b *side, name operation, all [2][]float64) (p float64, judged bool) {
	of := func(s *side, den []float64) []stat.Tally {
		return []stat.Tally{{Num: s.requests(name), Den: den}}
	}
	x, err := stat.Shares(of(a, all[0]), of(b, all[1]), nil, stat.Difference, stat.Options{})
	return x.P, err == nil && x.Short == ""
}

// mixed says that a mix moved by more than chance shows.
func mixed(moved, chance float64) bool { return moved > mixMoved && moved > 2*chance }
