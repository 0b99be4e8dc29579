//go:build servers

package chstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

// world is several servers on one database, and the twin that says what is right.
type world struct {
	servers []*Store
	twin    *storetest.Twin
	now     int64
	gens    map[string]uint64
	history []*store.Batch
}

var worldSeries = func() (all []series.Series) {
	for i := range 9 {
		all = append(all, storetest.Span(series.View(i%3), "service", fmt.Sprint("s", i%2), "operation", fmt.Sprint("o", i%5)))
	}
	return all
}()

func (w *world) batch(rng *rand.Rand, writer string) *store.Batch {
	w.gens[writer]++
	b := &store.Batch{Writer: writer, Generation: w.gens[writer], Resolution: series.Base, Series: worldSeries}
	seen := map[[2]int64]bool{}
	for range rng.IntN(60) {
		slot := series.Base.Slot(w.now - rng.Int64N([]int64{30, 300, 5000}[rng.IntN(3)]))
		i := rng.IntN(len(worldSeries))
		if slot < storetest.T0 || seen[[2]int64{slot, int64(i)}] {
			continue
		}
		seen[[2]int64{slot, int64(i)}] = true
		b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: slot, Data: storetest.Dist(rng.Float64(), rng.Float64())})
	}
	return b
}

func (w *world) compare(ctx context.Context, rng *rand.Rand, s *Store) error {
	q := store.Query{Family: series.SpanDuration, View: series.View(rng.IntN(3)), Schema: hist.DefaultSchema, Start: storetest.T0, End: w.now + 60,
		Step: []int64{0, 10, 60, 600, 3600}[rng.IntN(5)], By: [][]string{nil, {"service"}, {"operation"}}[rng.IntN(3)], Each: rng.IntN(5) == 0, TopK: []int{0, 0, 2}[rng.IntN(3)]}
	got, err := s.Query(ctx, q)
	if err != nil {
		return err
	}
	want, err := w.twin.Query(ctx, q)
	if err != nil {
		return err
	}
	if d := storetest.Diff(got, want); d != "" {
		return fmt.Errorf("query %+v: %s", q, d)
	}
	return nil
}

// Several servers write, maintain and ask one database, and none notices the others.
func TestSeveralServers(t *testing.T) {
	fewer(t, "15")
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprint("shards=", shards), func(t *testing.T) {
			c := nodes(t, shards)
			rapid.Check(t, func(rt *rapid.T) {
				ctx := context.Background()
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
				o := on(t, c)
				w := &world{twin: storetest.NewTwin(), now: storetest.T0 + 100, gens: map[string]uint64{}}
				clock := time.Unix(storetest.T0, 0)
				o.Now = func() time.Time { return clock }
				begin := func() *Store {
					s := open(t, o)
					s.foldEpochsFrom = 1
					return s
				}
				for range 3 {
					w.servers = append(w.servers, begin())
				}
				ok := func(err error) {
					if err != nil {
						rt.Fatal(err)
					}
				}
				for range rapid.IntRange(1, 25).Draw(rt, "operations") {
					i := rng.IntN(len(w.servers))
					s := w.servers[i]
					switch op := rng.IntN(10); {
					case op < 4:
						b := w.batch(rng, fmt.Sprint("server", i))
						ok(errors.Join(s.Put(ctx, b), w.twin.Put(ctx, b)))
						w.history = append(w.history, b)
					case op == 4 && len(w.history) > 0: // again
						b := w.history[rng.IntN(len(w.history))]
						ok(errors.Join(w.servers[b.Writer[len(b.Writer)-1]-'0'].Put(ctx, b), w.twin.Put(ctx, b)))
					case op < 7:
						w.now += []int64{10, 60, 700, 4000}[rng.IntN(4)]
						clock = clock.Add(foldAfter)
						ok(s.Maintain(ctx, time.Unix(w.now, 0)))
					case op == 7: // it starts anew
						ok(s.Close())
						w.servers[i] = begin()
					default:
						ok(w.compare(ctx, rng, s))
					}
				}
				for _, s := range w.servers {
					ok(w.compare(ctx, rng, s))
					ok(s.Close())
				}
			})
		})
	}
}

