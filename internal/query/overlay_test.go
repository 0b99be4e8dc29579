package query

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func overlay(t testing.TB, name, zone string) Overlay {
	t.Helper()
	loc, err := Zone("tz", zone)
	if err != nil {
		t.Fatal(err)
	}
	return Overlay{name, loc}
}

// Both changes of clocks in two zones, and days like others.
func TestOverlayOf(t *testing.T) {
	for _, c := range []struct{ name, zone, shown, want string }{
		{OverlayDay, "Europe/Berlin", "2026-11-20T13:20:00+01:00", "2026-11-19T13:20:00+01:00"},
		{OverlayWeek, "Europe/Berlin", "2026-11-20T13:20:00+01:00", "2026-11-13T13:20:00+01:00"},
		// Clocks went forward in between: 23 hours earlier, and a week less an hour.
		{OverlayDay, "Europe/Berlin", "2026-03-29T10:00:00+02:00", "2026-03-28T10:00:00+01:00"},
		{OverlayWeek, "Europe/Berlin", "2026-04-02T10:00:00+02:00", "2026-03-26T10:00:00+01:00"},
		{OverlayDay, "America/New_York", "2026-03-08T10:00:00-04:00", "2026-03-07T10:00:00-05:00"},
		// The hour that the earlier day did not have.
		{OverlayDay, "Europe/Berlin", "2026-03-30T02:00:00+02:00", ""},
		{OverlayDay, "Europe/Berlin", "2026-03-30T02:59:50+02:00", ""},
		{OverlayDay, "Europe/Berlin", "2026-03-30T03:00:00+02:00", "2026-03-29T03:00:00+02:00"},
		{OverlayDay, "Europe/Berlin", "2026-03-30T01:59:50+02:00", "2026-03-29T01:59:50+01:00"},
		{OverlayWeek, "America/New_York", "2026-03-15T02:30:00-04:00", ""},
		{OverlayWeek, "America/New_York", "2026-03-15T03:30:00-04:00", "2026-03-08T03:30:00-04:00"},
		// The hour that the earlier day had twice: the one of the same offset.
		{OverlayDay, "Europe/Berlin", "2026-10-26T02:30:00+01:00", "2026-10-25T02:30:00+01:00"},
		{OverlayWeek, "Europe/Berlin", "2026-11-01T02:30:00+01:00", "2026-10-25T02:30:00+01:00"},
		{OverlayDay, "America/New_York", "2026-11-02T01:30:00-05:00", "2026-11-01T01:30:00-05:00"},
		{OverlayDay, "America/New_York", "2026-11-02T00:30:00-05:00", "2026-11-01T00:30:00-04:00"},
		// The hour that the shown day has twice shows the earlier day's twice.
		{OverlayDay, "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-24T02:30:00+02:00"},
		{OverlayDay, "Europe/Berlin", "2026-10-25T02:30:00+01:00", "2026-10-24T02:30:00+02:00"},
		{OverlayWeek, "America/New_York", "2026-11-01T01:30:00-05:00", "2026-10-25T01:30:00-04:00"},
		// A day like it: Friday before Monday, Saturday before Saturday.
		{OverlayLike, "Europe/Berlin", "2026-11-16T09:00:00+01:00", "2026-11-13T09:00:00+01:00"},
		{OverlayLike, "Europe/Berlin", "2026-11-17T09:00:00+01:00", "2026-11-16T09:00:00+01:00"},
		{OverlayLike, "Europe/Berlin", "2026-11-20T09:00:00+01:00", "2026-11-19T09:00:00+01:00"},
		{OverlayLike, "Europe/Berlin", "2026-11-21T09:00:00+01:00", "2026-11-14T09:00:00+01:00"},
		{OverlayLike, "Europe/Berlin", "2026-11-22T23:59:50+01:00", "2026-11-15T23:59:50+01:00"},
		{OverlayLike, "America/New_York", "2026-03-09T09:00:00-04:00", "2026-03-06T09:00:00-05:00"},
		// The day is that of the zone: in Kolkata it is Monday already.
		{OverlayLike, "Asia/Kolkata", "2026-11-15T20:00:00Z", "2026-11-12T20:00:00Z"},
		{OverlayLike, "UTC", "2026-11-15T20:00:00Z", "2026-11-08T20:00:00Z"},
	} {
		shown, err := time.Parse(time.RFC3339, c.shown)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if at, ok := overlay(t, c.name, c.zone).Of(shown.Unix()); ok {
			got = time.Unix(at, 0).UTC().Format(time.RFC3339)
		}
		want := c.want
		if want != "" {
			w, err := time.Parse(time.RFC3339, want)
			if err != nil {
				t.Fatal(err)
			}
			want = w.UTC().Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%s of %s in %s: got %q, want %q", c.name, c.shown, c.zone, got, want)
		}
	}
}

