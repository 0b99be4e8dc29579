package query

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// asJSON compares answers that hold numbers that are not numbers.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Without a change of clocks the answer of the day before is that of its own
// range, but for the times and the name of the day.
func TestOverlayAnswersTheWholeQuestion(t *testing.T) {
	st, later := orders(t), func(s Selection) Selection {
		s.Start, s.End = s.Start.AddDate(0, 0, 1), s.End.AddDate(0, 0, 1)
		return s
	}
	ctx, o := context.Background(), overlay(t, OverlayDay, "Europe/Berlin")
	const day = 86400
	for _, sel := range []Selection{during("service", "shop"), during("service", "shop", "tenant", "acme")} {
		r := BreakdownRequest{Selection: sel, Grid: Grid{Step: 60}, Quantiles: usualQuantiles, Band: Band{Above: 0.9}}
		want, err := Breakdown(ctx, st, r)
		if err != nil {
			t.Fatal(err)
		}
		r.Selection, r.Overlay = later(sel), o
		got, err := Breakdown(ctx, st, r)
		if err != nil {
			t.Fatal(err)
		}
		if got.Overlay == nil || *got.Overlay != (api.Overlay{Name: "day", Of: "Sat 9 May", Zone: "Europe/Berlin"}) {
			t.Errorf("the day is %+v", got.Overlay)
		}
		want.Overlay = got.Overlay
		want.Start, want.End = want.Start+day, want.End+day
		for i := range want.Times {
			want.Times[i] += day
		}
		if want.Total == 0 || asJSON(t, got) != asJSON(t, want) {
			t.Errorf("got %s\nwant %s", asJSON(t, got), asJSON(t, want))
		}
	}
	r := OperationsRequest{Selection: during("service", "shop"), Components: []string{"db"}, Quantiles: usualQuantiles, Grid: Grid{Step: 60}}
	want, err := Operations(ctx, st, r)
	if err != nil {
		t.Fatal(err)
	}
	r.Selection, r.Overlay = later(r.Selection), o
	got, err := Operations(ctx, st, r)
	if err != nil {
		t.Fatal(err)
	}
	want.Overlay = &api.Overlay{Name: "day", Of: "Sat 9 May", Zone: "Europe/Berlin"}
	want.Start, want.End = want.Start+day, want.End+day
	for i := range want.Times {
		want.Times[i] += day
	}
	if len(want.Rows) == 0 || len(want.Verbs) != 3 || asJSON(t, got) != asJSON(t, want) {
		t.Errorf("got %s\nwant %s", asJSON(t, got), asJSON(t, want))
	}
}

// brokenHours is hours with a breakdown: each request asks the database once.
func brokenHours(t *testing.T, start time.Time, n int) store.Store {
	t.Helper()
	const ms = time.Millisecond
	w := querytest.NewWriter()
	for i := range n {
		for range i + 1 {
			at := start.Unix() + int64(i)*3600 + 1800
			w.Request(querytest.Request{At: at, Service: "a", Operation: "GET /", Cohort: series.Large, Duration: 100 * ms, Parts: []querytest.Part{
				{Service: "a", Component: "app", Operation: "GET /", Self: 40 * ms, Critical: 40 * ms, Calls: 1},
				{Service: "a", Component: "db", Operation: "SELECT x", Self: 60 * ms, Critical: 60 * ms, Calls: 1},
			}})
			w.Call(at, "a", "db", "SELECT x", "", 60*ms)
		}
	}
	st := storetest.NewTwin()
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	return st
}

// counts tells how often so many seconds fit into each step.
func counts(over []api.Float, seconds float64) string {
	var out []string
	for _, s := range over {
		out = append(out, fmt.Sprintf("%.6g", float64(s)/seconds))
	}
	return strings.Join(out, " ")
}