// between is a network that does something before a request that is chosen.
type between struct {
	http.RoundTripper
	before func(statement string)
}

func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	statement := r.URL.Query().Get("query")
	if statement == "" {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		all, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		statement = string(all)
	}
	b.before(statement)
	return b.RoundTripper.RoundTrip(r)
}

// Whatever another server commits while a step of roll-ups is begun, done and finished, is
// counted once at each resolution.
func TestCommitsDuringRollUp(t *testing.T) {
	ctx := context.Background()
	c := nodes(t, 1)
	for nth := 1; nth <= 6; nth++ { // of the insertions of Maintain
		o := on(t, c)
		other := open(t, o)
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		put := uint64(0)
		commit := func() {
			put++
			b := &store.Batch{Writer: "w", Generation: put, Resolution: series.Base, Series: worldSeries[:1], Points: []store.Point{{Slot: storetest.T0, Data: storetest.Dist(1)}}}
			if err := other.Put(ctx, b); err != nil {
				t.Fatal(err)
			}
		}
		commit()
		insertions := -1 // not yet
		o.Transport = &between{transport, func(statement string) {
			if insertions >= 0 && strings.HasPrefix(statement, "INSERT") {
				if insertions++; insertions == nth {
					commit()
				}
			}
		}}
		s := open(t, o)
		insertions = 0
		if err := s.Maintain(ctx, time.Unix(storetest.T0+7200, 0)); err != nil {
			t.Fatal(err)
		}
		if put == 1 { // so many were not needed
			commit()
		}
		for _, step := range []int64{10, 60, 600, 3600} {
			r, err := s.Query(ctx, store.Query{Family: series.SpanDuration, View: worldSeries[0].View, Schema: 5, Start: storetest.T0, End: storetest.T0 + 3600, Step: step})
			if err != nil {
				t.Fatal(err)
			}
			if n := r.Groups[0].Points[0].Hist.Count; n != put {
				t.Errorf("a commit before insertion %d: in steps of %d s %d observations are counted, want %d", nth, step, n, put)
			}
		}
		if err := errors.Join(s.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	}
}

// lossy is a network on which requests are lost, or done without an answer.
type lossy struct {
	http.RoundTripper
	mu  sync.Mutex
	rng *rand.Rand
	off atomic.Bool
}

var errLost = errors.New("lost on the way")

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	fate := l.rng.IntN(100)
	l.mu.Unlock()
	if l.off.Load() {
		fate = 100
	}
	if fate < 7 {
		return nil, errLost
	}
	res, err := l.RoundTripper.RoundTrip(r)
	if err == nil && fate < 14 {
		res.Body.Close()
		return nil, errLost
	}
	return res, err
}

