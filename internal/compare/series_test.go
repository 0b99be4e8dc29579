package compare

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

const (
	cpu   = "process_cpu_time_seconds_total"
	pause = "jvm_gc_duration_seconds"
	queue = "queue_depth"
)

// counted writes a counter of an instance in (start, end], exported so often.
// It grows by perSecond, more or less, and begins again at resets.
func counted(w *querytest.Writer, rng *rand.Rand, family, instance string, start, end, every int64, value, perSecond float64, resets ...int64) float64 {
	s := series.Series{Family: family, Kind: series.Counter, Labels: labels.FromStrings("service", "shop", "instance", instance)}
	for at := start + every; at <= end; at += every {
		value += float64(every) * perSecond * math.Exp(0.1*rng.NormFloat64())
		for _, r := range resets {
			if r > at-every && r <= at {
				value = float64(at-r) * perSecond
			}
		}
		w.Number(1000*at+rng.Int64N(900), s, value)
	}
	return value
}

func only(t *testing.T, r *api.CompareResponse, name string) api.CompareMeasure {
	t.Helper()
	if len(r.Measures) != 1 || r.Measures[0].Name != name {
		t.Fatalf("measures %+v, want only %s", r.Measures, name)
	}
	return r.Measures[0]
}

func holds(t *testing.T, m api.CompareMeasure, want float64) {
	t.Helper()
	if f := m.Raw; !(f.Low <= api.Float(want) && api.Float(want) <= f.High) {
		t.Errorf("%s: %v in [%v, %v], want %v inside", m.Name, f.Effect, f.Low, f.High, want)
	}
}

// CPU seconds that double are found, whatever the export interval, though a
// process starts again and another instance comes.
func TestCounterDoubles(t *testing.T) {
	for _, every := range []int64{10, 15, 60} {
		w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(1, uint64(every)))
		w.Family(store.FamilyInfo{Name: cpu, Kind: series.Counter, IntervalSeconds: every})
		v := counted(w, rng, cpu, "a", epoch-600, epoch+7200, every, 5000, 0.5, epoch+3000)
		counted(w, rng, cpu, "a", epoch+7200, epoch+14400, every, v, 0.8)
		counted(w, rng, cpu, "b", epoch+7200-every, epoch+14400, every, 0, 0.2)
		st, err := pebblestore.Open(t.Context(), pebblestore.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if err := errors.Join(w.Put(t.Context(), st, 1), st.Maintain(t.Context(), at(epoch+86400))); err != nil {
			t.Fatal(err)
		}
		r := compared(t, st, Request{Selection: query.Selection{Family: cpu, Matchers: selection("service", "shop").Matchers}, A: window(0, 7200), B: window(7200, 14400)})
		m := only(t, r, "rate")
		if r.Verdict != judge.Regression || m.Verdict != judge.Higher || m.Like != nil || r.Unit != "seconds" || r.Slot < every || r.Slot%every != 0 {
			t.Errorf("every %d s: %s, %s, slots of %d s", every, r.Verdict, r.Sentence, r.Slot)
		}
		holds(t, m, 2)
		if math.Abs(float64(m.Raw.A)-0.5) > 0.02 || !warned(r, "series") {
			t.Errorf("every %d s: %v CPU seconds a second, want 0.5; warnings %v", every, m.Raw.A, r.Warnings)
		}
		if want := "the rate of process_cpu_time_seconds_total of shop is 2"; !strings.HasPrefix(r.Sentence, want) || !strings.Contains(r.Sentence, "times as high") {
			t.Errorf("says %q", r.Sentence)
		}
	}
}

// What is exported less than once an hour has no slots.
func TestRareExport(t *testing.T) {
	w := querytest.NewWriter()
	w.Family(store.FamilyInfo{Name: cpu, Kind: series.Counter, IntervalSeconds: 7200})
	w.Number(1000*epoch, series.Series{Family: cpu, Kind: series.Counter, Labels: labels.FromStrings("service", "shop")}, 1)
	if _, err := Compare(t.Context(), stored(t, w), Request{Selection: query.Selection{Family: cpu}, A: window(0, 7200), B: window(7200, 14400)}); err == nil || !strings.Contains(err.Error(), "export it more often") {
		t.Errorf("got %v", err)
	}
}

