package stat

import (
	"math"
	"slices"
)

// ChangeOptions configures ChangePoints. Each field has a default for its zero value.
type ChangeOptions struct {
	// Alpha is the probability of finding anything in a series without a change; default
	// 0.05.
	Alpha float64
	// Least is the fewest slots between changes, and before the first and after the
	// last; default 10, or a twentieth of a shorter sequence of numbers, at least 4.
	Least int
	// Most bounds the number of changes found; default 20.
	Most int
	// Season is the length of a season in slots, 0 for none. The dependence on the time
	// of day is removed before, if there are three seasons or more; slot 0 is the
	// beginning of one.
	Season int
}

const (
	defaultAlpha  = 0.05
	defaultLeast  = 10
	defaultMost   = 20
	leastSeasons  = 3
	leastOfValues = 4
)

// ChangePoint is a moment at which a distribution changed.
type ChangePoint struct {
	// At is the first slot after the change. The change lies in [Low, High] with a
	// confidence of 95 %: Low is the least first slot, High the greatest. Slot At has
	// observations, and so does the slot before Low.
	At, Low, High int
	// P is approximately the probability that the stretches around it show a change as
	// clear without one, alone or together with either neighbour.
	P float64
	// Value is the place on the value axis where the change is clearest: a share Before
	// of observations was above Value between the previous change and this one, and
	// After between this one and the next, with slots cut and the season removed. For
	// numbers, Value is NaN and Before and After are medians of that column.
	Value, Before, After float64
	// Kink says that no step is at the moment: a slope begins, ends or changes there.
	Kink bool
	// Column is the column of numbers in which the change is clearest, 0 otherwise.
	Column int
}

func (o ChangeOptions) check() (ChangeOptions, error) {
	if o.Alpha == 0 {
		o.Alpha = defaultAlpha
	}
	if o.Most == 0 {
		o.Most = defaultMost
	}
	switch {
	case !(o.Alpha > 0 && o.Alpha < 1):
		return o, invalidf("false alarm rate %v, want one between 0 and 1", o.Alpha)
	case o.Least < 0:
		return o, invalidf("%d slots between changes at least", o.Least)
	case o.Most < 0:
		return o, invalidf("%d changes at most", o.Most)
	case o.Season < 0:
		return o, invalidf("a season of %d slots", o.Season)
	}
	return o, nil
}

// ChangePoints finds the moments at which a series' distribution changed, at unknown
// places. It returns them in order of time. The same series gives the same answer.
//
// Slots without observations are skipped: those before and after a hole count as
// neighbours; and where most slots have fewer than 60 observations, as many neighbours
// are merged as reach that, unless there is a season. A slot is viewed through the
// shares of its observations above quantiles of the stretch, from the 10th percentile to
// the 99.9th: so a change of the slowest alone is as visible as one of the median,
// values far out weigh no more than others, and a share is cut some standard deviations
// beyond the medians of the slots before and after, so that a few slots are not taken
// for a change. Candidates are the splits with the greatest contrast over intervals of
// many lengths (seeded binary segmentation: Kovács, Bühlmann, Li & Munk 2023, Biometrika
// 110). So is the split that leaves a view the least variance, if that is plain: a great
// step looks like noise that persists. A candidate, or two or three together, divides
// the stretch if the shares are far more likely with it than without, both times under
// noise whose persistence is fitted: the autoregressions under noise by which sides are
// compared, averaged over their parameters. So a sequence that wanders is not taken for
// one that jumps. The parts are divided further, each viewed by itself; at last each
// change has to pass again among its neighbours. The required likelihood was measured,
// see docs/statistics.md. The interval of the moment holds what the likelihood ratio
// does not reject (Eo & Morley 2015, Quantitative Economics 6).
//
// A season counts as changes unless it is removed; see ChangeOptions. Noise that
// persists longer than a quarter of the series is taken for changes more often than
// Alpha.
func ChangePoints(s *Series, o ChangeOptions) ([]ChangePoint, error) {
	if s == nil {
		return nil, invalidf("no series")
	}
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	if o.Least == 0 {
		o.Least = defaultLeast
	}
	if s.occupied < 2*o.Least || s.total == 0 {
		return nil, nil
	}
	part, kept := s.WithoutEmpty()
	var phases []int // position of a slot in its season
	if seasonal(s.Slots(), o) {
		phases = make([]int, len(kept))
		for i, t := range kept {
			phases[i] = t % o.Season
		}
	}
	k, whole := 1, part
	if phases == nil {
		if k = part.together(); k > 1 {
			part = part.grouped(k)
			o.Least = max(leastOfValues, (o.Least+k-1)/k)
		}
	}
	points := findChanges(part.Slots(), o, func(from, to int) []view { return viewsOf(part, phases, from, to, o) })
	if k > 1 && k*o.Least > soonEnough*defaultLeast {
		points, k = whole.withFew(points, k, o), 1
	}
	return expandPoints(points, kept, k), nil
}

// expandPoints translates points found among groups of k of the kept slots to indices of all
// slots. A change may lie anywhere in a hole before the slot that shows it, and anywhere
// in a group.
func expandPoints(points []ChangePoint, kept []int, k int) []ChangePoint {
	for i := range points {
		p := &points[i]
		p.At, p.Low, p.High = kept[k*p.At], kept[k*(p.Low-1)]+1, kept[min(k*(p.High+1), len(kept))-1]
	}
	return points
}

// ChangePointsOf is ChangePoints for numbers: one row per slot or run, with as many
// columns in each. NaN is a missing value. A column whose numbers are all positive is
// searched by their logarithms.
func ChangePointsOf(rows [][]float64, o ChangeOptions) ([]ChangePoint, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	if o.Least == 0 {
		o.Least = max(leastOfValues, min(defaultLeast, len(rows)/20))
	}
	for i, row := range rows {
		if len(row) != len(rows[0]) || len(row) == 0 {
			return nil, invalidf("row %d has %d numbers, the first has %d", i, len(row), len(rows[0]))
		}
		for _, v := range row {
			if math.IsInf(v, 0) {
				return nil, invalidf("row %d has %v", i, v)
			}
		}
	}
	var some [][]float64 // rows that are not empty
	var kept []int
	for t, row := range rows {
		if slices.ContainsFunc(row, func(v float64) bool { return !math.IsNaN(v) }) {
			some, kept = append(some, row), append(kept, t)
		}
	}
	if len(some) < 2*o.Least {
		return nil, nil
	}
	columns := make([]seenTally, len(rows[0]))
	for c := range columns {
		t := Tally{Num: make([]float64, len(some)), Den: make([]float64, len(some))}
		for i, row := range some {
			if !math.IsNaN(row[c]) {
				t.Num[i], t.Den[i] = row[c], 1
			}
		}
		columns[c] = t.seen(ValueTally, kept, len(rows), o)
	}
	points := expandPoints(findChanges(len(some), o, func(from, to int) []view {
		var views []view
		for c := range columns {
			if v, ok := columns[c].view(from, to, o); ok {
				v.column = c
				views = append(views, v)
			}
		}
		return views
	}), kept, 1)
	from := 0
	for i := range points {
		p, to := &points[i], len(rows)
		if i+1 < len(points) {
			to = points[i+1].At
		}
		p.Before, p.After = medianOf(rows[from:p.At], p.Column), medianOf(rows[p.At:to], p.Column)
		from = p.At
	}
	return points, nil
}
