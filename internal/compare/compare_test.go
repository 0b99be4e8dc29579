package compare

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const epoch = querytest.Epoch

// load is requests of one operation: so many a slot, log-normal about a median
// that wanders from slot to slot.
type load struct {
	operation, tenant string
	perSlot           int
	median            float64 // seconds
	failed            float64 // share
	seldom            float64 // share of slots that have none of it
	more              []string
}

// send writes the loads into the slots of [start, end).
func send(w *querytest.Writer, rng *rand.Rand, start, end int64, loads ...load) {
	labelled := func(l *load, status string) labels.Labels {
		b := labels.NewBuilder(labels.FromStrings(series.LabelService, "shop", series.LabelOperation, l.operation, series.LabelKind, "server",
			series.LabelStatus, status, series.LabelComponent, "app"))
		b.Set(series.LabelTenant, l.tenant)
		for i := 0; i < len(l.more); i += 2 {
			b.Set(l.more[i], l.more[i+1])
		}
		return b.Labels()
	}
	ok, failed := make([]labels.Labels, len(loads)), make([]labels.Labels, len(loads))
	for i := range loads {
		ok[i], failed[i] = labelled(&loads[i], "ok"), labelled(&loads[i], "error")
	}
	wander := 0.0
	for slot := start; slot < end; slot += 10 {
		wander = 0.3*wander + 0.05*rng.NormFloat64()
		for i, l := range loads {
			if l.seldom > 0 && rng.Float64() < l.seldom {
				continue
			}
			for range l.perSlot {
				of := ok[i]
				if rng.Float64() < l.failed {
					of = failed[i]
				}
				w.Span(slot, of, l.median*math.Exp(wander+0.5*rng.NormFloat64()))
			}
		}
	}
}

func stored(t testing.TB, w *querytest.Writer) store.Store {
	t.Helper()
	st := storetest.NewTwin()
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	return st
}

func selection(pairs ...string) query.Selection {
	var sel query.Selection
	for i := 0; i < len(pairs); i += 2 {
		sel.Matchers = append(sel.Matchers, labels.MustNewMatcher(labels.MatchEqual, pairs[i], pairs[i+1]))
	}
	return sel
}

func at(sec int64) time.Time { return time.Unix(sec, 0) }

func window(from, to int64) Window { return Window{at(epoch + from), at(epoch + to)} }

