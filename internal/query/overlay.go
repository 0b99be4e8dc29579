package query

import (
	"context"
	"time"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Names of overlays: which earlier day is laid over the shown one.
const (
	OverlayDay  = "day"  // the day before
	OverlayWeek = "week" // the same day a week before
	// OverlayLike is the last day like it: for a working day, Monday to Friday,
	// the working day before; for a Saturday or Sunday that of the week before.
	OverlayLike = "like"
)

// Overlay shows the data of an earlier day in place of those asked for, laid
// out by wall clock: what is shown at 09:00 was at 09:00 of the zone, also
// when clocks have changed in between.
//
// An hour that the earlier day did not have is empty. An hour that it had
// twice gives the one with the shown moment's offset from UTC, else the first;
// an hour that the shown day has twice shows the earlier day's twice.
type Overlay struct {
	Name string // empty: none
	Zone *time.Location
}

func (o Overlay) check() error {
	switch o.Name {
	case "", OverlayDay, OverlayWeek, OverlayLike:
		return nil
	}
	return Invalid("overlay", "there is no overlay %s; %s", quote(o.Name), Suggest(o.Name, []string{OverlayDay, OverlayWeek, OverlayLike}))
}

// daysBack is how many days before that of t the overlay's day lies.
func (o Overlay) daysBack(t time.Time) int {
	switch o.Name {
	case OverlayDay:
		return 1
	case OverlayWeek:
		return 7
	}
	switch t.Weekday() {
	case time.Saturday, time.Sunday:
		return 7
	case time.Monday:
		return 3
	}
	return 1
}

// Of returns the moment of the earlier day at which clocks showed what they
// show at t (Unix seconds); ok is false if they never did.
func (o Overlay) Of(t int64) (at int64, ok bool) {
	return Earlier(t, o.daysBack(time.Unix(t, 0).In(o.Zone)), o.Zone)
}

// Earlier returns the moment, so many days before that of t (Unix seconds), at
// which clocks of the zone showed what they show at t; ok is false if they
// never did. Days below 0 lie after that of t.
func Earlier(t int64, days int, zone *time.Location) (at int64, ok bool) {
	shown := time.Unix(t, 0).In(zone)
	y, m, d := shown.Date()
	hour, minute, second := shown.Clock()
	wall := time.Date(y, m, d-days, hour, minute, second, 0, time.UTC)
	const day = 24 * time.Hour
	for _, offset := range [...]time.Duration{offsetAt(shown, zone), offsetAt(wall.Add(-day), zone), offsetAt(wall.Add(day), zone)} {
		if at := wall.Add(-offset); offsetAt(at, zone) == offset {
			return at.Unix(), true
		}
	}
	return 0, false
}

// piece is a run of steps whose data are read from elsewhere, all from as far away.
type piece struct {
	first, n int   // steps
	start    int64 // where the data of the first begin, Unix seconds
}

// pieces maps n steps from start on.
func (o Overlay) pieces(start, step int64, n int) []piece {
	var out []piece
	for i := range n {
		at, ok := o.Of(start + int64(i)*step)
		if !ok {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].first+out[k].n == i && out[k].start+int64(out[k].n)*step == at {
			out[k].n++
		} else {
			out = append(out, piece{i, 1, at})
		}
	}
	return out
}

// describe names the days that lie under [start, end); nil without an overlay.
func (o Overlay) describe(start, end int64) *api.Overlay {
	if o.Name == "" {
		return nil
	}
	day := func(t int64) string {
		shown := time.Unix(t, 0).In(o.Zone)
		return AddDays(shown, -o.daysBack(shown)).Format("Mon 2 Jan")
	}
	out := &api.Overlay{Name: o.Name, Of: day(start), Zone: o.Zone.String()}
	if last := day(end - 1); last != out.Of {
		out.Of += " – " + last
	}
	return out
}

// overlay fills t with the earlier data, and settles its step and range.
func (t *timeline) overlay(ctx context.Context, st store.Store, q store.Query, r TimelineRequest, interval int64) (slot int64, err error) {
	g := r.Grid
	for {
		step, err := g.choose(r.Start, r.End, interval)
		if err != nil {
			return 0, err
		}
		a, b := align(r.Start, r.End, step)
		if minute := int64(series.Minute); g.Step == 0 && step < minute && (b-a)/minute >= fewestSteps {
			interval = minute // as stepped does where base slots would be too many
			continue
		}
		n := int((b - a) / step)
		t.reset(a, step, n)
		slot = int64(series.Base)
		for _, p := range r.Overlay.pieces(a, step, n) {
			q.Step, q.Start, q.End = step, p.start, p.start+int64(p.n)*step
			// The last step may be cut by the end of what is shown.
			if over := a + int64(p.first+p.n)*step - t.until; over > 0 && over < step {
				q.End -= over
			}
			res, err := st.Query(ctx, q)
			if err != nil {
				return 0, err
			}
			if slot = max(slot, slotOf(res)); slot > step {
				break
			}
			t.shift = a + int64(p.first)*step - p.start
			if err := t.fill(ctx, st, res, q); err != nil {
				return 0, err
			}
		}
		t.shift = 0
		if slot <= step {
			return slot, nil
		}
		// Only coarser slots are kept of back then.
		g.Step, interval = max(g.Step, slot), max(interval, slot)
	}
}

// reset forgets what was gathered and settles the steps.
func (t *timeline) reset(start, step int64, n int) {
	t.start, t.step, t.n, t.shift = start, step, n, 0
	t.groups, t.order, t.requests = map[string]*timelineGroup{}, nil, nil
}
