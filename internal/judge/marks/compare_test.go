package marks

import (
	"fmt"
	"testing"

	"tailscope/api"
	"tailscope/internal/compare"
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
