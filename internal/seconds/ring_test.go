package seconds

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"

	"tailscope/hist"
	"tailscope/internal/series"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const epoch = 1_767_225_600

// clock is a ring with the time that it is given.
type clock struct {
	*Ring
	now int64
}

func newClock(o Options) *clock {
	c := &clock{now: epoch}
	o.Now = func() time.Time { return time.Unix(c.now, 0) }
	c.Ring = New(o)
	return c
}

func labelsOf(service, operation, kind, status string) labels.Labels {
	return labels.FromStrings(series.LabelService, service, series.LabelOperation, operation, series.LabelKind, kind, series.LabelStatus, status)
}

func (c *clock) send(l labels.Labels, second, nanos int64, weight uint32) {
	log, _ := c.Begin()
	full := 0
	if n := c.Number(l); n != 0 {
		if len(log) < cap(log) {
			log = append(log, Observation{Series: n, Weight: weight, Second: uint32(second), Came: uint32(c.o.Now().Unix()), Nanos: nanos})
		} else {
			full = 1
		}
	}
	c.End(log, full)
}

// play moves to a moment, second by second.
func (c *clock) play(until int64, each func(second int64)) {
	for c.now < until {
		if each != nil {
			each(c.now)
		}
		c.now++
		c.Fold()
	}
}

// What is read is what a naive sum of the same requests is, whatever came late, in slots
// of any length, with weights, failures apart and kinds together.
func TestReadIsTheSumOfWhatCame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	c := newClock(Options{})
	type key struct {
		operation string
		failed    bool
		slot      int64
	}
	const step = 3
	want := map[key]*hist.Histogram{}
	type late struct {
		l      labels.Labels
		second int64
		nanos  int64
		weight uint32
	}
	var waiting []late
	c.play(epoch+90, func(second int64) {
		for range 40 {
			operation, failed, kind := fmt.Sprint("GET /", rng.IntN(3)), rng.IntN(8) == 0, []string{"server", "consumer"}[rng.IntN(2)]
			x := late{labelsOf("shop", operation, kind, map[bool]string{true: "error", false: "ok"}[failed]), second, rng.Int64N(1e9), uint32(1 + rng.IntN(2)*7)}
			k := key{operation, failed, (second - epoch) / step}
			if want[k] == nil {
				want[k] = hist.New(hist.DefaultSchema)
			}
			if err := want[k].RecordNanos(x.nanos, uint64(x.weight)); err != nil {
				t.Fatal(err)
			}
			if waiting = append(waiting, x); rng.IntN(20) > 0 { // the others come up to 40 s late
				c.send(x.l, x.second, x.nanos, x.weight)
				waiting = waiting[:len(waiting)-1]
			}
		}
		c.send(labelsOf("bank", "GET /0", "server", "ok"), second, 1e6, 1)
		for len(waiting) > 0 && rng.IntN(40) == 0 {
			x := waiting[0]
			waiting = waiting[1:]
			c.send(x.l, x.second, x.nanos, x.weight)
		}
	})
	for _, x := range waiting {
		c.send(x.l, x.second, x.nanos, x.weight)
	}
	c.play(c.now+sealAfter+1, nil)
	groups, err := c.Read("shop", nil, epoch, epoch+90, step)
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 3 {
		t.Fatalf("%d operations", len(groups))
	}
	read := 0
	for _, g := range groups {
		for failed, slots := range map[bool][]*hist.Histogram{false: g.Good, true: g.Failed} {
			for i, h := range slots {
				w := want[key{g.Operation, failed, int64(i)}]
				if (h == nil) != (w == nil) {
					t.Fatalf("%s, failed %v, slot %d: got %v, want %v", g.Operation, failed, i, h, w)
				}
				if h == nil {
					continue
				}
				read++
				a, errA := h.AppendBinary(nil)
				b, errB := w.AppendBinary(nil)
				if errA != nil || errB != nil || string(a) != string(b) {
					t.Errorf("%s, failed %v, slot %d: got %+v, want %+v", g.Operation, failed, i, h, w)
				}
			}
		}
	}
	if read != len(want) {
		t.Errorf("%d slots read, %d sent", read, len(want))
	}
	only, err := c.Read("shop", func(_, operation, kind, status string) bool { return operation == "GET /1" && status == "error" }, epoch, epoch+90, step)
	if err != nil || len(only) != 1 || only[0].Operation != "GET /1" || count(only[0].Good) != 0 || count(only[0].Failed) == 0 {
		t.Errorf("one operation's failures: %v, %+v", err, only)
	}
}

