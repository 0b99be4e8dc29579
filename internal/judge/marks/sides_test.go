package marks

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/internal/store"
)

func TestSides(t *testing.T) {
	for _, tc := range []struct {
		name    string
		service string
		beside  []store.Mark
		want    string // before, after, and what cuts them, from the mark
	}{
		{"alone", "a", nil, "-3600..0 20..3620"},
		{"of another service", "a", []store.Mark{mark("x", 600, "b")}, "-3600..0 20..3620"},
		{"after", "a", []store.Mark{mark("x", 603, "a")}, "-3600..0 20..600 the mark \"x\""},
		{"of every service", "a", []store.Mark{mark("x", 603, "")}, "-3600..0 20..600 the mark \"x\""},
		{"two after", "a", []store.Mark{mark("x", 603, "a"), mark("y", 803, "a")}, "-3600..0 20..600 the mark \"x\""},
		{"before", "a", []store.Mark{mark("w", -900, "a"), mark("x", -603, "a")}, "the mark \"x\" -590..0 20..3620"},
		{"too near", "a", []store.Mark{mark("x", -30, "a"), mark("y", 50, "a")}, "-3630..-30 70..3670 together x m y"},
		{"too near one that is", "a", []store.Mark{mark("w", -240, "a"), mark("x", -30, "a"), mark("y", 50, "b")}, "-3840..-240 20..3620 together w x m"},
		{"just near enough", "a", []store.Mark{mark("x", -220, "a"), mark("y", 220, "a")}, "the mark \"x\" -200..0 20..220 the mark \"y\""},
		{"too many to be one", "a", []store.Mark{mark("v", -600, "a"), mark("w", -400, "a"), mark("x", -200, "a"), mark("y", 200, "a"), mark("z", 400, "a")}, "the mark \"x\" -200..0 20..220 the mark \"y\""},
		{"in the same slot", "a", []store.Mark{mark("x", 2, "a")}, "-3600..0 20..3620 together m x"},
		{"while it settles", "a", []store.Mark{mark("x", 15, "a")}, "-3600..0 30..3630 together m x"},
		{"far", "a", []store.Mark{mark("x", -4000, "a"), mark("y", 4000, "a")}, "-3600..0 20..3620"},
		{"for every service", "", []store.Mark{mark("x", 600, "b")}, "-3600..0 20..600 the mark \"x\""},
	} {
		marks, i := []store.Mark{}, 0
		for _, m := range tc.beside {
			if m.Time.Before(at(0)) {
				marks = append(marks, m)
				i++
			}
		}
		marks = append(append(marks, mark("m", 0, tc.service)), tc.beside[i:]...)
		s := sidesOf(marks, i, tc.service, time.Hour)
		got := fmt.Sprintf("%d..%d %d..%d", s.before.start-epoch, s.before.end-epoch, s.after.start-epoch, s.after.end-epoch)
		if s.cutBefore != "" {
			got = s.cutBefore + " " + got
		}
		if s.cutAfter != "" {
			got += " " + s.cutAfter
		}
		if len(s.together) > 1 {
			got += " together"
			for _, m := range s.together {
				got += " " + m.ID
			}
		}
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// Whatever lies beside a mark, its sides are whole slots, long enough, and
// hold no other mark that is not too near.
func TestSidesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := time.Duration(rapid.IntRange(1, 7200).Draw(t, "window")) * time.Second
		times := rapid.SliceOfN(rapid.IntRange(0, 20000), 1, 12).Draw(t, "times")
		var marks []store.Mark
		for k, sec := range times {
			m := mark(fmt.Sprint(k), int64(sec), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "service"))
			at := 0
			for at < len(marks) && !marks[at].Time.After(m.Time) {
				at++
			}
			marks = append(marks[:at:at], append([]store.Mark{m}, marks[at:]...)...)
		}
		i := rapid.IntRange(0, len(marks)-1).Draw(t, "i")
		s := sidesOf(marks, i, "a", window)
		moment := slotOf(marks[i].Time)
		for _, side := range []span{s.before, s.after} {
			length := side.end - side.start
			if side.start%slot != 0 || side.end%slot != 0 || length < fewest*slot || length > max(int64(window/time.Second), fewest*slot) {
				t.Fatalf("side %d..%d", side.start-moment, side.end-moment)
			}
			for k, m := range marks {
				if at := slotOf(m.Time); !slices.Contains(s.together, &marks[k]) && m.Service != "b" && at >= side.start && at < side.end && length > fewest*slot {
					t.Fatalf("side %d..%d holds the mark at %d", side.start-moment, side.end-moment, at-moment)
				}
			}
		}
		if s.before.end != slotOf(s.first().Time) || s.after.start != slotOf(s.last().Time)+slot+settle || !slices.Contains(s.together, &marks[i]) {
			t.Fatalf("%+v is not beside %d", s, moment)
		}
		for k := range marks { // marks that are judged as one are so for each of them
			if marks[i].Service != "b" && slices.Contains(s.together, &marks[k]) && !slices.Equal(together(marks, k, "a"), s.together) {
				t.Fatalf("mark %d is together with %v, mark %d with %v", i, s.together, k, together(marks, k, "a"))
			}
		}
		if s.earliest() > s.complete() {
			t.Fatalf("judged at %d, complete at %d", s.earliest(), s.complete())
		}
	})
}

// A look has the share of the last of the planned ones; together they have all at most.
func TestShares(t *testing.T) {
	sum := 0.0
	for i, l := range looks {
		sum += l.share
		for _, late := range []time.Duration{0, 30 * time.Second} {
			now := at(0).Add(l.after + late)
			if got := shareAt(at(0), at(0).Add(l.after-time.Second), now); got != l.share {
				t.Errorf("look %d: a share of %v, want %v", i, got, l.share)
			}
			if got := shareAt(at(0), now, now.Add(time.Second)); got != extra {
				t.Errorf("look %d once more: a share of %v, want %v", i, got, extra)
			}
		}
	}
	if got := shareAt(at(0), time.Time{}, at(250)); got != looks[0].share {
		t.Errorf("the first look: a share of %v", got)
	}
	if sum > 1 {
		t.Errorf("shares add up to %v", sum)
	}
}
