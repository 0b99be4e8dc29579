package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
)

func berlin(t testing.TB) *time.Location {
	t.Helper()
	zone, err := query.Zone("tz", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// Clocks went back on Sunday, 26 October 2025: the same hour on Monday is 25
// hours after that of Saturday's 10 o'clock, and whole days by UTC are not.
func TestDaylightSaving(t *testing.T) {
	zone := berlin(t)
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(4, 4))
	saturday, monday := time.Date(2025, 10, 25, 10, 0, 0, 0, zone), time.Date(2025, 10, 27, 10, 0, 0, 0, zone)
	// Load follows the clocks: by UTC, an hour's shift would look like a change.
	for day, start := range []time.Time{saturday, monday, saturday.AddDate(0, 0, -1)} {
		for i := range int64(720) {
			busy := math.Exp(float64(i) / 360)
			if i >= 360 {
				busy = math.Exp(2 - float64(i)/360)
			}
			at := start.Unix() + 10*(i-180)
			send(w, rng, at, at+10, load{operation: "GET /cart", perSlot: 10, median: 0.1 * busy * (1 + 0.2*float64(day))})
		}
	}
	st := stored(t, w)
	a, b := Window{saturday, saturday.Add(time.Hour)}, Window{monday, monday.Add(time.Hour)}
	r := compared(t, st, Request{A: a, B: b, Zone: zone, Measures: []string{"p50"}})
	f := measureOf(t, r, "p50").Like
	if !r.Paired || !(f.Low <= 1.2 && 1.2 <= f.High) || r.A.Slots != 360 {
		t.Errorf("paired %v, [%v, %v], %d slots", r.Paired, f.Low, f.High, r.A.Slots)
	}
	if !warned(r, "season") || !strings.Contains(r.Warnings[len(r.Warnings)-1].Text, "like=workday") {
		t.Errorf("a Saturday and a Monday: %v", r.Warnings)
	}
	if r = compared(t, st, Request{A: a, B: b, Measures: []string{"p50"}}); r.Paired {
		t.Error("paired by UTC, though an hour apart")
	}
	a = Window{monday.Add(-time.Hour), monday}
	r = compared(t, st, Request{A: a, B: b, Zone: zone, Measures: []string{"p50"}})
	const want = "b=2025-10-27T09:00:00Z/2025-10-27T10:00:00Z&days=4&like=workday&tz=Europe/Berlin (--b 2025-10-27T09:00:00Z..2025-10-27T10:00:00Z --days 4 --set like=workday --set tz=Europe/Berlin)"
	if !warned(r, "season") || !strings.HasSuffix(r.Warnings[len(r.Warnings)-1].Text, want) {
		t.Errorf("adjacent hours: %v", r.Warnings)
	}
	if _, err := Compare(t.Context(), st, Request{Selection: selection("service", "shop"), B: b, Days: 2, Like: "working", Zone: zone}); err == nil || !strings.Contains(err.Error(), "did you mean \"workday\"") {
		t.Errorf("got %v", err)
	}
}

// A whole day on which clocks change: the hour that one day has and the other
// does not is left out of both.
func TestWholeDays(t *testing.T) {
	zone := berlin(t)
	day := func(d int) time.Time { return time.Date(2025, 10, d, 0, 0, 0, 0, zone) }
	c := &comparison{Request: Request{Zone: zone}}
	for _, x := range []struct {
		a, b Window
		n    int // slots of 10 min of the later day
		used int // of them
	}{
		{Window{day(25), day(26)}, Window{day(26), day(27)}, 150, 144}, // 24 h, then 25
		{Window{day(26), day(27)}, Window{day(27), day(28)}, 144, 144},
		{Window{time.Date(2025, 3, 29, 0, 0, 0, 0, zone), time.Date(2025, 3, 30, 0, 0, 0, 0, zone)}, Window{time.Date(2025, 3, 30, 0, 0, 0, 0, zone), time.Date(2025, 3, 31, 0, 0, 0, 0, zone)}, 138, 138},
		{Window{time.Date(2025, 3, 30, 0, 0, 0, 0, zone), time.Date(2025, 3, 31, 0, 0, 0, 0, zone)}, Window{time.Date(2025, 3, 31, 0, 0, 0, 0, zone), time.Date(2025, 4, 1, 0, 0, 0, 0, zone)}, 144, 138},
	} {
		n, ok := c.daysApart(x.a, x.b)
		if !ok || n != 1 {
			t.Fatalf("%v and %v: %d days apart, %v", x.a, x.b, n, ok)
		}
		a, b, ok := c.pair(inward(x.a, 600), inward(x.b, 600), []int{1}, 600)
		used := 0
		for _, p := range a.places(600) {
			used += p.n
			for k := range p.n {
				ta := time.Unix(p.start+int64(k)*600, 0).In(zone)
				tb := time.Unix(b.start+int64(p.first+k)*600, 0).In(zone)
				if ta.Format("15:04") != tb.Format("15:04") || tb.Sub(ta) > 26*time.Hour {
					t.Fatalf("%s is set against %s", tb, ta)
				}
			}
		}
		usedB := 0
		for _, p := range b.places(600) {
			usedB += p.n
		}
		if slots := int((b.end - b.start) / 600); !ok || slots != x.n || used != x.used || usedB != used {
			t.Errorf("%v: %d slots, %d and %d of them used, want %d and %d", x.b.Start, slots, used, usedB, x.n, x.used)
		}
	}
}

// Which days are like a day.
func TestEarlierDays(t *testing.T) {
	for _, x := range []struct {
		day, like string
		n         int
		want      string
	}{
		{"2026-05-13", LikeDay, 3, "[1 2 3]"},                // a Wednesday
		{"2026-05-13", LikeWeekday, 3, "[7 14 21]"},          //
		{"2026-05-13", LikeWorkday, 5, "[1 2 5 6 7]"},        // Tue Mon Fri Thu Wed
		{"2026-05-11", LikeWorkday, 2, "[3 4]"},              // of a Monday
		{"2026-05-10", LikeWorkday, 2, "[7 14]"},             // of a Sunday
		{"2026-05-16", LikeWorkday, 6, "[7 14 21 28 35 42]"}, // of a Saturday
	} {
		start, err := time.ParseInLocation(time.DateOnly, x.day, berlin(t))
		if err != nil {
			t.Fatal(err)
		}
		c := &comparison{Request: Request{Days: x.n, Like: x.like, Zone: berlin(t)}}
		got, err := c.earlierDays(Window{start, start.Add(2 * time.Hour)})
		if err != nil || fmt.Sprint(got) != x.want {
			t.Errorf("%d %ss before %s: %v %v, want %s", x.n, x.like, x.day, got, err, x.want)
		}
	}
}

// Today against the mean of the last three days: found, with the season
// cancelled, and named day by day.
func TestEarlierDaysTogether(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(8, 10))
	for day := range int64(4) {
		factor := 1.0
		if day == 3 {
			factor = 1.25
		}
		for i := range int64(180) {
			busy := 1 + 0.5*math.Sin(float64(i)/60)
			from := epoch + day*86400 + i*10
			send(w, rng, from, from+10, load{operation: "GET /cart", tenant: "acme", perSlot: 8, median: 0.1 * busy * factor})
		}
	}
	st := stored(t, w)
	b := window(3*86400, 3*86400+1800)
	r := compared(t, st, Request{B: b, Days: 3, Like: LikeDay})
	f := measureOf(t, r, "p50").Like
	if !r.Paired || r.Verdict != judge.Regression || !(f.Low <= 1.25 && 1.25 <= f.High) || warned(r, "season") || r.A.Requests != 3*8*180 || r.B.Requests != 8*180 {
		t.Errorf("paired %v, %s, [%v, %v], %d and %d requests, %v", r.Paired, r.Verdict, f.Low, f.High, r.A.Requests, r.B.Requests, r.Warnings)
	}
	if r.A.Rate != r.B.Rate || len(r.A.Days) != 3 || r.A.Days[0].Start != epoch+2*86400 || r.A.Days[2].End != epoch+1800 || r.A.Start != epoch+2*86400 || len(r.Tenants) != 1 {
		t.Errorf("rates %v and %v, days %v, %d tenants", r.A.Rate, r.B.Rate, r.A.Days, len(r.Tenants))
	}
	// A week ago there is nothing to compare with.
	if r = compared(t, st, Request{B: b, Like: LikeWeekday}); r.Verdict != judge.TooLittle || len(r.A.Days) != DefaultDays {
		t.Errorf("%s, %v", r.Verdict, r.A.Days)
	}
	if r = compared(t, st, Request{B: b, Days: 5, Like: LikeDay}); r.Verdict != judge.Regression || !warned(r, "days") {
		t.Errorf("%s, %v", r.Verdict, r.Warnings)
	}
	if _, err := Compare(t.Context(), st, Request{Selection: selection("service", "shop"), B: window(0, 2*86400), Days: 1, Like: LikeDay}); err == nil || !strings.Contains(err.Error(), "overlaps its own earlier days") {
		t.Errorf("got %v", err)
	}
}

