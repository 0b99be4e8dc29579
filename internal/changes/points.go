package changes

import "tailscope/stat"

// point is a change point in slots of a series: at is the first slot after the
// change. A change within a slot may show in it or in the next, so the moment
// is known to a slot at best: it is after the beginning of slot low, and before
// that of slot high.
type point struct {
	at, low, high int
	p             float64 // of a change as clear anywhere in the series
}

func changePoints(s *stat.Series) ([]point, error) {
	found, err := stat.ChangePoints(s, stat.ChangeOptions{Alpha: discovery})
	if err != nil {
		return nil, err
	}
	out := make([]point, len(found))
	for i, f := range found {
		out[i] = point{at: f.At, low: max(0, min(f.Low, f.At)-1), high: min(s.Slots(), max(f.High, f.At)+1), p: f.P}
	}
	return out, nil
}