// Neither a missing export nor one instance's silence makes a slot busier.
func TestCounterGaps(t *testing.T) {
	w := querytest.NewWriter()
	w.Family(store.FamilyInfo{Name: cpu, Kind: series.Counter, IntervalSeconds: 60})
	s := series.Series{Family: cpu, Kind: series.Counter, Labels: labels.FromStrings("service", "shop", "instance", "a")}
	for at := epoch - 60; at <= epoch+7200; at += 60 {
		if (at-epoch)%600 != 240 { // every tenth is lost
			w.Number(1000*at+17, s, 3*float64(at-epoch+60))
		}
	}
	r := compared(t, stored(t, w), Request{Selection: query.Selection{Family: cpu}, A: window(0, 3600), B: window(3600, 7200)})
	f := only(t, r, "rate").Raw
	if math.Abs(float64(f.A)-3) > 1e-9 || math.Abs(float64(f.B)-3) > 1e-9 || math.Abs(float64(f.Effect)-1) > 1e-9 || r.Verdict != judge.Same || r.A.Slots != 60 {
		t.Errorf("%v and %v a second in %d slots, want 3; %s", f.A, f.B, r.A.Slots, r.Verdict)
	}
}

// Twice the requests take twice the CPU: for each request it is the same, and
// the comparison of the counter alone says to ask for that.
func TestPerRequest(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(3, 1))
	w.Family(store.FamilyInfo{Name: cpu, Kind: series.Counter, IntervalSeconds: 10})
	cart := load{operation: "GET /cart", tenant: "acme", perSlot: 20, median: 0.02}
	send(w, rng, epoch, epoch+3600, cart)
	cart.perSlot = 40
	send(w, rng, epoch+3600, epoch+7200, cart)
	v := counted(w, rng, cpu, "a", epoch-20, epoch+3600, 10, 0, 0.1)
	counted(w, rng, cpu, "a", epoch+3600, epoch+7200, 10, v, 0.2)
	// Pauses: a request's part stays at 1 ms.
	for at := epoch; at < epoch+7200; at += 10 {
		n := 2
		if at >= epoch+3600 {
			n = 4
		}
		for range n {
			w.Observe(at, series.Series{Family: pause, Labels: labels.FromStrings("service", "shop", "gc", "young")}, 0.01*math.Exp(0.3*rng.NormFloat64()-0.045))
		}
	}
	st := stored(t, w)
	for family, each := range map[string]float64{cpu: 0.05, pause: 0.001} {
		sel := selection("service", "shop")
		sel.Family = family
		r := compared(t, st, Request{Selection: sel, A: window(0, 3600), B: window(3600, 7200), Per: query.PerRequest})
		m := only(t, r, "per_request")
		holds(t, m, 1)
		if m.Change != "" || math.Abs(float64(m.Raw.A)/each-1) > 0.05 || r.A.Requests < 7170 || r.B.Requests < 14340 || r.Per != "request" || warned(r, "load") {
			t.Errorf("%s: %v a request, want %v, %d and %d requests, %s", family, m.Raw.A, each, r.A.Requests, r.B.Requests, r.Sentence)
		}
	}
	sel := selection("service", "shop")
	sel.Family = cpu
	r := compared(t, st, Request{Selection: sel, A: window(0, 3600), B: window(3600, 7200)})
	if holds(t, only(t, r, "rate"), 2); !warned(r, "load") {
		t.Errorf("warnings %v", r.Warnings)
	}
	if _, err := Compare(t.Context(), st, Request{Selection: query.Selection{Family: cpu}, A: window(0, 3600), B: window(3600, 7200), Per: query.PerRequest}); err == nil || !strings.Contains(err.Error(), "counted by service") {
		t.Errorf("got %v", err)
	}
}

