package marks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch is the start of a slot; marks are a few seconds into theirs.
const epoch = querytest.Epoch

func at(sec int64) time.Time { return time.Unix(epoch+sec, 0) }

func mark(id string, sec int64, service string) store.Mark {
	return store.Mark{ID: id, Time: at(sec), Name: id, Service: service}
}

// operation is one of a service, whose median changes at a moment.
type operation struct {
	service, name string
	median        float64 // seconds
	ratio         float64 // after the moment, 0 is 1
}

// send writes requests into the slots of [0, seconds), with a change at a moment.
func send(t testing.TB, st store.Store, seed uint64, seconds, moment int64, ops ...operation) {
	t.Helper()
	sendRange(t, st, seed, 0, seconds, moment, ops...)
}

// sendRange is send from a second on.
func sendRange(t testing.TB, st store.Store, seed uint64, from, until, moment int64, ops ...operation) {
	t.Helper()
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(seed, 1))
	for slot := from; slot < until; slot += 10 {
		for _, o := range ops {
			median := o.median
			if o.ratio != 0 && slot >= moment {
				median *= o.ratio
			}
			for range 40 {
				w.Span(epoch+slot, labels.FromStrings(series.LabelService, o.service, series.LabelOperation, o.name, series.LabelKind, "server",
					series.LabelStatus, "ok", series.LabelComponent, "app"), median*math.Exp(0.4*rng.NormFloat64()))
			}
		}
	}
	if err := w.Put(t.Context(), st, seed); err != nil {
		t.Fatal(err)
	}
}

// world is a store, its judge and the clock that it is given.
type world struct {
	t     *testing.T
	store store.Store
	judge *Judge
	now   time.Time
}

func newWorld(t *testing.T, st store.Store) *world {
	w := &world{t: t, store: st}
	w.judge = New(Options{Around: Around{Store: st}, Now: func() time.Time { return w.now }})
	return w
}