func compared(t testing.TB, st store.Store, r Request) *api.CompareResponse {
	t.Helper()
	if r.Matchers == nil {
		r.Matchers = selection("service", "shop").Matchers
	}
	out, err := Compare(t.Context(), st, r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func measureOf(t testing.TB, r *api.CompareResponse, name string) api.CompareMeasure {
	t.Helper()
	for _, m := range r.Measures {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no measure %s", name)
	return api.CompareMeasure{}
}

func warned(r *api.CompareResponse, code string) bool {
	for _, w := range r.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}

// An index made one operation faster: it is the one that is named, by what it
// gained, and the other is left alone.
func TestMark(t *testing.T) {
	const ratio = 0.62
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(2, 2))
	cart := load{operation: "GET /cart", tenant: "acme", perSlot: 30, median: 0.02}
	search := load{operation: "GET /search", tenant: "globex", perSlot: 30, median: 0.1}
	send(w, rng, epoch, epoch+1805, cart, search)
	search.median *= ratio
	send(w, rng, epoch+1810, epoch+3600, cart, search)
	st := stored(t, w)
	for _, m := range []store.Mark{{ID: "index", Name: "the index", Time: at(epoch + 1803), Service: "shop"}, {ID: "other", Name: "a backup", Time: at(epoch + 2500)}} {
		if err := store.PutMark(t.Context(), st, m); err != nil {
			t.Fatal(err)
		}
	}
	r := compared(t, st, Request{Mark: "index", Settle: -1, Length: 30 * time.Minute, Now: at(epoch + 3620)})
	if r.A.Start != epoch || r.A.End != epoch+1800 || r.B.Start != epoch+1820 || r.B.End != epoch+3600 {
		t.Errorf("sides %d..%d and %d..%d: want the slot of the mark and one more cut out", r.A.Start-epoch, r.A.End-epoch, r.B.Start-epoch, r.B.End-epoch)
	}
	if r.Verdict != judge.Improvement || r.Paired || r.Mark == nil || r.Mark.Name != "the index" || r.Slot != 10 {
		t.Errorf("verdict %q, paired %v, mark %v", r.Verdict, r.Paired, r.Mark)
	}
	if !warned(r, "marks") || warned(r, "mix") || warned(r, "errors") {
		t.Errorf("warnings %v", r.Warnings)
	}
	first, second := r.Operations[0], r.Operations[1]
	if first.Operation != "GET /search" || !first.Changed || second.Changed {
		t.Fatalf("operations %+v", r.Operations)
	}
	for _, m := range first.Measures {
		f := m.Raw
		if m.Name == "errors" {
			continue
		}
		if m.Verdict != judge.Faster || !(f.Low <= ratio && ratio <= f.High) {
			t.Errorf("%s: %s, %v in [%v, %v], want %v inside", m.Name, m.Verdict, f.Effect, f.Low, f.High, ratio)
		}
	}
	if len(r.Tenants) != 2 || r.Tenants[0].Tenant != "globex" || !r.Tenants[0].Changed || r.Tenants[1].Changed {
		t.Errorf("tenants %+v", r.Tenants)
	}
	r = compared(t, st, Request{Selection: selection("service", "shop", "operation", "GET /search"), Mark: "index", Settle: -1, Now: at(epoch + 3620), Measures: []string{"p99"}})
	if !strings.HasPrefix(r.Sentence, "p99 of GET /search of shop is 3") || !strings.Contains(r.Sentence, " % faster (95 % interval ") {
		t.Errorf("says %q", r.Sentence)
	}
}

// Without a change hardly ever one is found, by all measures together.
func TestNoChange(t *testing.T) {
	const trials = 12
	alarms := 0
	for i := range uint64(trials) {
		w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(7, i))
		send(w, rng, epoch, epoch+2400, load{operation: "GET /cart", tenant: "acme", perSlot: 15, median: 0.02, failed: 0.02}, load{operation: "GET /search", tenant: "acme", perSlot: 5, median: 0.1})
		r := compared(t, stored(t, w), Request{A: window(0, 1200), B: window(1200, 2400)})
		if r.Verdict != judge.NoEvidence && r.Verdict != judge.Same {
			alarms++
			t.Logf("trial %d: %s", i, r.Sentence)
		}
	}
	// 4 alarms of 12 at 5 % come once in 450 times.
	if alarms >= 4 {
		t.Errorf("%d alarms in %d trials without a change", alarms, trials)
	}
}

// A known change is found every time, and its size lies in the intervals as
// often as they promise.
func TestKnownChange(t *testing.T) {
	const trials, ratio = 10, 1.4
	inside, judged := 0, 0
	for i := range uint64(trials) {
		w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(11, i))
		send(w, rng, epoch, epoch+1200, load{operation: "GET /cart", tenant: "acme", perSlot: 20, median: 0.1})
		send(w, rng, epoch+1200, epoch+2400, load{operation: "GET /cart", tenant: "acme", perSlot: 20, median: 0.1 * ratio})
		r := compared(t, stored(t, w), Request{A: window(0, 1200), B: window(1200, 2400)})
		if r.Verdict != judge.Regression {
			t.Errorf("trial %d: %s: %s", i, r.Verdict, r.Sentence)
		}
		for _, name := range []string{"p50", "p95", "p99"} {
			f := measureOf(t, r, name).Like
			judged++
			if f.Low <= ratio && ratio <= f.High {
				inside++
			}
		}
	}
	if inside < judged*80/100 {
		t.Errorf("%d of %d intervals of 95 %% hold what changed", inside, judged)
	}
}

