package changes

import (
	"cmp"
	"math"
	"slices"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/stat"
)

// What of the requests is searched.
const (
	Durations = judge.Durations
	Errors    = judge.ErrorShare
	Rate      = judge.Rate
)

// point is a change point of a part, in slots of the range: at is the first
// slot after the change. A change within a slot may show in it or in the next,
// so the moment is known to a slot at best: it is after the beginning of slot
// low, and before that of slot high.
type point struct {
	at, low, high int
	p             float64  // of a change as clear anywhere in the series
	of            []string // what changed: Durations, Errors, Rate, or Value of a metric
	kink          bool
}

// searched is a part with the change points of one thing, or of all.
type searched struct {
	part   compare.Part
	inner  *inner // the part of its requests that was searched; nil of the requests themselves
	of     string
	points []point
	slots  []int       // with requests
	end    int         // where the part is no longer measured; 0 is behind the last of slots
	tally  *stat.Tally // of all slots, where kinks are told from steps
}

// name is that of the part of requests, the zero value of requests themselves.
func (s *searched) name() api.ChangePart {
	if s.inner == nil {
		return api.ChangePart{}
	}
	return s.inner.name()
}

// searchPart finds the change points of one thing of a part, each with a probability of at most
// alpha, with what each day does again taken out where there are three or more. Slots without
// requests are left out, so a change that came while there were none lies anywhere among them;
// of a rate they are slots like others.
func searchPart(s *compare.Stretches, p compare.Part, of string, alpha float64) (searched, error) {
	if of == Durations {
		durations, slots, err := s.Series(p)
		if err != nil {
			return searched{part: p, of: of}, err
		}
		return searchDurations(s, p, durations, slots, alpha)
	}
	out := searched{part: p, of: of}
	var found []stat.ChangePoint
	var err error
	options := func(slots []int) stat.ChangeOptions {
		return stat.ChangeOptions{Alpha: alpha, Season: seasonOf(slots, s.Step())}
	}
	errors, rate := s.Tallies(p)
	switch of {
	case Errors:
		out.slots = occupied(errors)
		found, err = stat.ChangePointsOfTally(pick(errors, out.slots), stat.ShareTally, options(out.slots))
	case Rate:
		out.slots = occupied(rate)
		found, err = stat.ChangePointsOfTally(pick(rate, out.slots), stat.CountTally, options(out.slots))
	}
	if err != nil {
		return out, err
	}
	for _, f := range found {
		if of == Errors && math.Abs(f.After-f.Before) < judge.MarginOfErrors || of == Rate && math.Abs(math.Log(f.After/f.Before)) < leastLoad {
			continue
		}
		out.points = append(out.points, pointOf(f, out.slots, of))
	}
	return out, nil
}

// searchDurations is searchPart for the durations of a part, which are those of these slots.
func searchDurations(s *compare.Stretches, p compare.Part, durations *stat.Series, slots []int, alpha float64) (searched, error) {
	out := searched{part: p, of: Durations, slots: slots}
	found, err := stat.ChangePoints(durations, stat.ChangeOptions{Alpha: alpha, Season: seasonOf(slots, s.Step())})
	if err != nil {
		return out, err
	}
	for _, f := range found {
		out.points = append(out.points, pointOf(f, slots, Durations))
	}
	return out, nil
}

// pointOf returns a change point of these slots as one of the range.
func pointOf(f stat.ChangePoint, slots []int, of string) point {
	low, high := min(f.Low, f.At), max(f.High, f.At)
	return point{at: slots[f.At], low: slots[max(0, low-1)], high: slots[min(high, len(slots)-1)] + 1, p: f.P, kink: f.Kink, of: []string{of}}
}

// The least changes, as logarithms, that are one: of the rate of requests, which wanders by
// itself, and of calls or time for each request.
var leastLoad, leastRate = math.Log(1.3), math.Log(1.1)

func occupied(t stat.Tally) (slots []int) {
	for i, d := range t.Den {
		if d > 0 {
			slots = append(slots, i)
		}
	}
	return slots
}

func pick(t stat.Tally, slots []int) (out stat.Tally) {
	out.NumSquares, out.DenSquares = t.NumSquares, t.DenSquares
	for _, i := range slots {
		out.Num, out.Den = append(out.Num, t.Num[i]), append(out.Den, t.Den[i])
		if t.Each != nil {
			out.Each = append(out.Each, t.Each[i])
		}
	}
	return out
}

// together makes one part of what was found of all its things: points that may be one
// moment are one, which is where it is known best.
func together(all []searched) []searched {
	var out []searched
	for _, s := range all {
		i := slices.IndexFunc(out, func(x searched) bool { return x.part == s.part && x.name() == s.name() })
		if i < 0 {
			out = append(out, s)
			continue
		}
		out[i].points = append(slices.Clip(out[i].points), s.points...)
		if s.of == Durations {
			out[i].slots = s.slots
		}
		if n := len(s.slots); s.of == Rate && n > 0 {
			out[i].end = s.slots[n-1] + 1
		}
		if s.tally != nil {
			out[i].tally = s.tally
		}
	}
	for i := range out {
		points := out[i].points
		slices.SortStableFunc(points, func(x, y point) int { return cmp.Compare(x.at, y.at) })
		var one []point
		for _, x := range points {
			n := len(one)
			if n == 0 || !one[n-1].meets(x) {
				one = append(one, x)
				continue
			}
			y := &one[n-1]
			of := append(slices.Clip(y.of), x.of...)
			least := min(x.p, y.p)
			if x.high-x.low < y.high-y.low {
				*y = x
			}
			y.of, y.p = of, least
		}
		for j := range one {
			slices.SortFunc(one[j].of, compareThings)
			one[j].of = slices.Compact(one[j].of)
		}
		out[i].points = one
	}
	return out
}

// things are what is searched, in the order in which they are said.
var things = []string{Durations, Errors, Rate, Calls, Time}

func compareThings(x, y string) int {
	return cmp.Compare(slices.Index(things, x), slices.Index(things, y))
}

// meets says that two points may be one moment.
func (x point) meets(y point) bool { return x.low <= y.high+1 && y.low <= x.high+1 }

const (
	day        = 86400 // seconds
	fewestDays = 3
)

// seasonOf is the length of a day in slots, 0 if the slots are not those of
// three days or more, one after the other.
func seasonOf(slots []int, step int64) int {
	n := len(slots)
	if day%step != 0 || n == 0 || slots[n-1]-slots[0] != n-1 || int64(n)*step < fewestDays*day {
		return 0
	}
	return int(day / step)
}
