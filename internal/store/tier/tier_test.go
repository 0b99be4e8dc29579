package tier

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const t0 = 1_789_948_800 // on the hour and on the day

func TestCover(t *testing.T) {
	h := &Horizon{}
	for i := range h.Floor {
		h.Floor[i], h.Ready[i] = -1<<40, 1<<40
	}
	h.Ready[1], h.Ready[2], h.Ready[3] = t0+7260, t0+7200, t0+7200
	h.Floor[0], h.Floor[1] = t0+3600, t0-3600
	upTo := Count - 1
	f := func(start, end, step int64, want string) {
		t.Helper()
		spans, from, to := h.Cover(t0+start, t0+end, step, -1<<40, 1<<40, upTo)
		var got []string
		for _, s := range spans {
			got = append(got, fmt.Sprintf("%d:%d-%d", Slot(s.Tier), s.From-t0, s.To-t0))
		}
		if from != t0+start || to != t0+end {
			got = append(got, fmt.Sprintf("covers %d-%d", from-t0, to-t0))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("Cover(%d, %d, %d): got %s, want %s", start, end, step, s, want)
		}
		if !slices.IsSortedFunc(spans, func(a, b Span) int { return int(a.To - b.From) }) {
			t.Errorf("Cover(%d, %d, %d): spans overlap: %s", start, end, step, got)
		}
	}
	f(3600, 7200, 0, "3600:3600-7200")
	f(3600, 7200, 600, "600:3600-7200")
	f(3600, 7200, 60, "60:3600-7200")
	f(3600, 3640, 10, "10:3600-3640")
	f(3600, 3720, 20, "10:3600-3720")
	f(3610, 7200, 0, "10:3610-3660 60:3660-4200 600:4200-7200")
	f(3600, 4215, 0, "600:3600-4200 10:4200-4220")
	f(3600, 7400, 0, "3600:3600-7200 60:7200-7260 10:7260-7400")
	f(10, 20, 0, "60:0-60 covers 0-60")
	f(10, 3700, 0, "60:0-600 600:600-3600 60:3600-3660 10:3660-3700 covers 0-3700")
	f(-7200, 0, 0, "3600:-7200-0")
	f(-3610, 0, 0, "600:-4200--3600 3600:-3600-0 covers -4200-0")
	f(70, 130, 30, "60:60-180 covers 60-180")

	// What is not to be coarser is finer where that is still kept.
	upTo = 1
	f(3600, 7200, 0, "60:3600-7200")
	f(-7200, 0, 0, "600:-7200--3600 60:-3600-0")
	upTo = 0
	f(3600, 7200, 0, "10:3600-7200")

	// Slots that were put to a tier directly are in no finer one.
	upTo = Count - 1
	h.Direct = func(tier int, at int64) bool { return tier == 2 && at >= t0+3600 && at < t0+4200 }
	f(3610, 4210, 0, "600:3600-4200 10:4200-4210 covers 3600-4210")
}
