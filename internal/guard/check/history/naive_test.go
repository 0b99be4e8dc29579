package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/series"
	"tailscope/internal/store/pebblestore"
)

// naive answers by walking over every sample.
type naive struct {
	samples   map[string][]series.Sample // by check, ascending
	tolerance time.Duration
	location  *time.Location
	holidays  func(time.Time) bool
}

func (n *naive) look(check string, s *expr.Selector, at time.Time) (out []expr.Sample) {
	var newest []expr.Sample // newest first, none after at
	for _, v := range slices.Backward(n.samples[check]) {
		if v.TimeMillis <= at.UnixMilli() {
			newest = append(newest, expr.Sample{Time: time.UnixMilli(v.TimeMillis), Value: v.Value})
		}
	}
	closest := func(t time.Time) {
		best := expr.Sample{Null: true}
		far := n.tolerance + 1
		for _, v := range newest { // the later of two ties is seen first, so <= keeps the earlier
			if d := v.Time.Sub(t).Abs(); d <= n.tolerance && d <= far {
				best, far = v, d
			}
		}
		out = append(out, best)
	}
	between := func(from, to time.Time) {
		mark := len(out)
		for _, v := range newest {
			if !v.Time.Before(from) && !v.Time.After(to) {
				out = append(out, v)
			}
		}
		if len(out) == mark {
			out = append(out, expr.Sample{Null: true})
		}
	}
	switch s.By {
	case expr.ByIndex:
		for _, i := range s.Indexes {
			if i < len(newest) {
				out = append(out, newest[i])
			} else {
				out = append(out, expr.Sample{Null: true})
			}
		}
	case expr.ByIndexRange:
		for i, v := range newest {
			if i >= s.From && (s.To < 0 || i <= s.To) {
				out = append(out, v)
			}
		}
	case expr.ByTime:
		closest(at.Add(-s.Ago))
	case expr.ByTimeRange:
		from := at.Add(-s.Older)
		if s.Older < 0 {
			from = time.Unix(0, 0)
		}
		between(from, at.Add(-s.Newer))
	case expr.BySameTime:
		local := at.In(n.location)
		for day, found := 1, 0; found < s.N; day++ {
			date := time.Date(local.Year(), local.Month(), local.Day()-day, 12, 0, 0, 0, n.location)
			switch s.Every {
			case expr.Weekdays:
				if date.Weekday() == time.Saturday || date.Weekday() == time.Sunday || n.holidays(date) {
					continue
				}
			case expr.Weeks:
				if day%7 != 0 {
					continue
				}
			}
			found++
			t := wall(date, local)
			if s.Before == 0 && s.After == 0 {
				closest(t)
			} else {
				between(t.Add(-s.Before), t.Add(s.After))
			}
		}
	}
	if len(out) == 0 {
		out = append(out, expr.Sample{Null: true})
	}
	return out
}

// wall looks through the day for the moment when clocks show the time of at;
// if that never comes, it goes on from the last moment of the hour before.
func wall(date, at time.Time) time.Time {
	h, m, s := at.Clock()
	clock := time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(s)*time.Second + time.Duration(at.Nanosecond())
	_, own := at.Zone()
	var found []time.Time
	for quarter := -60; quarter <= 60; quarter++ {
		t := time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, time.UTC).Add(clock + time.Duration(quarter)*15*time.Minute).In(date.Location())
		th, tm, ts := t.Clock()
		if th == h && tm == m && ts == s && t.YearDay() == date.YearDay() {
			if _, o := t.Zone(); o == own {
				return t
			}
			found = append(found, t)
		}
	}
	if len(found) > 0 {
		return found[0]
	}
	// Skipped: an hour earlier exists, and an hour after that is the answer.
	return wall(date, at.Add(-time.Hour)).Add(time.Hour)
}

