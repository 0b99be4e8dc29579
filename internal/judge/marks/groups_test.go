package marks

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// A backup every quarter of an hour stands still for ten seconds: nine marks of it say the
// same, each by itself and all together.
func TestNineBackups(t *testing.T) {
	const backups, every = 9, 900
	st := storetest.NewTwin()
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(11, 1))
	of := func(operation string) labels.Labels {
		return labels.FromStrings(series.LabelService, "shop", series.LabelOperation, operation, series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app")
	}
	draw := func(median float64) float64 { return median * (1 + 0.3*rng.ExpFloat64()) }
	orders, cart := of("POST /orders"), of("GET /cart")
	const last = (backups + 1) * every
	for slot := int64(0); slot < last; slot += 10 {
		stopped := slot%every == 0 && slot > 0
		for i := range 30 {
			w.Span(epoch+slot, cart, draw(0.02))
			switch {
			case stopped:
			case slot%every == 10 && slot > 10:
				w.Span(epoch+slot, orders, float64(i+1)/30)
				w.Span(epoch+slot, orders, draw(0.1))
			default:
				w.Span(epoch+slot, orders, draw(0.1))
			}
		}
	}
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	world := newWorld(t, st)
	var marks []store.Mark
	for i := range backups {
		m := mark(fmt.Sprint("backup ", i), int64(i+1)*every+2, "shop")
		m.Name = "backup"
		world.put(m)
		marks = append(marks, m)
	}
	for range backups { // one after another, within the budget of a round
		world.round(last + 60)
	}
	list := []api.Mark{}
	moved := 0
	for _, m := range marks {
		v := world.full(m)
		out := m.API()
		out.Verdict = world.judge.Brief(m)
		list = append(list, out)
		if len(v.Services) != 1 || len(v.Services[0].Shapes) == 0 {
			t.Fatalf("%s: %+v", m.ID, v)
		}
		s := v.Services[0].Shapes[0]
		if s.Kind != judge.Spike || s.Operation != "POST /orders" || s.End-s.Start > 20 || s.Value < 0.5 || s.Value > 1.05 {
			t.Errorf("%s: %+v", m.ID, s)
		}
		if !strings.HasPrefix(v.Sentence, "p99 of POST /orders was ") {
			t.Errorf("%s: %s", m.ID, v.Sentence)
		}
		if judge.Moved(v.Verdict) {
			moved++
		}
	}
	t.Logf("something lasts at %d of %d backups", moved, backups)
	if moved > 2 { // 0.8 % at 5 %
		t.Errorf("something lasts at %d of %d backups", moved, backups)
	}
	g := Groups(list)
	if len(g) != 1 || g[0].Marks != backups || g[0].Spikes != backups || g[0].Verdict != judge.NoEvidence {
		t.Fatalf("%+v", g)
	}
	if !strings.HasPrefix(g[0].Sentence, "9 × backup: each time p99 of POST /orders +") || !strings.Contains(g[0].Sentence, " for about ") || !strings.Contains(g[0].Sentence, ", nothing lasting") {
		t.Error(g[0].Sentence)
	}
}

// Marks of one name are one group where they are judged; more changes than chance shows
// are said.
func TestGroups(t *testing.T) {
	of := func(name string, v judge.Verdict) api.Mark {
		return api.Mark{Name: name, Service: "shop", Verdict: &api.MarkVerdict{State: Final, Verdict: v}}
	}
	all := []api.Mark{of("once", judge.Regression), {Name: "deploy", Service: "shop", Verdict: &api.MarkVerdict{State: Waiting}}}
	for i := range 6 {
		all = append(all, of("deploy", []judge.Verdict{judge.Regression, judge.Regression, judge.Regression, judge.Same, judge.NoEvidence, judge.Improvement}[i]))
	}
	for i := range 20 {
		v := judge.NoEvidence
		if i == 0 {
			v = judge.Regression
		}
		all = append(all, of("reload", v))
	}
	g := Groups(all)
	if len(g) != 2 || g[0].Name != "reload" || g[0].Verdict != judge.NoEvidence || g[0].Sentence != "20 × reload: nothing lasting beyond chance (1 of 20 changed)" {
		t.Fatalf("%+v", g)
	}
	if g[1].Verdict != judge.Mixed || g[1].Sentence != "6 × deploy: a regression at 3 and an improvement at 1 of them lasts" {
		t.Errorf("%+v", g[1])
	}
	if p := atLeast(1, 9, 0.05); p < 0.369 || p > 0.370 {
		t.Errorf("one or more of 9 at 5 %%: %v", p)
	}
}
