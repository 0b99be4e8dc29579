package compare

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store"
)

// What a window that repeats comes to.
func TestRepeat(t *testing.T) {
	zone := berlin(t)
	now := time.Date(2026, 11, 27, 23, 0, 0, 0, zone) // a Friday
	moment := func(s string) (time.Time, error) { return time.ParseInLocation(time.DateOnly, s, zone) }
	for _, c := range []struct {
		text string
		zone *time.Location
		want string // the begin of each, and the length of the last
	}{
		{"daily 22:00-06:00 last 3", zone, "24T22 25T22 26T22 8h0m0s"}, // tonight's is not over
		{"daily 22:00-06:00  last 2 before 2026-11-26", zone, "23T22 24T22 8h0m0s"},
		{"daily 22:00-06:00 first 3 after 2026-11-25", zone, "25T22 26T22 8h0m0s"}, // the third has not come
		{"mon-fri 09:00-17:30 last 3 before 2026-11-25", zone, "20T09 23T09 24T09 8h30m0s"},
		{"sat,sun 00:00-24:00 last 3", zone, "15T00 21T00 22T00 24h0m0s"},
		{"fri-mon 12:00-13:00 last 2 before 2026-11-27", zone, "22T12 23T12 1h0m0s"},
		{"daily 01:00-05:00 last 1 before 2026-10-26", zone, "25T01 5h0m0s"}, // clocks went back
		{"daily 01:00-05:00 last 1 before 2026-10-26", time.UTC, "25T01 4h0m0s"},
		{"tues 09:00-17:00 last 3", zone, `"tues" are not weekdays`},
		{"daily 22:00-06:00 last 61", zone, "61 windows are not between 1 and 60"},
		{"daily 22:00-06:00 last 0", zone, "0 windows are not between 1 and 60"},
		{"daily 22:00-26:00 last 3", zone, "22:00-26:00 are not hours of a day"},
		{"daily 22:00-06:00 first 5", zone, "the last windows are before a time, the first after one"},
		{"daily 22:00-06:00 last 5 after 2026-11-25", zone, "the last windows are before a time"},
		{"nightly last 5", zone, "write one such as daily 22:00-06:00 last 5 before now-7d"},
		{"daily 22:00-06:00 last 5 before noon", zone, "cannot parse"},
	} {
		r, err := ParseRepeat("a", c.text, now, moment)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			all := r.Windows(c.zone, now)
			for _, w := range all {
				got += w.Start.In(c.zone).Format("02T15 ")
			}
			got += all[len(all)-1].End.Sub(all[len(all)-1].Start).String()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
}

// nights stores hours of five nights before and after, each night with a level of its
// own, and in each night an hour of which nothing is asked.
func nights(t *testing.T, seed uint64, apart, times float64) (st store.Store, a, b []Window) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(seed, 18))
	for night := range int64(10) {
		start := epoch + 86400*night
		level, side := 0.1*math.Exp(apart*rng.NormFloat64()), &a
		if night >= 5 {
			level, side = level*times, &b
		}
		send(w, rng, start, start+1200, load{operation: "GET /cart", perSlot: 6, median: level}, load{operation: "POST /order", perSlot: 4, median: 2 * level})
		send(w, rng, start+1200, start+1800, load{operation: "GET /cart", perSlot: 10, median: 10})
		*side = append(*side, window(86400*night, 86400*night+1200))
	}
	return stored(t, w), a, b
}

// Five nights against five: a change is found beside what differs from night to night,
// and without one there is none. What lies between the nights counts on neither side.
func TestNights(t *testing.T) {
	const trials = 12
	alarms, found := 0, 0
	for i := range uint64(trials) {
		st, a, b := nights(t, i, 0.03, 1)
		if r := compared(t, st, Request{WindowsA: a, WindowsB: b}); judge.Moved(r.Verdict) {
			alarms++
			t.Logf("trial %d: %s", i, r.Sentence)
		}
		st, a, b = nights(t, 100+i, 0.03, 1.25)
		if r := compared(t, st, Request{WindowsA: a, WindowsB: b}); r.Verdict == judge.Regression {
			found++
		}
	}
	t.Logf("%d of %d without a change are called one, ×1.25 is found in %d of %d", alarms, trials, found, trials)
	if alarms > 2 || found < trials-1 {
		t.Errorf("%d alarms and %d found of %d", alarms, found, trials)
	}
}