// Whatever the zone, clocks show the same at both moments, on an earlier day.
func TestOverlayKeepsWallClock(t *testing.T) {
	zones := []string{"Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Havana", "Africa/Cairo", "Atlantic/Azores"}
	rapid.Check(t, func(rt *rapid.T) {
		o := overlay(t, rapid.SampledFrom([]string{OverlayDay, OverlayWeek, OverlayLike}).Draw(rt, "name"), rapid.SampledFrom(zones).Draw(rt, "zone"))
		at := rapid.Int64Range(1_000_000_000, 2_000_000_000).Draw(rt, "at")
		was, ok := o.Of(at)
		if !ok {
			return
		}
		a, b := time.Unix(at, 0).In(o.Zone), time.Unix(was, 0).In(o.Zone)
		if a.Format("15:04:05") != b.Format("15:04:05") || !AddDays(a, -o.daysBack(a)).Equal(Midnight(b)) {
			rt.Fatalf("%v under %v", b, a)
		}
	})
}

// hours puts i+1 requests into the hour that begins i hours after start.
func hours(start time.Time, n int) store.Store {
	w := querytest.NewWriter()
	for i := range n {
		for range i + 1 {
			w.Span(start.Unix()+int64(i)*3600+1800, labels.FromStrings("service", "a", "kind", "server", "status", "ok"), 0.1)
		}
	}
	st := storetest.NewTwin()
	if err := w.Put(context.Background(), st, 1); err != nil {
		panic(err)
	}
	return st
}

