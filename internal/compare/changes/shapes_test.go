package changes

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
	"tailscope/internal/trials"
	"tailscope/stat"
)

// during is a value between two slots, and usual elsewhere.
func during(from, to int, usual, value float64) func(int) float64 {
	return func(slot int) float64 {
		if slot < from || slot >= to {
			return usual
		}
		return value
	}
}

// A spike of one thing hides nothing that stayed: what lasts is a step, errors first, and
// says the spike beside it. What all came back is a spike alone.
func TestSpikesHideNoStep(t *testing.T) {
	const slots, at, end = 360, 150, 210
	for _, c := range []struct {
		name           string
		failed, slow   func(int) float64
		headline, also string
		found          []string
	}{
		{"slow for a while, errors for good", from(at, 0.005, 0.08), during(at, end, 1, 3), "the share of errors of shop is ", "; p50 of shop was ", []string{Errors}},
		{"errors for a while, slow for good", during(at, end, 0.005, 0.5), from(at, 1, 1.45), "p", "the share of errors of shop was ", []string{Durations}},
		{"both for a while", during(at, end, 0.005, 0.08), during(at, end, 1, 3), "the share of errors of shop was ", "then as before", []string{Durations, Errors}},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := flow(t, rand.New(rand.NewPCG(51, 1)), slots, series.Base, 0.3, traffic{"shop", "GET /cart", always(100), c.failed, c.slow})
			var one *api.Change
			r := found(t, NewFinder(st), asked(0, 10*slots))
			for i := range r.Changes {
				if x := &r.Changes[i]; x.Operation == "" && math.Abs(float64(x.Time)-float64(epoch+10*at)) <= 50 {
					one = x
				} else if x.Operation == "" {
					t.Errorf("found %s beside it", x.Sentence)
				}
			}
			if one == nil {
				t.Fatalf("not found: %+v", r.Changes)
			}
			t.Log(one.Sentence)
			if !strings.HasPrefix(one.Headline, c.headline) || !strings.Contains(one.Headline, c.also) || one.Shape == nil || one.Shape.Kind != judge.Spike || !slices.Equal(one.Found, c.found) {
				t.Errorf("%s: found %q, shape %+v", one.Headline, one.Found, one.Shape)
			}
		})
	}
}

// What is slower after a spike than before it is not as before: the spike says both, and the
// level that stays is a change of its own, whether the spike is long or short.
func TestSpikesThatLeaveAnotherLevel(t *testing.T) {
	const slots, at = 480, 200
	for length, heights := range map[int][2]float64{5: {8, 1.3}, 42: {1.75, 1.12}} {
		high := heights[0]
		for _, after := range []float64{1, heights[1]} {
			slow := func(slot int) float64 { return during(at, at+length, 1, high)(slot) * from(at+length, 1, after)(slot) }
			st := flow(t, rand.New(rand.NewPCG(57, uint64(length))), slots, series.Base, 0.3, traffic{"shop", "GET /cart", always(100), always(0.005), slow})
			r := found(t, NewFinder(st), asked(0, 10*slots))
			spike, steps := 0, 0
			for _, c := range r.Changes {
				if c.Operation != "" {
					continue
				}
				t.Log(c.Sentence)
				switch {
				case c.Shape == nil || c.Shape.Kind != judge.Spike:
					steps++
				case after == 1 && strings.Contains(c.Headline, ", then as before, "),
					after != 1 && strings.Contains(c.Headline, ", then ") && strings.Contains(c.Headline, ", before "):
					spike++
				default:
					t.Errorf("after %d slots at %g times: %s", length, after, c.Sentence)
				}
			}
			if want := map[bool]int{true: 1}[after != 1]; spike != 1 || steps != want {
				t.Errorf("after %d slots at %g times: %d spikes and %d steps, want 1 and %d", length, after, spike, steps, want)
			}
		}
	}
}

func TestIsAsBefore(t *testing.T) {
	for _, c := range []struct {
		name      string
		low, high float64
		want      bool
	}{
		{"p50", 0.98, 1.2, true},
		{"p50", 1.01, 1.04, true},
		{"p50", 1.06, 1.14, false},
		{"p50", 0.8, 0.94, false},
		{"p50", math.NaN(), math.NaN(), true},
		{judge.ErrorShare, -0.001, 0.02, true},
		{judge.ErrorShare, 0.01, 0.02, false},
	} {
		m := &api.CompareMeasure{Name: c.name, Scale: "ratio", Raw: api.CompareFigure{Low: api.Float(c.low), High: api.Float(c.high)}}
		if c.name == judge.ErrorShare {
			m.Scale = "difference"
		}
		if got := isAsBefore(m); got != c.want {
			t.Errorf("%s from %g to %g: %t", c.name, c.low, c.high, got)
		}
	}
}

