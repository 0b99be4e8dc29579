package query

import (
	"fmt"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Whatever the export interval, the slots, lost exports and new beginnings: the
// seconds in which an increase is known add up to those between the first
// sample and the last, and it is never below 0.
func TestCounterAddsUp(t *testing.T) {
	const start = querytest.Epoch
	rapid.Check(t, func(rt *rapid.T) {
		every := rapid.SampledFrom([]int64{5, 10, 15, 60}).Draw(rt, "every")
		lengths := SlotLengths(every)
		step := rapid.SampledFrom(lengths[:4]).Draw(rt, "step")
		n := rapid.Int64Range(2, 40).Draw(rt, "slots")
		w := querytest.NewWriter()
		w.Family(store.FamilyInfo{Name: "cpu_seconds_total", Kind: series.Counter, IntervalSeconds: every})
		one := series.Series{Family: "cpu_seconds_total", Kind: series.Counter, Labels: labels.FromStrings("service", "shop", "instance", "a")}
		value := 0.0
		var first, last int64 // milliseconds
		end := 1000 * (start + n*step)
		lost := int64(0)
		for at := 1000 * (start - 2*every); at < end; at += 1000 * every {
			taken := at + rapid.Int64Range(0, 900).Draw(rt, "late")
			inc := rapid.Float64Range(0, 10).Draw(rt, "increase")
			again := rapid.IntRange(0, 19).Draw(rt, "again") == 0
			if value += inc; again {
				value = inc
			}
			if !again && first != 0 && lost < 2 && taken < end-2000*every && rapid.IntRange(0, 9).Draw(rt, "lost") == 0 {
				lost++
				continue
			}
			lost = 0
			if taken >= end {
				break
			}
			w.Number(taken, one, value)
			if first == 0 {
				first = taken
			}
			last = taken
		}
		st := storetest.NewTwin()
		if err := w.Put(t.Context(), st, 1); err != nil {
			rt.Fatal(err)
		}
		res, err := Slots(t.Context(), st, SlotsRequest{Selection: Selection{Family: "cpu_seconds_total", Start: at(start), End: at(start + n*step)}, Step: step})
		if err != nil || len(res.Groups) != 1 {
			rt.Fatalf("%v, %+v", err, res)
		}
		var known float64
		for i, d := range res.Groups[0].Den {
			if known += d; d < 0 || d > float64(step)+1e-9 || res.Groups[0].Num[i] < 0 {
				rt.Fatalf("slot %d: %v in %v s", i, res.Groups[0].Num[i], d)
			}
		}
		if want := float64(last-max(first, 1000*start)) / 1000; math.Abs(known-want) > 1e-6 {
			rt.Fatalf("%v s are known, want %v", known, want)
		}
	})
}

// A counter that rises evenly does so in every slot, to the last digit, though
// exports are lost and it begins again.
func TestCounterSpread(t *testing.T) {
	const start = querytest.Epoch
	w := querytest.NewWriter()
	w.Family(store.FamilyInfo{Name: "cpu_seconds_total", Kind: series.Counter, IntervalSeconds: 15})
	s := series.Series{Family: "cpu_seconds_total", Kind: series.Counter, Labels: labels.FromStrings("service", "shop")}
	began := start - 1000
	for at := start - 30; at <= start+600; at += 15 {
		if at == start+300 {
			began = at - 15 // a new process, right after the last export
		}
		if at != start+90 && at != start+105 {
			w.Number(1000*at+400, s, 2*float64(at-began))
		}
	}
	st := storetest.NewTwin()
	if err := w.Put(t.Context(), st, 1); err != nil {
		t.Fatal(err)
	}
	res, err := Slots(t.Context(), st, SlotsRequest{Selection: Selection{Family: "cpu_seconds_total", Start: at(start), End: at(start + 600)}, Step: 30})
	if err != nil {
		t.Fatal(err)
	}
	g := res.Groups[0]
	for i := range g.Num {
		if math.Abs(g.Num[i]-60) > 1e-9 && i < 19 || math.Abs(g.Num[i]/g.Den[i]-2) > 1e-9 {
			t.Errorf("slot %d rose by %v in %v s, want 2 a second", i, g.Num[i], g.Den[i])
		}
	}
}

func TestSlotLengths(t *testing.T) {
	for interval, want := range map[int64]string{
		0:    "[10 20 30 60 120 300 600 900 1200 1800 3600]",
		10:   "[10 20 30 60 120 300 600 900 1200 1800 3600]",
		15:   "[30 60 120 300 600 900 1200 1800 3600]",
		45:   "[120 300 600 900 1200 1800 3600]",
		60:   "[60 120 300 600 900 1200 1800 3600]",
		3600: "[3600]",
		7200: "[]",
	} {
		if got := fmt.Sprint(SlotLengths(interval)); got != want {
			t.Errorf("%d s: %s, want %s", interval, got, want)
		}
	}
}

func TestIncrease(t *testing.T) {
	for _, x := range []struct {
		before, min, max, last, want float64
	}{
		{10, 12, 15, 15, 5},
		{10, 2, 5, 5, 5},    // began again between the slots
		{10, 3, 13, 4, 7},   // within the slot: 3 more, then 4
		{10, 2, 9, 4, 4},    // before the slot's first, and again within it
		{10, 3, 20, 20, 20}, // between the slots, and rose above
		{10, 10, 10, 10, 0},
	} {
		if got := increase(x.before, series.Number{Count: 2, Min: x.min, Max: x.max, Last: x.last}); got != x.want {
			t.Errorf("from %v, then %v to %v, at last %v: %v, want %v", x.before, x.min, x.max, x.last, got, x.want)
		}
	}
}