// A service's requests are its spans of kind server or consumer, or all where it has
// neither, as query.Requests has it.
func TestReadOfKinds(t *testing.T) {
	c := newClock(Options{})
	c.play(epoch+60, func(second int64) {
		c.send(labelsOf("cron", "GET /", "client", "ok"), second, 1e6, 1)
		c.send(labelsOf("cron", "run", "internal", "error"), second, 1e6, 1)
		c.send(labelsOf("shop", "SELECT", "client", "ok"), second, 1e6, 1)
		if second >= epoch+30 {
			c.send(labelsOf("shop", "GET /", "server", "ok"), second, 1e6, 1)
		}
	})
	for _, tt := range []struct {
		service    string
		start, end int64
		want       map[string]uint64
	}{
		{"cron", 0, 50, map[string]uint64{"GET /": 50, "run": 50}},
		{"shop", 0, 30, map[string]uint64{"SELECT": 30, "GET /": 0}},
		{"shop", 0, 50, map[string]uint64{"GET /": 20}},
		{"shop", 30, 50, map[string]uint64{"GET /": 20}},
	} {
		groups, err := c.Read(tt.service, nil, epoch+tt.start, epoch+tt.end, 1)
		got := map[string]uint64{}
		for _, g := range groups {
			got[g.Operation] = count(g.Good) + count(g.Failed)
		}
		if err != nil || !maps.Equal(got, tt.want) {
			t.Errorf("%s, %d–%d: got %v, want %v (%v)", tt.service, tt.start, tt.end, got, tt.want, err)
		}
	}
}

func count(slots []*hist.Histogram) (n uint64) {
	for _, h := range slots {
		if h != nil {
			n += h.Count
		}
	}
	return n
}

// A ring begins empty and says so; what is older than it keeps is gone.
func TestSinceAfterAStart(t *testing.T) {
	c := newClock(Options{Keep: time.Minute})
	c.play(epoch+30, func(second int64) { c.send(labelsOf("shop", "GET /", "server", "ok"), second, 1e6, 1) })
	if since, ok := c.Since("shop"); !ok || since != epoch+1 {
		t.Errorf("since %d, %v, want %d: the first whole second after the start", since-epoch, ok, 1)
	}
	c.play(epoch+100, func(second int64) { c.send(labelsOf("shop", "GET /", "server", "ok"), second, 1e6, 1) })
	if since, ok := c.Since("shop"); !ok || since != epoch+40 {
		t.Errorf("since %d, %v, want 40", since-epoch, ok)
	}
	groups, err := c.Read("shop", nil, epoch, epoch+100, 1)
	if err != nil || count(groups[0].Good) != 60-sealAfter+1 {
		t.Errorf("%v, %d requests", err, count(groups[0].Good))
	}
	if since, ok := c.Since("nobody"); !ok || since != epoch+40 {
		t.Errorf("a service without requests: %d, %v", since-epoch, ok)
	}
	again := newClock(Options{})
	again.now = c.now
	again.Ring = New(Options{Now: func() time.Time { return time.Unix(again.now, 0) }})
	if since, ok := again.Since("shop"); !ok || since != c.now+1 {
		t.Errorf("after a restart since %d, %v", since-c.now, ok)
	}
}

// A second is waited for as long as all but one in a thousand requests of its service
// took to come.
func TestRipe(t *testing.T) {
	c := newClock(Options{})
	if _, ok := c.Ripe("shop"); ok {
		t.Error("known before anything came")
	}
	c.play(epoch+120, func(second int64) {
		for range 50 {
			c.send(labelsOf("quick", "GET /", "server", "ok"), second, 1e6, 1)
			c.send(labelsOf("batched", "GET /", "server", "ok"), second-second%5, 1e6, 1)
			c.send(labelsOf("slow", "GET /", "server", "ok"), second-40, 1e6, 1)
		}
		if second%20 == 0 {
			c.send(labelsOf("batched", "GET /", "server", "ok"), second-50, 1e6, 1) // one in a thousand
		}
	})
	for service, want := range map[string]int64{"quick": 3, "batched": 5} {
		if got, ok := c.Ripe(service); !ok || got != want {
			t.Errorf("%s: %d s, %v, want %d", service, got, ok, want)
		}
	}
	if got, ok := c.Ripe("slow"); ok {
		t.Errorf("a service whose requests come 40 s late is ripe after %d s", got)
	}
}

