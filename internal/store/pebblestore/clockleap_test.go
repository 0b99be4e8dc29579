package pebblestore

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"tailscope/internal/store"
)

func TestClockLeapAdvance(t *testing.T) {
	const hour, day = 3600, 86400
	type call struct{ wall, elapsed, want int64 }
	for name, tc := range map[string]struct {
		moment int64
		calls  []call
	}{
		"nothing is believed at first": {farPast, []call{{9 * day, 0, 9 * day}}},
		"the clock goes on":            {0, []call{{0, 0, 0}, {10, 10, 10}, {day, day, day}}},
		"an hour is not a leap":        {0, []call{{hour, 0, hour}, {2*hour + 10, 10, 2*hour + 10}}},
		"ahead and back":               {0, []call{{0, 0, 0}, {500*day + 10, 10, 10}, {500*day + 1800, 1800, 1800}, {1810, 1810, 1810}, {1820, 1820, 1820}}},
		"ahead again and again": {0, []call{{0, 0, 0}, {500 * day, 10, 10}, {3000, 3000, 3000}, {500*day + 3000, 3010, 3010}, {500*day + 6000, 6000, 6000},
			{500*day + 6600, 6600, 6600}, {500*day + 6610, 6610, 500*day + 6610}}},
		"a leap that stands is believed": {0, []call{{0, 0, 0}, {500*day + 10, 10, 10}, {500*day + hour + 9, hour + 9, hour + 9},
			{500*day + hour + 10, hour + 10, 500*day + hour + 10}, {500*day + hour + 20, hour + 20, 500*day + hour + 20}}},
		"a leap during the wait waits anew": {0, []call{{0, 0, 0}, {5*day + 10, 10, 10}, {9*day + 20, 20, 20},
			{9*day + hour + 19, hour + 19, hour + 19}, {9*day + hour + 20, hour + 20, 9*day + hour + 20}}},
		"a step back during the wait waits anew": {0, []call{{0, 0, 0}, {9*day + 10, 10, 10}, {5*day + 20, 20, 20},
			{5*day + hour + 19, hour + 19, hour + 19}, {5*day + hour + 20, hour + 20, 5*day + hour + 20}}},
		"back is followed, and believed later": {9 * day, []call{{9 * day, 0, 9 * day}, {10, 10, 10}, {9*day + 20, 20, 9*day + 20}, {30, 30, 30},
			{30 + hour, 30 + hour, 30 + hour}, {9*day + hour + 40, hour + 40, hour + 40}}},
		"a start long after the last stop": {0, []call{{90 * day, 700, 0}, {90*day + 10, 710, 10}, {90*day + hour, 700 + hour, 90*day + hour}}},
		"a start before the clock is set":  {90 * day, []call{{0, 0, 0}, {10, 10, 10}, {90*day + 20, 20, 90*day + 20}}},
	} {
		var c clockLeap
		c.start(tc.moment, runningFor(tc.calls[0].elapsed))
		wall, elapsed := tc.calls[0].wall, tc.calls[0].elapsed
		for i, k := range tc.calls {
			for elapsed+60 < k.elapsed { // the clock stands until the next call
				wall, elapsed = wall+60, elapsed+60
				c.advance(wall, runningFor(elapsed), time.Hour)
			}
			wall, elapsed = k.wall, k.elapsed
			if got := c.advance(wall, runningFor(elapsed), time.Hour); got != k.want {
				t.Errorf("%s: call %d: clock %d after %d s: got %d, want %d", name, i, k.wall, k.elapsed, got, k.want)
			}
		}
	}
}

func runningFor(seconds int64) monotonic {
	d := time.Duration(seconds) * time.Second
	return monotonic{elapsed: d, running: d}
}

