package demo_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
)

// stopwatch keeps what the demo's shop measured by its own clock.
type stopwatch struct {
	mu   sync.Mutex
	took map[string][]lap
}

type lap struct {
	end     time.Time
	seconds float64
}

// ratio returns a quantile of what ended in one range over that of another, each
// taken from all requests of an operation by their rank; "" is all operations.
func (s *stopwatch) ratio(operation string, q float64, before, after api.Range) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := func(r api.Range) float64 {
		var seconds []float64
		for of, laps := range s.took {
			if operation != "" && of != operation {
				continue
			}
			for _, l := range laps {
				if at := l.end.Unix(); at >= r.Start && at < r.End {
					seconds = append(seconds, l.seconds)
				}
			}
		}
		slices.Sort(seconds)
		if len(seconds) == 0 {
			return 0
		}
		return seconds[int(q*float64(len(seconds)-1))]
	}
	return in(after) / in(before)
}

// readStopwatch reads what write wrote, as if it had begun at begin.
func readStopwatch(from io.Reader, begin time.Time) (s *stopwatch, mark time.Time, err error) {
	rows, err := csv.NewReader(from).ReadAll()
	if err != nil {
		return nil, mark, err
	}
	s = &stopwatch{took: map[string][]lap{}}
	for i, r := range rows {
		ms, err1 := strconv.ParseInt(r[0], 10, 64)
		us, err2 := strconv.ParseInt(r[2], 10, 64)
		if err1 != nil || err2 != nil || (i == 0) != (r[1] == "mark") {
			return nil, mark, fmt.Errorf("row %d: %q is not a time in milliseconds, an operation and microseconds, after the mark's", i, r)
		}
		at := begin.Add(time.Duration(ms) * time.Millisecond)
		if i == 0 {
			mark = at
			continue
		}
		s.took[r[1]] = append(s.took[r[1]], lap{at, float64(us) / 1e6})
	}
	return s, mark, nil
}

// judgedFaster checks the verdict of the demo's index: an improvement, mostly of
// GET /orders, by intervals that hold what the shop's own clock says.
func judgedFaster(t *testing.T, v *api.MarkVerdict, watch *stopwatch) {
	t.Helper()
	if v.Verdict != judge.Improvement {
		t.Errorf("the index is judged %s", v.Verdict)
	}
	s := v.Services[0]
	i := slices.IndexFunc(s.Operations, func(r api.CompareRow) bool { return r.Operation == "GET /orders" })
	if i < 0 {
		t.Fatalf("GET /orders is not among what changed: %+v", s.Operations)
	}
	if i != 0 {
		t.Errorf("%s changed more than GET /orders", s.Operations[0].Operation)
	}
	if !slices.ContainsFunc(s.Operations[i].Measures, func(m api.CompareMeasure) bool { return m.Verdict == judge.Faster }) {
		t.Error("no quantile of GET /orders is judged faster")
	}
	for _, row := range s.Operations {
		for _, x := range row.Measures {
			if x.Name == judge.ErrorShare { // the watch knows times
				continue
			}
			truth := watch.ratio(row.Operation, quantileOf[x.Name], s.Before, s.After)
			f := x.Raw
			t.Logf("%-14s %s %-15s %.3f (%.3f–%.3f); by the shop's clock %.3f", row.Operation, x.Name, x.Verdict, f.Effect, f.Low, f.High, truth)
			// An end that is open, as the upper one of p99 with few requests beyond it, is
			// null and read as NaN, which is neither below nor above anything: such an
			// interval holds all that lies on the right side of its other end. Who is
			// judged faster has an upper end, or nothing would say so.
			switch {
			case x.Verdict == judge.TooLittle:
			case x.Verdict == judge.Faster && !(f.High < 1):
				t.Errorf("%s of %s is judged faster by an interval up to %.3f", x.Name, row.Operation, f.High)
			case row.Operation == "GET /orders" && x.Verdict != judge.Faster && x.Verdict != judge.NoEvidence:
				t.Errorf("%s of GET /orders is judged %s", x.Name, x.Verdict)
			case row.Operation == "GET /orders" && (truth < float64(f.Low) || truth > float64(f.High)):
				t.Errorf("%s of GET /orders: %.3f–%.3f does not hold %.3f", x.Name, f.Low, f.High, truth)
			case row.Operation != "GET /orders" && x.Change == judge.Better && truth > 0.97, x.Change == judge.Worse && truth < 1.03:
				t.Errorf("%s of %s is judged %s, by %.3f; by the shop's clock it is %.3f", x.Name, row.Operation, x.Verdict, f.Effect, truth)
			}
		}
	}
}

var quantileOf = map[string]float64{"p50": 0.5, "p95": 0.95, "p99": 0.99}