// Another mix of operations is not another speed.
func TestMixMoved(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(3, 4))
	cart := load{operation: "GET /cart", perSlot: 36, median: 0.02}
	search := load{operation: "GET /search", perSlot: 4, median: 0.2}
	send(w, rng, epoch, epoch+1800, cart, search)
	cart.perSlot, search.perSlot = 24, 16
	send(w, rng, epoch+1800, epoch+3600, cart, search, load{operation: "GET /new", perSlot: 8, median: 0.3})
	r := compared(t, stored(t, w), Request{A: window(0, 1800), B: window(1800, 3600)})
	mean := measureOf(t, r, "mean")
	if mean.Raw.Verdict != judge.Slower || mean.Like == nil || mean.Verdict == judge.Slower || mean.Verdict == judge.Faster {
		t.Errorf("mean: raw %s, like for like %s", mean.Raw.Verdict, mean.Verdict)
	}
	if !(mean.Like.Low < 1 && 1 < mean.Like.High) {
		t.Errorf("like for like [%v, %v], want 1 inside", mean.Like.Low, mean.Like.High)
	}
	for _, x := range r.Warnings {
		if x.Code == "coverage" && !strings.HasSuffix(x.Text, "only 83 % of the requests of one of them: the like-for-like figures are of those; GET /new came") {
			t.Errorf("warns %q", x.Text)
		}
	}
	if !warned(r, "mix") || !warned(r, "coverage") || r.Strata != 2 || math.Abs(float64(r.Covered)-40.0/48) > 1e-9 {
		t.Errorf("warnings %v, %d strata, covered %v", r.Warnings, r.Strata, r.Covered)
	}
}

// Another mix of tenants is not another speed either: a large one came to send
// more of the same slow operation. What has no tenant is not lost.
func TestCohortsMoved(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(13, 4))
	loads := func(whale int) []load {
		all := []load{{operation: "GET /cart", tenant: "whale", perSlot: whale, median: 0.3}, {operation: "GET /cart", perSlot: 2, median: 0.02}}
		for i := range 30 {
			all = append(all, load{operation: "GET /cart", tenant: fmt.Sprint("small-", i), perSlot: 1, median: 0.03})
		}
		return append(all, load{operation: "work", perSlot: 3, median: 9, more: []string{series.LabelKind, "internal"}})
	}
	send(w, rng, epoch, epoch+1800, loads(4)...)
	send(w, rng, epoch+1800, epoch+3600, loads(16)...)
	r := compared(t, stored(t, w), Request{A: window(0, 1800), B: window(1800, 3600)})
	if r.A.Requests != 36*180 || r.B.Requests != 48*180 || r.Strata != 22 || r.Covered != 1 || r.StrataBy[2] != "cohort" || r.StrataBy[3] != "tenant" {
		t.Fatalf("A %+v, B %+v, %d strata by %v, covered %v", r.A, r.B, r.Strata, r.StrataBy, r.Covered)
	}
	mean := measureOf(t, r, "mean")
	if mean.Raw.Verdict != judge.Slower || mean.Change != "" || !warned(r, "mix") {
		t.Errorf("mean: raw %s, like for like %s, warnings %v", mean.Raw.Verdict, mean.Verdict, r.Warnings)
	}
}

