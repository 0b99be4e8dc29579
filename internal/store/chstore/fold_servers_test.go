//go:build servers

package chstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// Two servers put for one writer in turns, one of them dies between inserting and committing,
// and another stands still there until its epoch is folded. A question reads a few epochs then,
// and counts every generation once.
func TestEpochsAreFolded(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprint("shards=", shards), func(t *testing.T) {
			ctx := context.Background()
			o := on(t, nodes(t, shards))
			clock := time.Unix(storetest.T0, 0)
			o.Now = func() time.Time { return clock }
			a, b := open(t, o), open(t, o)
			defer a.Close()
			defer b.Close()
			a.foldEpochsFrom = 8
			maintain := func() { check(t, a.Maintain(ctx, time.Unix(storetest.T0, 0))) }
			maintain()
			rng := rand.New(rand.NewPCG(7, uint64(shards)))
			w := &world{twin: storetest.NewTwin(), now: storetest.T0 + 100, gens: map[string]uint64{}}
			put := func(s *Store) {
				batch := w.batch(rng, "w")
				batch.State = []store.State{{Key: []byte("last"), Value: fmt.Append(nil, batch.Generation)}}
				check(t, errors.Join(s.Put(ctx, batch), w.twin.Put(ctx, batch)))
			}
			alike := func(when string) {
				t.Helper()
				for _, s := range []*Store{a, b} {
					for range 20 {
						if err := w.compare(ctx, rng, s); err != nil {
							t.Fatalf("%s: %v", when, err)
						}
					}
					check(t, s.State(ctx, "w", nil, func(_, v []byte) error {
						if want := fmt.Sprint(w.gens["w"]); string(v) != want {
							t.Errorf("%s: the state is that of generation %s, want %s", when, v, want)
						}
						return nil
					}))
				}
			}
			for range 10 {
				put(a)
				put(b)
			}

			dies := open(t, o)
			put(dies)
			m, err := dies.readMeta(ctx)
			check(t, err)
			p := dies.putterOf("w")
			left := newBatchRows(dies, m, w.batch(rng, "w"), numberOf(p.epoch, p.last+1))
			w.gens["w"]--
			check(t, errors.Join(left.build(ctx), left.insert(ctx, 0), dies.Close()))

			// The rows of the one that stands still travel once its epoch is folded; it hears
			// nothing of them.
			still := o
			net := &standing{RoundTripper: &http.Transport{}, log: a.qualified("log"), reached: make(chan struct{}), goOn: make(chan struct{})}
			defer net.RoundTripper.(*http.Transport).CloseIdleConnections()
			still.Transport = net
			stands := open(t, still)
			defer stands.Close()
			goOn := sync.OnceFunc(func() { close(net.goOn) })
			defer goOn()
			put(stands)
			net.waits.Store(true)
			batch := w.batch(rng, "w")
			batch.Series, batch.Points = worldSeries, []store.Point{{Series: 0, Slot: storetest.T0, Data: storetest.Dist(1, 2)}, {Series: 1, Slot: storetest.T0, Data: storetest.Dist(3)}}
			batch.State = []store.State{{Key: []byte("last"), Value: fmt.Append(nil, batch.Generation)}}
			done := make(chan error, 1)
			stopping, stop := context.WithCancel(ctx)
			net.arrived = stop
			go func() { done <- stands.Put(stopping, batch) }()
			<-net.reached
			check(t, errors.Join(b.Put(ctx, batch), w.twin.Put(ctx, batch)))
			put(a)

			clock = clock.Add(foldAfter)
			maintain() // sees what has ended, and folds what had when it looked first
			clock = clock.Add(foldAfter)
			maintain()
			m, err = a.readMeta(ctx)
			check(t, err)
			if n := len(m.visible.Last); n > 2 {
				t.Errorf("%d epochs are listed after folding, want the present ones: %v", n, m.visible.Last)
			}
			if len(m.tiers.Beyond) == 0 {
				t.Error("the rows of the server that died are not left out")
			}
			alike("folded")
			// One of these is present by the time that they are to be folded.
			again, err := a.foldEnded(ctx, m, putNumbers{allOf(1, m.epochs)}, 1)
			check(t, err)
			if got, want := encodeMeta(again.tiers), encodeMeta(m.tiers); got != want {
				t.Errorf("an epoch that is present is folded: %s, after %s", got, want)
			}
			put(a)
			put(b)
			alike("put after folding")

			goOn()
			if err := <-done; err == nil {
				t.Error("a put that was stopped is done")
			}
			net.waits.Store(false)
			put(stands)
			alike("the one that stood still went on")
		})
	}
}

