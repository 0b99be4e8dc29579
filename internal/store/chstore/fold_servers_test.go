//go:build servers

package chstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// standing is a network on which insertions wait, but those into the log, arrive, and are not
// answered.
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
	res, err := n.RoundTripper.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
	if err != nil {
		return nil, err
	}
	res.Body.Close()
	n.arrived()
	return nil, errors.New("the answer is lost")
}