// Pauses of a collector that are halved: found at every quantile, like for like
// over the kinds of collections, which came to another mix.
func TestPauses(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(5, 1))
	w.Family(store.FamilyInfo{Name: pause, Kind: series.Distribution, IntervalSeconds: 60})
	send := func(from, to int64, young, old int, factor float64) {
		for at := epoch + from; at < epoch+to; at += 60 {
			wander := math.Exp(0.05 * rng.NormFloat64())
			for _, gc := range []struct {
				name   string
				n      int
				median float64
			}{{"young", young, 0.004}, {"old", old, 0.08}} {
				for range gc.n {
					w.Observe(at, series.Series{Family: pause, Labels: labels.FromStrings("service", "shop", "gc", gc.name, "instance", "pod-1")}, gc.median*factor*wander*math.Exp(0.3*rng.NormFloat64()))
				}
			}
		}
	}
	send(0, 7200, 30, 10, 1)
	send(7200, 14400, 20, 20, 0.5)
	sel := selection("service", "shop")
	sel.Family = pause
	r := compared(t, stored(t, w), Request{Selection: sel, A: window(0, 7200), B: window(7200, 14400)})
	if r.Slot != 60 || r.Verdict != judge.Improvement || fmt.Sprint(r.StrataBy) != "[gc]" || r.Strata != 2 || !warned(r, "mix") || warned(r, "series") || len(r.Operations) != 2 {
		t.Errorf("slots of %d s, %s, strata by %v, %v, %d rows", r.Slot, r.Sentence, r.StrataBy, r.Warnings, len(r.Operations))
	}
	for _, name := range []string{"p50", "p95", "p99", "mean"} {
		m := measureOf(t, r, name)
		if f := m.Like; m.Verdict != judge.Faster || m.Change != judge.Better || f == nil || !(f.Low <= 0.52 && 0.48 <= f.High) {
			t.Errorf("%s: %s, %+v", name, m.Sentence, m.Like)
		}
	}
	if m := measureOf(t, r, "rate"); m.Change != "" || math.Abs(float64(m.Raw.A)-40.0/60) > 1e-9 {
		t.Errorf("rate %+v", m)
	}
	for _, row := range r.Operations {
		for _, m := range row.Measures {
			holds(t, m, 0.5)
		}
	}
	if r.Whole == nil || r.Whole.Verdict != Different {
		t.Errorf("whole %+v", r.Whole)
	}
}

// Of a gauge the mean of its last values is judged; what is not time or bytes
// has changed, for better or worse nobody knows. One that is 0 has no ratio.
func TestGauge(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(6, 1))
	depth := func(name string) series.Series {
		return series.Series{Family: name, Kind: series.Gauge, Labels: labels.FromStrings("service", "shop")}
	}
	for at := epoch; at < epoch+3600; at += 10 {
		mean, few := 10.0, 0.0
		if at >= epoch+1800 {
			mean, few = 15, 2
		}
		w.Number(1000*at, depth(queue), mean+rng.NormFloat64())
		w.Number(1000*at, depth("queue_bytes"), few*(1+0.1*rng.NormFloat64()))
	}
	st := stored(t, w)
	r := compared(t, st, Request{Selection: query.Selection{Family: queue}, A: window(0, 1800), B: window(1800, 3600)})
	m := only(t, r, "mean")
	if holds(t, m, 1.5); r.Verdict != judge.Changed || m.Verdict != judge.Higher || m.Change != "" || !strings.HasPrefix(r.Sentence, "the mean of queue_depth of shop is ") {
		t.Errorf("%s: %s", r.Verdict, r.Sentence)
	}
	r = compared(t, st, Request{Selection: query.Selection{Family: "queue_bytes"}, A: window(0, 1800), B: window(1800, 3600)})
	m = only(t, r, "mean")
	if holds(t, m, 2); m.Scale != "difference" || r.Verdict != judge.Regression || !strings.Contains(r.Sentence, " bytes higher (95 % interval ") {
		t.Errorf("%s: %s %s", r.Verdict, m.Scale, r.Sentence)
	}
	if _, err := Compare(t.Context(), st, Request{Selection: query.Selection{Family: queue}, A: window(0, 1800), B: window(1800, 3600), Measures: []string{"p99"}}); err == nil || !strings.Contains(err.Error(), "queue_depth has no p99; write mean") {
		t.Errorf("got %v", err)
	}
}