// Where only longer slots are kept of one side, both are cut into those, and
// the mark's own slot is as long.
func TestLongerSlots(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 4))
	w := querytest.NewWriter()
	send(w, rng, epoch+1800, epoch+3600, load{operation: "GET /cart", perSlot: 20, median: 0.2})
	st := stored(t, w)
	l := labels.FromStrings("service", "shop", "operation", "GET /cart", "kind", "server", "status", "ok", "component", "app")
	batch := &store.Batch{Writer: "rollup", Generation: 1, Resolution: series.Minute, Series: []series.Series{
		{Family: series.SpanDuration, View: series.Marginal, Labels: l}, {Family: series.SpanDuration, View: series.Total, Labels: labels.NewBuilder(l).Del("operation").Labels()}}}
	for slot := epoch; slot < epoch+1800; slot += 60 {
		h := hist.New(hist.DefaultSchema)
		for range 120 {
			if err := h.Record(0.1 * math.Exp(0.5*rng.NormFloat64())); err != nil {
				t.Fatal(err)
			}
		}
		data, err := h.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range batch.Series {
			batch.Points = append(batch.Points, store.Point{Series: uint32(i), Slot: slot, Data: data})
		}
	}
	if err := st.Put(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if err := store.PutMark(t.Context(), st, store.Mark{ID: "m", Name: "deploy", Time: at(epoch + 1810)}); err != nil {
		t.Fatal(err)
	}
	r := compared(t, coarse{st}, Request{Mark: "m", Settle: -1, Length: 30 * time.Minute, Now: at(epoch + 3620)})
	if r.Slot != 60 || r.A.Start != epoch || r.A.End != epoch+1800 || r.B.Start != epoch+1920 || r.Verdict != judge.Regression {
		t.Errorf("slots of %d s, A %+v, B %+v, %s", r.Slot, r.A, r.B, r.Verdict)
	}
	if f := measureOf(t, r, "p50").Raw; !(f.Low <= 2 && 2 <= f.High) {
		t.Errorf("p50 in [%v, %v], want 2 inside", f.Low, f.High)
	}
}

// coarse is a store that keeps only minutes of the first half hour.
type coarse struct{ store.Store }

func (c coarse) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	res, err := c.Store.Query(ctx, q)
	if err == nil && q.Start < epoch+1800 {
		res.Resolution = series.Minute
	}
	return res, err
}

// Values of a label that were measured together are paired; those that follow
// each other are windows that differ in time.
func TestLabel(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(5, 6))
	variant := func(name string, median float64) load {
		return load{operation: "GET /cart", tenant: "acme", perSlot: 20, median: median, more: []string{series.LabelVariant, name}}
	}
	send(w, rng, epoch, epoch+1800, variant("control", 0.1), variant("candidate", 0.13))
	version := func(name string) load {
		return load{operation: "GET /cart", tenant: "acme", perSlot: 20, median: 0.1, more: []string{series.LabelVersion, name}}
	}
	send(w, rng, epoch+1800, epoch+3000, version("1.0"))
	send(w, rng, epoch+3000, epoch+3600, version("1.1"))
	st := stored(t, w)
	sel := selection("service", "shop")
	sel.Start, sel.End = at(epoch), at(epoch+3600)

	r := compared(t, st, Request{Selection: sel, Label: "variant", ValueA: "control", ValueB: "candidate"})
	p95 := measureOf(t, r, "p95")
	if !r.Paired || r.A.Name != "control" || r.A.Requests != 3600 || r.Verdict != judge.Regression || p95.Verdict != judge.Slower {
		t.Errorf("paired %v, A %+v, %s: %s", r.Paired, r.A, r.Verdict, r.Sentence)
	}
	if f := p95.Like; !(f.Low <= 1.3 && 1.3 <= f.High) || f.High/f.Low > 1.15 {
		t.Errorf("p95 [%v, %v], want 1.3 inside a narrow one", f.Low, f.High)
	}
	r = compared(t, st, Request{Selection: sel, Label: "version", ValueA: "1.0", ValueB: "1.1"})
	if r.Paired || r.A.End != epoch+3000 || r.B.Start != epoch+3000 || r.Verdict == judge.Regression {
		t.Errorf("paired %v, A to %d, B from %d, %s", r.Paired, r.A.End-epoch, r.B.Start-epoch, r.Verdict)
	}
	if _, err := Compare(t.Context(), st, Request{Selection: sel, Label: "version", ValueA: "1.0", ValueB: "9"}); err == nil || !strings.Contains(err.Error(), `no request in the range has version "9"`) {
		t.Errorf("got %v", err)
	}
}

