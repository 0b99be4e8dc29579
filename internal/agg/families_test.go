package agg

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

func gauge(family string) series.Series {
	return series.Series{Family: family, Kind: series.Gauge, Labels: labels.FromStrings("service", "s")}
}

// Names of metrics are bounded; a family makes room once its series are idle.
func TestFamiliesAreBounded(t *testing.T) {
	st, c := newMemStore(), newClock()
	a := open(t, st, c, "data/journal", on(vfs.NewMem()), func(o *Options) { o.MaxFamilies, o.IdleAfter = 3, time.Minute })
	send := func(family string) bool {
		b := a.NewBatch()
		b.Number(a.MetricTarget(gauge(family)), c.now().UnixNano(), 1)
		return commit(t, b).Invalid == 0
	}
	for i, want := range []bool{true, true, true, false, false} {
		name := fmt.Sprint("f", i)
		if got := send(name); got != want || a.RefusesFamily(name) == want {
			t.Errorf("family %d: taken %v, refused %v", i, got, a.RefusesFamily(name))
		}
	}
	if !send("f1") {
		t.Error("a family that is known was refused")
	}
	if a.SeriesTarget(gauge("ours")) == 0 {
		t.Error("a family of ours was refused")
	}
	for range 5 {
		c.advance(time.Minute)
		flush(t, a)
	}
	if !send("f4") {
		t.Error("refused though all others are idle")
	}
}

// A generation of 150,000 names takes seconds, not a minute: it was a minute
// because each name was compared with every other.
func TestManyFamiliesInOneGeneration(t *testing.T) {
	st, c := &nullStore{}, newClock()
	a := open(t, st, c, "data/journal", on(vfs.NewMem()), func(o *Options) { o.MaxFamilies, o.FlushInterval = 1<<20, time.Hour })
	b := a.NewBatch()
	for i := range 150_000 {
		b.Number(a.MetricTarget(gauge(fmt.Sprint("family_", i))), c.now().UnixNano(), 1)
	}
	a.DeclareFamily(store.FamilyInfo{Name: "family_77", Kind: series.Gauge, IntervalSeconds: 60})
	commit(t, b)
	a.cut(c.now())
	before := cpuTime()
	batch := a.build.batch(a.frozen[0], &a.reg.tables)
	if took := cpuTime() - before; took > 10*time.Second {
		t.Errorf("making the batch took %v", took)
	}
	if n := len(batch.Families); n != 150_000 {
		t.Errorf("%d families", n)
	}
	for _, f := range batch.Families {
		if f.Name == "family_77" && f.IntervalSeconds != 60 {
			t.Errorf("%+v: the declared interval is lost", f)
		}
	}
}

// slowStore blocks until it is stopped.
type slowStore struct {
	*memStore
	putting chan struct{}
}

func (s *slowStore) Put(ctx context.Context, b *store.Batch) error {
	select {
	case s.putting <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return ctx.Err()
}

// Close does not wait for a store that takes long: what is journalled is stored
// by the next start.
func TestCloseIsBounded(t *testing.T) {
	st, c, fs := newMemStore(), newClock(), vfs.NewMem()
	slow := &slowStore{st, make(chan struct{}, 1)}
	a, err := Open(context.Background(), slow, Options{Writer: "local", Dir: "data/journal", FS: fs, Now: c.now, CloseTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	send(t, a, c, 20)
	a.nudge()
	<-slow.putting // the flusher is at it
	began := time.Now()
	if err := a.Close(context.Background()); err != nil {
		t.Errorf("got %v: what is journalled is not lost", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	a = open(t, st, c, "data/journal", on(fs))
	if n := st.count(t, series.SpanDuration, series.Full); n != 20 || len(a.Damage()) != 0 {
		t.Errorf("%d stored after the next start, want 20; %+v", n, a.Damage())
	}
	// Close returns the error of a store that refuses.
	send(t, a, c, 1)
	st.refuse(errors.New("broken"))
	if err := a.Close(context.Background()); err == nil {
		t.Error("a store that refuses is not an error")
	}
}

// gatedStore holds each Put until it is released, or its context is done.
type gatedStore struct {
	*memStore
	putting, release chan struct{}
	cut              atomic.Int32 // Puts whose context was done
}

func (s *gatedStore) Put(ctx context.Context, b *store.Batch) error {
	s.putting <- struct{}{}
	select {
	case <-s.release:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		s.cut.Add(1)
		return ctx.Err()
	}
	return s.memStore.Put(ctx, b)
}

// Close lets a Put in progress end: cut short, its generation would be built once more.
func TestCloseKeepsPutInProgress(t *testing.T) {
	c := newClock()
	st := &gatedStore{memStore: newMemStore(), putting: make(chan struct{}, 10), release: make(chan struct{})}
	a := open(t, st, c, "data/journal", on(vfs.NewMem()))
	send(t, a, c, 20)
	a.nudge()
	<-st.putting
	stop, stopped := a.stop, make(chan struct{})
	a.stop = func() { stop(); close(stopped) }
	closed := make(chan error)
	go func() { closed <- a.Close(context.Background()) }()
	<-stopped
	close(st.release)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if n := st.count(t, series.SpanDuration, series.Full); n != 20 || st.cut.Load() != 0 {
		t.Errorf("%d stored, %d Puts were cut short; want 20 and none", n, st.cut.Load())
	}
}
