package check

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/internal/agg"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// probes measures what a test says: a value by the address of tcp.
type probes struct {
	mu     sync.Mutex
	values map[string]float64
	wait   map[string]time.Duration
	runs   map[string]int
}

func newProbes() *probes {
	return &probes{values: map[string]float64{}, wait: map[string]time.Duration{}, runs: map[string]int{}}
}

func (p *probes) set(address string, v float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values[address] = v
}

func (p *probes) ran(address string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[address]
}

func (p *probes) Probe(ctx context.Context, s *spec.Source) event.Reading {
	address := s.TCP.Address
	p.mu.Lock()
	p.runs[address]++
	v, ok := p.values[address]
	wait := p.wait[address]
	p.mu.Unlock()
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return event.Reading{Null: true, Value: math.NaN(), Err: errors.New("timeout: the host did not answer; see whether it is up")}
		}
	}
	if !ok {
		return event.Reading{Null: true, Value: math.NaN(), Err: errors.New("connection refused; start the service")}
	}
	return event.Reading{Value: v, Took: time.Millisecond}
}

// notes keeps what receivers are told.
type notes struct {
	mu      sync.Mutex
	events  []event.Event
	results int
	fail    error
}

func (n *notes) Results(receivers []string, results []event.Result) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.results += len(results)
}

func (n *notes) Events(_ context.Context, receivers []string, events []event.Event) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail != nil {
		return n.fail
	}
	n.events = append(n.events, events...)
	return nil
}

// Lacking: what it is told counts as delivered at once.
func (n *notes) Lacking([]string) func() []string { return func() []string { return nil } }

func (n *notes) Take(context.Context, map[string][]event.Event, func(context.Context) error) error {
	return nil
}

func (n *notes) failing(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = err
}

// take answers what was told since the last time, a line each.
func (n *notes) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for _, v := range n.events {
		fmt.Fprintf(&b, "%s %s %d %s>%s: %s\n", v.Key.ID(), v.Kind, v.Seq, v.From, v.To, v.Text)
	}
	n.events = nil
	return b.String()
}

// mortal is a store whose writer may die: nothing is put afterwards.
type mortal struct {
	store.Store
	mu   sync.Mutex
	dead bool
}

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

func (m *mortal) revive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = false
}

func (m *mortal) alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errors.New("the process is dead")
	}
	return nil
}

func (m *mortal) Put(ctx context.Context, b *store.Batch) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.Put(ctx, b)
}

func (m *mortal) PutRecords(ctx context.Context, kind string, writes ...store.RecordWrite) (uint64, error) {
	if err := m.alive(); err != nil {
		return 0, err
	}
	return m.Store.PutRecords(ctx, kind, writes...)
}

// world is an engine with its surroundings, within a bubble of fake time.
type world struct {
	t     testing.TB
	store *mortal
	agg   *agg.Aggregator
	probe *probes
	notes *notes
	o     Options
	*Engine
	stop func()
}

func newWorld(t testing.TB, yaml string) *world {
	w := &world{t: t, store: &mortal{Store: storetest.NewTwin()}, probe: newProbes(), notes: &notes{}}
	w.open(yaml)
	return w
}

func readFile(t testing.TB, yaml string) spec.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "checks.yaml")
	if err := os.WriteFile(name, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	f, problems := spec.Read([]string{name}, spec.Options{})
	for _, p := range problems {
		t.Error(p)
	}
	if f == nil {
		t.FailNow()
	}
	return *f
}

func (w *world) open(yaml string) {
	w.t.Helper()
	file := readFile(w.t, yaml)
	var err error
	if w.agg, err = agg.Open(context.Background(), w.store, agg.Options{Writer: "local", Dir: w.t.TempDir(), Retention: 60 * 24 * time.Hour, SyncInterval: time.Hour}); err != nil {
		w.t.Fatal(err)
	}
	w.o.Store, w.o.Agg, w.o.Prober, w.o.Notifier, w.o.File = w.store, w.agg, w.probe, w.notes, file
	if w.Engine, err = Open(context.Background(), w.o); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	w.stop = func() {
		cancel()
		<-done
		if err := w.agg.Close(context.Background()); err != nil && !w.store.dead {
			w.t.Error(err)
		}
	}
}

func (w *world) check(id string) string {
	w.t.Helper()
	r, err := w.Get(context.Background(), GetRequest{ID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	c := r.Check
	text := c.State
	if c.Soft {
		text += " soft " + c.Level
	}
	if c.Quiet != "" {
		text += " (" + c.Quiet + ")"
	}
	if c.Incident != nil {
		text += " " + c.Incident.ID
	}
	return text
}

func (w *world) expect(got, want string) {
	w.t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		w.t.Errorf("%s\ngot  %s\nwant %s", time.Now().UTC().Format(time.RFC3339), got, want)
	}
}
