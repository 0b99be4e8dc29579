package judge

import (
	"cmp"
	"slices"

	"tailscope/stat"
)

// Sum is what several findings amount to. The zero value is of none.
type Sum struct {
	worse, better, moved, floor, drifts, open, tolerated, same int
	words                                                      []Verdict // of those that moved
}

// Add takes a finding in. Way says whether a change is Better or Worse; empty, the
// verdict itself says so if it can.
func (s *Sum) Add(v Verdict, way Way) {
	if way == "" {
		switch v {
		case Faster, FewerErrors, Improvement:
			way = Better
		case Slower, MoreErrors, Regression:
			way = Worse
		}
	}
	switch {
	case v == Mixed:
		s.worse, s.better = s.worse+1, s.better+1
	case v == Drifts:
		s.drifts++
	case v == NoEvidence:
		s.open++
	case v == Same:
		s.same++
	case v == WithinTolerance:
		s.tolerated++
	case v == WithinFloor:
		s.floor++
	case !Moved(v):
		return
	case way == Worse:
		s.worse++
	case way == Better:
		s.better++
	default:
		s.moved++
	}
	if Moved(v) {
		s.words = append(s.words, v)
	}
}

// Verdict returns what the findings amount to: what got worse or better comes
// before what merely moved, that before what the noise floor may hide, that before what
// drifts, that before what is open, and something is Same only if nothing is.
func (s *Sum) Verdict() Verdict {
	switch {
	case s.worse > 0 && s.better > 0:
		return Mixed
	case s.worse > 0:
		return Regression
	case s.better > 0:
		return Improvement
	case s.moved > 0:
		return Changed
	case s.floor > 0:
		return WithinFloor
	case s.drifts > 0:
		return Drifts
	case s.open > 0:
		return NoEvidence
	case s.tolerated > 0:
		return WithinTolerance
	case s.same > 0:
		return Same
	}
	return TooLittle
}

// Leading returns the way that a sentence of several findings begins with, and the one that
// it ends with, empty if there is none: what got worse comes before what got better.
func Leading(v Verdict) (first, last Way) {
	switch v {
	case Mixed:
		return Worse, Better
	case Regression:
		return Worse, ""
	case Improvement:
		return Better, ""
	}
	return "", ""
}

// Word is Verdict with the word of a figure in place of regression, improvement and
// changed: that of times before that of errors, and mixed where figures of which
// nobody knows whether more is better went both ways.
func (s *Sum) Word() Verdict {
	switch v := s.Verdict(); v {
	case Regression, Improvement, Changed:
		for _, word := range []Verdict{Slower, Faster, MoreErrors, FewerErrors} {
			if slices.Contains(s.words, word) {
				return word
			}
		}
		if v == Changed && slices.Contains(s.words, Higher) && slices.Contains(s.words, Lower) {
			return Mixed
		}
		return s.words[0]
	default:
		return v
	}
}

// Lead returns the finding that stands for all, nil if there is none: the first in
// the order, Reading for example, unless a later one of those that may stand for others
// (p95, p50, the errors, p99.9) has certainly changed more than that one seems to, both in
// margins of sameness. Name returns the figure's name, empty if a finding is not to stand
// for all. Margins is as Finding.Margins, or nil where the order alone decides.
func Lead[F any](all []F, order []string, name func(*F) string, margins func(*F) (seems, certain float64)) *F {
	var best *F
	for _, of := range order {
		for i := range all {
			f := &all[i]
			if name(f) != of {
				continue
			}
			if best == nil {
				best = f
				continue
			}
			if margins == nil || !slices.Contains(leading, of) {
				continue
			}
			seems, _ := margins(best)
			if _, certain := margins(f); certain > seems {
				best = f
			}
		}
	}
	return best
}

// Adjust adjusts the probabilities of a family of figures for how many there are
// (Benjamini & Hochberg 1995). P returns the probability of one, NaN if it was not
// judged; set takes the adjusted one.
func Adjust[F any](family []F, p func(F) float64, set func(F, float64)) {
	all := make([]float64, len(family))
	for i, f := range family {
		all[i] = p(f)
	}
	for i, adjusted := range stat.BenjaminiHochberg(all) {
		set(family[i], adjusted)
	}
}

// Rank is by what rows are ordered.
type Rank struct {
	Changed bool    // rows that changed come first,
	Size    float64 // those first that changed the most;
	P       float64 // the others follow by their least probability
}

// Ranked returns the rows in the order of their ranks. Equal ones stay as they are.
func Ranked[R any](rows []R, rank func(*R) Rank) []R {
	type ranked struct {
		Rank
		row *R
	}
	all := make([]ranked, len(rows))
	for i := range rows {
		all[i] = ranked{rank(&rows[i]), &rows[i]}
	}
	slices.SortStableFunc(all, func(x, y ranked) int {
		switch {
		case x.Changed != y.Changed:
			if x.Changed {
				return -1
			}
			return 1
		case x.Changed:
			return cmp.Compare(y.Size, x.Size)
		}
		return cmp.Compare(x.P, y.P)
	})
	out := make([]R, len(rows))
	for i := range all {
		out[i] = *all[i].row
	}
	return out
}