// Whatever the zone and the day: what is set against each other was shown by
// the clocks alike, once on either side, in order.
func TestPairsAlike(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kathmandu"}
	rapid.Check(t, func(rt *rapid.T) {
		zone, err := query.Zone("tz", rapid.SampledFrom(zones).Draw(rt, "zone"))
		if err != nil {
			rt.Fatal(err)
		}
		start := rapid.Int64Range(1_700_000_000, 1_800_000_000).Draw(rt, "start") / 60 * 60
		b := span{start, start + 60*rapid.Int64Range(1, 2000).Draw(rt, "minutes")}
		days := rapid.SliceOfNDistinct(rapid.IntRange(2, 40), 1, 4, rapid.ID[int]).Draw(rt, "days")
		c := &comparison{Request: Request{Zone: zone}}
		wa, wb, ok := c.pair(span{b.start - 4e7, b.start}, b, days, 60)
		if !ok { // as of a span within the hour that clocks skipped then
			for tb := b.start; tb < b.end; tb += 60 {
				for _, d := range days {
					at := time.Unix(tb, 0).In(zone)
					if then := time.Date(at.Year(), at.Month(), at.Day()-d, at.Hour(), at.Minute(), 0, 0, zone); then.Hour() == at.Hour() && then.Minute() == at.Minute() {
						rt.Fatalf("%d is not paired, %s was %d days before", tb, then, d)
					}
				}
			}
			return
		}
		used := map[int]bool{}
		last := int64(math.MinInt64)
		for k, p := range wa.places(60) {
			if p.first == 0 || k > 0 && wa.places(60)[k-1].start > p.start { // another day
				last = math.MinInt64
			}
			for i := range p.n {
				ta := p.start + int64(i)*60
				if ta <= last {
					rt.Fatalf("%d is used twice", ta)
				}
				last = ta
				used[p.first+i] = true
				tb := b.start + int64(p.first+i)*60
				if f := "15:04"; time.Unix(ta, 0).In(zone).Format(f) != time.Unix(tb, 0).In(zone).Format(f) {
					rt.Fatalf("%d is set against %d", tb, ta)
				}
			}
		}
		n := 0
		for _, p := range wb.places(60) {
			for i := range p.n {
				if !used[p.first+i] {
					rt.Fatalf("slot %d of B is used, of A it is not", p.first+i)
				}
				n++
			}
		}
		if n != len(used) || n < int((b.end-b.start)/60)-120 {
			rt.Fatalf("%d and %d slots of %d", n, len(used), (b.end-b.start)/60)
		}
	})
}