// Writers that are gone for a day have no epochs of their own any more. One that only stood
// still, amid an insertion, is refused, puts the generation anew, and nothing counts twice.
func TestGoneWritersAreFolded(t *testing.T) {
	ctx := context.Background()
	o := on(t, nodes(t, 1))
	clock := time.Unix(storetest.T0, 0)
	o.Now = func() time.Time { return clock }
	a := open(t, o)
	defer a.Close()
	a.foldEpochsFrom = 8
	maintain := func() { t.Helper(); check(t, a.Maintain(ctx, time.Unix(storetest.T0, 0))) }
	rng := rand.New(rand.NewPCG(7, 7))
	w := &world{twin: storetest.NewTwin(), now: storetest.T0 + 100, gens: map[string]uint64{}}
	put := func(s *Store, writer string) {
		t.Helper()
		batch := w.batch(rng, writer)
		check(t, errors.Join(s.Put(ctx, batch), w.twin.Put(ctx, batch)))
	}
	alike := func(when string) {
		t.Helper()
		for range 20 {
			if err := w.compare(ctx, rng, a); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
	}
	for i := range 9 {
		s := open(t, o)
		put(s, fmt.Sprint("gone", i))
		check(t, s.Close())
	}
	still := o
	net := &standing{RoundTripper: &http.Transport{}, log: a.qualified("log"), reached: make(chan struct{}), goOn: make(chan struct{})}
	defer net.RoundTripper.(*http.Transport).CloseIdleConnections()
	var said strings.Builder
	still.Transport, still.Logger = net, slog.New(slog.NewTextHandler(&said, nil))
	stands := open(t, still)
	defer stands.Close()
	goOn := sync.OnceFunc(func() { close(net.goOn) })
	defer goOn()
	put(stands, "stands")
	net.waits.Store(true)
	batch := w.batch(rng, "stands")
	batch.Series, batch.Points = worldSeries, []store.Point{{Series: 0, Slot: storetest.T0, Data: storetest.Dist(1, 2)}, {Series: 1, Slot: storetest.T0, Data: storetest.Dist(3)}}
	done := make(chan error, 1)
	go func() { done <- stands.Put(ctx, batch) }()
	<-net.reached

	listed := func() int {
		m, err := a.readMeta(ctx)
		check(t, err)
		return len(m.visible.Last)
	}
	put(a, "w")
	maintain()
	clock = clock.Add(foldAfter)
	maintain()
	if n := listed(); n < 10 {
		t.Errorf("%d epochs are listed after an hour, want those of all writers", n)
	}
	clock = clock.Add(goneAfter)
	put(a, "w")
	maintain() // ends those that are gone
	alike("ended")
	clock = clock.Add(foldAfter)
	maintain()
	if n := listed(); n > 2 {
		t.Errorf("%d epochs are listed after a day, want that of the writer that is there, and of roll-ups", n)
	}
	alike("folded")

	net.waits.Store(false)
	goOn()
	check(t, errors.Join(<-done, w.twin.Put(ctx, batch)))
	alike("the one that stood still went on")
	put(stands, "stands")
	back := open(t, o)
	defer back.Close()
	put(back, "gone3")
	put(a, "w")
	alike("others are back")
	if strings.Contains(said.String(), "another process") {
		t.Errorf("the one that stood still is told of another: %s", &said)
	}
}

// Numbers that do not count leave the lists once no row has them.
func TestListsOfNumbersAreCut(t *testing.T) {
	ctx := context.Background()
	o := on(t, nodes(t, 1))
	clock := time.Unix(storetest.T0, 0)
	o.Now = func() time.Time { return clock }
	net := &refusing{RoundTripper: &http.Transport{}, stored: make(chan struct{}, attempts)}
	defer net.RoundTripper.(*http.Transport).CloseIdleConnections()
	o.Transport = net
	a := open(t, o)
	defer a.Close()
	a.foldEpochsFrom, net.points = 1, a.qualified("points")
	rng := rand.New(rand.NewPCG(7, 7))
	w := &world{twin: storetest.NewTwin(), now: storetest.T0 + 100, gens: map[string]uint64{}}
	put := func(slot int64, values ...float64) *store.Batch {
		t.Helper()
		batch := w.batch(rng, "w")
		batch.Series, batch.Points = worldSeries, []store.Point{{Series: 0, Slot: storetest.T0 + slot, Data: storetest.Dist(values...)}}
		check(t, errors.Join(a.Put(ctx, batch), w.twin.Put(ctx, batch)))
		return batch
	}
	put(0, 1, 2)
	again := put(10, 3)
	again.Points[0].Data = storetest.Dist(4, 5)
	check(t, errors.Join(a.Put(ctx, again), w.twin.Put(ctx, again)))
	net.table.Store(a.qualified("puts"))
	failed := w.batch(rng, "w")
	failed.Series, failed.Points = worldSeries, []store.Point{{Series: 0, Slot: storetest.T0 + 20, Data: storetest.Dist(6)}}
	if err := a.Put(ctx, failed); err == nil {
		t.Fatal("a batch is put although a table takes no rows")
	}
	net.table.Store("")
	check(t, errors.Join(a.Put(ctx, failed), w.twin.Put(ctx, failed)))

	// now is when slots are rolled up and expire, lists the numbers that do not count.
	lists := func(now int64) (out []int) {
		t.Helper()
		check(t, a.Maintain(ctx, time.Unix(storetest.T0+now, 0)))
		m, err := a.readMeta(ctx)
		check(t, err)
		q := store.Query{Family: series.SpanDuration, View: worldSeries[0].View, Schema: hist.DefaultSchema, Start: storetest.T0, End: storetest.T0 + 7200, Step: 3600}
		got, err := a.Query(ctx, q)
		check(t, err)
		want, err := w.twin.Query(ctx, q)
		check(t, err)
		if d := storetest.Diff(got, want); d != "" {
			t.Errorf("%v, aborted %v, replaced %v: %s", clock, m.visible.Aborted, m.visible.Replaced, d)
		}
		return []int{len(m.visible.Aborted), len(m.visible.Replaced)}
	}
	lists(3 * hour)
	clock = clock.Add(foldAfter)
	if got := lists(3 * hour); !slices.Equal(got, []int{1, 1}) {
		t.Errorf("lists of %v numbers while rows have them, want one each", got)
	}
	const late = 5 * day
	lists(late)
	clock = clock.Add(dropAfter)
	lists(late) // drops the slots of ten seconds
	clock = clock.Add(cutEvery)
	if got := lists(late); !slices.Equal(got, []int{0, 0}) {
		t.Errorf("lists of %v numbers that no row has, want none", got)
	}
}

// refusing is a network on which insertions into a table fail, each after one into points.
type refusing struct {
	http.RoundTripper
	points string
	table  atomic.Value // string
	stored chan struct{}
}

func (n *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	table, _ := n.table.Load().(string)
	switch statement := r.URL.Query().Get("query"); {
	case table == "":
	case strings.HasPrefix(statement, "INSERT INTO "+table):
		<-n.stored
		return nil, errors.New("it is refused")
	case strings.HasPrefix(statement, "INSERT INTO "+n.points):
		defer func() { n.stored <- struct{}{} }()
	}
	return n.RoundTripper.RoundTrip(r)
}

// standing is a network on which insertions wait, but those into the log, arrive, and are not
// answered if arrived is to be told.
type standing struct {
	http.RoundTripper
	log           string
	waits         atomic.Bool
	once          sync.Once
	reached, goOn chan struct{}
	arrived       func()
}

func (n *standing) RoundTrip(r *http.Request) (*http.Response, error) {
	statement := r.URL.Query().Get("query")
	if !n.waits.Load() || !strings.HasPrefix(statement, "INSERT ") || strings.HasPrefix(statement, "INSERT INTO "+n.log) {
		return n.RoundTripper.RoundTrip(r)
	}
	n.once.Do(func() { close(n.reached) })
	<-n.goOn
	if n.arrived == nil {
		return n.RoundTripper.RoundTrip(r)
	}
	res, err := n.RoundTripper.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
	if err != nil {
		return nil, err
	}
	res.Body.Close()
	n.arrived()
	return nil, errors.New("the answer is lost")
}