// The same hours of another day are paired, so that the season cancels.
func TestSeason(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(8, 9))
	for day := range int64(2) {
		for i := range int64(180) {
			busy := 1 + 0.5*math.Sin(float64(i)/60)
			send(w, rng, epoch+day*86400+i*10, epoch+day*86400+i*10+10, load{operation: "GET /cart", perSlot: 20, median: 0.1 * busy * (1 + 0.2*float64(day))})
		}
	}
	st := stored(t, w)
	r := compared(t, st, Request{A: window(0, 1800), B: window(86400, 88200)})
	f := measureOf(t, r, "p50").Like
	if !r.Paired || r.Verdict != judge.Regression || !(f.Low <= 1.2 && 1.2 <= f.High) || warned(r, "season") {
		t.Errorf("paired %v, %s, [%v, %v], %v", r.Paired, r.Verdict, f.Low, f.High, r.Warnings)
	}
	if r = compared(t, st, Request{A: window(0, 1800), B: window(86400, 88200), Now: at(epoch + 88120)}); !r.Paired || r.A.End != epoch+1700 || r.B.End != epoch+88100 {
		t.Errorf("not over yet: paired %v, A to %d, B to %d", r.Paired, r.A.End-epoch, r.B.End-epoch)
	}
}

// Neighbouring hours are said to differ by season when they did so on an earlier
// day, and only then: of 140 comparisons without any season at most 3 % say it.
func TestSeasonIsSeen(t *testing.T) {
	for _, c := range []struct {
		name   string
		days   int64
		season float64 // how much slower the second half hour is each day
		want   func(warned, of int) bool
	}{
		{"no earlier day", 1, 1, func(n, _ int) bool { return n == 0 }},
		{"no season", 2, 1, func(n, of int) bool { return float64(n) <= 0.03*float64(of) }},
		{"season", 2, 1.4, func(n, of int) bool { return n == of }},
	} {
		trials, warns := 140, 0
		if c.season != 1 || c.days == 1 {
			trials = 20
		}
		for trial := range trials {
			w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(uint64(trial), 17))
			for day := range c.days {
				at := epoch + day*86400
				send(w, rng, at, at+1800, load{operation: "GET /cart", perSlot: 5, median: 0.1})
				send(w, rng, at+1800, at+3600, load{operation: "GET /cart", perSlot: 5, median: 0.1 * c.season})
			}
			last := (c.days - 1) * 86400
			r := compared(t, stored(t, w), Request{A: window(last, last+1800), B: window(last+1800, last+3600), Measures: []string{"p50", "p95"}})
			if warned(r, "season") {
				warns++
				if text := r.Warnings[len(r.Warnings)-1].Text; c.season != 1 && !strings.Contains(text, "% slower (") {
					t.Errorf("says %q", text)
				}
			}
		}
		t.Logf("%s: %d of %d comparisons warn", c.name, warns, trials)
		if !c.want(warns, trials) {
			t.Errorf("%s: %d of %d comparisons warn of a season", c.name, warns, trials)
		}
	}
}

func TestTooLittle(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(1, 1))
	send(w, rng, epoch, epoch+100, load{operation: "GET /cart", perSlot: 20, median: 0.1})
	send(w, rng, epoch+100, epoch+200, load{operation: "GET /cart", perSlot: 20, median: 0.3})
	r := compared(t, stored(t, w), Request{A: window(0, 100), B: window(100, 200)})
	if r.Verdict != judge.TooLittle || r.Measures[0].Raw.Needed != 2 || r.Measures[0].Raw.NeededSeconds != 200 {
		t.Errorf("%s, needed %v", r.Verdict, r.Measures[0].Raw.Needed)
	}
	if want := "too little data to judge p99 of shop: side A: 10 slots with observations, at least 20 are needed; about 9 min a side may do"; r.Sentence != want {
		t.Errorf("says %q", r.Sentence)
	}
}

