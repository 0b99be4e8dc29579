package sla

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cockroachdb/pebble/v2/vfs.(*diskHealthCheckingFS).startTickerLocked.func1"))
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := query.Zone("tz", name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// Days, weeks and months begin at midnight of the zone, whatever clocks do.
func TestPeriods(t *testing.T) {
	for _, c := range []struct {
		kind, zone, at   string
		name, start, end string
		hours            float64
	}{
		{Day, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", 23},
		{Day, "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", 25},
		{Day, "America/New_York", "2026-03-08T12:00:00Z", "2026-03-08", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", 23},
		{Day, "America/New_York", "2026-11-01T12:00:00Z", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25},
		{Day, "Asia/Kolkata", "2026-11-19T18:30:00Z", "2026-11-20", "2026-11-19T18:30:00Z", "2026-11-20T18:30:00Z", 24},
		{Day, "Asia/Kolkata", "2026-11-19T18:29:59Z", "2026-11-19", "2026-11-18T18:30:00Z", "2026-11-19T18:30:00Z", 24},
		// Midnight is skipped in Cairo, and comes twice in Havana.
		{Day, "Africa/Cairo", "2024-04-26T12:00:00Z", "2024-04-26", "2024-04-25T22:00:00Z", "2024-04-26T21:00:00Z", 23},
		{Day, "America/Havana", "2024-11-03T12:00:00Z", "2024-11-03", "2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z", 25},
		{Week, "Europe/Berlin", "2026-11-20T12:00:00Z", "2026-W47", "2026-11-15T23:00:00Z", "2026-11-22T23:00:00Z", 168},
		{Week, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-W43", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z", 169},
		{Week, "America/New_York", "2026-03-08T12:00:00Z", "2026-W10", "2026-03-02T05:00:00Z", "2026-03-09T04:00:00Z", 167},
		{Week, "", "2027-01-01T12:00:00Z", "2026-W53", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z", 168},
		{Week, "", "2026-01-01T12:00:00Z", "2026-W01", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z", 168},
		{Month, "America/New_York", "2026-03-31T12:00:00Z", "2026-03", "2026-03-01T05:00:00Z", "2026-04-01T04:00:00Z", 31*24 - 1},
		{Month, "", "2028-02-29T12:00:00Z", "2028-02", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", 29 * 24},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		p, err := periodOf(c.kind, at.In(zone(t, c.zone)))
		if err != nil {
			t.Fatal(err)
		}
		start, end := p.start.UTC().Format(time.RFC3339), p.end.UTC().Format(time.RFC3339)
		if p.name() != c.name || start != c.start || end != c.end || p.end.Sub(p.start).Hours() != c.hours {
			t.Errorf("%s of %s in %s: got %s [%s, %s) of %v h; want %s [%s, %s) of %v h",
				c.kind, c.at, c.zone, p.name(), start, end, p.end.Sub(p.start).Hours(), c.name, c.start, c.end, c.hours)
		}
	}
}

// Whatever the zone and the moment, periods follow each other without a gap,
// hold their moment, and have names of their own.
func TestPeriodsMeet(t *testing.T) {
	zones := []string{"Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Cairo", "America/Havana", "Australia/Lord_Howe", "Asia/Beirut", "Pacific/Apia", "Atlantic/Azores", "America/Asuncion"}
	rapid.Check(t, func(rt *rapid.T) {
		loc := zone(t, rapid.SampledFrom(zones).Draw(rt, "zone"))
		kind := rapid.SampledFrom([]string{Day, Week, Month}).Draw(rt, "kind")
		end := time.Unix(rapid.Int64Range(400_000_000, 2_000_000_000).Draw(rt, "end"), 0).In(loc)
		list, err := periods(kind, end, 30)
		if err != nil {
			rt.Fatal(err)
		}
		last := list[len(list)-1]
		if !last.start.Before(end) || last.end.Before(end) {
			rt.Fatalf("%v is not in %v", end, last)
		}
		names := map[string]bool{}
		for i, p := range list {
			if names[p.name()] || !p.end.After(p.start) {
				rt.Fatalf("%s twice, or empty: %v", p.name(), p)
			}
			names[p.name()] = true
			if i > 0 && !list[i-1].end.Equal(p.start) {
				rt.Fatalf("%v and %v do not meet", list[i-1], p)
			}
		}
	})
}

// Samoa had no 30 December 2011.
func TestSkippedDay(t *testing.T) {
	list, err := periods(Day, time.Date(2012, 1, 2, 12, 0, 0, 0, zone(t, "Pacific/Apia")), 5)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, p := range list {
		got = append(got, p.name())
		if p.end.Sub(p.start) != 24*time.Hour || i > 0 && !list[i-1].end.Equal(p.start) {
			t.Errorf("%s: [%v, %v)", p.name(), p.start, p.end)
		}
	}
	if want := "[2011-12-27 2011-12-28 2011-12-29 2011-12-31 2012-01-01 2012-01-02]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

const checkout = "checkout"

// put counts n requests of seconds each.
func put(w *querytest.Writer, at int64, n int, seconds float64, more ...string) {
	l := map[string]string{series.LabelService: checkout, series.LabelOperation: "GET /cart", series.LabelKind: "server", series.LabelStatus: "ok", series.LabelTenant: "acme"}
	for i := 0; i+1 < len(more); i += 2 {
		l[more[i]] = more[i+1]
	}
	for range n {
		w.Span(at, labels.FromMap(l), seconds)
	}
}

// counted is a store that counts the questions it is asked.
type counted struct {
	store.Store
	queries int
	hourly  int64 // before it, only slots of an hour are kept
}

func (c *counted) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	c.queries++
	wide := q
	resolution := series.Base
	if q.Start < c.hourly {
		resolution = series.Hour
		wide.Start = series.Hour.Slot(q.Start)
	}
	if q.End < c.hourly {
		wide.End = series.Hour.Slot(q.End + int64(series.Hour) - 1)
	}
	res, err := c.Store.Query(ctx, wide)
	if err == nil {
		res.Resolution = max(res.Resolution, resolution)
	}
	return res, err
}

func ask(t testing.TB, w *querytest.Writer, r ReportRequest, hourly int64) (*api.SLAResponse, *counted) {
	t.Helper()
	st := &counted{Store: storetest.NewTwin(), hourly: hourly}
	if err := w.Put(context.Background(), st, 1); err != nil {
		t.Fatal(err)
	}
	if r.Matchers == nil {
		r.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, checkout)}
	}
	qs, err := query.ParseQuantiles("", "0.5,0.95,0.99")
	if err != nil {
		t.Fatal(err)
	}
	r.Quantiles = qs
	if r.Now.IsZero() {
		r.Now = r.End
	}
	out, err := Report(context.Background(), st, NewTargets(st), r)
	if err != nil {
		t.Fatal(err)
	}
	return out, st
}

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// With one request an hour, a day has as many requests as hours.
func TestReportAcrossClockChanges(t *testing.T) {
	for _, c := range []struct {
		zone, from, end string
		hourly          bool
		want            []uint64
		covered         []int64
		notes           string
	}{
		{"Europe/Berlin", "2026-03-26T00:00:00Z", "2026-03-30T22:00:00Z", false, []uint64{24, 23, 24}, []int64{24, 23, 24}, ""},
		{"Europe/Berlin", "2026-10-20T00:00:00Z", "2026-10-26T23:00:00Z", false, []uint64{24, 25, 24}, []int64{24, 25, 24}, ""},
		{"America/New_York", "2026-03-06T00:00:00Z", "2026-03-10T04:00:00Z", false, []uint64{24, 23, 24}, []int64{24, 23, 24}, ""},
		{"America/New_York", "2026-10-28T00:00:00Z", "2026-11-03T05:00:00Z", false, []uint64{24, 25, 24}, []int64{24, 25, 24}, ""},
		{"Asia/Kolkata", "2026-03-26T00:00:00Z", "2026-03-30T18:30:00Z", false, []uint64{24, 24, 24}, []int64{24, 24, 24}, ""},
		{"Asia/Kolkata", "2026-03-26T00:00:00Z", "2026-03-30T18:30:00Z", true, []uint64{24, 24, 24}, []int64{24, 24, 24},
			"3 of the periods, up to 2026-03-30, are old enough that only slots of an hour are kept, and midnight in Asia/Kolkata lies within one"},
		{"Europe/Berlin", "2026-03-26T00:00:00Z", "2026-03-30T22:00:00Z", true, []uint64{24, 23, 24}, []int64{24, 23, 24}, ""},
	} {
		w := querytest.NewWriter()
		end := at(t, c.end)
		for s := at(t, c.from).Unix(); s < end.Unix(); s += 3600 {
			put(w, s+120, 1, 0.1)
		}
		hourly := int64(0)
		if c.hourly {
			hourly = math.MaxInt64
		}
		out, _ := ask(t, w, ReportRequest{Selection: query.Selection{End: end}, Period: Day, Count: 3, Zone: c.zone}, hourly)
		var got []uint64
		var covered []int64
		sum := uint64(0)
		for _, r := range out.Rows {
			got, covered = append(got, r.Requests), append(covered, r.Covered/3600)
			sum += r.Requests
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) || fmt.Sprint(covered) != fmt.Sprint(c.covered) || out.All.Requests != sum {
			t.Errorf("%s to %s: got %v in %v h, all %d; want %v in %v h", c.zone, c.end, got, covered, out.All.Requests, c.want, c.covered)
		}
		if notes := strings.Join(out.Notes, "\n"); c.notes == "" && notes != "" || !strings.Contains(notes, c.notes) {
			t.Errorf("%s to %s: notes %q, want %q", c.zone, c.end, notes, c.notes)
		}
		if out.Rows[2].Partial || out.Rows[0].Partial {
			t.Errorf("%s to %s: partial %+v", c.zone, c.end, out.Rows)
		}
	}
}

// What a slot of an hour cannot part counts once: the sums stay whole.
func TestReportCutsOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := querytest.NewWriter()
		end := at(t, "2026-05-20T18:30:00Z")
		n := uint64(0)
		for s := end.Unix() - 12*86400; s < end.Unix(); s += 6 * 3600 {
			k := rapid.IntRange(1, 3).Draw(rt, "n")
			put(w, s+rapid.Int64Range(0, 2159).Draw(rt, "at")*10, k, 0.1)
			n += uint64(k)
		}
		hourly := end.Unix() - rapid.Int64Range(0, 14*24).Draw(rt, "hours")*3600
		hourly = series.Hour.Slot(hourly)
		zone := rapid.SampledFrom([]string{"Asia/Kolkata", "Asia/Kathmandu", "Europe/Berlin"}).Draw(rt, "zone")
		out, _ := ask(t, w, ReportRequest{Selection: query.Selection{End: end}, Period: Day, Count: 14, Zone: zone}, hourly)
		if out.All.Requests != n {
			rt.Fatalf("%d requests, want %d", out.All.Requests, n)
		}
	})
}

func TestReportFigures(t *testing.T) {
	w := querytest.NewWriter()
	end := at(t, "2026-05-18T00:00:00Z") // a Monday
	week := int64(7 * 86400)
	first, second, third := end.Unix()-3*week, end.Unix()-2*week, end.Unix()-week
	for h := range int64(168) {
		// Calm; calm again; then slower, later and fewer: saturated.
		put(w, first+h*3600, 60, 0.1)
		put(w, first+h*3600, 40, 0.3, series.LabelTenant, "globex")
		put(w, second+h*3600, 60, 0.1)
		put(w, second+h*3600, 39, 0.3, series.LabelTenant, "globex")
		put(w, second+h*3600, 1, 0.1, series.LabelTenant, "globex", series.LabelStatus, "error")
		put(w, third+h*3600, 30, 0.1)
		put(w, third+h*3600, 20, 1, series.LabelTenant, "globex")
		put(w, third+h*3600, 10, 3, series.LabelTenant, "globex")
		put(w, third+h*3600, 10, 3, series.LabelTenant, series.Other)
		// Spans of other kinds are not requests.
		put(w, third+h*3600, 5, 9, series.LabelKind, "client")
	}
	r := ReportRequest{Selection: query.Selection{End: end}, Period: Week, Count: 4, Objective: 0.99, Under: 0.5}
	out, st := ask(t, w, r, 0)
	if out.Zone != "UTC" || out.T != 0.5 || len(out.Rows) != 4 {
		t.Fatalf("%+v", out)
	}
	empty, a, b, c := out.Rows[0], out.Rows[1], out.Rows[2], out.Rows[3]
	if empty.Requests != 0 || empty.Covered != 0 || !empty.Partial || empty.Met != MetNone || !math.IsNaN(float64(empty.Apdex)) || !math.IsNaN(float64(empty.Rate)) {
		t.Errorf("before the data: %+v", empty)
	}
	if a.Requests != 16800 || a.Partial || a.Apdex != 1 || a.Met != MetYes || a.Worst != nil || a.Errors != 0 || math.Abs(float64(a.Mean)-0.18) > 1e-9 {
		t.Errorf("first: %+v", a)
	}
	if b.Apdex != 0.99 || b.Errors != 168 || b.ErrorRate != 0.01 || b.Good != 0.99 || b.Met != MetYes || b.Trend.Rate != 1 || b.Trend.Saturated || math.Abs(float64(b.Trend.Apdex)+0.01) > 1e-12 {
		t.Errorf("second: %+v", b)
	}
	// 30 satisfied, 20 tolerated, 20 frustrated of 70.
	if c.Requests != 70*168 || math.Abs(float64(c.Apdex)-40.0/70) > 1e-9 || math.Abs(float64(c.Tolerating)-20.0/70) > 1e-9 || c.Met != MetNo {
		t.Errorf("third: %+v", c)
	}
	if math.Abs(float64(c.Trend.Rate)-0.7) > 1e-9 || c.Trend.P95 < 9 || !c.Trend.Saturated {
		t.Errorf("trend: %+v", c.Trend)
	}
	if c.Worst == nil || c.Worst.Name != "globex" || c.Worst.Requests != 30*168 || c.Worst.Apdex != api.Float(1.0/3) {
		t.Errorf("worst: %+v", c.Worst)
	}
	if b.Worst == nil || b.Worst.Name != "globex" {
		t.Errorf("worst: %+v", b.Worst)
	}
	if out.All.Requests != a.Requests+b.Requests+c.Requests || out.All.Covered != 3*week || !out.All.Partial || out.All.Worst == nil || out.All.Worst.Name != "globex" {
		t.Errorf("all: %+v", out.All)
	}
	if st.queries > 3*5+4 {
		t.Errorf("%d questions for 4 periods", st.queries)
	}
}

// A request in the bucket that holds the bound may lie on either side of it;
// beyond the greatest there is nothing to doubt.
func TestObjectiveUnknown(t *testing.T) {
	w := querytest.NewWriter()
	end := at(t, "2026-05-18T00:00:00Z")
	for i := range int64(100) {
		put(w, end.Unix()-1000+i, 95, 0.1)
		put(w, end.Unix()-1000+i, 5, 0.505)
	}
	for under, want := range map[float64]string{0.4: MetNo, 0.5: MetNo, 0.504: MetUnknown, 0.507: MetYes} {
		out, _ := ask(t, w, ReportRequest{Selection: query.Selection{End: end}, Period: Day, Count: 1, Objective: 0.98, Under: under}, 0)
		if r := out.Rows[0]; r.Met != want || !(r.GoodLow <= r.Good && r.Good <= r.GoodHigh) {
			t.Errorf("under %v s: %s, %v ≤ %v ≤ %v; want %s", under, r.Met, r.GoodLow, r.Good, r.GoodHigh, want)
		}
	}
}

// A period that is not over is laid beside the same part of the one before.
func TestRunningPeriod(t *testing.T) {
	w := querytest.NewWriter()
	monday := at(t, "2026-05-18T00:00:00Z")
	for h := range int64(168) {
		n := 10
		if h%24 >= 6 { // nights are quiet
			n = 200
		}
		put(w, monday.Unix()-7*86400+h*3600, n, 0.1)
		if h < 30 {
			put(w, monday.Unix()+h*3600, n, 0.1)
		}
	}
	now := monday.Add(30 * time.Hour)
	out, _ := ask(t, w, ReportRequest{Selection: query.Selection{End: now}, Period: Week, Count: 1}, 0)
	r := out.Rows[0]
	if !r.Partial || r.Covered != 30*3600 || r.Trend.Rate != 1 || r.Trend.Saturated {
		t.Errorf("%+v", r)
	}
	if want := float64(r.Requests) / (30 * 3600); math.Abs(float64(r.Rate)-want) > 1e-12 {
		t.Errorf("rate %v, want %v", r.Rate, want)
	}
}

// A moment in a period of the past asks for the whole of it.
func TestPastPeriodIsWhole(t *testing.T) {
	w := querytest.NewWriter()
	sunday := at(t, "2026-10-24T22:00:00Z") // 25 hours in Berlin
	for h := range int64(72) {
		put(w, sunday.Unix()+(h-24)*3600, 1, 0.1)
	}
	for _, end := range []time.Time{sunday.Add(time.Second), sunday.Add(12 * time.Hour), sunday.Add(25 * time.Hour)} {
		r := ReportRequest{Selection: query.Selection{End: end}, Now: sunday.Add(48 * time.Hour), Period: Day, Count: 1, Zone: "Europe/Berlin"}
		out, _ := ask(t, w, r, 0)
		if x := out.Rows[0]; x.Name != "2026-10-25" || x.Requests != 25 || x.Partial || x.Covered != 25*3600 {
			t.Errorf("asked at %s: %+v", end, x)
		}
	}
}

// Throughput is over the time since the data began, not since Monday.
func TestCoveredSinceFirstData(t *testing.T) {
	w := querytest.NewWriter()
	now := at(t, "2026-05-20T12:00:00Z")
	for s := int64(0); s < 600; s += 10 {
		put(w, now.Unix()-600+s, 20, 0.1)
	}
	check := func(st string, out *api.SLAResponse) {
		r := out.Rows[1]
		if r.Covered != 600 || r.Rate != 2 || r.Thin || !r.Partial || !out.Rows[0].Partial || out.All.Covered != 600 {
			t.Errorf("%s: %+v", st, r)
		}
	}
	r := ReportRequest{Selection: query.Selection{End: now}, Period: Week, Count: 2}
	out, _ := ask(t, w, r, 0)
	check("twin", out)
	// A store prefers its coarse slots; once they are rolled up too.
	st := pebble(t)
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	if err := st.Maintain(t.Context(), now.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	r.Now, r.Matchers = now, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, checkout)}
	out, err := Report(t.Context(), st, NewTargets(st), r)
	if err != nil {
		t.Fatal(err)
	}
	check("pebble", out)
}

