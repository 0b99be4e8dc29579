package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func TestSampleBounds(t *testing.T) {
	storetest.RunSampleBounds(t, 100, nil, func(t *testing.T) store.Store { return open(t, Options{SampleCount: 100, FS: vfs.NewMem()}) },
		func(t *testing.T, st store.Store) store.Store {
			o := st.(*Store).opts
			check(t, st.Close())
			return open(t, o)
		})
}

// A crash takes maintenance back, or not, but never by half: what is said to be
// kept is there, and the newest of each series are.
func TestSampleBoundsAfterACrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	storetest.RunSampleBounds(t, 100, nil, func(t *testing.T) store.Store { return open(t, Options{SampleCount: 100, FS: vfs.NewCrashableMem()}) },
		func(t *testing.T, st store.Store) store.Store {
			o := st.(*Store).opts
			fs := o.FS.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			check(t, st.Close())
			o.FS = fs
			return open(t, o)
		})
}

// numberBatch holds samples of an hour of many series; the nth has one every
// every[n] seconds.
func numberBatch(hour int64, every []int64) *store.Batch {
	b := &store.Batch{Writer: "w", Generation: uint64(hour + 1), Resolution: series.Base}
	for i, e := range every {
		b.Series = append(b.Series, series.Series{Family: "queue", Kind: series.Gauge, Labels: labels.FromStrings("q", fmt.Sprint(i))})
		var ss []series.Sample
		for at := int64(0); at < 3600; at += e {
			ss = append(ss, series.Sample{TimeMillis: (t0 + hour*3600 + at) * 1000, Value: float64(at) / float64(i+7)})
		}
		b.Samples = append(b.Samples, store.Samples{Series: uint32(i), Samples: ss})
	}
	return b
}

func sampleUsage(t testing.TB, s *Store) uint64 {
	t.Helper()
	check(t, s.db.Flush())
	from := tierPrefix(nil, tierSamples)
	n, err := s.db.EstimateDiskUsage(from, prefixEnd(from))
	check(t, err)
	return n
}

// One slow series must not keep the samples of all others: neither on disk nor in
// what maintenance does, which writes each hour again once, not each time.
func TestASlowSeriesKeepsNoOthers(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{SampleCount: 1000})
	defer s.Close()
	every := []int64{3600}
	for range 20 {
		every = append(every, 10)
	}
	var before uint64
	for hour := range int64(24) {
		check(t, s.Put(ctx, numberBatch(hour, every)))
		settled := s.Stats().Settled
		check(t, s.Maintain(ctx, time.Unix(t0+(hour+1)*3600+900, 0)))
		// One hour compacts, of 21 series; one is written again, of one.
		if n := s.Stats().Settled - settled; n > 22 {
			t.Errorf("hour %d: %d series written", hour, n)
		}
		if hour == 5 {
			before = sampleUsage(t, s)
		}
	}
	if after := sampleUsage(t, s); after > before*5/2 { // as they lie by chance; all of them are four times as many
		t.Errorf("%d B of samples after 6 hours, %d after 24", before, after)
	}
	settled := s.Stats().Settled
	check(t, s.Maintain(ctx, time.Unix(t0+30*3600, 0)))
	if n := s.Stats().Settled - settled; n != 0 {
		t.Errorf("%d series written where nothing was due", n)
	}
	if got := s.Stats().SamplesOutnumbered; got != 21*20*360 { // three of 24 hours hold enough
		t.Errorf("%d samples dropped", got)
	}
}

// Where a Maintain has done enough the next goes on.
func TestSampleBoundsInSteps(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{SampleCount: 1000})
	defer s.Close()
	for hour := range int64(12) {
		check(t, s.Put(ctx, numberBatch(hour, []int64{10, 10, 1800})))
	}
	s.boundBudget = 1
	now := time.Unix(t0+13*3600, 0)
	for step := range uint64(9) {
		if got := s.Stats().SamplesOutnumbered; got != step*720 {
			t.Fatalf("step %d: %d samples dropped", step, got)
		}
		check(t, s.Maintain(ctx, now))
	}
	for range 2 {
		check(t, s.Maintain(ctx, now))
		if got := s.Stats().SamplesOutnumbered; got != 9*720 || s.boundMore {
			t.Fatalf("in the end: %d samples dropped, more: %v", got, s.boundMore)
		}
	}
}

