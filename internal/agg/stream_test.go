package agg

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/series"
)

// cum is one cumulative point: times in seconds around the test's start, which
// is also when the resource is first seen; values are recorded durations.
type cum struct {
	start, at int
	values    []float64
	schema    int8
	bounds    []float64
	after     int // our clock's seconds since the point before
}

func (p cum) hist(t *testing.T) *hist.Histogram {
	t.Helper()
	var h *hist.Histogram
	if p.bounds != nil {
		var err error
		if h, err = hist.NewExplicit(p.bounds); err != nil {
			t.Fatal(err)
		}
	} else {
		h = hist.New(p.schema)
	}
	for _, v := range p.values {
		if err := h.Record(v); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// ENGINE 8, case by case. want is what is counted of each point: a count, or
// "old" for one that was refused as out of order.
func TestCumulative(t *testing.T) {
	seq := func(n int) (v []float64) {
		for i := range n {
			v = append(v, 0.01*float64(1+i))
		}
		return v
	}
	cases := []struct {
		name   string
		points []cum
		want   string
		resets uint64
	}{
		{"the first is a baseline if its stream is older than our sight of the resource",
			[]cum{{start: -600, at: 0, values: seq(5)}, {start: -600, at: 10, values: seq(8)}}, "0 3", 0},
		{"the first counts whole if its stream began a moment ago: a process that has only started",
			[]cum{{start: -60, at: 0, values: seq(5)}, {start: -60, at: 10, values: seq(8)}}, "5 3", 0},
		{"at most five minutes ago",
			[]cum{{start: -300, at: 0, values: seq(5)}, {start: -300, at: 10, values: seq(8)}}, "5 3", 0},
		{"and not longer, as of one that was told only now where to send",
			[]cum{{start: -301, at: 0, values: seq(5)}, {start: -301, at: 10, values: seq(8)}}, "0 3", 0},
		{"a start that is the moment of the first value is not known",
			[]cum{{start: -20, at: -20, values: seq(5)}, {start: -20, at: 10, values: seq(8)}}, "0 3", 0},
		{"the first counts whole if its stream began after we first saw the resource",
			[]cum{{start: 1, at: 5, values: seq(5), after: 5}, {start: 1, at: 15, values: seq(9)}}, "5 4", 0},
		{"an unknown start makes a baseline",
			[]cum{{at: 1, values: seq(5)}, {at: 11, values: seq(6)}}, "0 1", 0},
		{"older and equal times are refused",
			[]cum{{start: -600, at: 0, values: seq(5)}, {start: -600, at: 20, values: seq(7)}, {start: -600, at: 20, values: seq(9)}, {start: -600, at: 10, values: seq(6)}, {start: -600, at: 30, values: seq(9)}},
			"0 2 old old 2", 0},
		{"a new start time is a restart: all of it is new",
			[]cum{{start: -600, at: 0, values: seq(5)}, {start: 12, at: 20, values: seq(7)}, {start: 12, at: 30, values: seq(8)}}, "0 7 1", 1},
		{"a falling count is a restart",
			[]cum{{at: 0, values: seq(5)}, {at: 10, values: seq(2)}, {at: 20, values: seq(4)}}, "0 2 2", 1},
		{"a falling bucket is a restart, even as the count rises",
			[]cum{{at: 0, values: []float64{1, 1, 1}}, {at: 10, values: []float64{2, 2, 2, 2}}}, "0 4", 1},
		{"nothing new counts nothing",
			[]cum{{at: 0, values: seq(5)}, {at: 10, values: seq(5)}, {at: 20, values: seq(6)}}, "0 0 1", 0},
		{"a coarser schema is not a restart",
			[]cum{{at: 0, values: seq(50), schema: 5}, {at: 10, values: seq(60), schema: 2}, {at: 20, values: seq(61), schema: 2}}, "0 10 1", 0},
		{"nor is a finer one",
			[]cum{{at: 0, values: seq(50), schema: 2}, {at: 10, values: seq(60), schema: 5}}, "0 10", 0},
		{"explicit bounds",
			[]cum{{at: 0, values: seq(5), bounds: []float64{0.02, 1}}, {at: 10, values: seq(9), bounds: []float64{0.02, 1}}}, "0 4", 0},
		{"other bounds are a restart",
			[]cum{{at: 0, values: seq(5), bounds: []float64{0.02, 1}}, {at: 10, values: seq(9), bounds: []float64{0.03, 1}}}, "0 9", 1},
		{"from explicit to exponential is a restart",
			[]cum{{at: 0, values: seq(5), bounds: []float64{0.02, 1}}, {at: 10, values: seq(9)}}, "0 9", 1},
		{"an incarnation that has ended is refused",
			[]cum{{start: -600, at: 0, values: seq(5)}, {start: 5, at: 20, values: seq(2)}, {start: -600, at: 30, values: seq(9)}, {start: 5, at: 40, values: seq(3)}}, "0 2 old 1", 1},
		{"unless the newer one is silent: a clock was set back",
			[]cum{{start: 5, at: 20, values: seq(2)}, {start: -600, at: 400, values: seq(9), after: 400}, {start: -600, at: 410, values: seq(12)}}, "2 0 3", 1},
		{"an empty first point is a baseline too",
			[]cum{{start: -600, at: 0}, {start: -600, at: 10, values: seq(3)}}, "0 3", 0},
	}
	for _, replay := range []bool{false, true} {
		for _, c := range cases {
			t.Run(fmt.Sprint(c.name, " replay=", replay), func(t *testing.T) {
				st, clk, dir := newMemStore(), newClock(), t.TempDir()
				a := open(t, st, clk, dir)
				t0 := clk.now()
				s := series.Series{Family: "rpc_seconds", Labels: labels.FromStrings("service", "s")}
				// The resource is first seen by another stream of its.
				other := series.Series{Family: "other_seconds", Labels: labels.FromStrings("service", "s")}
				b := a.NewBatch()
				b.Cumulative(a.SeriesTarget(other), StreamID{9, 9}, 77, 0, t0.UnixNano(), hist.New(cellSchema))
				commit(t, b)
				got := ""
				before := uint64(0)
				for _, p := range c.points {
					clk.advance(time.Duration(p.after) * time.Second)
					b := a.NewBatch()
					start := int64(0)
					if p.start != 0 {
						start = t0.Add(time.Duration(p.start) * time.Second).UnixNano()
					}
					b.Cumulative(a.SeriesTarget(s), StreamID{1, 2}, 77, start, t0.Add(time.Duration(p.at)*time.Second).UnixNano(), p.hist(t))
					r := commit(t, b)
					if replay { // half the time over a flush, half over the journal
						if before%2 == 0 {
							crash(a)
						} else if err := a.Close(context.Background()); err != nil {
							t.Fatal(err)
						}
						a = open(t, st, clk, dir)
					}
					flush(t, a)
					n := st.count(t, "rpc_seconds", series.Full)
					if r.OutOfOrder == 1 {
						got += " old"
					} else {
						got += fmt.Sprint(" ", n-before)
					}
					before = n
				}
				if got[1:] != c.want {
					t.Errorf("counted %s, want %s", got[1:], c.want)
				}
				if n := a.Stats().Resets; n != c.resets && !replay {
					t.Errorf("%d resets, want %d", n, c.resets)
				}
			})
		}
	}
}

// Whatever the crashes, flushes and lost acknowledgements, differences add up
// to the last value less the first.
func TestCumulativeAddsUp(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		st, c, dir := newMemStore(), newClock(), t.TempDir()
		a := open(t, st, c, dir)
		s := series.Series{Family: "rpc_seconds", Labels: labels.FromStrings("service", "s")}
		h := hist.New(cellSchema)
		h.Record(1)
		first := h.Clone()
		for i := range rapid.IntRange(2, 12).Draw(rt, "points") {
			if i > 0 {
				for range rapid.IntRange(0, 5).Draw(rt, "more") {
					h.Record(rapid.Float64Range(1e-3, 1e3).Draw(rt, "v"))
				}
			}
			c.advance(3 * time.Second)
			now := c.now().UnixNano()
			b := a.NewBatch()
			b.Cumulative(a.SeriesTarget(s), StreamID{1, 2}, 7, 0, now, h)
			commit(t, b)
			if rapid.Bool().Draw(rt, "retry") {
				b := a.NewBatch()
				b.Cumulative(a.SeriesTarget(s), StreamID{1, 2}, 7, 0, now, h)
				if r := commit(t, b); r.OutOfOrder != 1 {
					rt.Fatal("a retry was counted again")
				}
			}
			switch rapid.IntRange(0, 3).Draw(rt, "then") {
			case 0:
				flush(t, a)
			case 1:
				crash(a)
				a = open(t, st, c, dir)
			}
		}
		flush(t, a)
		want := h.Clone()
		if err := want.Subtract(first); err != nil {
			rt.Fatal(err)
		}
		got := hist.New(hist.MaxSchema)
		for _, slots := range st.slots(t, "rpc_seconds", series.Full) {
			for _, x := range slots {
				if err := got.Merge(x); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if got.Count != want.Count || fmt.Sprint(bucketList(got)) != fmt.Sprint(bucketList(want)) {
			rt.Fatalf("got %v\nwant %v", bucketList(got), bucketList(want))
		}
		a.Close(context.Background())
	})
}

func TestIdleStreamsAreForgotten(t *testing.T) {
	st, c, dir := newMemStore(), newClock(), t.TempDir()
	a := open(t, st, c, dir)
	s := series.Series{Family: "hits_total", Kind: series.Counter, Labels: labels.FromStrings("service", "s")}
	b := a.NewBatch()
	b.DeltaNumber(a.SeriesTarget(s), StreamID{1, 2}, c.now().UnixNano(), 5)
	commit(t, b)
	flush(t, a)
	const position = 1 // a record of every writer
	if len(st.state) != position+1 || a.Stats().Streams != 1 {
		t.Fatalf("state %v", st.state)
	}
	for range expireAfter {
		c.advance(time.Hour)
		flush(t, a)
	}
	if len(st.state) != position+1 || a.Stats().Streams != 1 {
		t.Errorf("after a day: state %v, %d streams", st.state, a.Stats().Streams)
	}
	c.advance(time.Hour)
	flush(t, a)
	if len(st.state) != position || a.Stats().Streams != 0 {
		t.Errorf("state %v, %d streams", st.state, a.Stats().Streams)
	}
}

// A clock that leaps ahead and returns makes no stream forgotten, also if a server
// starts meanwhile, and what comes afterwards is neither out of order nor of the
// time of the leap.
func TestStreamsOutliveAClockLeap(t *testing.T) {
	st, c, dir := newMemStore(), newClock(), t.TempDir()
	a := open(t, st, c, dir)
	sum := series.Series{Family: "hits_total", Kind: series.Counter, Labels: labels.FromStrings("service", "s")}
	dist := series.Series{Family: "rpc_seconds", Labels: labels.FromStrings("service", "s")}
	h := hist.New(cellSchema)
	start := c.now().Add(-time.Hour).UnixNano()
	total := 0.0
	send := func() {
		t.Helper()
		c.advance(10 * time.Second)
		total += 5
		if err := h.RecordN(0.1, 3); err != nil {
			t.Fatal(err)
		}
		b := a.NewBatch()
		b.DeltaNumber(a.SeriesTarget(sum), StreamID{1, 2}, c.now().UnixNano(), 5)
		b.Cumulative(a.SeriesTarget(dist), StreamID{1, 3}, 77, start, c.now().UnixNano(), h)
		if r := commit(t, b); r.Total() != 0 {
			t.Errorf("total %v: refused %+v", total, r)
		}
		flush(t, a)
		if a.Stats().Streams != 2 {
			t.Errorf("total %v: %d streams, want 2", total, a.Stats().Streams)
		}
	}
	const leap = 500 * 24 * time.Hour
	send() // what came before it is not known
	send()
	c.advance(leap)
	send()
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	a = open(t, st, c, dir)
	send()
	c.advance(-leap)
	send()
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.advance(leap)
	a = open(t, st, c, dir)
	c.advance(-leap)
	send()
	sampled, counted := 0.0, uint64(0)
	for id, values := range st.samples {
		for at, v := range values {
			if st.series[id].Family == sum.Family && at <= c.now().UnixMilli() {
				sampled = max(sampled, v)
			}
		}
	}
	for at, data := range st.points {
		if x := st.series[at.id]; x.Family == dist.Family && x.View == series.Full {
			m, err := hist.Moments(data)
			if err != nil {
				t.Fatal(err)
			}
			counted += m.Count
		}
	}
	if sampled != total || counted != 15 {
		t.Errorf("the last total is %v and the histograms count %d, want %v and 15", sampled, counted, total)
	}
}

// What arrives with the right time is not too old by a clock that is not believed.
func TestRetentionInAClockLeap(t *testing.T) {
	const leap = 500 * 24 * time.Hour
	c, ahead := newClock(), time.Duration(0)
	a := open(t, newMemStore(), c, t.TempDir(), func(o *Options) { o.Leapt = func() time.Duration { return ahead } })
	target := a.SeriesTarget(series.Series{Family: "rpc_seconds", Labels: labels.FromStrings("service", "s")})
	at := c.now().UnixNano()
	c.advance(leap)
	for _, want := range []Rejects{{TooOld: 1}, {}} {
		b := a.NewBatch()
		b.Observe(target, at, 1e6, 1)
		if got := commit(t, b); got != want {
			t.Errorf("%v ahead: got %+v, want %+v", ahead, got, want)
		}
		ahead = leap
	}
}

// Whether a value is handed over or decoded is not to be seen in the difference.
func TestCumulativeHandedOver(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// A value is handed to one always, to one never, to one sometimes.
		all := []*streams{newStreams(), newStreams(), newStreams()}
		h := hist.New(cellSchema)
		for i := range rapid.IntRange(2, 12).Draw(rt, "points") {
			for range rapid.IntRange(0, 20).Draw(rt, "more") {
				if err := h.Record(rapid.Float64Range(-1, 100).Draw(rt, "v")); err != nil {
					rt.Fatal(err)
				}
			}
			switch rapid.IntRange(0, 8).Draw(rt, "then") {
			case 0:
				h.Reduce(h.Schema - 1)
			case 1:
				h.Reset(cellSchema)
			}
			encoded, err := h.AppendBinary(nil)
			if err != nil {
				rt.Fatal(err)
			}
			var want []byte
			var verdicts [3]verdict
			for k, s := range all {
				var handed *hist.Histogram
				if k == 0 || k == 2 && rapid.Bool().Draw(rt, "handed") {
					handed = &hist.Histogram{}
					assignFields(handed, h)
				}
				got, v := s.cumulative(StreamID{1, 2}, 7, 0, int64(i+1), encoded, handed, 0)
				if verdicts[k] = v; verdicts[k] != verdicts[0] {
					rt.Fatalf("verdicts %v", verdicts)
				}
				if k == 0 {
					want = slices.Clone(got)
				} else if v == countDelta && !bytes.Equal(got, want) {
					rt.Fatalf("point %d: difference %x, want %x", i, got, want)
				}
				if s.size != 72+streamBytes+int64(len(encoded)) {
					rt.Fatalf("%d bytes of a stream of %d", s.size, len(encoded))
				}
			}
		}
		for _, s := range all {
			for range expireAfter + 1 {
				s.expire()
			}
			if s.size != 0 {
				rt.Fatalf("%d bytes when all is forgotten", s.size)
			}
		}
	})
}