// pebble opens a store in memory.
func pebble(t testing.TB) *pebblestore.Store {
	t.Helper()
	st, err := pebblestore.Open(context.Background(), pebblestore.Options{Dir: "data", FS: vfs.NewMem(), MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// Among many equal tenants none is the worst; a small one is never named.
func TestWorstTenantIsNoChance(t *testing.T) {
	w := querytest.NewWriter()
	end := at(t, "2026-05-18T00:00:00Z")
	for i := range 60 {
		name := fmt.Sprintf("tenant-%02d", i)
		put(w, end.Unix()-500, 190+i%7, 0.1, series.LabelTenant, name)
		put(w, end.Unix()-500, 10+i%3, 3, series.LabelTenant, name)
	}
	put(w, end.Unix()-500, 99, 3, series.LabelTenant, "small")
	put(w, end.Unix()-500, 400, 3, series.LabelTenant, series.Other)
	out, st := ask(t, w, ReportRequest{Selection: query.Selection{End: end}, Period: Day, Count: 1}, 0)
	if w := out.Rows[0].Worst; w != nil {
		t.Errorf("%+v is named", w)
	}
	if st.queries > 10 {
		t.Errorf("%d questions for 60 tenants", st.queries)
	}
}

// A tenant that sends nearly all requests is measured by the others too.
func TestWorstTenantMayBeTheLargest(t *testing.T) {
	w := querytest.NewWriter()
	end := at(t, "2026-05-18T00:00:00Z")
	put(w, end.Unix()-500, 8550, 0.1, series.LabelTenant, "large")
	put(w, end.Unix()-500, 450, 3, series.LabelTenant, "large")
	put(w, end.Unix()-500, 990, 0.1, series.LabelTenant, "small")
	put(w, end.Unix()-500, 10, 3, series.LabelTenant, "small")
	out, _ := ask(t, w, ReportRequest{Selection: query.Selection{End: end}, Period: Day, Count: 1}, 0)
	if w := out.Rows[0].Worst; w == nil || w.Name != "large" {
		t.Errorf("the worst is %+v, want large", w)
	}
}

// refusing is a store that will not read so many tenants.
type refusing struct{ store.Store }

func (r refusing) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	if q.View == series.Full {
		return nil, fmt.Errorf("query %s: %w", q.Family, store.ErrTooMany)
	}
	return r.Store.Query(ctx, q)
}

// Too many tenants cost the report their column, not itself.
func TestTooManyTenants(t *testing.T) {
	w := querytest.NewWriter()
	end := at(t, "2026-05-18T00:00:00Z")
	put(w, end.Unix()-500, 200, 0.1)
	st := refusing{storetest.NewTwin()}
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	sel := query.Selection{End: end, Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, series.LabelService, checkout)}}
	out, err := Report(t.Context(), st, NewTargets(st), ReportRequest{Selection: sel, Period: Day, Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	if out.Rows[1].Requests != 200 || out.Rows[1].Worst != nil || len(out.Notes) != 1 || !strings.Contains(out.Notes[0], "too many tenants") {
		t.Errorf("%+v %q", out.Rows[1], out.Notes)
	}
}

// Each change is a generation of its own: none replaces another.
func TestTargetsSetAtOnce(t *testing.T) {
	targets := NewTargets(pebble(t))
	const n = 16
	errs := make(chan error, n)
	for i := range n {
		go func() {
			errs <- targets.Put(context.Background(), api.ApdexTarget{Service: fmt.Sprintf("s%02d", i), T: api.Float(i+1) / 10})
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	set, err := targets.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(set.list) != n || set.OfService("s15") != 1.6 || set.OfService("s16") != query.DefaultApdexT {
		t.Errorf("%+v", set.list)
	}
}
