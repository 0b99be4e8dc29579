package changes

import (
	"tailscope/internal/compare"
	"tailscope/stat"
)

// point is a change point of a part, in slots of the range: at is the first
// slot after the change. A change within a slot may show in it or in the next,
// so the moment is known to a slot at best: it is after the beginning of slot
// low, and before that of slot high.
type point struct {
	at, low, high int
	p             float64 // of a change as clear anywhere in the series
}

// searched is a part with its change points, and its slots with requests.
type searched struct {
	part   compare.Part
	points []point
	slots  []int
}

// searchPart finds the change points of a part, with what each day does again
// taken out where there are three or more. Slots without requests are left
// out, so a change that came while there were none lies anywhere among them.
func searchPart(s *compare.Stretches, p compare.Part) (out searched, err error) {
	of, slots, err := s.Series(p)
	if err != nil {
		return out, err
	}
	found, err := stat.ChangePoints(of, stat.ChangeOptions{Alpha: discovery, Season: seasonOf(slots, s.Step())})
	if err != nil {
		return out, err
	}
	out = searched{part: p, slots: slots}
	for _, f := range found {
		low, high := min(f.Low, f.At), max(f.High, f.At)
		out.points = append(out.points, point{at: slots[f.At], low: slots[max(0, low-1)], high: slots[min(high, len(slots)-1)] + 1, p: f.P})
	}
	return out, nil
}

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