// A machine whose clock begins in 1970 or where it last stopped, and is set a minute
// after the start, did not leap while it ran. Neither does a clock that was set back
// and returns.
func TestClockLeapSeen(t *testing.T) {
	const day = 86400
	type call struct{ wall, elapsed int64 }
	for name, tc := range map[string]struct {
		calls []call
		seen  bool
	}{
		"1970":                        {[]call{{0, 0}, {1003*day + 60, 60}}, false},
		"a clock that begins anew":    {[]call{{1000 * day, 0}, {1003*day + 60, 60}}, false},
		"set back for hours":          {[]call{{1000 * day, 0}, {1000*day + 3600, 3600}, {998*day + 3610, 3610}, {998*day + 7300, 7300}, {1000*day + 7400, 7400}}, false},
		"set back for hours at first": {[]call{{998 * day, 0}, {998*day + 3700, 3700}, {1000*day + 3800, 3800}}, false},
		"ahead while it runs":         {[]call{{1000 * day, 0}, {1000*day + 3600, 3600}, {1003*day + 3610, 3610}}, true},
		"further ahead":               {[]call{{1000 * day, 0}, {1000*day + 3600, 3600}, {1003*day + 3610, 3610}, {1004*day + 3620, 3620}}, true},
		"ahead, and not as far":       {[]call{{1000 * day, 0}, {1000*day + 3600, 3600}, {1003*day + 3610, 3610}, {1002*day + 3620, 3620}}, true},
	} {
		var c clockLeap
		c.start(1000*day, runningFor(0))
		var wall, elapsed int64
		for _, k := range tc.calls {
			for elapsed+60 < k.elapsed {
				wall, elapsed = wall+60, elapsed+60
				c.advance(wall, runningFor(elapsed), time.Hour)
			}
			wall, elapsed = k.wall, k.elapsed
			c.advance(wall, runningFor(elapsed), time.Hour)
		}
		if c.seen != tc.seen {
			t.Errorf("%s: got %v, want %v", name, c.seen, tc.seen)
		}
	}
}

// clocked is a store under a wall clock and a monotonic one, both of which stand
// still unless they are moved.
type clocked struct {
	*Store
	o        Options
	now      time.Time
	elapsed  time.Duration
	asleep   time.Duration // how much of it the machine was suspended
	gen, put uint64
}

func openClocked(t *testing.T) *clocked {
	c := &clocked{now: time.Unix(t0+200, 0)}
	c.o = Options{FS: vfs.NewMem(), LeapWait: time.Hour,
		Elapsed: func() time.Duration { return c.elapsed }, Running: func() time.Duration { return c.elapsed - c.asleep }}
	c.Store = open(t, c.o)
	t.Cleanup(func() { check(t, c.Close()) })
	return c
}

// openFewTraces is openClocked with room for two traces of 20 KiB, and a clock that
// is believed.
func openFewTraces(t *testing.T) *clocked {
	t.Helper()
	c := openClocked(t)
	check(t, c.Close())
	c.o.TraceBytes = 50 << 10
	c.Store = open(t, c.o)
	c.step(t, 0, false)
	c.stand(t, time.Hour, 0)
	c.step(t, 0, false)
	return c
}

func (c *clocked) pass(d time.Duration) { c.now, c.elapsed = c.now.Add(d), c.elapsed+d }

// stand passes d, maintaining each minute and at its end, with the clock ahead.
func (c *clocked) stand(t *testing.T, d, ahead time.Duration) {
	t.Helper()
	for d > 0 {
		step := min(d, time.Minute)
		c.pass(step)
		check(t, c.Maintain(t.Context(), c.now.Add(ahead)))
		d -= step
	}
}

// restart stops for d, after which the monotonic clock begins anew.
func (c *clocked) restart(t *testing.T, d time.Duration) {
	t.Helper()
	check(t, c.Close())
	c.now, c.elapsed, c.asleep = c.now.Add(d), 0, 0
	c.Store = open(t, c.o)
}

// step stores three observations and a trace of now, and maintains with the clock
// ahead: nothing that was stored may be gone.
func (c *clocked) step(t *testing.T, ahead time.Duration, leapt bool) {
	t.Helper()
	ctx := context.Background()
	c.pass(10 * time.Second)
	c.gen++
	check(t, c.Put(ctx, batch(c.gen, c.now.Unix()/10*10, 1)))
	c.put += 3
	check(t, c.PutTraces(ctx, []store.Trace{{ID: store.TraceID{byte(c.gen)}, Entries: []store.TraceEntry{{
		Span: [8]byte{1}, Service: "s", Operation: "o", StartNanos: c.now.UnixNano(), DurationNanos: 1e9}}}}))
	check(t, c.Maintain(ctx, c.now.Add(ahead)))
	if l, ok := c.ClockLeap(); ok != leapt || ok && (l.Ahead < ahead || l.Ahead > ahead+time.Hour) {
		t.Errorf("generation %d: got leap %v, %+v, want %v of %v", c.gen, ok, l, leapt, ahead)
	}
	c.whole(t)
}