// The hours of a whole day lie under those of the next by wall clock.
func TestTimelineOverlay(t *testing.T) {
	for _, c := range []struct {
		name, zone, day string // the day before it has the data
		want, of        string
	}{
		{OverlayDay, "UTC", "2026-11-20", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24", "Thu 19 Nov"},
		// Yesterday lacks 02:00.
		{OverlayDay, "Europe/Berlin", "2026-03-30", "1 2 0 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23", "Sun 29 Mar"},
		{OverlayDay, "America/New_York", "2026-03-09", "1 2 0 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23", "Sun 8 Mar"},
		// Today lacks it.
		{OverlayDay, "Europe/Berlin", "2026-03-29", "1 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24", "Sat 28 Mar"},
		// Yesterday had 02:00 (01:00) twice, the second in winter time as today.
		{OverlayDay, "Europe/Berlin", "2026-10-26", "1 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25", "Sun 25 Oct"},
		{OverlayDay, "America/New_York", "2026-11-02", "1 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25", "Sun 1 Nov"},
		// Today has it twice.
		{OverlayDay, "Europe/Berlin", "2026-10-25", "1 2 3 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24", "Sat 24 Oct"},
		{OverlayDay, "America/New_York", "2026-11-01", "1 2 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24", "Sat 31 Oct"},
	} {
		o := overlay(t, c.name, c.zone)
		day, err := time.ParseInLocation("2006-01-02", c.day, o.Zone)
		if err != nil {
			t.Fatal(err)
		}
		st := hours(AddDays(day, -1), 25)
		r, err := Timeline(context.Background(), st, TimelineRequest{Selection: Selection{Start: day, End: AddDays(day, 1)}, Grid: Grid{Step: 3600}, Overlay: o})
		if err != nil {
			t.Fatal(err)
		}
		var got string
		for _, n := range r.Groups[0].Count {
			if got != "" {
				got += " "
			}
			got += fmt.Sprint(n)
		}
		if got != c.want || r.Overlay == nil || *r.Overlay != (api.Overlay{Name: c.name, Of: c.of, Zone: o.Zone.String()}) {
			t.Errorf("%s %s: %+v\ngot  %s\nwant %s", c.zone, c.day, r.Overlay, got, c.want)
		}
		if r.Times[0] != day.Unix() || r.Start != day.Unix() || r.End != AddDays(day, 1).Unix() {
			t.Errorf("%s %s: times of %d to %d are not those shown", c.zone, c.day, r.Start, r.End)
		}
	}
}

func TestTimelineOverlayOverSeveralDays(t *testing.T) {
	o := overlay(t, OverlayLike, "UTC")
	sunday := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
	st := hours(sunday.AddDate(0, 0, -7), 8*24)
	r, err := Timeline(context.Background(), st, TimelineRequest{Selection: Selection{Start: sunday, End: sunday.AddDate(0, 0, 2)}, Grid: Grid{Step: 3600}, Overlay: o})
	if err != nil {
		t.Fatal(err)
	}
	g := r.Groups[0]
	// Sunday shows the Sunday before, Monday the Friday before.
	if g.Count[0] != 1 || g.Count[23] != 24 || g.Count[24] != 5*24+1 || g.Count[47] != 6*24 || r.Overlay.Of != "Sun 8 Nov – Fri 13 Nov" {
		t.Errorf("%v of %s", g.Count, r.Overlay.Of)
	}
	// The end cuts the last step: what lay beyond it then is left out too.
	r, err = Timeline(context.Background(), st, TimelineRequest{Selection: Selection{Start: sunday, End: sunday.Add(100 * time.Minute)}, Grid: Grid{Step: 3600}, Overlay: o})
	if err != nil {
		t.Fatal(err)
	}
	if g := r.Groups[0]; g.Count[1] != 2 || g.Rate[1] != api.Float(2.0/2400) {
		t.Errorf("cut: %v, rates %v", g.Count, g.Rate)
	}
}

// CPU seconds of two processes, divided by the requests of their service.
func TestTimelinePerRequest(t *testing.T) {
	const cpu = "process_cpu_time_seconds_total"
	w := querytest.NewWriter()
	for i := range int64(40) {
		at := querytest.Epoch + i*60
		for p, name := range []string{"user", "system"} {
			w.Number((at+59)*1000, series.Series{Family: cpu, Kind: series.Counter, Labels: labels.FromStrings("service", "shop", "state", name)}, float64(i*int64(3-p))) // 3 s and 2 s a minute
			w.Number((at+59)*1000, series.Series{Family: cpu, Kind: series.Counter, Labels: labels.FromStrings("service", "other", "state", name)}, float64(100*i))
		}
		w.Number(at*1000, series.Series{Family: "heap_bytes", Kind: series.Gauge, Labels: labels.FromStrings("service", "shop")}, 1)
		w.Observe(at, series.Series{Family: "gc_pause_seconds", Labels: labels.FromStrings("service", "shop")}, 0.5)
		if i == 20 {
			continue // a minute without requests
		}
		for range 10 {
			w.Span(at+5, labels.FromStrings("service", "shop", "kind", "server", "status", "ok", "tenant", "acme"), 0.1)
			w.Span(at+5, labels.FromStrings("service", "shop", "kind", "client", "status", "ok"), 0.1)
			w.Span(at+5, labels.FromStrings("service", "other", "kind", "server", "status", "ok"), 0.1)
		}
	}
	st := storetest.NewTwin()
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	ask := func(r TimelineRequest, family, match string) (*api.TimelineResponse, error) {
		r.Family, r.Per = family, PerRequest
		if match != "" {
			r.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "service", match)}
		}
		if r.End.IsZero() {
			r.Start, r.End = time.Unix(querytest.Epoch+600, 0), time.Unix(querytest.Epoch+2400, 0)
		}
		if r.Step == 0 {
			r.Step = 300
		}
		return Timeline(context.Background(), st, r)
	}
	r, err := ask(TimelineRequest{}, cpu, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if r.Per != PerRequest || len(r.Groups) != 1 || len(r.Groups[0].Value) != 6 {
		t.Fatalf("%+v", r)
	}
	for i, v := range r.Groups[0].Value {
		want := 0.5 // 5 s a minute over 10 requests a minute
		if i == 2 {
			want = 25.0 / 40
		}
		if math.Abs(float64(v)-want) > 1e-12 {
			t.Errorf("step %d: %v CPU seconds a request, want %v", i, v, want)
		}
	}
	if r, err = ask(TimelineRequest{By: []string{"state"}, Grid: Grid{Step: 60}}, cpu, "shop"); err != nil {
		t.Fatal(err)
	}
	if s, u := r.Groups[0], r.Groups[1]; s.Labels["state"] != "system" || s.Value[3] != 0.2 || math.Abs(float64(u.Value[3])-0.3) > 1e-12 || !math.IsNaN(float64(u.Value[10])) {
		t.Errorf("by state: %v %v", s.Value, u.Value)
	}
	if r, err = ask(TimelineRequest{}, "gc_pause_seconds", "shop"); err != nil {
		t.Fatal(err)
	}
	if g := r.Groups[0]; math.Abs(float64(g.Value[0])-0.05) > 1e-12 || math.Abs(float64(r.Groups[0].Mean[0])-0.5) > 1e-12 {
		t.Errorf("pauses: %v", g.Value)
	}
	// Half an hour later laid over: the same figures, a day on.
	day := 24 * time.Hour
	o := Overlay{OverlayDay, time.UTC}
	if r, err = ask(TimelineRequest{Selection: Selection{Start: time.Unix(querytest.Epoch+600, 0).Add(day), End: time.Unix(querytest.Epoch+2400, 0).Add(day)}, Overlay: o}, cpu, "shop"); err != nil {
		t.Fatal(err)
	}
	if v := r.Groups[0].Value; math.Abs(float64(v[0])-0.5) > 1e-12 || math.Abs(float64(v[2])-25.0/40) > 1e-12 {
		t.Errorf("overlay: %v", v)
	}
	for _, c := range []struct{ family, match, field string }{
		{cpu, "", "match"}, {"heap_bytes", "shop", "per"}, {series.SpanDuration, "shop", "per"},
	} {
		if _, err := ask(TimelineRequest{}, c.family, c.match); AsError(err) == nil || AsError(err).Field != c.field {
			t.Errorf("%s %s: %v, want an error of %s", c.family, c.match, err, c.field)
		}
	}
}