// A family without the label service, as the values of checks, is judged as well.
func TestGaugeOfNoService(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(6, 2))
	of := func(check string) series.Series {
		return series.Series{Family: "check_value", Kind: series.Gauge, Labels: labels.FromStrings("check", check)}
	}
	for now := epoch; now < epoch+3600; now += 10 {
		mean := 10.0
		if now >= epoch+1800 {
			mean = 15
		}
		w.Number(1000*now, of("orders"), mean+rng.NormFloat64())
		if now%60 == 0 {
			w.Number(1000*now, of("jobs"), 2*mean+rng.NormFloat64())
		}
	}
	st := stored(t, w)
	for _, check := range []string{"orders", "jobs"} {
		sel := query.Selection{Family: "check_value", Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "check", check)}}
		r := compared(t, st, Request{Selection: sel, A: window(0, 1800), B: window(1800, 3600)})
		m := only(t, r, "mean")
		if holds(t, m, 1.5); r.Verdict != judge.Changed || m.Verdict != judge.Higher {
			t.Errorf("%s: %s: %s", check, r.Verdict, r.Sentence)
		}
	}
	r := compared(t, st, Request{Selection: query.Selection{Family: "check_value", Matchers: []*labels.Matcher{}, Start: at(epoch), End: at(epoch + 3600)}, Label: "check", ValueA: "orders", ValueB: "jobs"})
	if m := only(t, r, "mean"); m.Verdict != judge.Higher {
		t.Errorf("%s: %s", r.Verdict, r.Sentence)
	}
}

// Two instances of a counter, in the same slots: what moves both cancels.
func TestCounterByLabel(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(8, 1))
	value := map[string]float64{}
	for at := epoch; at <= epoch+3600; at += 10 {
		busy := math.Exp(0.5 * math.Sin(float64(at)/300))
		for _, name := range []string{"a", "b"} { // in an order, for the same numbers each time
			value[name] += busy * map[string]float64{"a": 1, "b": 1.3}[name] * math.Exp(0.05*rng.NormFloat64())
			w.Number(1000*at, series.Series{Family: cpu, Kind: series.Counter, Labels: labels.FromStrings("service", "shop", "instance", name)}, value[name])
		}
	}
	sel := selection("service", "shop")
	sel.Family, sel.Start, sel.End = cpu, at(epoch), at(epoch+3600)
	r := compared(t, stored(t, w), Request{Selection: sel, Label: "instance", ValueA: "a", ValueB: "b"})
	m := only(t, r, "rate")
	if holds(t, m, 1.3); !r.Paired || m.Raw.High/m.Raw.Low > 1.05 || r.Verdict != judge.Regression {
		t.Errorf("paired %v, [%v, %v], %s; %v", r.Paired, m.Raw.Low, m.Raw.High, r.Sentence, r.Warnings)
	}
}

// Time in the database for each request is a distribution over requests.
func TestComponentPerRequest(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(9, 1))
	for at := epoch; at < epoch+2400; at += 10 {
		n, db := 10, 0.03
		if at >= epoch+1200 {
			n, db = 20, 0.045
		}
		for range n {
			self := db * math.Exp(0.3*rng.NormFloat64())
			second := func(v float64) time.Duration { return time.Duration(v * 1e9) }
			w.Request(querytest.Request{At: at, Service: "shop", Operation: "GET /cart", Duration: second(self + 0.05), Parts: []querytest.Part{
				{Service: "shop", Component: "app", Operation: "GET /cart", Self: second(0.05)}, {Service: "shop", Component: "db", Operation: "SELECT", Self: second(self)}}})
		}
	}
	sel := selection("service", "shop", "component", "db")
	sel.Family = series.SpanSelf
	r := compared(t, stored(t, w), Request{Selection: sel, A: window(0, 1200), B: window(1200, 2400)})
	mean := measureOf(t, r, "mean")
	if holds(t, mean, 1.5); r.Verdict != judge.Regression || !strings.Contains(mean.Sentence, "the mean of db time of requests of shop is ") {
		t.Errorf("%s: %s", r.Verdict, mean.Sentence)
	}
}