// What is acknowledged counts once, whatever is lost on the way; what is not acknowledged
// counts once after it was put again.
func TestLossyNetwork(t *testing.T) {
	fewer(t, "15")
	c := nodes(t, 1)
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 4))
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		net := &lossy{RoundTripper: transport, rng: rand.New(rand.NewPCG(rng.Uint64(), 5))}
		net.off.Store(true)
		o := on(t, c)
		o.Transport = net
		s := open(t, o)
		defer s.Close()
		w := &world{twin: storetest.NewTwin(), now: storetest.T0 + 100, gens: map[string]uint64{}}
		net.off.Store(false)
		counter := uint64(0)
		for range rapid.IntRange(1, 20).Draw(rt, "operations") {
			switch rng.IntN(4) {
			case 0, 1:
				b := w.batch(rng, "w")
				b.State = []store.State{{Key: []byte("generation"), Value: []byte(fmt.Sprint(b.Generation))}}
				for s.Put(ctx, b) != nil { // as the aggregator does
				}
				if err := w.twin.Put(ctx, b); err != nil {
					rt.Fatal(err)
				}
			case 2:
				w.now += []int64{10, 60, 700, 4000}[rng.IntN(4)]
				_ = s.Maintain(ctx, time.Unix(w.now, 0))
			case 3: // counting up: what fails may have been done
				before := counter
				for {
					err := store.UpdateRecords(ctx, s, "k", "", func(have []store.Record) ([]store.RecordWrite, error) {
						n := uint64(0)
						if len(have) > 0 {
							fmt.Sscan(string(have[0].Value), &n)
						}
						if n > before {
							return nil, nil
						}
						return []store.RecordWrite{{Key: "n", Value: fmt.Append(nil, n+1)}}, nil
					})
					if err == nil {
						break
					}
				}
				counter++
			}
		}
		net.off.Store(true)
		for range 6 {
			if err := w.compare(ctx, rng, s); err != nil {
				rt.Fatal(err)
			}
		}
		if r, err := s.GetRecord(ctx, "k", "n"); counter > 0 && (err != nil || string(r.Value) != fmt.Sprint(counter)) {
			rt.Fatalf("counted %s, %v, want %d", r.Value, err, counter)
		}
		if n := w.gens["w"]; n > 0 {
			if got, err := s.Flushed(ctx, "w"); err != nil || got != n {
				rt.Fatalf("generation %d is committed, %v, want %d", got, err, n)
			}
			if err := s.State(ctx, "w", nil, func(_, v []byte) error {
				if string(v) != fmt.Sprint(n) {
					return fmt.Errorf("state is of generation %s, want %d", v, n)
				}
				return nil
			}); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// A shard that is away is an error that names it, not a smaller answer; once it is back all
// is there.
func TestShardAway(t *testing.T) {
	ctx := context.Background()
	c := nodes(t, 3)
	s := open(t, on(t, c))
	defer s.Close()
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base}
	for i := range 300 {
		b.Series = append(b.Series, storetest.Span(series.Full, "tenant", fmt.Sprint(i)))
		b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: storetest.T0, Data: storetest.Dist(0.5)})
	}
	if err := s.Put(ctx, b); err != nil {
		t.Fatal(err)
	}
	q := store.Query{Family: series.SpanDuration, Start: storetest.T0, End: storetest.T0 + 10, Schema: hist.DefaultSchema}
	count := func() (uint64, error) {
		r, err := s.Query(ctx, q)
		if err != nil || len(r.Groups) == 0 {
			return 0, err
		}
		return r.Groups[0].Points[0].Hist.Count, nil
	}
	if n, err := count(); err != nil || n != 300 {
		t.Fatalf("got %d, %v, want 300", n, err)
	}
	for i, n := range c.Nodes { // people may ask any node, by the Distributed tables
		r, err := s.client.read(ctx, s.replicas(i)[0], "SELECT sum(count), uniqExact(id) FROM "+s.qualified("points"))
		if err != nil {
			t.Fatal(err)
		}
		if sum, ids := r.uint64(), r.uint64(); sum != 300 || ids != 300 {
			t.Errorf("asked at %s: %d observations of %d series, want 300 of each", n.HTTP, sum, ids)
		}
		r, err = s.client.read(ctx, s.replicas(i)[0], "SELECT count() FROM "+s.local("points"))
		if err != nil {
			t.Fatal(err)
		}
		if rows := r.uint64(); rows < 50 || rows > 150 {
			t.Errorf("%s has %d of 300 rows, want about a third", n.HTTP, rows)
		}
	}
	hosts := slices.Clone(s.address.hosts)
	slices.Reverse(hosts)
	turned := Options{Address: Scheme + strings.Join(hosts, ",") + "/" + s.address.database + "?cluster=" + s.address.cluster}
	if other, err := Open(ctx, turned); err == nil || !strings.Contains(err.Error(), "node "+s.address.hosts[0]+" has been the first host") {
		t.Errorf("another node is named first: got %v, want an error that names %s", err, s.address.hosts[0])
		if err == nil {
			other.Close()
		}
	}
	healthy := func() {
		t.Helper()
		nodes, wrong := s.Health(ctx)
		if len(wrong) > 0 || len(nodes) != 3 {
			t.Fatalf("%d nodes, findings %+v", len(nodes), wrong)
		}
		for i, n := range nodes {
			if n.Host != s.address.hosts[i] || n.Shard != i+1 || n.First != (i == 0) || !n.Answers || !math.IsNaN(float64(n.Away)) || n.Rows < 100 || n.Bytes == 0 ||
				n.Parts < n.Crowded || n.Crowded == 0 || n.Delayed == 0 || n.Version == "" || math.Abs(float64(n.Ahead)) > 5 || n.Statements == 0 || (n.Free > 0) != current || n.Free > n.Total {
				t.Errorf("node %d: %+v", i, n)
			}
		}
	}
	healthy()
	c.Nodes[2].Kill()
	if n, err := count(); err == nil || !strings.Contains(err.Error(), "shard 3") {
		t.Errorf("without a shard: got %d, %v, want an error that names shard 3", n, err)
	}
	more := *b
	more.Generation = 2
	if err := s.Put(ctx, &more); err == nil {
		t.Error("put without a shard: no error")
	}
	nodes, wrong := s.Health(ctx)
	if n := nodes[2]; n.Answers || n.Failed == 0 || float64(time.Now().Unix())-float64(n.Away) > 60 || len(wrong) != 1 || wrong[0].Where != n.Host || !strings.Contains(wrong[0].Costs, "shard 3 of 3") {
		t.Errorf("without a shard: %+v, findings %+v", n, wrong)
	}
	if err := c.Restart(ctx, c.Nodes[2]); err != nil {
		t.Fatal(err)
	}
	if n, err := count(); err != nil || n != 300 {
		t.Errorf("with the shard again: got %d, %v, want 300", n, err)
	}
	if err := s.Put(ctx, &more); err != nil {
		t.Fatal(err)
	}
	if n, err := count(); err != nil || n != 600 {
		t.Errorf("put again: got %d, %v, want 600", n, err)
	}
	healthy()
}