// A range that ends within a step has the rate of what lies in it, also when
// more came later.
func TestRateOfCutStep(t *testing.T) {
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	w := querytest.NewWriter()
	for s := int64(0); s < 7200; s += 10 {
		w.Span(start.Unix()+s, labels.FromStrings("service", "a", "kind", "server", "status", "ok"), 0.1)
	}
	st := storetest.NewTwin()
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	sel := Selection{Start: start, End: start.Add(80 * time.Minute)}
	tl, err := Timeline(t.Context(), st, TimelineRequest{Selection: sel, Grid: Grid{Step: 3600}})
	if err != nil {
		t.Fatal(err)
	}
	sv, err := Services(t.Context(), st, ServicesRequest{Selection: sel, Grid: Grid{Step: 3600}})
	if err != nil {
		t.Fatal(err)
	}
	if r := tl.Groups[0]; r.Rate[0] != 0.1 || r.Rate[1] != 0.1 || r.Count[1] != 120 {
		t.Errorf("timeline: %v of %v", r.Rate, r.Count)
	}
	if s := sv.Services[0]; s.Rate != 0.1 || s.Requests != 480 || s.Sparkline.Rate[1] != 0.1 {
		t.Errorf("services: %+v", s)
	}
}

// coarse is a store that keeps only minutes of what lies before a moment.
type coarse struct {
	store.Store
	before int64
}

func (c coarse) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	old := q.Start < c.before
	if old {
		q.Start = series.Minute.Slot(q.Start)
	}
	res, err := c.Store.Query(ctx, q)
	if err == nil && old {
		res.Resolution = series.Minute
	}
	return res, err
}

// Where the earlier day is kept by the minute, so is what is laid over.
func TestTimelineOverlayOfCoarserSlots(t *testing.T) {
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	st := coarse{hours(day.AddDate(0, 0, -1), 24), day.Unix()}
	r, err := Timeline(context.Background(), st, TimelineRequest{Selection: Selection{Start: day.Add(time.Hour), End: day.Add(2 * time.Hour)}, Grid: Grid{Step: 10}, Overlay: Overlay{OverlayDay, time.UTC}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Step != 60 || r.Slot != 60 || len(r.Times) != 60 || len(r.Groups) != 1 || r.Groups[0].Count[30] != 2 {
		t.Errorf("step %d, slot %d, %d times, %+v", r.Step, r.Slot, len(r.Times), r.Groups)
	}
}