func (c *clocked) whole(t *testing.T) {
	t.Helper()
	if got := count(t, c.Store, store.Query{Start: t0 - 86400, End: c.now.Unix() + 86400}); got != c.put {
		t.Errorf("generation %d: got %d observations, want %d", c.gen, got, c.put)
	}
	st := c.Stats()
	if st.Expired != 0 || st.TracesExpired != 0 || st.TracesLate != 0 {
		t.Errorf("generation %d: %d points and %d traces expired, %d traces came late, want none", c.gen, st.Expired, st.TracesExpired, st.TracesLate)
	}
}

const years = 500 * 24 * time.Hour

// A clock that is far ahead expires nothing, while the server runs and over
// restarts, and what comes after it is stored.
func TestClockLeap(t *testing.T) {
	c := openClocked(t)
	c.step(t, years, false) // the first clock: it is not believed
	c.step(t, 0, false)
	c.restart(t, time.Minute)
	c.step(t, years, false)
	c.step(t, 0, false)
	c.stand(t, time.Hour, 0)
	c.step(t, 0, false)
	for range 3 {
		c.step(t, years, true)
		c.step(t, 0, false)
	}
	c.step(t, years, true)
	if l, _ := c.ClockLeap(); !l.Running || l.Left != time.Hour {
		t.Errorf("got %+v, want a leap of this process that is believed in an hour", l)
	}
	c.restart(t, time.Minute)
	c.step(t, years, true)
	if l, _ := c.ClockLeap(); l.Running {
		t.Errorf("got %+v, want a leap from before the start", l)
	}
	c.stand(t, 50*time.Minute, years)
	c.step(t, years, true)
	c.restart(t, 50*time.Minute) // it waits anew
	c.step(t, years, true)
	for _, at := range []time.Time{c.now.Add(-years), c.now} {
		check(t, c.Maintain(t.Context(), at))
		c.whole(t)
	}
	c.step(t, 0, false)
}

// A small leap that is waited for does not stand for a greater one of a later start.
func TestClockLeapAfterASmallOne(t *testing.T) {
	c := openClocked(t)
	c.step(t, 0, false)
	c.stand(t, time.Hour, 0)
	c.step(t, 0, false)
	c.step(t, 3*time.Hour, true)
	c.restart(t, time.Minute)
	c.step(t, years, true)
	c.step(t, 0, false)
}

// After a long stop nothing expires for an hour of running.
func TestClockLeapIsBelieved(t *testing.T) {
	ctx := context.Background()
	c := openClocked(t)
	c.step(t, 0, false)
	c.stand(t, time.Hour, 0)
	c.step(t, 0, false)
	c.restart(t, years)
	check(t, c.Maintain(ctx, c.now))
	if l, ok := c.ClockLeap(); !ok || l.Running || l.Ahead < years-time.Minute {
		t.Errorf("got leap %v, %+v, want one of 500 days from before the start", ok, l)
	}
	c.stand(t, time.Hour-time.Second, 0)
	c.whole(t)
	c.pass(time.Second)
	for range 5 { // an hour's slots expire once they are rolled up
		check(t, c.Maintain(ctx, c.now))
	}
	if _, ok := c.ClockLeap(); ok {
		t.Error("the clock is not believed after an hour")
	}
	if got := count(t, c.Store, store.Query{Start: t0 - 86400, End: t0 + 86400}); got != 0 || c.Stats().TracesExpired != 2 {
		t.Errorf("got %d observations, and %d traces expired; want 0 and 2", got, c.Stats().TracesExpired)
	}
}