// Two servers that put under one name in turn make an epoch with each turn, and nothing counts
// twice. That is told of a server's name, of which one process alone should have it, and not of
// an agent's, whose frames another server puts once the first is away.
func TestWriterInTurn(t *testing.T) {
	o := on(t, nodes(t, 1))
	var log strings.Builder
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	a, b := open(t, o), open(t, o)
	for _, c := range []struct {
		writer string
		told   int
	}{{"0123456789abcdef", 1}, {"agent-0123456789abcdef", 0}} {
		log.Reset()
		for generation := range uint64(6) {
			s := []*Store{a, b}[generation/2%2] // a, a, b, b, a, a
			err := s.Put(t.Context(), &store.Batch{Writer: c.writer, Generation: generation + 1, Resolution: series.Base,
				Series: worldSeries[:1], Points: []store.Point{{Slot: storetest.T0, Data: storetest.Dist(0.1)}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		m, err := b.readMeta(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(m.writers[c.writer].Epochs); got != 3 {
			t.Errorf("%s has %d epochs, want 3", c.writer, got)
		}
		if got := strings.Count(log.String(), "another process writes"); got != c.told {
			t.Errorf("%s: told %d times, want %d: %s", c.writer, got, c.told, log.String())
		}
	}
	res, err := b.Query(t.Context(), store.Query{Family: series.SpanDuration, Start: storetest.T0, End: storetest.T0 + 10, Schema: hist.DefaultSchema})
	if err != nil || res.Groups[0].Points[0].Hist.Count != 12 {
		t.Errorf("%+v, %v, want 12 observations", res, err)
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}