// An hour that was compacted before there were tallies is counted by reading it.
func TestSamplesWithoutTally(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{SampleCount: 1000})
	defer s.Close()
	for hour := range int64(10) {
		check(t, s.Put(ctx, numberBatch(hour, []int64{10, 1800})))
		if hour == 3 {
			check(t, s.Maintain(ctx, time.Unix(t0+5*3600, 0)))
			for h := range int64(4) {
				check(t, s.db.Delete(classPrefix(nil, tierSamples, t0+h*3600, s.scopeOf(t, "queue"), classTally), nil))
			}
		}
	}
	check(t, s.Maintain(ctx, time.Unix(t0+11*3600, 0)))
	if got := s.Stats().SamplesOutnumbered; got != 7*360 {
		t.Errorf("%d samples dropped, want those of seven hours", got)
	}
}

func (s *Store) scopeOf(t testing.TB, family string) scope {
	t.Helper()
	f := s.family(family)
	if f == nil {
		t.Fatalf("no family %s", family)
	}
	return makeScope(f.number, series.Full)
}

// Raw samples count for the bound of the whole, and go with it.
func TestSamplesBySize(t *testing.T) {
	ctx := context.Background()
	const bound = 400 << 10
	s := open(t, Options{MaxBytes: bound})
	defer s.Close()
	every := make([]int64, 40)
	for i := range every {
		every[i] = 10
	}
	for hour := range int64(20) {
		check(t, s.Put(ctx, numberBatch(hour, every)))
		check(t, s.db.Flush())
		check(t, s.Maintain(ctx, time.Unix(t0+(hour+1)*3600+900, 0)))
	}
	if got := sampleUsage(t, s); got > bound {
		t.Errorf("%d bytes of samples, the bound is %d", got, bound)
	}
	st := s.Stats()
	if st.SampleHoursEvicted == 0 || int64(st.SampleHoursEvicted)*3600 != s.floor[tierSamples]-t0 {
		t.Errorf("%d hours evicted, the first left is %d", st.SampleHoursEvicted, (s.floor[tierSamples]-t0)/3600)
	}
	got, err := s.Samples(ctx, store.SampleQuery{Family: "queue", Matchers: eq("q", "3"), StartMillis: 0, EndMillis: t0 * 2000})
	check(t, err)
	if n := len(got[0].Samples); n < 2*360 || n != int(20-st.SampleHoursEvicted)*360 {
		t.Errorf("%d samples are left, %d hours were evicted", n, st.SampleHoursEvicted)
	}
}

// Samples go on being stored and found beside a tally that cannot be read.
func TestDamagedTally(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{SampleCount: 1000})
	defer s.Close()
	for hour := range int64(6) {
		check(t, s.Put(ctx, numberBatch(hour, []int64{10, 1800})))
	}
	check(t, s.Maintain(ctx, time.Unix(t0+7*3600, 0)))
	check(t, s.db.Set(classPrefix(nil, tierSamples, t0, s.scopeOf(t, "queue"), classTally), []byte{9}, nil))
	late := numberBatch(6, []int64{10, 1800})
	for i := range late.Samples {
		late.Samples[i].Samples = append([]series.Sample{{TimeMillis: t0*1000 + 1}}, late.Samples[i].Samples...)
	}
	check(t, s.Put(ctx, late))
	read := func() store.SampleSeries {
		got, err := s.Samples(ctx, store.SampleQuery{Family: "queue", EndMillis: t0 * 2000, Dropped: true})
		check(t, err)
		return got[0]
	}
	if n := len(read().Samples); n < 3*360 {
		t.Errorf("%d samples", n)
	}
	if err := s.Maintain(ctx, time.Unix(t0+8*3600, 0)); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("maintenance says %v", err)
	}
	for hour := int64(1); hour < 4; hour++ { // the others lose what they must
		at := (t0 + hour*3600) * 1000
		if d := read().Dropped; !slices.ContainsFunc(d, func(d store.Span) bool { return at >= d.Start && at < d.End }) {
			t.Errorf("hour %d is kept", hour)
		}
	}
}

// The bytes of a tally are a format: they do not change.
func TestTallyGolden(t *testing.T) {
	want := &tally{gone: ranges{{0, 4}, {7, 7}, {300, 1000}}, counts: []uint32{360, 6, 0, 1 << 20}}
	b := appendTally(nil, want)
	golden := []byte{1, 3, 0, 4, 3, 0, 0xa5, 2, 0xbc, 5, 4, 0xe8, 2, 6, 0, 0x80, 0x80, 0x40}
	if !bytes.Equal(b, golden) {
		t.Errorf("got %#v", b)
	}
	got, err := decodeTally(golden, true)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzTally(f *testing.F) {
	f.Add(appendTally(nil, &tally{gone: ranges{{0, 4}, {7, 7}}, counts: []uint32{360, 6}}))
	f.Add([]byte{1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x1f, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeTally(b, true)
		if err != nil {
			corrupt(t, err)
			return
		}
		again, err := decodeTally(appendTally(nil, got), true)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(got) {
			t.Errorf("got %v, then %v, %v", got, again, err)
		}
	})
}
