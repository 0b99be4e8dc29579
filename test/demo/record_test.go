//go:build campaign

package demo_test

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"time"

	"tailscope/api"
)

func fromSeconds(s api.Float) time.Time { return time.UnixMilli(int64(s * 1e3)) }

func (s *stopwatch) observe(operation string, begin time.Time, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took[operation] = append(s.took[operation], lap{begin.Add(took), took.Seconds()})
}

// write writes what was kept as rows of nanoseconds since begin, the operation
// and nanoseconds it took, by time; the first row is the mark's.
func (s *stopwatch) write(to io.Writer, begin, mark time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	type row struct {
		lap
		operation string
	}
	var rows []row
	for operation, laps := range s.took {
		for _, l := range laps {
			rows = append(rows, row{l, operation})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return a.end.Compare(b.end) })
	w := csv.NewWriter(to)
	write := func(at time.Time, operation string, seconds float64) error {
		return w.Write([]string{strconv.FormatInt(at.Sub(begin).Milliseconds(), 10), operation, strconv.FormatInt(int64(seconds*1e6), 10)})
	}
	if err := write(mark, "mark", 0); err != nil {
		return err
	}
	for _, r := range rows {
		if err := write(r.end, r.operation, r.seconds); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
