package sla

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/trials"
)

// What never came cannot fail, so that a report says when nothing came. It does not say so
// of what is usual for the service.
func TestOutages(t *testing.T) {
	day := at(t, "2026-05-20T00:00:00Z").Unix() // a Wednesday
	const hour, minute = 3600, 60
	always := func(int64) bool { return true }
	not := func(from, to int64) func(int64) bool { return func(s int64) bool { return s < from || s >= to } }
	night := func(s int64) bool { return (s%86400+86400)%86400 >= 6*hour }
	for _, c := range []struct {
		name   string
		up     func(s int64) bool // seconds since the day began; it has a request every so many seconds, by default 10
		other  func(s int64) bool // of another service; nil: there is none
		days   int64              // of data before the day
		now    int64
		period string
		zone   string
		every  int64
		want   []string // of the last period
	}{
		{name: "none", up: always, days: 1, now: 24 * hour},
		{name: "eleven minutes", up: not(11*hour, 11*hour+11*minute), other: always, days: 1, now: 24 * hour,
			want: []string{"11 min without requests while other services had some, 2026-05-20 11:00–11:11, counted neither way; about 66 usually come in that time, as a day before"}},
		{name: "the same in a report of the week", up: not(11*hour, 11*hour+11*minute), other: always, days: 8, every: minute, now: 24 * hour, period: Week,
			want: []string{"11.8 min without requests while other services had some, 2026-05-20 10:59:10–11:11:00, counted neither way; about 11 usually come in that time, as a week before"}},
		{name: "of the month", up: not(11*hour, 11*hour+11*minute), days: 8, every: minute, now: 24 * hour, period: Month,
			want: []string{"11.8 min without requests of any service, 2026-05-20 10:59:10–11:11:00, counted neither way; about 11 usually come in that time, as a week before"}},
		{name: "without a day before", up: not(11*hour, 11*hour+11*minute), now: 24 * hour,
			want: []string{"11 min without requests of any service, 2026-05-20 11:00–11:11, counted neither way; about 66 usually come in that time, at the rate of the hour before"}},
		{name: "not by the minute", up: not(11*hour+20, 11*hour+7*minute), days: 1, now: 24 * hour,
			want: []string{"6.7 min without requests of any service, 2026-05-20 11:00:20–11:07:00, counted neither way; about 40 usually come in that time, as a day before"}},
		{name: "four minutes", up: not(11*hour, 11*hour+4*minute), days: 1, now: 24 * hour},
		{name: "lasts", up: not(11*hour, 48*hour), other: always, days: 1, now: 12 * hour,
			want: []string{"60 min without requests while other services had some, 2026-05-20 11:00–12:00, counted neither way; about 360 usually come in that time, as a day before"}},
		{name: "over midnight", up: not(-hour, hour), days: 2, now: 24 * hour,
			want: []string{"60 min without requests of any service, 2026-05-20 00:00–01:00, counted neither way; about 360 usually come in that time, as a day before"}},
		{name: "in another zone", up: not(11*hour, 11*hour+11*minute), days: 1, now: 20 * hour, zone: "Europe/Berlin",
			want: []string{"11 min without requests of any service, 2026-05-20 13:00–13:11, counted neither way; about 66 usually come in that time, as a day before"}},
		{name: "every night", up: night, other: always, days: 3, every: 20, now: 24 * hour},
		{name: "twice", up: func(s int64) bool { return not(2*hour, 3*hour)(s) && not(7*hour, 7*hour+10*minute)(s) }, days: 1, now: 24 * hour,
			want: []string{"60 min without requests of any service, 2026-05-20 02:00–03:00, counted neither way; about 360 usually come in that time, as a day before",
				"10 min without requests of any service, 2026-05-20 07:00–07:10, counted neither way; about 60 usually come in that time, as a day before"}},
		{name: "one in twenty minutes", up: always, days: 3, now: 24 * hour, every: 1200},
	} {
		w := querytest.NewWriter()
		for s := -c.days * 86400; s < c.now; s += cmp.Or(c.every, 10) {
			if c.up(s) {
				put(w, day+s, 1, 0.1)
			}
			if c.other != nil && c.other(s) {
				put(w, day+s, 1, 0.1, series.LabelService, "other")
			}
		}
		period := c.period
		if period == "" {
			period = Day
		}
		now := time.Unix(day+c.now, 0)
		out, _ := ask(t, w, ReportRequest{Selection: query.Selection{End: now}, Period: period, Count: 1, Zone: c.zone, Objective: 0.99, Under: 0.5}, 0)
		r := out.Rows[0]
		var got []string
		seconds := int64(0)
		for _, o := range r.Outages {
			got = append(got, o.Sentence)
			seconds += o.End - o.Start
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") || r.Without != seconds || r.Met != MetYes || out.All.Without != r.Without {
			t.Errorf("%s: %d s, met %s\n%s\nwant\n%s", c.name, r.Without, r.Met, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// Where only slots of an hour are kept, an outage is told by the hour.
func TestOutagesOfOldSlots(t *testing.T) {
	day := at(t, "2026-05-20T00:00:00Z").Unix()
	w := querytest.NewWriter()
	for s := int64(-86400); s < 86400; s += 10 {
		if s < 8*3600 || s >= 9*3600+600 {
			put(w, day+s, 1, 0.1)
		}
	}
	for _, c := range []struct {
		hourly int64
		want   string
	}{{0, "[{1779264000 1779268200}]"}, {day + 86400, "[]"}} {
		out, _ := ask(t, w, ReportRequest{Selection: query.Selection{End: time.Unix(day+86400, 0)}, Period: Day, Count: 1}, c.hourly)
		got := make([]any, 0)
		for _, o := range out.Rows[0].Outages {
			got = append(got, o.Range)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("kept by the hour before %d: %v, want %s", c.hourly, got, c.want)
		}
	}
}

// The longest wait of a service with a request every 50 s is long among those of a day, and
// longer among those of a week: at most one report in a hundred tells an outage where there is
// none, whether requests come by themselves or in batches. One of half an hour is told.
func TestRareRequestsAreNoOutages(t *testing.T) {
	day := at(t, "2026-05-20T00:00:00Z").Unix()
	const rate = 0.02
	for _, c := range []struct {
		name          string
		period        string
		days, batch   int64
		from, until   int64 // without requests, in seconds of the last day
		reports, most int
	}{
		{name: "days", period: Day, days: 2, batch: 1, reports: 40, most: 2},
		{name: "weeks", period: Week, days: 8, batch: 1, reports: 4, most: 1},
		{name: "batches", period: Day, days: 2, batch: 4, reports: 20, most: 1},
		{name: "outages", period: Day, days: 2, batch: 1, from: 40_000, until: 41_800, reports: 5},
	} {
		n, told := trials.Of(c.reports), 0
		for trial := range n {
			rng := rand.New(rand.NewPCG(trials.First()+uint64(trial), 20))
			w := querytest.NewWriter()
			for s := float64(-c.days*86400 + 86400); ; {
				if s += rng.ExpFloat64() * float64(c.batch) / rate; s >= 86400 {
					break
				}
				for k, at := int64(0), s; k < c.batch && at < 86400; k, at = k+1, at+12*rng.ExpFloat64() {
					if sec := int64(math.Floor(at)); sec < c.from || sec >= c.until {
						put(w, day+sec, 1, 0.1)
					}
				}
			}
			out, _ := ask(t, w, ReportRequest{Selection: query.Selection{End: time.Unix(day+86400, 0)}, Period: c.period, Count: 1}, 0)
			if len(out.Rows[0].Outages) > 0 {
				told++
			}
		}
		t.Logf("%s: %d of %d reports tell an outage", c.name, told, n)
		if most := max(c.most, n/50); c.until == 0 && told > most || c.until > 0 && told < n-max(1, n/20) {
			t.Errorf("%s: %d of %d reports tell an outage", c.name, told, n)
		}
	}
}