// Traces that came while the clock was far ahead are newer than any that follow,
// and drive none of them out.
func TestClockLeapTraces(t *testing.T) {
	ctx := context.Background()
	c := openFewTraces(t)
	put := func(id byte, at time.Time) {
		check(t, c.Maintain(ctx, at))
		check(t, c.PutTraces(ctx, []store.Trace{{ID: store.TraceID{100, id}, Data: make([]byte, 20<<10), Entries: []store.TraceEntry{{
			Span: [8]byte{1}, Service: "s", Operation: "o", StartNanos: at.UnixNano(), DurationNanos: 1e9}}}}))
	}
	for i := range byte(2) {
		put(i, c.now.Add(years+time.Duration(i)*time.Hour))
	}
	for i := range byte(2) {
		c.pass(time.Hour)
		put(10+i, c.now)
		check(t, c.Maintain(ctx, c.now))
	}
	if st := c.Stats(); st.Traces != 6 || st.TracesEvicted != 0 {
		t.Errorf("%d traces are kept and %d evicted, want 6 and 0", st.Traces, st.TracesEvicted)
	}
}

// Traces of a leap that are too many for the bound go before those that were there,
// and what comes after the leap is kept.
func TestClockLeapEvictsItsOwnTraces(t *testing.T) {
	ctx := context.Background()
	c := openFewTraces(t)
	put := func(id byte, at time.Time) {
		t.Helper()
		check(t, c.Maintain(ctx, at))
		before := at.Add(-2 * time.Hour)
		check(t, c.PutTraces(ctx, []store.Trace{{ID: store.TraceID{100, id}, Data: make([]byte, 20<<10), Entries: []store.TraceEntry{
			{Span: [8]byte{1}, Service: "s", Operation: "o", StartNanos: at.UnixNano(), DurationNanos: 1e9},
			{Span: [8]byte{2}, Service: "s", Operation: "o", StartNanos: before.UnixNano(), DurationNanos: 1e9}}}}))
	}
	for i := range byte(4) {
		c.pass(10 * time.Minute)
		put(i, c.now.Add(years))
	}
	check(t, c.Maintain(ctx, c.now.Add(years)))
	if got := c.Stats(); got.TracesEvicted == 0 || got.TraceBytes > c.o.TraceBytes {
		t.Errorf("%d traces are evicted, and %d bytes stay; want some, and at most %d", got.TracesEvicted, got.TraceBytes, c.o.TraceBytes)
	}
	for i := range byte(2) {
		c.pass(10 * time.Second)
		put(20+i, c.now)
	}
	if got := c.Stats().TracesLate; got != 0 {
		t.Errorf("%d traces after the leap are refused as late, want none", got)
	}
	for _, id := range []store.TraceID{{1}, {2}, {100, 20}, {100, 21}} {
		if _, err := c.Trace(ctx, id); err != nil {
			t.Errorf("a trace of before or after the leap: %v", err)
		}
	}
	for _, h := range traceHits(t, c.Store, store.TraceQuery{Limit: 100}) {
		if _, err := c.Trace(ctx, h.ID); err != nil {
			t.Errorf("a request is listed whose trace is gone: %v", err)
		}
	}
	check(t, c.Close())
	c.Store = open(t, c.o)
}

// While no moment is believed rollups do not follow the clock: their watermark never
// goes back, and every point that came afterwards would be late.
func TestClockLeapOfANewStore(t *testing.T) {
	c := openClocked(t)
	c.step(t, years, false)
	for range 3 {
		c.step(t, 0, false)
	}
	for tier, at := range c.ready {
		if tier > 0 && tier < tierSamples && at > c.now.Unix()+tierPart[0] {
			t.Errorf("slots of %d s are over until %v, at %v", tierSlot[tier], time.Unix(at, 0).UTC(), c.now.UTC())
		}
	}
	c.stand(t, time.Hour, 0)
	before := c.Stats()
	c.step(t, 0, false)
	if got := c.Stats().Late - before.Late; got != 0 || before.RolledUp == 0 {
		t.Errorf("%d points are late after an hour, want none; %d points are rolled up", got, before.RolledUp)
	}
}

