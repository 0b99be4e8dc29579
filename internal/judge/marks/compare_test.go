package marks

import (
	"fmt"
	"slices"
	"testing"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Marks at which nothing changed, compared again and again while they are young, are told as their
// own looks tell them, and so is each comparison: who asks often finds what is not there.
func TestAskingChangesNothingOfAYoungMark(t *testing.T) {
	const moment, services = 2000, 12
	st := storetest.NewTwin()
	var ops []operation
	for i := range services {
		ops = append(ops, operation{service: fmt.Sprintf("shop-%d", i), name: "GET /cart", median: 0.02})
	}
	send(t, st, 11, 3200, moment, ops...)
	w := newWorld(t, st)
	var all []store.Mark
	for i, o := range ops {
		m := mark(fmt.Sprintf("deploy-%d", i), moment+3, o.service)
		w.put(m)
		all = append(all, m)
	}
	told := func(v *api.MarkVerdict) string { return fmt.Sprintf("%s %s: %s", v.State, v.Verdict, v.Sentence) }
	compared := 0
	for sec := int64(moment + 250); sec <= moment+900; sec += 50 {
		w.round(sec)
		for _, m := range all {
			own := w.judge.own(m)
			r := compare.Request{Mark: m.ID, Settle: -1, Now: w.now}
			var err error
			if r.Matchers, err = ofService(m.Service); err != nil {
				t.Fatal(err)
			}
			out, err := w.judge.o.Around.Compare(t.Context(), w.judge, r)
			if refused(err) != nil && own.State == Waiting {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if compared++; out.Verdict != own.Verdict || out.Sentence != own.Sentence || out.B.Range != own.Services[0].After {
				t.Errorf("%d s, %s is told %s of %v, and compared %s: %s of %v", sec-moment, m.ID, told(own), own.Services[0].After, out.Verdict, out.Sentence, out.B.Range)
			}
			if got := told(w.judge.Brief(m)); got != told(own) {
				t.Errorf("%d s, %s is told %s, and by its looks %s", sec-moment, m.ID, got, told(own))
			}
		}
	}
	if compared < services*10 {
		t.Errorf("%d comparisons are answered", compared)
	}
}

// A comparison at a young mark has the warnings of its verdict, of what cut its sides short too.
func TestComparisonAtAYoungMarkWarns(t *testing.T) {
	const moment = 2000
	st := storetest.NewTwin()
	send(t, st, 12, moment+300, moment, operation{service: "shop", name: "GET /cart", median: 0.02, ratio: 2})
	w, m := newWorld(t, st), mark("deploy", moment+3, "shop")
	w.put(mark("config", moment-600, "shop"))
	w.put(m)
	w.round(moment + 300)
	v := w.full(m)
	r := compare.Request{Mark: m.ID, Settle: -1, Now: w.now}
	var err error
	if r.Matchers, err = ofService("shop"); err != nil {
		t.Fatal(err)
	}
	out, err := w.judge.o.Around.Compare(t.Context(), w.judge, r)
	if err != nil {
		t.Fatal(err)
	}
	if v.State != Early || v.Verdict != judge.Regression || !slices.ContainsFunc(v.Services[0].Warnings, func(x api.CompareWarning) bool { return x.Code == "cut" }) {
		t.Fatalf("the mark is told as %+v", v)
	}
	for i, x := range v.Services[0].Warnings {
		if !slices.Contains(out.Warnings, x) || slices.Contains(out.Warnings[slices.Index(out.Warnings, x)+1:], x) {
			t.Errorf("warning %d of the mark does not stand once in the comparison: %s", i, x.Text)
		}
	}
}