// A side that reaches up to now has too little only as yet: the sentence says when it can be
// judged. One that is over, and one beside a side that is short itself, has too little.
func TestNewestIsStillComing(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(1, 1))
	send(w, rng, epoch, epoch+7200, load{operation: "GET /cart", perSlot: 20, median: 0.1})
	send(w, rng, epoch+7200, epoch+7200+3*3600, load{operation: "GET /cart", perSlot: 20, median: 0.1})
	st := stored(t, w)
	at := func(sec int64) time.Time { return time.Unix(epoch+sec, 0) }
	for _, c := range []struct {
		name   string
		a, b   Window
		now    time.Time
		judged int64 // since the epoch
		says   string
	}{
		{"newest", window(0, 7200), window(7200, 7300), at(7300), 7200 + 200 + 20, "too early to judge p99 of shop: the newest stretch is still coming, and can be judged at "},
		{"within a long range", window(0, 3*3600), window(3*3600, 4*3600-2400), at(4*3600 - 2400), 3*3600 + 1200 + 20, "; sides of up to 2 h are cut into slots of 10 s, which tell sooner"},
		{"over", window(0, 7200), window(7200, 7300), at(9000), 0, "too little data to judge p99 of shop: side B: 10 slots"},
		{"side A short too", window(7000, 7100), window(7200, 7300), at(7300), 0, "too little data to judge p99 of shop: side A: 10 slots"},
	} {
		r := compared(t, st, Request{A: c.a, B: c.b, Now: c.now})
		got := r.Measures[0].Judged().JudgedAt
		if c.judged > 0 {
			c.judged += epoch
		}
		if r.Verdict != judge.TooLittle || got != c.judged || !strings.Contains(r.Sentence, c.says) {
			t.Errorf("%s: %s at %d, want %d, says %q", c.name, r.Verdict, got-epoch, c.judged-epoch, r.Sentence)
		}
	}
}

// Throughput that falls while time rises looks like saturation; failures that
// become more are told.
func TestWarnings(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(1, 5))
	send(w, rng, epoch, epoch+1800, load{operation: "GET /cart", perSlot: 30, median: 0.1, failed: 0.01})
	send(w, rng, epoch+1800, epoch+3600, load{operation: "GET /cart", perSlot: 20, median: 0.3, failed: 0.2})
	r := compared(t, stored(t, w), Request{A: window(0, 1800), B: window(1800, 3600)})
	if !warned(r, "saturation") || !warned(r, "errors") || warned(r, "season") {
		t.Errorf("warnings %v", r.Warnings)
	}
	if e := measureOf(t, r, "errors"); e.Verdict != judge.MoreErrors || e.Change != judge.Worse || !strings.Contains(e.Sentence, " points higher (95 % interval ") {
		t.Errorf("errors: %+v", e)
	}
	if m := measureOf(t, r, "p50"); !strings.Contains(m.Sentence, " times as slow (95 % interval 2.") {
		t.Errorf("says %q", m.Sentence)
	}
	w = querytest.NewWriter()
	send(w, rng, epoch, epoch+1800, load{operation: "SELECT", perSlot: 10, median: 0.1})
	send(w, rng, epoch+1800, epoch+3600, load{operation: "SELECT", perSlot: 20, median: 0.05})
	if r = compared(t, stored(t, w), Request{A: window(0, 1800), B: window(1800, 3600)}); !warned(r, "instrumentation") {
		t.Errorf("warnings %v", r.Warnings)
	}
}

