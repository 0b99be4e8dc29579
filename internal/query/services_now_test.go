package query

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query/querytest"
	"tailscope/internal/store/pebblestore"
	"tailscope/internal/store/storetest"
	"tailscope/internal/trials"
)

// Of the minutes of a day of steady traffic, at most 1 % are said to be other than usual,
// whichever minutes they are compared with, and traffic that is worse is seen.
func TestSteadyServicesAreWell(t *testing.T) {
	const day, around = 1440, aroundClock / 60
	for _, c := range []struct {
		rate   float64 // requests per second that are measured
		weight uint64  // requests that each stands for
		errors float64
		wander float64 // deviation of minutes' durations, as a logarithm
		slower float64 // what the share of worse minutes is of
		want   float64 // at least
	}{
		{5, 1, 0.01, 0, 1.5, 0.99}, {5, 8, 0.01, 0, 1.5, 0.99}, {5, 1, 0.0005, 0, 1.5, 0.99},
		{100, 1, 0.01, 0, 1.2, 0.99}, {100, 1, 0.01, 0.15, 2, 0.8}, {1.0 / 60, 1, 0.05, 0, 1, 0},
	} {
		rng := rand.New(rand.NewPCG(trials.First(), 1))
		// Durations are log-normal: as many places as there are bits, of equal probability.
		var bucket [1 << 12]int32
		for i := range bucket {
			z := math.Sqrt2 * math.Erfinv((2*float64(i)+1)/float64(len(bucket))-1)
			bucket[i] = hist.BucketIndex(0.02*math.Exp(0.6*z), hist.DefaultSchema)
		}
		draw := func(slower float64) (minute, *hist.Histogram, uint64) {
			first := bucket[0]
			counts := make([]uint64, bucket[len(bucket)-1]-first+1)
			errors := uint64(0)
			for range trials.Poisson(rng, 60*c.rate) {
				bits := rng.Uint64()
				counts[bucket[bits%uint64(len(bucket))]-first] += c.weight
				if float64(bits>>12) < c.errors*(1<<52) {
					errors += c.weight
				}
			}
			h := hist.New(hist.DefaultSchema)
			shift := int32(math.Round(32 * (math.Log2(slower) + c.wander*math.Log2E*rng.NormFloat64())))
			if err := h.AddBuckets(hist.DefaultSchema, first+shift, counts, false); err != nil {
				t.Fatal(err)
			}
			h.Weighted, h.Squares = c.weight > 1, float64(h.Count)*float64(c.weight)
			m := minute{errors: float64(errors), count: float64(h.Count), squares: h.SquaredWeights()}
			if err := m.durations(h); err != nil {
				t.Fatal(err)
			}
			return m, h, errors
		}
		ms, hs, failed := make([]minute, 2*day+around), make([]*hist.Histogram, 2*day+around), make([]uint64, 2*day+around)
		for i := range ms {
			ms[i], hs[i], failed[i] = draw(1)
			ms[i].start = int64(i) * minuteLong
		}
		for _, of := range []string{"hours", "days"} {
			other, seen, looks := map[string]int{}, 0, 0
			for i := day + around; i < len(ms); i++ {
				at := ms[i].start
				u := mustUsual(t, "days", ms[i-day-around:i-day+around+1])
				if of == "hours" {
					u = mustUsual(t, "hours", settled(ms[i-usualHours/60:i], at))
				}
				s := api.Service{Now: serviceNow(at+minuteLong, hs[i], failed[i])}
				u.judge(&s, hs[i])
				if looks++; s.State != api.Well {
					other["any"]++
				}
				for name := range s.Outside {
					other[name]++
				}
				if i%10 == 0 {
					_, h, errors := draw(c.slower)
					s := api.Service{Now: serviceNow(at+minuteLong, h, errors)}
					if u.judge(&s, h); s.State == api.Worse {
						seen++
					}
				}
			}
			t.Logf("%v requests/s of weight %d, %v of errors, by %s: of %d looks other than well %v; %v times as slow: worse in %d of %d", c.rate, c.weight, c.errors, of, looks, other, c.slower, seen, looks/10)
			if other["any"] > looks/100 {
				t.Errorf("%v requests/s of weight %d, by %s: %d of %d looks say other than well", c.rate, c.weight, of, other["any"], looks)
			}
			if float64(seen) < c.want*float64(looks/10) {
				t.Errorf("%v requests/s of weight %d, by %s: %v times as slow is worse in %d of %d", c.rate, c.weight, of, c.slower, seen, looks/10)
			}
		}
	}
}