func (w *world) put(m store.Mark) {
	w.t.Helper()
	if err := store.PutMark(w.t.Context(), w.store, m); err != nil {
		w.t.Fatal(err)
	}
	w.now = m.Time // it is named as it happens
	if err := w.judge.Round(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) round(sec int64) {
	w.t.Helper()
	w.now = at(sec)
	if err := w.judge.Round(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) full(m store.Mark) *api.MarkVerdict {
	w.t.Helper()
	v, err := w.judge.Full(w.t.Context(), m)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// A mark waits for its slots, is judged early, and finally after an hour; the
// operation that changed is named with an interval that holds its ratio.
func TestAMarkIsJudged(t *testing.T) {
	const moment, ratio = 4000, 0.6
	st := storetest.NewTwin()
	send(t, st, 1, 8000, moment,
		operation{service: "shop", name: "GET /cart", median: 0.02}, operation{service: "shop", name: "GET /orders", median: 0.1, ratio: ratio})
	w, m := newWorld(t, st), mark("index", moment+3, "shop")
	w.put(m)

	w.round(moment + 10)
	if v := w.judge.Brief(m); v.State != Waiting || !math.IsNaN(float64(v.Judged)) || v.Next != api.Float(epoch+moment+20+200+ripe) {
		t.Fatalf("a new mark: %+v", v)
	}
	w.round(moment + 20 + 200 + ripe - 1)
	if v := w.judge.Brief(m); v.State != Waiting {
		t.Fatalf("a second too early: %+v", v)
	}
	w.round(moment + 20 + 200 + ripe)
	v := w.full(m)
	if v.State != Early || v.Verdict != judge.Improvement || v.Next != api.Float(epoch+moment+3+300) {
		t.Fatalf("the first look: %+v", v)
	}
	w.round(moment + 20 + 3600 + ripe)
	v = w.full(m)
	if v.State != Final || v.Verdict != judge.Improvement || !math.IsNaN(float64(v.Next)) || v.Window != 3600 {
		t.Fatalf("the last look: %+v", v)
	}
	s := v.Services[0]
	if len(s.Operations) != 1 || s.Operations[0].Operation != "GET /orders" {
		t.Fatalf("operations that changed: %+v", s.Operations)
	}
	for _, m := range s.Operations[0].Measures {
		if f := m.Raw; m.Name != judge.ErrorShare && !(float64(f.Low) <= ratio && ratio <= float64(f.High)) {
			t.Errorf("%s: %g–%g does not hold %g", m.Name, f.Low, f.High, ratio)
		}
	}
	if !strings.Contains(v.Sentence, "of GET /orders is") || !strings.Contains(v.Sentence, "faster") || strings.HasPrefix(v.Sentence, "p99 of shop") && !strings.Contains(v.Sentence, "; of its operations most of all ") {
		t.Errorf("sentence %q", v.Sentence)
	}
	if s.Before.Start != epoch+moment-3600 || s.Before.End != epoch+moment || s.After.Start != epoch+moment+20 || s.After.End != epoch+moment+3620 {
		t.Errorf("sides %+v %+v", s.Before, s.After)
	}
	if b := w.judge.Brief(m); len(b.Services[0].Operations) != 0 || b.Sentence != v.Sentence {
		t.Errorf("brief: %+v", b)
	}
	if got := w.judge.Stats(); got.Early != 1 || got.Final != 1 || got.Failures != 0 || got.Waiting != 0 {
		t.Errorf("stats %+v", got)
	}

	// It is not judged again, but outlives a restart.
	w.round(moment + 7000)
	w.judge = New(Options{Around: Around{Store: st}, Now: func() time.Time { return w.now }})
	w.round(moment + 7010)
	if again := w.full(m); again.Judged != v.Judged || again.Sentence != v.Sentence {
		t.Errorf("after a restart %+v, before %+v", again, v)
	}
}

// Where nothing changes, hardly any mark is said to be a change.
func TestNoChange(t *testing.T) {
	found := 0
	const marks = 40
	for i := range uint64(marks) {
		st := storetest.NewTwin()
		send(t, st, 100+i, 1200, 0, operation{service: "shop", name: "GET /cart", median: 0.02}, operation{service: "shop", name: "GET /orders", median: 0.1})
		w, m := newWorld(t, st), mark("nothing", 600, "shop")
		w.put(m)
		w.round(1190)
		v := w.full(m)
		if judge.Moved(v.Verdict) {
			found++
			t.Log(v.Verdict, v.Sentence)
		} else if len(v.Services[0].Operations) > 0 || strings.Contains(v.Sentence, "faster") || strings.Contains(v.Sentence, "slower") {
			t.Errorf("%s, yet %q, %+v", v.Verdict, v.Sentence, v.Services[0].Operations)
		}
	}
	// Of 40, 7 or more have a chance of 0.3 % at 5 % each.
	if found >= 7 {
		t.Errorf("a change was found at %d of %d marks without one", found, marks)
	}
}

// Sides end at the marks beside; one that comes later shortens them and makes
// the verdict anew.
func TestMarksBeside(t *testing.T) {
	const moment = 4000
	st := storetest.NewTwin()
	send(t, st, 2, 9000, moment, operation{service: "shop", name: "GET /cart", median: 0.02, ratio: 1.5}, operation{service: "bank", name: "POST /pay", median: 0.02})
	w, m := newWorld(t, st), mark("deploy", moment, "shop")
	w.put(m)
	w.put(mark("other service", moment+100, "bank"))
	w.round(8000)
	v := w.full(m)
	if v.State != Final || v.Verdict != judge.Regression || v.Window != 3600 {
		t.Fatalf("alone: %+v", v)
	}
	w.put(mark("backup", moment+600, "shop"))
	w.round(8010)
	v = w.full(m)
	s := v.Services[0]
	if v.State != Final || v.Judged != api.Float(epoch+8010) || s.After.End != epoch+moment+600 {
		t.Fatalf("cut short: %+v", v)
	}
	if !slices.ContainsFunc(s.Warnings, func(w api.CompareWarning) bool {
		return w.Code == "cut" && w.Text == `the time after is 9 min 40 s only, because of the mark "backup"`
	}) {
		t.Errorf("warnings %+v", s.Warnings)
	}
	if err := store.DeleteMark(t.Context(), st, "backup"); err != nil {
		t.Fatal(err)
	}
	w.round(8020)
	if v = w.full(m); v.Services[0].After.End != epoch+moment+3620 {
		t.Errorf("the mark beside went: %+v", v.Services[0].After)
	}
	// Long after, what it was made of is no longer kept: it stays.
	if err := store.PutMark(t.Context(), st, mark("late", moment+600, "shop")); err != nil {
		t.Fatal(err)
	}
	w.round(8020 + 3*86400)
	if again := w.full(m); again.Judged != v.Judged {
		t.Errorf("judged again after three days: %+v", again)
	}
}

// What is kept of a mark goes with it.
func TestForgotten(t *testing.T) {
	st := storetest.NewTwin()
	send(t, st, 3, 2000, 0, operation{service: "shop", name: "GET /cart", median: 0.02})
	w, m := newWorld(t, st), mark("deploy", 600, "shop")
	w.put(m)
	w.round(1900)
	records := func() (n int) {
		if err := st.ListRecords(t.Context(), kind, "", func(store.Record) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := records(); n != 1 {
		t.Fatalf("%d records of a mark", n)
	}
	if err := store.DeleteMark(t.Context(), st, m.ID); err != nil {
		t.Fatal(err)
	}
	w.round(1910)
	if n := records(); n != 0 || len(w.judge.known) != 0 {
		t.Errorf("%d records of no mark, %d known", n, len(w.judge.known))
	}
}

// A mark that concerns every service is judged for each; what is found is
// controlled over all of them.
func TestEveryService(t *testing.T) {
	const moment = 1000
	st := storetest.NewTwin()
	ops := []operation{{service: "shop", name: "GET /cart", median: 0.02, ratio: 1.6}}
	for i := range 5 {
		ops = append(ops, operation{service: fmt.Sprint("other", i), name: "GET /", median: 0.05})
	}
	send(t, st, 4, 2500, moment, ops...)
	w, m := newWorld(t, st), mark("kernel", moment, "")
	w.put(m)
	w.round(2490)
	v := w.full(m)
	if v.Verdict != judge.Regression || len(v.Services) != 6 || v.Services[0].Service != "shop" ||
		!strings.HasPrefix(v.Sentence, "1 of 6 services changed, shop: p99 of shop is") {
		t.Errorf("%s %q of %d services", v.Verdict, v.Sentence, len(v.Services))
	}
	if of := w.judge.Of(m, "other2"); judge.Moved(of.Verdict) || len(of.Services) != 1 || of.Services[0].Service != "other2" {
		t.Errorf("of one service: %+v", of)
	}
	if of := w.judge.Of(m, "nobody"); of.Verdict != judge.TooLittle {
		t.Errorf("of a service without requests: %+v", of)
	}
	if of := w.judge.Of(m, "shop"); of.Verdict != judge.Regression {
		t.Errorf("of the one that changed: %+v", of)
	}
}

func TestTooLittle(t *testing.T) {
	st := storetest.NewTwin()
	send(t, st, 5, 300, 0, operation{service: "shop", name: "GET /cart", median: 0.02})
	w := newWorld(t, st)
	early, gone, nobody := mark("early", 50, "shop"), mark("gone", -40*86400, "shop"), mark("nobody", 50, "")
	w.put(early)
	w.put(gone)
	w.round(5000)
	for _, m := range []store.Mark{early, gone} {
		if v := w.full(m); v.State != Final || v.Verdict != judge.TooLittle || v.Sentence == "" {
			t.Errorf("%s: %+v", m.Name, v)
		}
	}
	if err := store.DeleteMark(t.Context(), st, "early"); err != nil {
		t.Fatal(err)
	}
	nobody.Time = at(-9000)
	w.put(nobody)
	w.round(6000)
	if v := w.full(nobody); v.State != Final || v.Verdict != judge.TooLittle || !strings.Contains(v.Sentence, "no request") {
		t.Errorf("no requests: %+v", v)
	}
}

// failing is a store whose queries fail.
type failing struct {
	store.Store
	err error
}

func (f *failing) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.Query(ctx, q)
}

// A comparison that fails is tried again, less and less often.
func TestFailuresAreTriedAgain(t *testing.T) {
	twin := storetest.NewTwin()
	send(t, twin, 6, 2000, 0, operation{service: "shop", name: "GET /cart", median: 0.02})
	st := &failing{twin, errors.New("disk on fire")}
	w, m := newWorld(t, st), mark("deploy", 600, "shop")
	w.put(m)
	tried := []int64{}
	for sec := int64(1000); sec < 1500; sec += 10 {
		before := w.judge.Stats().Failures
		w.round(sec)
		if w.judge.Stats().Failures > before {
			tried = append(tried, sec)
		}
	}
	if want := []int64{1000, 1030, 1090, 1210, 1450}; !slices.Equal(tried, want) {
		t.Errorf("tried at %v, want %v", tried, want)
	}
	if v := w.judge.Brief(m); v.State != Waiting {
		t.Errorf("a mark that cannot be judged: %+v", v)
	}
	st.err = nil
	w.round(1450 + 480)
	if v := w.judge.Brief(m); v.State != Early {
		t.Errorf("after the failures: %+v", v)
	}
}

func TestDamagedRecord(t *testing.T) {
	st := storetest.NewTwin()
	if _, err := st.PutRecords(t.Context(), kind, store.RecordWrite{Key: "x", Value: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	if err := New(Options{Around: Around{Store: st}}).Round(t.Context()); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// Run looks for what is due once a slot and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewTwin()
		w := querytest.NewWriter()
		now := time.Now().Unix() / 10 * 10
		rng := rand.New(rand.NewPCG(7, 7))
		for slot := now - 1000; slot < now+2000; slot += 10 {
			for range 40 {
				w.Span(slot, labels.FromStrings(series.LabelService, "shop", series.LabelOperation, "GET /", series.LabelKind, "server",
					series.LabelStatus, "ok", series.LabelComponent, "app"), math.Exp(0.4*rng.NormFloat64()))
			}
		}
		if err := w.Put(t.Context(), st, 1); err != nil {
			t.Fatal(err)
		}
		j := New(Options{Around: Around{Store: st}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); j.Run(ctx) }()
		m := store.Mark{ID: "m", Time: time.Unix(now, 0), Name: "m", Service: "shop"}
		if err := store.PutMark(ctx, st, m); err != nil {
			t.Fatal(err)
		}
		time.Sleep(240 * time.Second)
		if v := j.Brief(m); v.State != Waiting {
			t.Errorf("after 4 min: %+v", v)
		}
		time.Sleep(20 * time.Second)
		if v := j.Brief(m); v.State != Early {
			t.Errorf("after 4 min 20 s: %+v", v)
		}
		time.Sleep(60 * time.Minute)
		if v := j.Brief(m); v.State != Final {
			t.Errorf("after an hour: %+v", v)
		}
		cancel()
		<-done
	})
}

func TestVerdictKeepsItsNumbers(t *testing.T) {
	st := storetest.NewTwin()
	send(t, st, 8, 1200, 600, operation{service: "shop", name: "GET /", median: 0.02, ratio: 2})
	w, m := newWorld(t, st), mark("m", 600, "shop")
	w.put(m)
	w.round(1100)
	a, err := json.Marshal(w.full(m))
	if err != nil {
		t.Fatal(err)
	}
	w.judge = New(Options{Around: Around{Store: st}, Now: func() time.Time { return w.now }})
	if err := w.judge.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(w.full(m))
	if err != nil || string(a) != string(b) || !strings.Contains(string(a), `"p95"`) {
		t.Errorf("%v\nbefore %s\nafter  %s", err, a, b)
	}
}

// A mark that is named after the fact waits until what was sent as recently is
// there; what comes later still is judged when there was too little.
func TestAfterTheFact(t *testing.T) {
	st := storetest.NewTwin()
	w, m := newWorld(t, st), mark("deploy", 600, "shop")
	if err := store.PutMark(t.Context(), st, m); err != nil {
		t.Fatal(err)
	}
	w.round(1200)
	if v := w.judge.Brief(m); v.State != Waiting || v.Sentence != "Judged within a minute" || float64(v.Next) != float64(w.judge.o.Now().Unix()+ripe) {
		t.Fatalf("at once: %+v", v)
	}
	w.round(1200 + ripe)
	if v := w.judge.Brief(m); v.State != Early || v.Verdict != judge.TooLittle {
		t.Fatalf("without data: %+v", v)
	}
	send(t, st, 9, 1200, 600, operation{service: "shop", name: "GET /", median: 0.02, ratio: 2})
	w.round(1230 + 29)
	if v := w.judge.Brief(m); v.Verdict != judge.TooLittle {
		t.Fatalf("too soon: %+v", v)
	}
	w.round(1230 + 30)
	if v := w.judge.Brief(m); v.Verdict != judge.Regression {
		t.Fatalf("with data: %+v", v)
	}
}

// A final verdict on too few requests, or on those of one side alone, is made anew when more
// come, however much later, and after a restart; one that more requests would hardly change
// is not.
func TestFinalOnPartOfTheData(t *testing.T) {
	op := operation{service: "shop", name: "GET /", median: 0.02, ratio: 2}
	for _, c := range []struct {
		name             string
		first, then      func(st store.Store)
		verdict, becomes api.Verdict
	}{
		{"nothing", func(store.Store) {}, func(st store.Store) { send(t, st, 9, 8000, 4000, op) }, judge.TooLittle, judge.Regression},
		{"the side after alone", func(st store.Store) { sendRange(t, st, 9, 4000, 8000, 4000, op) }, func(st store.Store) { sendRange(t, st, 8, 0, 4000, 4000, op) }, judge.TooLittle, judge.Regression},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := storetest.NewTwin()
			w, m := newWorld(t, st), mark("deploy", 4000, "shop")
			c.first(st)
			if err := store.PutMark(t.Context(), st, m); err != nil {
				t.Fatal(err)
			}
			w.round(9000)
			w.round(9000 + ripe)
			if v := w.judge.Brief(m); v.State != Final || v.Verdict != c.verdict {
				t.Fatalf("at first %+v", v)
			}
			c.then(st)
			w = newWorld(t, st) // a restart
			w.round(9000 + 6*3600)
			v := w.judge.Brief(m)
			if v.State != Final || v.Verdict != c.becomes {
				t.Fatalf("with all the data %+v", v)
			}
			for _, later := range []int64{1, 2, 3} {
				w.round(9000 + 6*3600 + 3600*later)
			}
			if again := w.judge.Brief(m); again.Judged != v.Judged {
				t.Errorf("judged again without more data: %+v", again)
			}
		})
	}
}