// A batch hands over what fits; what does not is decoded by its commit.
func TestBatchHandsOverWhatFits(t *testing.T) {
	a := open(t, newMemStore(), newClock(), t.TempDir())
	s := series.Series{Family: "rpc_seconds", Labels: labels.FromStrings("service", "s")}
	h := hist.New(hist.MaxSchema)
	for v := 1e-9; v < 1e9; v *= 1.001 {
		h.Record(v)
	}
	const n = 40
	send := func() (handed int) {
		b := a.NewBatch()
		for i := range uint64(n) {
			b.Cumulative(a.SeriesTarget(s), StreamID{1, i}, 7, 0, a.o.Now().UnixNano(), h)
		}
		if len(b.counts) > maxHanded || len(b.ops) != n {
			t.Fatalf("%d counts of %d operations", len(b.counts), len(b.ops))
		}
		for i, o := range b.ops {
			if o.handed == 0 {
				continue
			}
			handed++
			if got := b.handed[o.handed-1]; !slices.Equal(got.Positive.Counts, h.Positive.Counts) {
				t.Fatalf("operation %d hands over other counts", i)
			}
		}
		commit(t, b)
		return handed
	}
	if k := send(); k == 0 || k == n {
		t.Errorf("%d of %d handed over", k, n)
	}
}