// Where clocks change, hours are left out or shown twice, in steps and sums alike.
func TestOverlayOfBreakdownWhereClocksChange(t *testing.T) {
	for _, c := range []struct{ zone, day, want, of string }{
		{"Europe/Berlin", "2026-03-30", "1 2 0 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23", "Sun 29 Mar"},
		{"Europe/Berlin", "2026-03-29", "1 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24", "Sat 28 Mar"},
		{"Europe/Berlin", "2026-10-26", "1 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25", "Sun 25 Oct"},
		{"America/New_York", "2026-11-01", "1 2 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24", "Sat 31 Oct"},
	} {
		o := overlay(t, OverlayDay, c.zone)
		day, err := time.ParseInLocation("2006-01-02", c.day, o.Zone)
		if err != nil {
			t.Fatal(err)
		}
		st := brokenHours(t, AddDays(day, -1), 25)
		sel := during("service", "a")
		sel.Start, sel.End = day, AddDays(day, 1)
		b, err := Breakdown(t.Context(), st, BreakdownRequest{Selection: sel, Grid: Grid{Step: 3600}, Overlay: o})
		if err != nil {
			t.Fatal(err)
		}
		total := uint64(0)
		var requests []string
		for _, n := range b.Requests {
			total += n
			requests = append(requests, fmt.Sprint(n))
		}
		if got := strings.Join(requests, " "); got != c.want || b.Total != total || b.Overlay.Of != c.of || b.Times[0] != day.Unix() || b.End != sel.End.Unix() {
			t.Errorf("%s %s: %d requests of %s\ngot  %s\nwant %s", c.zone, c.day, b.Total, b.Overlay.Of, got, c.want)
		}
		db, _ := component(t, b, "db")
		p := partNamed(t, b, "SELECT x")
		for what, got := range map[string]string{"component": counts(db.Self, 0.06), "critical": counts(db.Critical, 0.06), "part": counts(p.Self, 0.06)} {
			if got != c.want {
				t.Errorf("%s %s: %s\ngot  %s\nwant %s", c.zone, c.day, what, got, c.want)
			}
		}
		near(t, "db in all", db.Seconds, 0.06*float64(total))
		near(t, "the part in all", p.Seconds, 0.06*float64(total))

		ops, err := Operations(t.Context(), st, OperationsRequest{Selection: sel, Grid: Grid{Step: 3600}, Components: []string{"db"}, Overlay: o})
		if err != nil {
			t.Fatal(err)
		}
		if len(ops.Rows) != 1 || ops.Rows[0].Calls != total || ops.Overlay.Of != c.of || ops.Times[0] != day.Unix() || len(ops.Verbs) != 3 {
			t.Fatalf("%s %s: %+v of %+v", c.zone, c.day, ops.Rows, ops.Overlay)
		}
		for what, got := range map[string]string{
			"time": counts(ops.Rows[0].SecondsOver, 0.06), "rate": counts(ops.Rows[0].RateOver, 1.0/3600), "find": counts(ops.Verbs[0].SecondsOver, 0.06),
		} {
			if got != c.want {
				t.Errorf("%s %s: %s of operations\ngot  %s\nwant %s", c.zone, c.day, what, got, c.want)
			}
		}
		near(t, "time in all", ops.Seconds, 0.06*float64(total))
	}
}

// The shown day ends now, and so does what lies under it.
func TestOverlayOfBreakdownEndsWhereTheRangeDoes(t *testing.T) {
	o := overlay(t, OverlayDay, "UTC")
	day := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	st := brokenHours(t, day.AddDate(0, 0, -1), 24)
	sel := during("service", "a")
	sel.Start, sel.End = day, day.Add(140*time.Minute) // before the third hour's requests
	b, err := Breakdown(t.Context(), st, BreakdownRequest{Selection: sel, Grid: Grid{Step: 3600}, Overlay: o})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Requests) != 3 || b.Total != 3 || b.Requests[2] != 0 {
		t.Errorf("%v", b.Requests)
	}
	sel.End = day.AddDate(0, 0, 1)
	if b, err = Breakdown(t.Context(), coarse{st, day.Unix()}, BreakdownRequest{Selection: sel, Grid: Grid{Step: 10}, Overlay: o}); err != nil {
		t.Fatal(err)
	}
	if b.Step != 60 || b.Total != 300 {
		t.Errorf("where minutes are kept: %d requests in steps of %d s", b.Total, b.Step)
	}
}

func TestOverlayRefuses(t *testing.T) {
	o := overlay(t, "fortnight", "UTC")
	_, breakdown := Breakdown(t.Context(), orders(t), BreakdownRequest{Selection: during("service", "shop"), Overlay: o})
	_, operations := Operations(t.Context(), orders(t), OperationsRequest{Selection: during("service", "shop"), Overlay: o})
	for _, err := range []error{breakdown, operations} {
		if e := AsError(err); e == nil || e.Field != "overlay" {
			t.Errorf("got %v", err)
		}
	}
}