// On a full disk nothing is maintained, and yet a leap is seen.
func TestClockLeapOnAFullDisk(t *testing.T) {
	c := openClocked(t)
	c.step(t, 0, false)
	c.stand(t, time.Hour, 0)
	c.step(t, 0, false)
	fs := c.o.FS.(*vfs.MemFS)
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 19, TotalBytes: 20 << 20})
	check(t, c.Maintain(t.Context(), c.now.Add(years)))
	if c.Room() == nil {
		t.Fatal("the disk is not full")
	}
	if l, ok := c.ClockLeap(); !ok || !l.Running {
		t.Errorf("got leap %v, %+v, want one while the server runs", ok, l)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30, TotalBytes: 1 << 30})
	c.step(t, 0, false)
}

// What is imported is not taken for the last maintenance, and a weekend's stop is
// over within an hour.
func TestClockLeapOfImports(t *testing.T) {
	ctx := context.Background()
	c := openClocked(t)
	const month = 30 * 86400
	for i := range int64(3) {
		check(t, c.Put(ctx, batch(uint64(i+1), t0+200-month+i*10, 1)))
		check(t, c.Maintain(ctx, c.now))
		c.pass(40 * time.Minute)
		if l, ok := c.ClockLeap(); ok {
			t.Errorf("an import is reported as a leap: %+v", l)
		}
	}
	if got := count(t, c.Store, store.Query{Start: t0 - 2*month, End: t0}); got != 9 {
		t.Errorf("got %d observations of a month ago, want 9", got)
	}
}

// An hour in which the machine is suspended, or in which one call of Maintain takes
// its time, is not an hour that a clock has stood.
func TestClockLeapInASuspension(t *testing.T) {
	c := openClocked(t)
	c.step(t, 0, false)
	c.stand(t, time.Hour, 0)
	c.step(t, 0, false)
	c.step(t, years, true)
	c.pass(time.Hour) // a long call
	c.step(t, years, true)
	c.pass(time.Hour)
	c.asleep += time.Hour
	c.step(t, years, true)
	c.pass(40 * 24 * time.Hour)
	c.asleep += 40 * 24 * time.Hour
	check(t, c.Maintain(t.Context(), c.now))
	if l, ok := c.ClockLeap(); !ok || l.Running {
		t.Errorf("got leap %v, %+v, want one of a machine that was suspended", ok, l)
	}
	c.whole(t)
}

// A machine that wakes up with a wrong clock moves the monotonic one as far.
func TestClockLeapAtAWakeUp(t *testing.T) {
	c := openClocked(t)
	c.step(t, 0, false)
	c.stand(t, time.Hour, 0)
	c.step(t, 0, false)
	c.elapsed, c.asleep = c.elapsed+years, c.asleep+years
	if got := c.Leapt(c.now.Add(years)); got != years {
		t.Errorf("before Maintain, got a leap of %v, want %v", got, years)
	}
	for range 5 {
		check(t, c.Maintain(t.Context(), c.now.Add(years)))
	}
	c.whole(t)
	if l, ok := c.ClockLeap(); !ok || l.Running {
		t.Errorf("got leap %v, %+v, want one of a machine that was suspended", ok, l)
	}
	c.step(t, 0, false)
}

// A leap is known before the next Maintain, and a start knows it too.
func TestLeapt(t *testing.T) {
	c := openClocked(t)
	leapt := func(ahead, want time.Duration) {
		t.Helper()
		if got := c.Leapt(c.now.Add(ahead)); got.Round(time.Minute) != want {
			t.Errorf("with the clock %v ahead, got a leap of %v, want %v", ahead, got, want)
		}
	}
	c.step(t, 0, false)
	leapt(years, 0) // nothing is believed
	c.stand(t, time.Hour, 0)
	leapt(0, 0)
	leapt(time.Hour-time.Minute, 0)
	leapt(-years, 0)
	leapt(years, years)
	c.pass(time.Hour)
	leapt(0, 0)
	leapt(years, years)
	check(t, c.Maintain(t.Context(), c.now.Add(years)))
	leapt(years, years)
	leapt(0, 0)
	c.restart(t, 0)
	leapt(years, years)
	c.stand(t, time.Hour+time.Minute, years)
	leapt(years, 0)
}
