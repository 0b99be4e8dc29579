package agg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// memStore keeps what is put, by address, as the contract says.
type memStore struct {
	store.Store
	mu      sync.Mutex
	points  map[address][]byte
	series  map[series.ID]series.Series
	samples map[series.ID]map[int64]float64
	state   map[string][]byte
	infos   map[string]store.FamilyInfo
	flushed map[string]uint64
	durable *uint64 // what Durable answers, if a test says so
	fail    error
	after   error // fails after having stored
	puts    int
}

type address struct {
	id         series.ID
	slot       int64
	writer     string
	generation uint64
}

func newMemStore() *memStore {
	return &memStore{points: map[address][]byte{}, series: map[series.ID]series.Series{},
		samples: map[series.ID]map[int64]float64{}, state: map[string][]byte{}, infos: map[string]store.FamilyInfo{}, flushed: map[string]uint64{}}
}

// clone is what a copy of the store's directory would be.
// refuse has Put and what else writes return err; nil ends it.
func (m *memStore) refuse(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *memStore) clone() *memStore {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := newMemStore()
	n.points, n.series, n.state = maps.Clone(m.points), maps.Clone(m.series), maps.Clone(m.state)
	n.infos, n.flushed = maps.Clone(m.infos), maps.Clone(m.flushed)
	for id, s := range m.samples {
		n.samples[id] = maps.Clone(s)
	}
	return n
}

func (m *memStore) Put(_ context.Context, b *store.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.puts++
	if b.Generation <= m.flushed[b.Writer] && m.after == nil {
		return fmt.Errorf("generation %d put after %d", b.Generation, m.flushed[b.Writer])
	}
	ids := make([]series.ID, len(b.Series))
	for i := range b.Series {
		s := b.Whole(i)
		ids[i], _ = s.ID(nil)
		if ids[i] != b.IDs[i] {
			return fmt.Errorf("series %s has identity %v, want %v", s.Labels, b.IDs[i], ids[i])
		}
		if slices.Contains(ids[:i], ids[i]) && i < 100 {
			return fmt.Errorf("series %s twice in a batch", s.Labels)
		}
		if old, ok := m.series[ids[i]]; ok && !labels.Equal(old.Labels, s.Labels) {
			return fmt.Errorf("labels of %v changed", ids[i])
		}
		m.series[ids[i]] = s
	}
	seen := map[address]bool{}
	last := int64(-1)
	for _, p := range b.Points {
		if p.Slot < last || p.Slot%10 != 0 {
			return fmt.Errorf("slot %d after %d", p.Slot, last)
		}
		last = p.Slot
		at := address{ids[p.Series], p.Slot, b.Writer, b.Generation}
		if seen[at] {
			return fmt.Errorf("point %v twice in a batch", at)
		}
		seen[at] = true
		m.points[at] = slices.Clone(p.Data)
	}
	for _, s := range b.Samples {
		id := ids[s.Series]
		if m.samples[id] == nil {
			m.samples[id] = map[int64]float64{}
		}
		last := int64(-1)
		for _, x := range s.Samples {
			if x.TimeMillis <= last {
				return fmt.Errorf("sample at %d after %d", x.TimeMillis, last)
			}
			last = x.TimeMillis
			m.samples[id][x.TimeMillis] = x.Value
		}
	}
	for _, r := range b.State {
		if len(r.Value) == 0 {
			delete(m.state, b.Writer+"/"+string(r.Key))
			continue
		}
		m.state[b.Writer+"/"+string(r.Key)] = slices.Clone(r.Value)
	}
	for _, f := range b.Families {
		f.IntervalSeconds = max(f.IntervalSeconds, m.infos[f.Name].IntervalSeconds)
		m.infos[f.Name] = f
	}
	m.flushed[b.Writer] = max(m.flushed[b.Writer], b.Generation)
	return m.after
}

func (m *memStore) Flushed(_ context.Context, writer string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.flushed[writer], nil
}

// Durable is Flushed, unless the test holds it back.
func (m *memStore) Durable(_ context.Context, writer string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.durable != nil {
		return *m.durable, nil
	}
	return m.flushed[writer], nil
}

func (m *memStore) State(_ context.Context, writer string, prefix []byte, yield func(key, value []byte) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := writer + "/" + string(prefix)
	for _, k := range slices.Sorted(maps.Keys(m.state)) {
		if len(k) >= len(at) && k[:len(at)] == at {
			if err := yield([]byte(k[len(writer)+1:]), m.state[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// slots returns what a family holds in a view, by labels and slot.
func (m *memStore) slots(t testing.TB, family string, view series.View) map[string]map[int64]*hist.Histogram {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]map[int64]*hist.Histogram{}
	for at, data := range m.points {
		s := m.series[at.id]
		if s.Family != family || s.View != view || s.Kind != series.Distribution {
			continue
		}
		k := s.Labels.String()
		if out[k] == nil {
			out[k] = map[int64]*hist.Histogram{}
		}
		h := out[k][at.slot]
		if h == nil {
			h = hist.New(hist.MaxSchema)
			out[k][at.slot] = h
		}
		if err := h.MergeEncoded(data); err != nil {
			t.Fatalf("%s %s slot %d: %v", family, k, at.slot, err)
		}
		if err := h.Validate(); err != nil {
			t.Fatalf("%s %s slot %d: %v", family, k, at.slot, err)
		}
	}
	return out
}

// count sums the counts of a family's view.
func (m *memStore) count(t testing.TB, family string, view series.View) (n uint64) {
	t.Helper()
	for _, by := range m.slots(t, family, view) {
		for _, h := range by {
			n += h.Count
		}
	}
	return n
}

// clock is a settable Now.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 3, 1, 12, 0, 5, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// open starts an aggregator whose flusher does nothing on its own within a
// test, and closes it at the end.
func open(t testing.TB, st store.Store, c *clock, dir string, change ...func(*Options)) *Aggregator {
	t.Helper()
	o := Options{Writer: "local", Dir: dir, Now: c.now, FlushInterval: 10 * time.Second}
	for _, f := range change {
		f(&o)
	}
	a, err := Open(context.Background(), st, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(context.Background()) })
	return a
}

func flush(t testing.TB, a *Aggregator) {
	t.Helper()
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func commit(t testing.TB, b *Batch) Rejects {
	t.Helper()
	r, err := b.Commit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// crash leaves the aggregator as kill -9 would: nothing is flushed or synced.
func crash(a *Aggregator) {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.stop()
	a.done.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range append(a.frozen, a.open) {
		if g.journal != nil {
			g.journal.close()
		}
	}
	a.ack.close()
	a.frozen = nil
	a.open = &generation{number: a.open.number, cells: newCells(&a.slabs, 0)}
}