func TestAgainstNaive(t *testing.T) {
	stockholm, newYork := zone(t, "Europe/Stockholm"), zone(t, "America/New_York")
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, pebblestore.Options{})
		defer w.close()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		n := &naive{samples: map[string][]series.Sample{}, tolerance: rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Minute, time.Hour}).Draw(rt, "tolerance")}
		n.location = rapid.SampledFrom([]*time.Location{time.UTC, stockholm, newYork}).Draw(rt, "zone")
		n.holidays = func(t time.Time) bool { return t.Day()%9 == 0 }
		h := w.h.For(ForOptions{Tolerance: n.tolerance, Location: n.location, Holidays: n.holidays})
		// Both zones change in the days before: three weeks until then are of interest.
		end := rapid.SampledFrom([]time.Time{
			time.Date(2026, 10, 27, 2, 30, 0, 0, stockholm), time.Date(2026, 3, 31, 2, 30, 0, 0, stockholm),
			time.Date(2026, 11, 3, 1, 30, 0, 0, newYork), time.Date(2026, 3, 10, 2, 15, 0, 0, newYork)}).Draw(rt, "end")
		step := rapid.SampledFrom([]time.Duration{10 * time.Second, time.Minute, 11 * time.Minute}).Draw(rt, "step")
		ago := rapid.SampledFrom([]time.Duration{3 * time.Hour, 26 * time.Hour, 21 * 24 * time.Hour}).Draw(rt, "ago")
		ago = min(ago, 400*step)
		if step == 11*time.Minute {
			ago = 21 * 24 * time.Hour
		}
		for i := range 3 {
			check := fmt.Sprint(i)
			var ss []series.Sample
			for at := end.Add(-ago); at.Before(end.Add(time.Minute)); at = at.Add(step + time.Duration(rng.IntN(300))*time.Millisecond) {
				if rng.IntN(400) == 0 && at.Before(end.Add(-150*time.Minute)) {
					at = at.Add(time.Duration(rng.IntN(7000)) * time.Second)
				}
				ss = append(ss, series.Sample{TimeMillis: at.UnixMilli(), Value: float64(rng.IntN(1e6)) / 100})
			}
			// The last were observed, and only some of them have reached the store.
			last := len(ss) - 1
			if step == 10*time.Second {
				last -= min(last, rng.IntN(4))
			}
			old := last - min(last, rng.IntN(3))
			w.put(value("check", check), ss[:last]...)
			for _, v := range ss[old:] {
				w.h.Observe(value("check", check), v)
			}
			n.samples[check] = ss
		}
		duration := func(most time.Duration) time.Duration {
			return time.Duration(rng.Int64N(int64(most/time.Second)+1)) * time.Second
		}
		for range 30 {
			s := &expr.Selector{Family: "check_value"}
			switch rng.IntN(7) {
			case 0:
				s.By, s.Indexes = expr.ByIndex, []int{0, rng.IntN(4), rng.IntN(100)}
			case 1:
				s.By, s.From, s.To = expr.ByIndexRange, rng.IntN(5), rng.IntN(300)
			case 2:
				s.By, s.From, s.To = expr.ByIndexRange, rng.IntN(5), -1
			case 3:
				s.By, s.Ago = expr.ByTime, duration(ago+time.Hour)
			case 4:
				s.By, s.Newer = expr.ByTimeRange, duration(ago/4)
				s.Older = s.Newer + duration(ago)
				if rng.IntN(4) == 0 {
					s.Older = -1
				}
			default:
				s.By, s.N, s.Every = expr.BySameTime, 1+rng.IntN(5), expr.Every(rng.IntN(3))
				if rng.IntN(2) == 0 {
					s.Before, s.After = duration(time.Hour), duration(time.Hour)
				}
			}
			check := fmt.Sprint(rng.IntN(4)) // one of them is not there
			s.Matchers = equals("check", check)
			s.Text = fmt.Sprintf("%+v", *s)
			at := end
			if rng.IntN(2) == 0 {
				at = end.Add(-duration(ago))
			}
			for range 2 {
				got, want := look(t, h, s, at), n.look(check, s, at)
				if !slices.EqualFunc(got, want, func(a, b expr.Sample) bool {
					return a.Null && b.Null || a.Null == b.Null && a.Time.Equal(b.Time) && a.Value == b.Value
				}) {
					rt.Fatalf("%s at %v:\ngot  %v\nwant %v", s.Text, at, short(got), short(want))
				}
			}
		}
	})
}

func short(ss []expr.Sample) string {
	out := fmt.Sprint(len(ss), " samples")
	for _, s := range ss[:min(len(ss), 6)] {
		out += fmt.Sprintf(" %v=%v", s.Time.UTC().Format("02T15:04:05.000"), values([]expr.Sample{s}))
	}
	return out
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}