// What a service sent at once, minutes late, is forgotten a minute later, however much it
// was; a service that keeps coming late stays late.
func TestRipeAfterABackfill(t *testing.T) {
	c := newClock(Options{})
	l := labelsOf("shop", "GET /", "server", "ok")
	for second := int64(epoch - 600); second < epoch; second++ {
		for range 18 {
			c.send(l, second, 1e6, 1)
		}
	}
	live := func(second int64) {
		for range 18 {
			c.send(l, second, 1e6, 1)
		}
		c.send(labelsOf("late", "GET /", "server", "ok"), second-300, 1e6, 1)
	}
	c.play(epoch+30, live)
	if got, ok := c.Ripe("shop"); ok {
		t.Errorf("half a minute after the backfill: ripe after %d s", got)
	}
	c.play(epoch+70, live)
	if got, ok := c.Ripe("shop"); !ok || got != 3 {
		t.Errorf("a minute after the backfill: %d s, %v, want 3", got, ok)
	}
	if got, ok := c.Ripe("late"); ok {
		t.Errorf("a service whose requests come minutes late is ripe after %d s", got)
	}
}

// Memory stays within its bound; the series with the fewest requests are left out and
// counted, their service cannot be read, and they come back when there is memory again.
func TestMemoryBound(t *testing.T) {
	const bound = 1 << 20
	rng := rand.New(rand.NewPCG(2, 2))
	c := newClock(Options{Bytes: bound, Keep: 5 * time.Minute, Log: 1 << 13})
	load := func(services int) func(int64) {
		return func(second int64) {
			for range 10 {
				for i := range services {
					for range 1 + i { // the first have the fewest
						c.send(labelsOf(fmt.Sprint("s", i), "GET /", "server", "ok"), second, rng.Int64N(1e9), 1)
					}
				}
			}
		}
	}
	most := int64(0)
	for c.now < epoch+300 {
		c.play(c.now+1, load(20))
		most = max(most, c.Stats().Bytes)
	}
	s := c.Stats()
	if most > bound || s.SeriesOut == 0 || s.Series+s.SeriesOut != 20 || s.LeftOut == 0 || s.Overflowed != 0 {
		t.Errorf("at most %d bytes of %d; %+v", most, int64(bound), s)
	}
	if held := c.held(); held != s.Bytes {
		t.Errorf("%d bytes are accounted, %d held", s.Bytes, held)
	}
	if _, ok := c.Since("s0"); ok {
		t.Error("the service with the fewest requests is not left out")
	}
	if since, ok := c.Since("s19"); !ok || since > epoch+1 {
		t.Errorf("the busiest service is complete since %d, %v", since-epoch, ok)
	}
	c.play(c.now+900, load(3)) // the others stop
	if since, ok := c.Since("s0"); !ok || since < epoch+300 {
		t.Errorf("with memory again, since %d, %v", since-epoch, ok)
	}
	if got := c.Stats(); got.SeriesOut != 0 || got.Bytes != c.held() {
		t.Errorf("with memory again: %+v, %d held", got, c.held())
	}
}

// held adds up what is accounted.
func (c *clock) held() int64 {
	n := int64(2*cap(c.log))*observationBytes + int64(len(c.ring))*secondBytes + int64(len(c.state)-1)*nameBytes + int64(len(c.lags))*lagBytes + c.freeBytes()
	for i := range c.ring {
		n += c.ring[i].bytes()
	}
	return n
}

