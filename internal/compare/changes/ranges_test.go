package changes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/query/querytest"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// told writes what a change is listed as: its id and all that is said of it.
func told(c *api.Change) string {
	out := fmt.Sprintf("%s %s %v-%v p %.3g", c.ID, c.Sentence, c.Before, c.After, float64(c.P))
	for _, m := range c.Measures {
		out += fmt.Sprintf(" %s %v…%v", m.Name, m.Raw.Low, m.Raw.High)
	}
	if c.Shape != nil {
		out += fmt.Sprintf(" %+v", *c.Shape)
	}
	return out
}

// What is a change is decided by the data around it: ranges that hold it, of several starts, ends
// and lengths, list the same one with the same figures, or none does.
func TestRangesListTheSameChanges(t *testing.T) {
	const slots, hour = 6 * 360, 3600
	usual := always(0.01)
	requests := func(at int, slow, failed func(int) float64) store.Store {
		return flow(t, rand.New(rand.NewPCG(51, uint64(at))), slots, series.Base, 0.3,
			traffic{"shop", "GET /cart", always(60), failed, slow}, traffic{"shop", "GET /search", always(30), usual, nil})
	}
	for name, play := range map[string]func(at int) store.Store{
		"20 % slower for 12 min":     func(at int) store.Store { return requests(at, during(at, at+72, 1, 1.2), usual) },
		"10 % slower from then on":   func(at int) store.Store { return requests(at, from(at, 1, 1.1), usual) },
		"errors from 1 to 3 %":       func(at int) store.Store { return requests(at, nil, from(at, 0.01, 0.03)) },
		"six times as slow for 30 s": func(at int) store.Store { return requests(at, during(at, at+3, 1, 6), usual) },
		"part of it stays": func(at int) store.Store {
			return requests(at, func(slot int) float64 { return during(at, at+60, 0, 0.3)(slot) + from(at, 1, 1.2)(slot) }, usual)
		},
		"a tenant of 5 % twice as slow": func(at int) store.Store { return slowTenant(t, slots, at) },
	} {
		// In the middle of what a window decides, and where two windows part.
		for _, at := range []int{720, 1079} {
			t.Run(fmt.Sprintf("%s at %d", name, at), func(t *testing.T) {
				t.Parallel()
				sec := int64(10 * at)
				sameInRanges(t, NewFinder(play(at)), slots, sec, [][2]int64{
					{0, 6 * hour}, {sec - 600, sec + 1800}, {sec - 1800, sec + 1500}, {sec - 1234, sec + 1801}, {sec - 3600, sec + 3600},
					{sec - 5000, sec + 1320}, {sec - 630, sec + 2*hour}, {sec - 2*hour, sec + 1500}, {sec - 600, 6 * hour}, {0, sec + 1400},
				})
			})
		}
	}
}

// What lasts for an hour across the border of two windows is one spike in ranges that hold its
// start, its end or both, and its end is a change in none.
func TestRangesAcrossWindows(t *testing.T) {
	const slots, hour, start, end = 6 * 360, 3600, 10 * 810, 10 * 1170
	f := NewFinder(flow(t, rand.New(rand.NewPCG(54, 1)), slots, series.Base, 0.3,
		traffic{"shop", "GET /cart", always(60), always(0.01), during(start/10, end/10, 1, 1.6)}))
	ranges := [][2]int64{{hour, 6 * hour}, {start - 900, start + 1980}, {start - 900, start + 2700}, {end - 600, 5 * hour}, {end - 180, 5 * hour}, {0, 6 * hour}}
	spike := sameInRanges(t, f, slots, start, ranges)
	if len(spike) != 2 || !strings.Contains(spike[0], "for 60 min, then") {
		t.Errorf("of the service and its operation are listed\n%s", strings.Join(spike, "\n"))
	}
	if back := sameInRanges(t, f, slots, end, ranges); len(back) > 0 {
		t.Errorf("its end is listed as\n%s", strings.Join(back, "\n"))
	}
}

// Ranges of up to six hours are searched in slots of ten seconds, those of up to a day in slots
// of a minute. Those of one length of slots list the same.
func TestRangesOfADay(t *testing.T) {
	const slots, hour, at = 8640, 3600, 4400
	f := NewFinder(flow(t, rand.New(rand.NewPCG(53, 1)), slots, series.Base, 0.3, traffic{"shop", "GET /cart", always(40), always(0.01), from(at, 1, 1.2)}))
	const sec = 10 * at
	short := sameInRanges(t, f, slots, sec, [][2]int64{{sec - 1800, sec + 1800}, {sec - hour, sec + hour}, {sec - hour, sec + 3*hour}, {sec - 5*hour, sec + hour}})
	long := sameInRanges(t, f, slots, sec, [][2]int64{{sec - 4*hour, sec + 4*hour}, {sec - hour, sec + 11*hour}, {0, 24 * hour}})
	if len(short) != 2 || len(long) != 2 {
		t.Errorf("of the service and its operation are listed\n%s\nand in slots of a minute\n%s", strings.Join(short, "\n"), strings.Join(long, "\n"))
	}
}