func mustUsual(t *testing.T, of string, ms []minute) *usual {
	t.Helper()
	u, err := usualOf(of, ms)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// An hour of two services, and the last minute of one of them.
func TestStateOfServices(t *testing.T) {
	const before = 3600
	for _, c := range []struct {
		name     string
		from     int64                                    // when the service begins, in seconds
		duration func(second, i int64, d float64) float64 // of the last minute
		failed   func(i int64) bool
		silent   bool
		want     string
	}{
		{name: "as ever", want: "well []"},
		{name: "one slow request", duration: func(s, i int64, d float64) float64 {
			if s == 30 && i == 0 {
				return 5
			}
			return d
		}, want: "well []"},
		{name: "two failed requests", failed: func(i int64) bool { return i < 2 }, want: "well []"},
		{name: "twice as slow", duration: func(_, _ int64, d float64) float64 { return 2 * d }, want: "worse [p50 p99] p99 131 ms, usually 46.1 … 84.8 ms; p50 37.8 ms, usually 17.8 … 22.9 ms"},
		{name: "one in twenty fails", failed: func(i int64) bool { return i%20 == 0 }, want: "worse [errors] errors 5 %, usually 0 … 0.34 %"},
		{name: "silent", silent: true, want: "odd [rate] rate 0/s, usually 3.75 … 6.25/s; last at 3600"},
		{name: "new", from: before - 8*60, want: " [] no usual"},
		{name: "new, and long enough", from: before - 20*60, want: "well []"},
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		st, w := storetest.NewTwin(), querytest.NewWriter()
		n := int64(0)
		for second := int64(0); second < before+60; second++ {
			now := second >= before
			w.Span(epoch+second, labels.FromStrings("service", "other", "kind", "server"), 0.01)
			for i := range int64(5) {
				d, status := 0.02*math.Exp(0.5*rng.NormFloat64()), "ok"
				if second < c.from || now && c.silent {
					continue
				}
				if now && c.duration != nil {
					d = c.duration(second-before, i, d)
				}
				if now {
					if c.failed != nil && c.failed(n) {
						status = "error"
					}
					n++
				}
				w.Span(epoch+second, labels.FromStrings("service", "shop", "kind", "server", "status", status), d)
			}
		}
		if err := w.Put(t.Context(), st, 1); err != nil {
			t.Fatal(err)
		}
		end := epoch + before + 60
		r := ServicesRequest{Selection: Selection{Start: at(epoch), End: at(end)}, Now: at(end).Add(Whole), Usual: &UsualCache{}}
		for range 2 { // the second is of what is kept
			sv, err := Services(t.Context(), st, r)
			if err != nil {
				t.Fatal(err)
			}
			s := sv.Services[1]
			var outside []string
			for _, name := range []string{figureRate, figureErrors, figureP50, figureP99} {
				if _, ok := s.Outside[name]; ok {
					outside = append(outside, name)
				}
			}
			got := fmt.Sprintf("%s %v", s.State, outside)
			if s.Why != "" {
				got += " " + s.Why
			}
			if s.Usual == nil {
				got += " no usual"
			}
			if s.Now.Last != 0 {
				got += fmt.Sprintf("; last at %d", s.Now.Last-epoch)
			}
			if got != c.want {
				t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
			}
			if s.Now.Start != end-60 || s.Now.End != end {
				t.Errorf("%s: now is %+v, want the minute up to %d", c.name, s.Now.Range, end)
			}
		}
	}
}

// What an incident or an outage covers is not usual, also of a young server of which it is
// much of what is known; what comes again and again is.
func TestIncidentsOfYoungServersAreNotUsual(t *testing.T) {
	type stretch struct {
		minutes              int
		slower, failed, rate float64
		want                 api.ServiceState // of nine in ten of its minutes at least; empty: any
	}
	good := func(minutes int) stretch { return stretch{minutes, 1, 0.002, 5, api.Well} }
	begin := good(30)
	begin.want = ""
	habit := []stretch{begin}
	for range 6 {
		habit = append(habit, stretch{10, 3, 0.002, 5, ""}, stretch{20, 1, 0.002, 5, api.Well})
	}
	habit = append(habit, stretch{10, 3, 0.002, 5, api.Well})
	for _, c := range []struct {
		name string
		of   []stretch
	}{
		{"twice as slow", []stretch{begin, {20, 2, 0.002, 5, api.Worse}, good(30), {10, 2, 0.002, 5, api.Worse}}},
		{"five times as slow", []stretch{begin, {20, 5, 0.002, 5, api.Worse}, good(30), {10, 5, 0.002, 5, api.Worse}}},
		{"a fifth fails", []stretch{begin, {20, 1, 0.2, 5, api.Worse}, good(30), {10, 1, 0.2, 5, api.Worse}}},
		{"longer than all before", []stretch{begin, {40, 2, 0.002, 5, api.Worse}, good(20)}},
		{"an outage", []stretch{begin, {20, 1, 0, 0, api.Odd}, good(30), {10, 1, 0, 0, api.Odd}}},
		{"it comes every half hour", habit},
	} {
		rng := rand.New(rand.NewPCG(trials.First(), 9))
		var ms []minute
		for n, of := range c.of {
			matches, got := 0, map[api.ServiceState]int{}
			for range of.minutes {
				h, errors := hist.New(hist.DefaultSchema), uint64(0)
				for range trials.Poisson(rng, 60*of.rate) {
					if rng.Float64() < of.failed {
						errors++
					}
					if err := h.RecordN(0.02*of.slower*math.Exp(0.5*rng.NormFloat64()), 1); err != nil {
						t.Fatal(err)
					}
				}
				m := minute{start: int64(len(ms)) * minuteLong, count: float64(h.Count), errors: float64(errors), squares: h.SquaredWeights(), apdex: math.NaN()}
				if err := m.durations(h); err != nil {
					t.Fatal(err)
				}
				ms = append(ms, m)
				s := api.Service{Now: serviceNow(m.start+minuteLong, h, errors)}
				if u := mustUsual(t, "hours", settled(ms[max(0, len(ms)-usualHours/60):], m.start)); u != nil {
					u.judge(&s, h)
				}
				if got[s.State]++; s.State == of.want {
					matches++
				}
			}
			if of.want != "" && 10*matches < 9*of.minutes {
				t.Errorf("%s, stretch %d: %v, want %d minutes %s", c.name, n+1, got, of.minutes, of.want)
			}
		}
	}
}

// An incident of the day before, at the same time, is not usual.
func TestIncidentsOfTheDayBeforeAreNotUsual(t *testing.T) {
	var ms []minute
	for i := range int64(31) {
		m := minute{start: i * minuteLong, count: 300, squares: 300, p50: 0.02, p99: 0.08 + 0.001*float64(i%3), apdex: math.NaN()}
		if i >= 8 && i < 20 {
			m.p99, m.errors = 0.5, 60
		}
		ms = append(ms, m)
	}
	if u := mustUsual(t, "days", ms); u.bands.P99.High > 0.1 || u.bands.Errors.High > 0.02 {
		t.Errorf("usual are a p99 of up to %v s and %v of errors, want those of the other minutes", u.bands.P99.High, u.bands.Errors.High)
	}
}

// Minutes of several days are in order of time, so that a lone one of another day is not taken for a part of an
// incident.
func TestDaysAreInOrder(t *testing.T) {
	for i := 1; i < len(usualDays); i++ {
		if usualDays[i] >= usualDays[i-1] {
			t.Errorf("%d days ago comes before %d", usualDays[i-1], usualDays[i])
		}
	}
}

// An Apdex is judged by a T that somebody set, and by no other.
func TestStateByApdex(t *testing.T) {
	for _, c := range []struct {
		name   string
		t      float64
		set    bool
		slower float64 // of the last minute, where durations are about 20 ms
		want   string
	}{
		{"as ever", 0.1, true, 1, "well "},
		{"nobody set it", 0.004, false, 1, "well "},
		{"poor as ever", 0.004, true, 1, "worse apdex 0.16 by T 4.00 ms, which is poor"},
		{"below what is usual", 0.03, true, 1.4, "worse apdex 0.77 by T 30.0 ms, usually 0.87 … 0.97"},
	} {
		rng := rand.New(rand.NewPCG(3, 5))
		st, w := storetest.NewTwin(), querytest.NewWriter()
		const before = 3600
		for second := range int64(before + 60) {
			for range 4 {
				d := 0.02 * math.Exp(0.4*rng.NormFloat64())
				if second >= before {
					d *= c.slower
				}
				w.Span(epoch+second, labels.FromStrings("service", "shop", "kind", "server"), d)
			}
		}
		if err := w.Put(t.Context(), st, 1); err != nil {
			t.Fatal(err)
		}
		end := epoch + before + 60
		sv, err := Services(t.Context(), st, ServicesRequest{
			Selection: Selection{Start: at(epoch), End: at(end)}, Now: at(end).Add(Whole), Usual: &UsualCache{},
			Target: func(string) (float64, bool) { return c.t, c.set },
		})
		if err != nil {
			t.Fatal(err)
		}
		s := sv.Services[0]
		why := ""
		if _, ok := s.Outside[figureApdex]; ok {
			why = s.Why[strings.Index(s.Why, figureApdex):]
		}
		if got := fmt.Sprint(s.State, " ", why); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		if known := s.Usual.Apdex != nil; known != c.set {
			t.Errorf("%s: what is usual of Apdex is known: %v", c.name, known)
		}
	}
}

// Names alone are those of the whole answer, with their requests and errors.
func TestNamesOfServices(t *testing.T) {
	st, w := storetest.NewTwin(), querytest.NewWriter()
	for i := range int64(40) {
		for _, l := range [][]string{
			{"service", "shop", "kind", "server", "status", []string{"ok", "error"}[i%2]}, {"service", "shop", "kind", "client"},
			{"service", "shop", "kind", "server", "environment", "test"}, {"service", "job", "kind", "internal"},
		} {
			w.Span(epoch+i, labels.FromStrings(l...), 0.01)
		}
	}
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	list := func(names bool) (out []string) {
		sv, err := Services(t.Context(), st, ServicesRequest{Selection: Selection{Start: at(epoch), End: at(epoch + 60)}, Names: names})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sv.Services {
			if names && (s.Now != nil || s.Usual != nil || !math.IsNaN(float64(s.Rate))) {
				t.Errorf("%s: more than its name is told: %+v", s.Name, s)
			}
			out = append(out, fmt.Sprintf("%s/%s %d %d", s.Name, s.Environment, s.Requests, s.Errors))
		}
		return out
	}
	want := []string{"job/ 40 0", "shop/ 40 20", "shop/test 40 0"}
	for _, names := range []bool{false, true} {
		if got := list(names); !slices.Equal(got, want) {
			t.Errorf("names %v: %v, want %v", names, got, want)
		}
	}
}

// A service that is as it was at the same time a day before is well, however different
// the hours before were; and one that is not is not.
func TestUsualIsTheSameTimeOfEarlierDays(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	st, w := storetest.NewTwin(), querytest.NewWriter()
	for day := range int64(2) {
		for second := int64(0); second < 3600; second++ {
			for range 2 {
				// The second half hour of each day is three times as slow.
				d := 0.02 * math.Exp(0.3*rng.NormFloat64()) * (1 + 2*float64(second/1800))
				w.Span(epoch+day*86400+second, labels.FromStrings("service", "shop", "kind", "server"), d)
			}
		}
	}
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	ask := func(st *storetest.Twin, end int64) api.Service {
		sv, err := Services(t.Context(), st, ServicesRequest{Selection: Selection{Start: at(end - 3600), End: at(end)}})
		if err != nil {
			t.Fatal(err)
		}
		return sv.Services[0]
	}
	if s := ask(st, epoch+86400+2700); s.State != api.Well || s.Usual.Of != "days" || s.Usual.Minutes != 31 {
		t.Errorf("as a day before: %s by %+v, want well by 31 minutes of days: %s", s.State, s.Usual, s.Why)
	}
	// Of the first day only the hours before are known.
	if s := ask(st, epoch+2700); s.State != api.Worse || s.Usual.Of != "hours" {
		t.Errorf("after a quarter of an hour three times as slow: %s by %+v, want worse by hours", s.State, s.Usual)
	}
}

// Minutes of the day before that few sampled requests stand for give way to the hours before, of
// which there are more. A service with few requests of its own keeps the day before.
func TestThinlySampledMinutesAreNotUsual(t *testing.T) {
	for _, c := range []struct {
		name   string
		weight uint64 // of the day before
		want   string
	}{
		{"as many", 1, "days"},
		{"one in ten", 10, "days"},
		{"one in a hundred", 100, "hours"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, w := storetest.NewTwin(), querytest.NewWriter()
			rng := rand.New(rand.NewPCG(9, c.weight))
			for day, weight := range []uint64{c.weight, 1} {
				w.Weight = weight
				for i := range 3 * 3600 * 5 {
					if rng.Uint64N(weight) == 0 {
						w.Span(epoch+int64(day)*86400+int64(i/5), labels.FromStrings("service", "shop", "kind", "server"), 0.02*math.Exp(0.3*rng.NormFloat64()))
					}
				}
			}
			if err := w.Put(t.Context(), st, 1); err != nil {
				t.Fatal(err)
			}
			end := int64(epoch + 86400 + 10000)
			sv, err := Services(t.Context(), st, ServicesRequest{Selection: Selection{Start: at(end - 3600), End: at(end)}})
			if err != nil {
				t.Fatal(err)
			}
			if s := sv.Services[0]; s.Usual == nil || s.Usual.Of != c.want || s.State != api.Well {
				t.Errorf("%s by %+v, want well by %s: %s", s.State, s.Usual, c.want, s.Why)
			}
		})
	}
}

