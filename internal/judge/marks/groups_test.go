package marks

import (
	"fmt"
	"math"
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
	"tailscope/internal/trials"
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

// backups plays the writes of the demo's shop, POST /orders and PUT /cart, of which a share
// waits for a second in the 20 s after each of twenty marks. It returns the group of these,
// and at how many a spike is sure by itself.
func backups(t *testing.T, seed uint64, hit float64) (api.MarkGroup, int) {
	t.Helper()
	const backups, every = 20, 600
	st := storetest.NewTwin()
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(seed, 12))
	const last = (backups + 1) * every
	wander := 0.0
	for slot := int64(0); slot < last; slot += 10 {
		wander = 0.6*wander + 0.1*rng.NormFloat64()
		hits := slot >= every && slot%every < 20
		for _, o := range []struct {
			name    string
			perSlot int
			median  float64
		}{{"POST /orders", 42, 0.03}, {"PUT /cart/{id}", 78, 0.005}} {
			of := labels.FromStrings(series.LabelService, "shop", series.LabelOperation, o.name, series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app")
			for range o.perSlot {
				took := o.median * math.Exp(wander+0.5*rng.NormFloat64())
				if hits && rng.Float64() < hit {
					took += 0.8 + 0.4*rng.Float64()
				}
				w.Span(epoch+slot, of, took)
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
	for range backups {
		world.round(last + 60)
	}
	var list []api.Mark
	sure := 0
	for _, m := range marks {
		out := m.API()
		out.Verdict = world.judge.Brief(m)
		list = append(list, out)
		if spiked(out.Verdict.Services[0].Shapes) {
			sure++
		}
	}
	g := Groups(list)
	if len(g) != 1 || g[0].Marks != backups {
		t.Fatalf("%+v", g)
	}
	return g[0], sure
}

// Twenty backups that each make 5 % of the writes wait for 20 s are told by one sentence, and
// so are those of 2 %, of which few are sure by themselves; where nothing happens at the marks
// nothing is told.
func TestTwentySmallBackups(t *testing.T) {
	for seed := range uint64(trials.Of(1)) {
		for _, c := range []struct {
			hit   float64
			least int
		}{{0.05, 18}, {0.02, 6}} {
			g, sure := backups(t, seed, c.hit)
			t.Logf("%d are sure by themselves: %s", sure, g.Sentence)
			if g.Spikes < c.least || g.Seconds < 10 || g.Seconds > 30 || g.Higher < 0.6 || g.Higher > 1.4 || g.Verdict != judge.NoEvidence ||
				!strings.HasPrefix(g.Sentence, "20 × backup: ") || !strings.Contains(g.Sentence, " for about ") || !strings.Contains(g.Sentence, "nothing lasting") {
				t.Errorf("seed %d: %+v", seed, g)
			}
		}
		if g, sure := backups(t, seed, 0); g.Spikes > 0 || strings.Contains(g.Sentence, " for about ") || sure > 2 { // 2 % at 1 %
			t.Errorf("seed %d, without a backup: %d are sure, %+v", seed, sure, g)
		}
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
	// Hints of one operation are told from as many on as chance does not give.
	for hints, want := range map[int]string{
		6: "20 × reload: 6 times p99 of GET /a +2.00 s for about 20 s, nothing lasting beyond chance (1 of 20 changed)",
		5: "20 × reload: nothing lasting beyond chance (1 of 20 changed)",
	} {
		list := []api.Mark{}
		for i, m := range all[len(all)-20:] {
			v := *m.Verdict
			if m.Verdict = &v; i < hints {
				v.Services = []api.ServiceVerdict{{Service: "shop", Hints: []api.Shape{{Kind: judge.Spike, Operation: "GET /a", Measure: "p99", Usual: 1, Value: 3, Start: 0, End: 20}}}}
			}
			list = append(list, m)
		}
		if g := Groups(list); len(g) != 1 || g[0].Sentence != want {
			t.Errorf("%d hints: %+v", hints, g)
		}
	}
	if p := atLeast(1, 9, 0.05); p < 0.369 || p > 0.370 {
		t.Errorf("one or more of 9 at 5 %%: %v", p)
	}
}