// An hour after a change its sentence stays, and the stretch after it, whatever comes later.
func TestWhatComesLaterMovesNoFigures(t *testing.T) {
	const hour, at, slots = 3600, 500, 1430
	st := flow(t, rand.New(rand.NewPCG(56, 1)), slots, series.Base, 0.3, traffic{"shop", "GET /cart", always(60), always(0.01), func(slot int) float64 {
		return from(at, 1, 1.4)(slot) + 0.1*max(0, float64(slot-at-370))/500
	}})
	first := ""
	for _, later := range []int64{hour + 120, hour + 1800, 2*hour + 600} {
		c := around(found(t, NewFinder(st), asked(0, 10*at+later)), "", 10*at)
		if c == nil {
			t.Fatalf("no change is found %d s later", later)
		}
		got := fmt.Sprint(c.Headline, c.After)
		if first == "" {
			first = got
		}
		if got != first || c.After.End-c.After.Start != hour {
			t.Errorf("%d s later\n%s\nis told, and\n%s\nat first", later, got, first)
		}
	}
}

// A question for what is known is answered, and says so, from what was found minutes ago, though
// its range moved with the present and another has another length. A full question searches anew.
func TestKnownRangesMove(t *testing.T) {
	const at, now = 500, 7200
	f := NewFinder(flow(t, rand.New(rand.NewPCG(57, 1)), 760, series.Base, 0.3, traffic{"shop", "GET /cart", always(60), always(0.01), from(at, 1, 1.4)}))
	for i, c := range []struct {
		from, to    int64
		known, kept bool
	}{
		{now - 6*3600, now, true, false}, // nothing was found before
		{now - 6*3600, now, true, true},
		{now - 6*3600 + 290, now + 290, true, true},
		{now - 3*3600 + 290, now + 290, true, true},
		{now - 6*3600 + 290, now + 290, false, false},
		{now - 6*3600 + 1000, now + 1000, true, false}, // what was found is too old
	} {
		r := asked(c.from, c.to)
		r.Known = c.known
		got := found(t, f, r)
		if got.Kept != c.kept || around(got, "", 10*at) == nil {
			t.Errorf("question %d: kept is %v, want %v, with %d changes", i, got.Kept, c.kept, len(got.Changes))
		}
	}
}

// slowTenant is twenty tenants of one operation, one of which takes twice as long from a slot on.
func slowTenant(t *testing.T, slots, at int) store.Store {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(52, uint64(at)))
	for slot := range slots {
		for range 20 {
			tenant := rng.IntN(20)
			median := 0.05
			if tenant == 7 && slot >= at {
				median *= 2
			}
			w.Span(epoch+10*int64(slot), labels.FromStrings(series.LabelService, "shop", series.LabelOperation, "GET /cart", series.LabelTenant, fmt.Sprint("t", tenant),
				series.LabelKind, "server", series.LabelStatus, "ok", series.LabelComponent, "app"), median*math.Exp(0.4*rng.NormFloat64()))
		}
	}
	return put(t, storetest.NewTwin(), w)
}

// sameInRanges returns what is listed within three minutes of a moment, and fails where ranges
// do not list the same.
func sameInRanges(t *testing.T, f *Finder, slots int, sec int64, ranges [][2]int64) (first []string) {
	t.Helper()
	for i, of := range ranges {
		r := asked(of[0], of[1])
		r.Now = moment(10*int64(slots) + 60)
		var got []string
		out := found(t, f, r)
		for j := range out.Changes {
			if c := &out.Changes[j]; float64(c.Low) <= float64(epoch+sec+180) && float64(epoch+sec-180) <= float64(c.High) {
				got = append(got, told(c))
			}
		}
		if i == 0 {
			first = got
			t.Logf("%d listed, such as %.250s", len(got), strings.Join(got, "\n"))
		}
		if !slices.Equal(got, first) {
			t.Errorf("from %d to %d is listed\n%s\nfrom %d to %d\n%s", of[0], of[1], strings.Join(got, "\n"), ranges[0][0], ranges[0][1], strings.Join(first, "\n"))
		}
	}
	return first
}
