package history

import (
	"fmt"
	"testing"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/series"
	"tailscope/internal/store/pebblestore"
)

// Of a fast series beside a slow one old hours go, and are answered by points from
// then on, also where they were looked up before: nothing is missing, and nothing
// is there twice. The slow one keeps its samples.
func TestHoursOfWhichSomeSeriesAreGone(t *testing.T) {
	const hours = 8
	w := newWorld(t, pebblestore.Options{SampleCount: 500})
	defer w.close()
	fast, slow := value("check", "fast"), value("check", "slow")
	at := func(hour, sec int64) int64 { return (t0 + hour*3600 + sec) * 1000 }
	for hour := range int64(hours) {
		var ss []series.Sample
		for s := int64(5); s < 3600; s += 20 {
			ss = append(ss, series.Sample{TimeMillis: at(hour, s), Value: float64(hour*1000 + s)})
		}
		w.put(fast, ss...)
		w.put(slow, series.Sample{TimeMillis: at(hour, 1200), Value: float64(hour)}, series.Sample{TimeMillis: at(hour, 3000), Value: float64(hour) + 0.5})
	}
	h := w.h.For(ForOptions{Tolerance: 40 * time.Second})
	now := time.UnixMilli(at(hours, 0))
	w.now = now
	look := func(name string, s expr.Selector) string {
		s.Text, s.Family, s.Matchers = name, "check_value", equals("check", name)
		return values(look(t, h, &s, now))
	}
	compare := func(when string) {
		t.Helper()
		for hour := range int64(hours) {
			ago := time.Duration(hours-hour) * time.Hour
			x := expr.Selector{By: expr.ByTime, Ago: ago - 1005*time.Second}
			if got, want := look("fast", x), fmt.Sprint(" ", hour*1000+1005); got != want {
				t.Errorf("%s: hour %d of the fast one: got%s, want%s", when, hour, got, want)
			}
			if got, want := look("slow", expr.Selector{By: expr.ByTime, Ago: ago - 1210*time.Second}), fmt.Sprint(" ", hour); got != want {
				t.Errorf("%s: hour %d of the slow one: got%s, want%s", when, hour, got, want)
			}
		}
		// Across the seam between points and samples.
		want := ""
		for hour := int64(hours - 2); hour >= 0; hour-- {
			for s := int64(3585); s > 0; s -= 20 {
				want += fmt.Sprint(" ", hour*1000+s)
			}
		}
		if got := look("fast", expr.Selector{By: expr.ByTimeRange, Older: hours * time.Hour, Newer: time.Hour}); got != want {
			t.Errorf("%s: all of the fast one:\ngot  %.60s… (%d bytes)\nwant %.60s… (%d bytes)", when, got, len(got), want, len(want))
		}
		if got := look("slow", expr.Selector{By: expr.ByIndexRange, From: 0, To: 3}); got != " 7.5 7 6.5 6" {
			t.Errorf("%s: the last of the slow one: got%s", when, got)
		}
	}
	compare("before")
	w.maintain(now.Add(20 * time.Minute))
	if n := w.st.Stats().SamplesOutnumbered; n != (hours-3)*180 {
		t.Fatalf("%d samples dropped, want those of five hours of the fast one", n)
	}
	compare("after")
	// One that comes late for an hour that is gone is a point, once.
	w.put(fast, series.Sample{TimeMillis: at(1, 1015), Value: -1})
	w.h.pages = pages{} // they are read again after some minutes
	for _, when := range []string{"late", "late, maintained"} {
		x := expr.Selector{By: expr.ByTimeRange, Older: hours*time.Hour - 3600*time.Second - 1000*time.Second, Newer: hours*time.Hour - 3600*time.Second - 1030*time.Second}
		if got := look("fast", x); got != " 2025 -1 2005" {
			t.Errorf("%s: got%s", when, got)
		}
		w.maintain(now.Add(40 * time.Minute))
	}
}