// Beyond the bound on series their service cannot be read; after an hour numbers are given
// anew to those that are in use.
func TestSeriesBound(t *testing.T) {
	c := newClock(Options{MaxNames: 10})
	send := func(service string, n int) func(int64) {
		return func(second int64) {
			for i := range n {
				c.send(labelsOf(service, fmt.Sprint("GET /", i), "server", "ok"), second, 1e6, 1)
			}
		}
	}
	c.play(epoch+20, send("shop", 8))
	c.play(epoch+40, func(second int64) { send("shop", 8)(second); send("bank", 4)(second) })
	if _, ok := c.Since("bank"); ok {
		t.Error("a service with more series than there are numbers can be read")
	}
	if since, ok := c.Since("shop"); !ok || since != epoch+1 {
		t.Errorf("another service: since %d, %v", since-epoch, ok)
	}
	c.play(epoch+renewAfter+100, send("bank", 4))
	groups, err := c.Read("bank", nil, c.now-20, c.now-10, 1)
	if since, ok := c.Since("bank"); err != nil || !ok || since < epoch+renewAfter || len(groups) != 4 || count(groups[3].Good) != 10 {
		t.Errorf("after an hour: %v, since %d, %v, %d operations", err, since-epoch, ok, len(groups))
	}
	if got := c.Stats().Bytes; got != c.held() {
		t.Errorf("%d bytes are accounted, %d held", got, c.held())
	}
}

// What a full log had no space for is counted, and seconds before are not complete.
func TestFullLog(t *testing.T) {
	c := newClock(Options{Log: 100})
	for range 130 {
		c.send(labelsOf("shop", "GET /", "server", "ok"), epoch, 1e6, 1)
	}
	c.play(epoch+10, nil)
	if s := c.Stats(); s.Overflowed != 30 || s.Observations != 100 {
		t.Errorf("%+v", s)
	}
	if since, ok := c.Since("shop"); !ok || since != epoch+2 {
		t.Errorf("since %d, %v", since-epoch, ok)
	}
}

// Services that serve nobody have a share of the log; what finds it full makes its own
// service incomplete, not those that serve.
func TestShareOfTheLog(t *testing.T) {
	c := newClock(Options{Log: 100})
	other := func(service string) {
		log, _ := c.Begin()
		if n := c.Number(labelsOf(service, "run", "internal", "ok")); c.Spare(n) {
			log = append(log, Observation{Series: n, Weight: 1, Second: epoch, Came: epoch, Nanos: 1e6})
		}
		c.End(log, 0)
	}
	other("cron")
	for range 200 {
		other("batch")
	}
	for range 75 {
		c.send(labelsOf("shop", "GET /", "server", "ok"), epoch, 1e6, 1)
	}
	c.play(epoch+10, nil)
	if s := c.Stats(); s.Overflowed != 176 || s.Observations != 100 {
		t.Errorf("%+v, want 176 left out and 25 + 75 folded", s)
	}
	for service, want := range map[string]int64{"shop": 1, "cron": 1, "batch": 2} {
		if since, ok := c.Since(service); !ok || since != epoch+want {
			t.Errorf("%s: since %d, %v, want %d", service, since-epoch, ok, want)
		}
	}
	c.play(epoch+1200, nil)
	if len(c.whole) != 0 {
		t.Errorf("%v is never forgotten", c.whole)
	}
}

func TestAppendingDoesNotAllocate(t *testing.T) {
	c := newClock(Options{Log: 1 << 12})
	l := labelsOf("shop", "GET /", "server", "ok")
	c.send(l, epoch, 1e6, 1)
	if n := testing.AllocsPerRun(100, func() {
		log, _ := c.Begin()
		for i := range 100 {
			if len(log) < cap(log) {
				log = append(log, Observation{Series: 1, Weight: 1, Second: epoch, Nanos: int64(i)})
			}
		}
		c.End(log, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Run folds once a second and when the log is half full, and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Log: 100})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		c := &clock{Ring: r}
		send := func(n int) {
			for range n {
				c.send(labelsOf("shop", "GET /", "server", "ok"), time.Now().Unix(), 1e6, 1)
			}
			synctest.Wait()
		}
		send(40)
		if n := r.Stats().Observations; n != 0 {
			t.Errorf("%d are folded at once", n)
		}
		time.Sleep(1100 * time.Millisecond)
		if n := r.Stats().Observations; n != 40 {
			t.Errorf("%d are folded after a second", n)
		}
		send(50)
		if n := r.Stats().Observations; n != 90 {
			t.Errorf("%d are folded with a log that is half full", n)
		}
		cancel()
		<-done
	})
}