// A strip holds the requests of each column, in rows that ascend.
func TestStripsOfServices(t *testing.T) {
	st, w := storetest.NewTwin(), querytest.NewWriter()
	for slot := range int64(6) {
		if slot == 3 { // a gap
			continue
		}
		for i := range 10 * (slot + 1) {
			w.Span(epoch+slot*60+i%60, labels.FromStrings("service", "shop", "kind", "server", "status", []string{"ok", "error"}[i%2]), 0.001*math.Pow(1.3, float64(i)))
		}
	}
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	r := ServicesRequest{Selection: Selection{Start: at(epoch), End: at(epoch + 360)}, Grid: Grid{Step: 60}, Rows: 16}
	sv, err := Services(t.Context(), st, r)
	if err != nil {
		t.Fatal(err)
	}
	strip := sv.Services[0].Strip
	if n := len(strip.Bounds) - 1; n < 8 || n > 16 {
		t.Errorf("%d rows, want 8 to 16", n)
	}
	for i := range int64(6) {
		want := uint64(10 * (i + 1))
		if i == 3 {
			want = 0
		}
		got := uint64(0)
		for _, n := range strip.Counts[i] {
			got += n
		}
		if got != want {
			t.Errorf("column %d has %d requests, want %d", i, got, want)
		}
		if want == 0 {
			continue
		}
		low := float64(strip.Bounds[strip.From[i]])
		if high := float64(strip.Bounds[strip.From[i]+len(strip.Counts[i])]); !(low < 0.001 && high >= 0.001*math.Pow(1.3, float64(want-1))) {
			t.Errorf("column %d reaches from %v to %v, which leaves requests out", i, low, high)
		}
	}
	r.Rows = 0
	if sv, err = Services(t.Context(), st, r); err != nil || sv.Services[0].Strip != nil {
		t.Errorf("a strip that nobody asked for: %v", err)
	}
	r.Rows = 1
	if _, err = Services(t.Context(), st, r); err == nil {
		t.Error("a strip of one row is not refused")
	}
}

