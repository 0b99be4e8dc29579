package history

import (
	"context"
	"errors"
	"testing"
	"time"

	"tailscope/internal/guard/check/expr"
	"tailscope/internal/series"
	"tailscope/internal/store/pebblestore"
)

// between is a look-up with something that happens between it and the next of one
// answer.
type between struct {
	stored
	happens func()
}

func (b *between) latest(ctx context.Context, dst []series.Sample, until int64, skip, n int) ([]series.Sample, error) {
	dst, err := b.stored.latest(ctx, dst, until, skip, n)
	if f := b.happens; f != nil {
		b.happens = nil
		f()
	}
	return dst, err
}

// A flush may fall between what is read of the store and what is read of memory.
func TestAFlushDuringALookUp(t *testing.T) {
	w := newWorld(t, pebblestore.Options{})
	defer w.close()
	h := w.h.For(ForOptions{})
	a := value("check", "a")
	sample := func(s int64) series.Sample { return series.Sample{TimeMillis: (t0 + s) * 1000, Value: float64(s)} }
	w.put(a, sample(10), sample(20), sample(30))
	for s := int64(10); s <= 50; s += 10 {
		w.h.Observe(a, sample(s))
	}
	x := &expr.Selector{Text: "x[0:9]", Family: "check_value", Matchers: equals("check", "a"), By: expr.ByIndexRange, To: 9}
	look(t, h, x, time.Unix(t0+60, 0))
	sources := h.(*view).resolve(x).matched.Load().sources
	sources[0].stored = &between{sources[0].stored, func() { w.put(a, sample(40), sample(50)) }}
	if got := values(look(t, h, x, time.Unix(t0+60, 0))); got != " 50 40 30 20 10" {
		t.Errorf("got%s", got)
	}
	if sources[0].stored.(*between).happens != nil {
		t.Error("nothing was put")
	}
}

// After the clock was set back samples are seen at once, as before.
func TestObserveAfterTheClockWasSetBack(t *testing.T) {
	w := newWorld(t, pebblestore.Options{})
	defer w.close()
	h := w.h.For(ForOptions{})
	a := value("check", "a")
	for _, s := range []int64{7200, 7210, 3600, 3610, 3609} {
		w.h.Observe(a, series.Sample{TimeMillis: (t0 + s) * 1000, Value: float64(s)})
	}
	x := &expr.Selector{Text: "x[0:9]", Family: "check_value", Matchers: equals("check", "a"), By: expr.ByIndexRange, To: 9}
	if got := values(look(t, h, x, time.Unix(t0+3620, 0))); got != " 3610 3600" {
		t.Errorf("got%s", got)
	}
}

// Around the moment when one series takes the place of another, a moment has the
// sample that is closest, whosever it is; of two at a time it has none.
func TestAMomentBetweenSeriesThatFollow(t *testing.T) {
	w := newWorld(t, pebblestore.Options{})
	defer w.close()
	h := w.h.For(ForOptions{Tolerance: time.Minute})
	run := func(instance string, from, to, every int64) {
		var ss []series.Sample
		for s := from; s < to; s += every {
			ss = append(ss, series.Sample{TimeMillis: (t0 + s) * 1000, Value: float64(s)})
		}
		w.put(value("check", "a", "instance", instance), ss...)
	}
	run("1", 0, 3600, 10)
	run("2", 3603, 7200, 10)
	run("3", 7190, 9000, 10) // before 2 has ended
	run("4", 9030, 12000, 60)
	run("5", 9050, 12000, 60) // beside it: with one sample each within the tolerance
	for _, tt := range []struct {
		at   int64
		want string
	}{
		{3590, " 3590"}, {3595, " 3590"}, {3596, " 3590"}, {3598, " 3603"}, {3610, " 3613"}, {3650, " 3653"},
		{7195, ""}, {8000, " 8000"}, {10010, ""},
	} {
		s := &expr.Selector{Text: "x", Family: "check_value", Matchers: equals("check", "a"), By: expr.ByTime}
		got, err := h.Look(context.Background(), s, time.Unix(t0+tt.at, 0), nil)
		var two *expr.AmbiguousError
		if tt.want == "" {
			if !errors.As(err, &two) {
				t.Errorf("at %d: %s, %v; want an error of two", tt.at, values(got), err)
			}
			continue
		}
		// Nothing after the moment of the run is looked up, so ask later.
		s.Ago = 100 * time.Second
		got, err = h.Look(context.Background(), s, time.Unix(t0+tt.at+100, 0), nil)
		if err != nil || values(got) != tt.want {
			t.Errorf("at %d: %s, %v; want%s", tt.at, values(got), err, tt.want)
		}
	}
}

// Days that overlap are not read for ever: so many samples are refused.
func TestDaysThatOverlapAreBounded(t *testing.T) {
	w := newWorld(t, pebblestore.Options{})
	defer w.close()
	var ss []series.Sample
	for s := int64(0); s < 30*86400; s += 120 {
		ss = append(ss, series.Sample{TimeMillis: (t0 + s) * 1000, Value: 1})
	}
	w.put(value("check", "a"), ss...)
	s := &expr.Selector{Text: "x", Family: "check_value", Matchers: equals("check", "a"), By: expr.BySameTime, N: 1000, Every: expr.Days,
		Before: 300 * 24 * time.Hour, After: 300 * 24 * time.Hour}
	got := look(t, w.h.For(ForOptions{}), s, time.Unix(t0+30*86400, 0))
	if len(got) <= expr.MaxSamples || len(got) > expr.MaxSamples+len(ss) {
		t.Errorf("%d samples", len(got))
	}
}
