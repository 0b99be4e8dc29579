package compare

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// backup is an hour of two operations around a moment at which POST /orders stands still
// for ten seconds: nothing of it ends in that slot, and all that was to end takes up to
// ten seconds in the next.
func backup(t testing.TB, seed uint64, factor float64) store.Store {
	t.Helper()
	const moment = 1800
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(seed, 31))
	orders, cart := load{operation: "POST /orders", perSlot: 40, median: 0.1}, load{operation: "GET /cart", perSlot: 40, median: 0.02}
	send(w, rng, epoch, epoch+moment, orders, cart)
	send(w, rng, epoch+moment, epoch+moment+10, cart)
	of := labels.FromStrings(series.LabelService, "shop", series.LabelOperation, "POST /orders", series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app")
	for i := range 40 {
		w.Span(epoch+moment+10, of, float64(40-i)/4)
	}
	orders.median *= factor
	send(w, rng, epoch+moment+10, epoch+2*moment, orders, cart)
	st := stored(t, w)
	if err := store.PutMark(t.Context(), st, store.Mark{ID: "backup", Name: "backup", Time: at(epoch + moment + 2), Service: "shop"}); err != nil {
		t.Fatal(err)
	}
	return st
}

// The same stop has the same shape each time, and nothing of it lasts: not even where it
// lies within a side.
func TestAStopIsASpike(t *testing.T) {
	const trials = 9
	moved := 0
	for seed := range uint64(trials) {
		r := compared(t, backup(t, seed, 1), Request{Mark: "backup", Settle: 0, Length: 30 * time.Minute, Now: at(epoch + 3700)})
		if len(r.Shapes) == 0 || r.Shapes[0].Kind != judge.Spike {
			t.Fatalf("seed %d: shapes %+v", seed, r.Shapes)
		}
		s := r.Shapes[0]
		if s.Operation != "POST /orders" || s.Start != epoch+1800 && s.Start != epoch+1810 || s.End != epoch+1820 || s.Measure != "p99" || !(s.Value > 5 && s.Value <= 10.2) || !(s.Usual > 0.2 && s.Usual < 0.6) {
			t.Errorf("seed %d: %+v", seed, s)
		}
		if !strings.HasPrefix(r.Sentence, "p99 of POST /orders was ") || !strings.Contains(r.Sentence, " s for ") {
			t.Errorf("seed %d: %q", seed, r.Sentence)
		}
		if judge.Moved(r.Verdict) {
			moved++
			t.Logf("seed %d: %s", seed, r.Sentence)
		} else if !strings.HasSuffix(r.Sentence, ", then as before") {
			t.Errorf("seed %d: %q", seed, r.Sentence)
		}
	}
	if moved > 2 { // 0.8 % at 5 %
		t.Errorf("something lasts of %d of %d stops", moved, trials)
	}
}

// What lasts is said behind what came and went.
func TestASpikeAndAChange(t *testing.T) {
	r := compared(t, backup(t, 1, 0.6), Request{Mark: "backup", Settle: 0, Length: 30 * time.Minute, Now: at(epoch + 3700)})
	if r.Verdict != judge.Improvement || !strings.HasPrefix(r.Sentence, "p99 of POST /orders was ") || !strings.Contains(r.Sentence, "; apart from that, ") || !strings.Contains(r.Sentence, "faster") {
		t.Errorf("%s: %s", r.Verdict, r.Sentence)
	}
	kinds := ""
	for _, s := range r.Shapes {
		kinds += string(s.Kind) + " "
	}
	if kinds != "spike step " {
		t.Errorf("%s: %+v", kinds, r.Shapes)
	}
}

// Of two windows the one that holds a spike is named; the figures are of all of it.
func TestASpikeWithinAWindow(t *testing.T) {
	st := backup(t, 2, 1)
	r := compared(t, st, Request{A: window(0, 1500), B: window(1500, 3600)})
	if len(r.Shapes) == 0 || r.Shapes[0].Side != "b" || !warned(r, "spike") {
		t.Fatalf("%+v, %+v", r.Shapes, r.Warnings)
	}
	if r.B.Requests < 210*80-80 || strings.Contains(r.Sentence, "then as before") {
		t.Errorf("%d requests: %s", r.B.Requests, r.Sentence)
	}
	for _, w := range r.Warnings {
		if w.Code == "spike" && !strings.HasPrefix(w.Text, "side B holds a spike: p99 of POST /orders was ") {
			t.Error(w.Text)
		}
	}
}

// Where nothing comes and goes hardly any shape is found.
func TestNoShape(t *testing.T) {
	const trials = 25
	marks, windows := 0, 0
	for seed := range uint64(trials) {
		w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(seed, 33))
		send(w, rng, epoch, epoch+2400, load{operation: "POST /orders", perSlot: 20, median: 0.1}, load{operation: "GET /cart", perSlot: 10, median: 0.02})
		st := stored(t, w)
		r := compared(t, st, Request{A: window(0, 1200), B: window(1220, 2400), Moment: at(epoch + 1203), Measures: []string{"p99"}, Limit: 1})
		if len(r.Shapes) > 0 && r.Shapes[0].Kind == judge.Spike {
			marks++
			t.Logf("%+v", r.Shapes[0])
		}
		r = compared(t, st, Request{A: window(0, 1200), B: window(1200, 2400), Measures: []string{"p99"}, Limit: 1})
		if warned(r, "spike") {
			windows++
		}
	}
	t.Logf("spikes at %d marks and in %d windows of %d without one", marks, windows, trials)
	if marks > 2 || windows > 5 { // 0.2 % at 1 %, 0.1 % at 5 %
		t.Errorf("spikes at %d marks and in %d windows of %d without one", marks, windows, trials)
	}
}

// A drift through both sides is not a step.
func TestADriftIsSaid(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(5, 33))
	for i := range int64(240) {
		send(w, rng, epoch+10*i, epoch+10*(i+1), load{operation: "GET /cart", perSlot: 40, median: 0.02 * math.Exp(float64(i)/240)})
	}
	r := compared(t, stored(t, w), Request{A: window(0, 1200), B: window(1200, 2400)})
	if r.Verdict != judge.Regression || len(r.Shapes) != 1 || r.Shapes[0].Kind != judge.Drift {
		t.Errorf("%s %+v", r.Verdict, r.Shapes)
	}
}