// A live update of the first page asks for an hour; what is usual is kept for a minute.
func BenchmarkServices(b *testing.B) {
	for _, n := range []int{3, 200} {
		st, err := pebblestore.Open(context.Background(), pebblestore.Options{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { st.Close() })
		rng := rand.New(rand.NewPCG(7, 8))
		const seconds = 4 * 3600
		for from := int64(0); from < seconds; from += 600 {
			w := querytest.NewWriter()
			for slot := from; slot < from+600; slot += 10 {
				for i := range n {
					for k := range 12 {
						status := "ok"
						if k == 0 {
							status = "error"
						}
						w.Span(epoch+slot, labels.FromStrings("service", fmt.Sprintf("service-%03d", i), "kind", []string{"server", "client"}[k%2], "status", status), 0.01*math.Exp(0.7*rng.NormFloat64()))
					}
				}
			}
			if err := w.Put(context.Background(), st, uint64(from/600)+1); err != nil {
				b.Fatal(err)
			}
			if err := st.Maintain(context.Background(), at(epoch+from+630)); err != nil {
				b.Fatal(err)
			}
		}
		end := epoch + seconds
		r := ServicesRequest{Selection: Selection{Start: at(end - 3600), End: at(end)}, Grid: Grid{Width: 60}, Now: at(end).Add(Whole)}
		for _, c := range []struct {
			name  string
			rows  int
			usual *UsualCache
		}{{"kept", 16, &UsualCache{}}, {"kept-no-strips", 0, &UsualCache{}}, {"first", 16, nil}} {
			b.Run(fmt.Sprintf("services=%d/usual=%s", n, c.name), func(b *testing.B) {
				r := r
				r.Rows, r.Usual = c.rows, c.usual
				if _, err := Services(context.Background(), st, r); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Services(context.Background(), st, r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