// A spike shorter than two changes are apart is told with its own length wherever it lies in
// the range, and the step after it is found as clearly as without it.
func TestShortSpikes(t *testing.T) {
	const slots, step = 520, 300
	for _, at := range []int{8, 30, 120, 200} {
		for _, length := range []int{3, 4, 8} {
			rng := rand.New(rand.NewPCG(53, uint64(at+length)))
			slow := func(after float64) func(int) float64 {
				return func(slot int) float64 { return during(at, at+length, 1, 12)(slot) * from(step, 1, after)(slot) }
			}
			st := flow(t, rng, slots, series.Base, 0.3,
				traffic{"ledger", "POST /entries", always(140), always(0.002), slow(1)},
				traffic{"ledger", "GET /statement", always(60), always(0.002), slow(2.4)})
			r := found(t, NewFinder(st), asked(0, 10*slots))
			for _, operation := range []string{"", "POST /entries"} {
				spike := around(r, operation, int64(10*at))
				if spike == nil || spike.Shape == nil || spike.Shape.Kind != judge.Spike || spike.Shape.Start != epoch+int64(10*at) || math.Abs(float64(spike.Shape.End-epoch-int64(10*(at+length)))) > 10 || !judge.Moved(spike.Verdict) {
					t.Errorf("a spike of %d slots at %d of %q: %+v", length, at, operation, spike)
				}
			}
			c := around(r, "GET /statement", 10*step)
			if c == nil || c.High-c.Low > 60 || !judge.Moved(c.Verdict) {
				t.Fatalf("a spike of %d slots at %d: the step is %+v", length, at, c)
			}
			for _, m := range c.Measures {
				if m.Name == "p95" && (m.Raw.Effect < 2.2 || m.Raw.Effect > 2.6) {
					t.Errorf("a spike of %d slots at %d: %s", length, at, c.Sentence)
				}
			}
		}
	}
}

// A step does not hide the short spikes of the same operation before and after it.
func TestSpikesBesideAStep(t *testing.T) {
	const slots, step, before, after = 720, 500, 140, 640
	trials := trials.Of(6)
	listed, steps := [2]int{}, 0
	for i := range trials {
		slow := func(slot int) float64 {
			return during(before, before+3, 1, 6)(slot) * from(step, 1, 2)(slot) * during(after, after+3, 1, 6)(slot)
		}
		st := flow(t, rand.New(rand.NewPCG(54, uint64(i))), slots, series.Base, 0.5, traffic{"shop", "GET /cart", always(60), always(0.002), slow})
		r := found(t, NewFinder(st), asked(0, 10*slots))
		for k, at := range []int{before, after} {
			if c := around(r, "GET /cart", int64(10*at)); c != nil && c.Shape != nil && c.Shape.Kind == judge.Spike && c.Shape.End-c.Shape.Start <= 50 {
				listed[k]++
			}
		}
		if c := around(r, "GET /cart", 10*step); c != nil && c.Verdict == judge.Regression {
			steps++
		}
	}
	t.Logf("%d trials: the spike before in %d, the one after in %d, the step in %d", trials, listed[0], listed[1], steps)
	if min(listed[0], listed[1], steps) < trials-trials/5 {
		t.Errorf("%d trials: the spike before in %d, the one after in %d, the step in %d", trials, listed[0], listed[1], steps)
	}
}

// A spike names the selection, as other changes do.
func TestSpikesNameTheSelection(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(52, 1))
	slow := during(150, 210, 1, 3)
	for slot := range 360 {
		l := labels.FromStrings(series.LabelService, "shop", series.LabelOperation, "GET /cart", series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app", series.LabelTenant, "t1")
		for range 30 {
			w.Span(epoch+10*int64(slot), l, 0.05*slow(slot)*math.Exp(0.5*rng.NormFloat64()))
		}
	}
	r := found(t, NewFinder(put(t, storetest.NewTwin(), w)), asked(0, 3600, series.LabelTenant, "t1"))
	c := of(r, "")
	if c == nil || c.Shape == nil || c.Shape.Kind != judge.Spike || !strings.Contains(c.Headline, " of shop for t1 was ") {
		t.Errorf("found %+v", r.Changes)
	}
}

// What rose and no longer does is said in whole clauses.
func TestDriftThatEnds(t *testing.T) {
	const at, n = 50, 100
	num, den := make([]float64, n), make([]float64, n)
	for i := range n {
		num[i], den[i] = float64(min(i, at)), 1
	}
	c := candidate{tally: &stat.Tally{Num: num, Den: den}, point: point{at: at}, before: compare.Stretch{From: 0, To: at}, after: compare.Stretch{From: at, To: n}}
	got, _ := driftText(&metricSearch{step: 10}, c, &api.Change{}, "heap", "")
	if got != "heap no longer rises; it rose by 360 an hour before" {
		t.Errorf("%q", got)
	}
}
