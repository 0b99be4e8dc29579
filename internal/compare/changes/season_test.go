package changes

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// What each of four days does again is no change, and hides none.
func TestChangesBesideASeason(t *testing.T) {
	const slots, at, step, seeds = 576, 297, 600, 6
	search := func(seed uint64, factor float64) (any, hit bool) {
		rng := rand.New(rand.NewPCG(77, seed))
		b := &store.Batch{Writer: "season", Generation: 1, Resolution: series.TenMin, Series: []series.Series{{
			Family: series.SpanDuration, View: series.Marginal,
			Labels: labels.FromStrings("service", "shop", "operation", "GET /a", "component", "app", "kind", "server", "status", "ok", "instance", "i"),
		}}}
		from := (epoch/day + 1) * day
		wander := 0.0
		for i := range int64(slots) {
			wander = 0.5*wander + 0.05*rng.NormFloat64()
			median := 0.05 * math.Exp(wander+0.3*math.Sin(2*math.Pi*float64(i*step)/day))
			if i >= at {
				median *= factor
			}
			h := hist.New(hist.DefaultSchema)
			for range 100 {
				if err := h.Record(median * math.Exp(0.6*rng.NormFloat64())); err != nil {
					t.Fatal(err)
				}
			}
			data, err := h.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			b.Points = append(b.Points, store.Point{Slot: from + i*step, Data: data})
		}
		st := storetest.NewTwin()
		if err := st.Put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		out := found(t, NewFinder(st), asked(from-epoch, from-epoch+slots*step, "operation", "GET /a"))
		for _, c := range out.Changes {
			hit = hit || math.Abs(float64(c.Time)-float64(from+at*step)) <= 7200
		}
		return len(out.Changes) > 0, hit
	}
	alarms, hits := 0, 0
	for seed := range uint64(seeds) {
		if any, _ := search(seed, 1); any {
			alarms++
		}
		if _, hit := search(seed, 1.4); hit {
			hits++
		}
	}
	if alarms > 1 || hits < seeds {
		t.Errorf("found something in %d of %d without a change, and the change in %d of as many", alarms, seeds, hits)
	}
}

// Only slots one after the other are of a known time of day.
func TestSeasonOf(t *testing.T) {
	whole := make([]int, 3*144)
	for i := range whole {
		whole[i] = 7 + i
	}
	for _, c := range []struct {
		slots []int
		step  int64
		want  int
	}{
		{whole, 600, 144},
		{whole[:3*144-1], 600, 0},
		{append([]int{5}, whole...), 600, 0},
		{nil, 600, 0},
		{whole, 3600, 24},
		{whole, 10, 0},
	} {
		if got := seasonOf(c.slots, c.step); got != c.want {
			t.Errorf("%d slots of %d s: a season of %d, want %d", len(c.slots), c.step, got, c.want)
		}
	}
}