func TestRefused(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(1, 5))
	send(w, rng, epoch, epoch+600, load{operation: "GET /cart", perSlot: 1, median: 0.1})
	st := stored(t, w)
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{}, "two sides"},
		{Request{A: window(0, 300), B: window(200, 600)}, "overlap"},
		{Request{A: window(1, 9), B: window(200, 600)}, "slot of 10 s"},
		{Request{A: window(0, 100)}, "side b is not given"},
		{Request{A: window(0, 300), B: window(300, 600), Now: at(epoch + 325)}, "side b does not hold a slot"},
		{Request{Mark: "none"}, `no mark "none"`},
		{Request{A: window(0, 100), B: window(200, 600), Level: 95}, "confidence of 95"},
		{Request{A: window(0, 100), B: window(200, 600), Within: 5}, "margin of 5"},
		{Request{A: window(0, 100), B: window(200, 600), Measures: []string{"p98"}}, "did you mean"},
		{Request{Selection: query.Selection{Family: "cpu_seconds"}, A: window(0, 100), B: window(200, 600)}, `no family "cpu_seconds"`},
		{Request{Label: "version", ValueA: "1", ValueB: "1"}, "two values"},
	} {
		if _, err := Compare(t.Context(), st, c.r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	nan := math.NaN()
	c := &comparison{Request: Request{Level: 0.95, Within: 0.05}}
	figure := func(verdict judge.Verdict, effect, low, high, needed, seconds float64) api.CompareFigure {
		return api.CompareFigure{Effect: api.Float(effect), Low: api.Float(low), High: api.Float(high), Verdict: verdict, Needed: api.Float(needed), NeededSeconds: api.Float(seconds), Short: "3 slots"}
	}
	p99, errors, apdex := measures[4], measures[7], measures[8]
	for _, x := range []struct {
		m    measure
		f    api.CompareFigure
		want string
	}{
		{p99, figure(judge.Faster, 0.62, 0.58, 0.67, nan, nan), "p99 of GET /search is 38 % faster (95 % interval 33 … 42 %)"},
		{p99, figure(judge.Slower, 1.123, 1.08, 1.17, nan, nan), "p99 of GET /search is 12 % slower (95 % interval 8 … 17 %)"},
		{p99, figure(judge.Slower, 3.1, 2.4, math.Inf(1), nan, nan), "p99 of GET /search is 3.1 times as slow (95 % interval 2.4 or more)"},
		{p99, figure(judge.Same, 1.01, 0.98, 1.03, nan, nan), "p99 of GET /search is the same within 5 % (95 % interval −2 % … +3 %)"},
		{p99, figure(judge.NoEvidence, 1.01, 0.9, 1.14, 3, 10800), "no evidence that p99 of GET /search changed (95 % interval −10 % … +14 %); a change of 5 % needs about 3 h a side"},
		{p99, figure(judge.TooLittle, nan, nan, nan, 2, 120), "too little data to judge p99 of GET /search: 3 slots; about 2 min a side may do"},
		{errors, figure(judge.MoreErrors, 0.012, 0.004, 0.02, nan, nan), "the share of errors of GET /search is 1.2 points higher (95 % interval 0.4 … 2 points)"},
		{apdex, figure(judge.Lower, -0.05, -0.08, -0.02, nan, nan), "Apdex of GET /search is 0.05 lower (95 % interval 0.02 … 0.08)"},
	} {
		if got := c.finding(x.m, "GET /search", &x.f).Sentence(); got != x.want {
			t.Errorf("got  %s\nwant %s", got, x.want)
		}
	}
	for want, ms := range map[string][]*labels.Matcher{
		"all requests":                                nil,
		"GET /search of shop for acme":                selection("service", "shop", "operation", "GET /search", "tenant", "acme").Matchers,
		`all requests where version="1"`:              selection("version", "1").Matchers,
		fmt.Sprintf("shop where %s", `kind="server"`): selection("service", "shop", "kind", "server").Matchers,
	} {
		c.Matchers = ms
		if got := c.subject(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