// What is answered of several windows, and what is refused.
func TestWindows(t *testing.T) {
	st, a, b := nights(t, 7, 0.03, 1.3)
	r := compared(t, st, Request{WindowsA: []Window{a[3], a[0], a[1], a[4], a[2]}, WindowsB: b, Include: []string{IncludeHeat, IncludeCurve}})
	if len(r.A.Windows) != 5 || r.A.Start != epoch || r.A.End != epoch+4*86400+1200 || r.A.Windows[3].Start != epoch+3*86400 || r.A.Slots != 600 || r.A.Requests != 6000 {
		t.Errorf("side A: %+v", r.A)
	}
	p50 := measureOf(t, r, "p50")
	if f := p50.Judged(); !(f.Low <= 1.3 && 1.3 <= f.High) || r.Verdict != judge.Regression || r.Paired || r.Whole != nil {
		t.Errorf("%s: %+v", r.Sentence, f)
	}
	if len(r.Warnings) > 0 {
		t.Errorf("warnings: %+v", r.Warnings)
	}
	for _, col := range r.Heat.Columns {
		if at := (col.Start - epoch) % 86400; at < 0 || at >= 1200 {
			t.Fatalf("a column of side %s at %d s of its day", col.Side, at)
		}
	}
	if n := len(r.Curve.Low); n == 0 || !(r.Curve.Low[n/2] < 1.3 && 1.3 < r.Curve.High[n/2]) {
		t.Errorf("the ratio at quantiles: %v to %v", r.Curve.Low, r.Curve.High)
	}

	r = compared(t, st, Request{WindowsA: a, WindowsB: b[:2]})
	if r.Verdict != judge.TooLittle || !strings.Contains(measureOf(t, r, "p50").Sentence, "side B: 2 windows with observations, at least 3 are needed; give at least 3 windows a side, such as --b 'daily") {
		t.Errorf("two nights: %s, %s", r.Verdict, measureOf(t, r, "p50").Sentence)
	}
	if r = compared(t, st, Request{WindowsA: a, B: b[0]}); r.Verdict != judge.TooLittle || len(r.B.Windows) != 1 {
		t.Errorf("one night: %s, %+v", r.Verdict, r.B)
	}
	var later []Window
	for _, w := range append(b[:4:4], window(20*86400, 20*86400+1200)) {
		later = append(later, Window{w.Start.Add(5 * time.Minute), w.End.Add(5 * time.Minute)})
	}
	r = compared(t, st, Request{WindowsA: a, WindowsB: later})
	if !warned(r, "days") || !strings.Contains(fmt.Sprint(r.Warnings), "only 4 of the 5 windows of side B have requests") {
		t.Errorf("a night without requests: %v", r.Warnings)
	}
	var noon []Window
	for _, w := range b {
		noon = append(noon, Window{w.Start.Add(-2 * time.Hour), w.End})
	}
	if r = compared(t, st, Request{WindowsA: a, WindowsB: noon}); !warned(r, "season") {
		t.Errorf("other hours: %v", r.Warnings)
	}

	// The season is looked for both ways: hours and days of the week that one side lacks.
	if r = compared(t, st, Request{WindowsA: append(noon, a...), WindowsB: []Window{window(20*86400, 20*86400+1200)}}); !strings.Contains(fmt.Sprint(r.Warnings), "begin at other hours") {
		t.Errorf("hours of side A that side B lacks: %v", r.Warnings)
	}
	days := func(weekends bool) (out []Window) {
		for _, w := range append(a[:5:5], b...) {
			if weekend(w.Start.UTC()) == 1 == weekends {
				out = append(out, w)
			}
		}
		return out
	}
	for _, r := range []Request{{WindowsA: days(true), WindowsB: days(false)}, {WindowsA: days(false), WindowsB: days(true)}} {
		if r := compared(t, st, r); !strings.Contains(fmt.Sprint(r.Warnings), "are of other days of the week") {
			t.Errorf("weekdays against weekends: %v", r.Warnings)
		}
	}

	// Windows without a whole slot are left out, which is said; so are those to come.
	long := append(a[:4:4], window(10*86400, 20*86400))
	r = compared(t, st, Request{WindowsA: long, WindowsB: []Window{window(30*86400, 40*86400)}, WantedB: 5})
	for _, want := range []string{fmt.Sprintf("4 of 5 windows of side A do not hold a slot of %d s", r.Slot), "only 1 of the 5 windows of side B are over"} {
		if !strings.Contains(fmt.Sprint(r.Warnings), want) {
			t.Errorf("slots of %d s: %v, want %s", r.Slot, r.Warnings, want)
		}
	}

	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{WindowsA: a, WindowsB: append(b[:1:1], Window{b[0].End.Add(-time.Minute), b[0].End.Add(time.Hour)})}, "overlaps the one before it"},
		{Request{WindowsA: a, WindowsB: a[4:]}, "overlaps the one before it"},
		{Request{WindowsA: a}, "side b is not given"},
		{Request{WindowsA: a, WindowsB: b, Live: true}, "are not watched"},
		{Request{WindowsA: a, WindowsB: b, Mark: "x"}, "leave mark, label, days and like out"},
		{Request{WindowsA: a, WindowsB: b, Now: a[4].End}, "no window of side b holds a slot"},
	} {
		c.r.Selection = selection("service", "shop")
		var invalid *query.Error
		if _, err := Compare(t.Context(), st, c.r); !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
