package compare

import (
	"slices"
	"time"

	"tailscope/internal/query"
)

const mostDays = 60

// checkDays settles which earlier days make side A.
func (r *Request) checkDays() error {
	if r.Zone == nil {
		r.Zone = time.UTC
	}
	known := []string{LikeDay, LikeWeekday, LikeWorkday}
	switch {
	case r.Days < 0 || r.Days > mostDays:
		return query.Invalid("days", "%d days are not between 1 and %d", r.Days, mostDays)
	case r.Like != "" && !slices.Contains(known, r.Like):
		return query.Invalid("like", "there are no days like %s; %s", quote(r.Like), query.Suggest(r.Like, known))
	case r.Days == 0 && r.Like == "":
		return nil
	case r.Mark != "" || r.Label != "":
		return query.Invalid("days", "earlier days make side A of a window; leave mark and label out, and write b as start/end")
	case !r.A.Start.IsZero():
		return query.Invalid("a", "side A is made of earlier days; leave a out, or days and like")
	case r.B.Start.IsZero():
		return query.Invalid("b", "side b is not given; write it as start/end, such as now-2h/now-1h")
	}
	if r.Days == 0 {
		r.Days = DefaultDays
	}
	if r.Like == "" {
		r.Like = LikeWeekday
	}
	return nil
}

// earlierDays are how many days before b those lie that make side A, the last
// one first.
func (c *comparison) earlierDays(b Window) ([]int, error) {
	at := b.Start.In(c.Zone)
	free := func(d time.Weekday) bool { return d == time.Saturday || d == time.Sunday }
	every := 1
	workdays := c.Like == LikeWorkday && !free(at.Weekday())
	if c.Like == LikeWeekday || c.Like == LikeWorkday && !workdays {
		every = 7
	}
	var out []int
	for n := every; len(out) < c.Days; n += every {
		if workdays && free((at.Weekday()+7-time.Weekday(n%7))%7) {
			continue
		}
		out = append(out, n)
	}
	if c.earlierWindow(b, out[0]).End.After(b.Start) {
		return nil, query.Invalid("b", "side b overlaps its own earlier days, the last of which lies %d days before it; shorten it", out[0])
	}
	return out, nil
}

// earlierWindow is w so many days earlier, by the clocks of the zone.
func (c *comparison) earlierWindow(w Window, days int) Window {
	move := func(t time.Time) time.Time {
		// A time that the earlier day did not have: the next that it had.
		for shift := time.Duration(0); shift <= 3*time.Hour; shift += 15 * time.Minute {
			if at, ok := query.Earlier(t.Add(shift).Unix(), days, c.Zone); ok {
				return time.Unix(at, 0).Add(time.Duration(t.Nanosecond()))
			}
		}
		return t.AddDate(0, 0, -days)
	}
	return Window{move(w.Start), move(w.End)}
}

// daysApart is how many days b is after a, if they are the same hours of two
// days by the clocks of the zone.
func (c *comparison) daysApart(a, b Window) (days int, ok bool) {
	if a.Start.IsZero() || b.Start.IsZero() {
		return 0, false
	}
	date := func(t time.Time) time.Time {
		y, m, d := t.In(c.Zone).Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	}
	days = int(date(b.Start).Sub(date(a.Start)) / (24 * time.Hour))
	if days == 0 {
		return 0, false
	}
	same := c.earlierWindow(b, days)
	return days, same.Start.Equal(a.Start) && same.End.Equal(a.End)
}

// pair sets the slots of b against those of the earlier days at which clocks
// showed the same. What has no counterpart is left out: the hour that clocks
// skip, and the second of the two that they show twice.
func (c *comparison) pair(a, b span, days []int, step int64) (wa, wb where, ok bool) {
	n := int((b.end - b.start) / step)
	wb.span = b
	found := make([]bool, n) // on one day at least
	for k, d := range days {
		within := a
		var parts []part
		day := span{}
		latest := int64(-1 << 62)
		for i := range n {
			at, ok := query.Earlier(b.start+int64(i)*step, d, c.Zone)
			if !ok || at <= latest || at%step != 0 {
				continue
			}
			if k == 0 && len(days) == 1 && (at < within.start || at+step > within.end) {
				continue
			}
			latest = at
			found[i] = true
			if m := len(parts) - 1; m >= 0 && parts[m].first+parts[m].n == i && parts[m].start+int64(parts[m].n)*step == at {
				parts[m].n++
			} else {
				parts = append(parts, part{i, 1, at})
			}
			if day.start == 0 {
				day.start = at
			}
			day.end = at + step
		}
		if len(parts) == 0 {
			continue
		}
		if wa.parts == nil {
			wa.span = span{day.start - int64(parts[0].first)*step, day.start + int64(n-parts[0].first)*step}
		}
		wa.parts = append(wa.parts, parts...)
		wa.days = append(wa.days, day)
	}
	if wa.parts == nil {
		return where{span: a}, wb, false
	}
	for i := 0; i < n; i++ {
		if !found[i] {
			continue
		}
		if m := len(wb.parts) - 1; m >= 0 && wb.parts[m].first+wb.parts[m].n == i {
			wb.parts[m].n++
		} else {
			wb.parts = append(wb.parts, part{i, 1, b.start + int64(i)*step})
		}
	}
	if len(days) == 1 {
		wa.days = nil
	}
	return wa, wb, true
}