// What each request takes is of the requests of the same version: one that has
// a third of the traffic and twice the cost.
func TestPerRequestByLabel(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(18, 1))
	versions := map[string]struct {
		requests int
		each     float64 // CPU seconds
	}{"1.0": {30, 0.01}, "1.1": {10, 0.02}}
	value := map[string]float64{}
	for at := epoch - 10; at < epoch+3600; at += 10 {
		for _, name := range []string{"1.0", "1.1"} {
			v := versions[name]
			send(w, rng, at, at+10, load{operation: "GET /cart", perSlot: v.requests, median: 0.02, more: []string{"version", name}})
			value[name] += float64(v.requests) * v.each * math.Exp(0.05*rng.NormFloat64())
			w.Number(1000*at+9999, series.Series{Family: cpu, Kind: series.Counter, Labels: labels.FromStrings("service", "shop", "version", name)}, value[name])
		}
	}
	sel := selection("service", "shop")
	sel.Family, sel.Start, sel.End = cpu, at(epoch), at(epoch+3600)
	for _, live := range []bool{false, true} {
		r := compared(t, stored(t, w), Request{Selection: sel, Label: "version", ValueA: "1.0", ValueB: "1.1", Per: query.PerRequest, Live: live})
		m := only(t, r, "per_request")
		if holds(t, m, 2); !r.Paired || r.Verdict != judge.Regression || math.Abs(float64(m.Raw.A)-0.01) > 0.0005 || r.Whole != nil {
			t.Errorf("live %v: paired %v, %v, %s", live, r.Paired, m.Raw.A, r.Sentence)
		}
	}
}

// Turned round, a counter gives the inverse ratio and a gauge near 0 the
// opposite difference.
func TestNumbersTurnedRound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
		w := querytest.NewWriter()
		ratio, every := rapid.Float64Range(0.2, 5).Draw(rt, "ratio"), rapid.SampledFrom([]int64{10, 15, 30}).Draw(rt, "every")
		w.Family(store.FamilyInfo{Name: cpu, Kind: series.Counter, IntervalSeconds: every})
		v := counted(w, rng, cpu, "a", epoch-2*every, epoch+1800, every, 0, 1)
		counted(w, rng, cpu, "a", epoch+1800, epoch+3600, every, v, ratio, epoch+rapid.Int64Range(1800, 3600).Draw(rt, "reset"))
		level := rapid.Float64Range(-1, 1).Draw(rt, "level")
		for at := epoch; at < epoch+3600; at += 10 {
			w.Number(1000*at, series.Series{Family: queue, Kind: series.Gauge, Labels: labels.FromStrings("service", "shop")}, level+rng.NormFloat64())
		}
		st := stored(t, w)
		for _, family := range []string{cpu, queue} {
			sel := selection("service", "shop")
			sel.Family = family
			a, b := window(0, 1800), window(1800, 3600)
			there, back := compared(t, st, Request{Selection: sel, A: a, B: b}).Measures[0], compared(t, st, Request{Selection: sel, A: b, B: a}).Measures[0]
			turned := -float64(back.Raw.Effect)
			if there.Scale == "ratio" {
				turned = 1 / float64(back.Raw.Effect)
			}
			if there.Scale != back.Scale || math.Abs(turned-float64(there.Raw.Effect)) > 1e-6*max(1, math.Abs(turned)) || math.Abs(float64(there.Raw.P-back.Raw.P)) > 1e-6 {
				rt.Fatalf("%s: %+v one way, %+v the other", family, there.Raw, back.Raw)
			}
			if f := there.Raw; f.Short == "" && !(f.Low <= f.Effect && f.Effect <= f.High) {
				rt.Fatalf("%s: %v outside [%v, %v]", family, f.Effect, f.Low, f.High)
			}
		}
	})
}
