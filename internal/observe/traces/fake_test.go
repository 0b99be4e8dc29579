package traces

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink remembers what it is given, by series, as an aggregator would.
type sink struct {
	mu      sync.Mutex
	epoch   uint32
	names   map[string]Target
	list    []string
	groups  []string                   // in words, with a verb for the tenant
	hists   map[string]*hist.Histogram // and slot
	fail    int                        // so many commits
	refuse  func(commit int) bool      // of the commits, counted from 1; may be nil
	commits int
	cohort  func(service, tenant string) string
	cut     func(context.Context)
}

func newSink() *sink {
	return &sink{names: map[string]Target{}, hists: map[string]*hist.Histogram{}}
}

var errRefused = errors.New("refused")

func (s *sink) target(name string) Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.names[name]
	if !ok {
		s.list = append(s.list, name)
		t = Target(len(s.list))
		s.names[name] = t
	}
	return t
}

func (s *sink) SelfGroup(r *Identity, component string, failed bool) Group {
	status := "ok"
	if failed {
		status = "error"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = append(s.groups, fmt.Sprintf("self %s %s %%s %s %s", r.Service, r.Operation, component, status))
	return Group(len(s.groups) - 1)
}

func (s *sink) SeriesTarget(x series.Series) Target {
	return s.target(x.Family + x.Labels.String())
}

func (s *sink) Cohort(service, tenant string) string {
	if s.cohort != nil {
		return s.cohort(service, tenant)
	}
	return "large"
}

type fakeBatch struct {
	s  *sink
	do []func()
}

func (s *sink) NewBatch() Batch { return &fakeBatch{s: s} }

func (s *sink) BeforeCut(f func(context.Context)) { s.cut = f }

func (b *fakeBatch) Epoch() uint32 { return b.s.epoch }

func (b *fakeBatch) hist(t Target, at int64) *hist.Histogram {
	k := fmt.Sprintf("%s @%d", b.s.list[t-1], at/slotNanos*10)
	h := b.s.hists[k]
	if h == nil {
		h = hist.New(hist.DefaultSchema)
		b.s.hists[k] = h
	}
	return h
}

func (b *fakeBatch) Observe(t Target, end, nanos int64, weight uint32) {
	if nanos < 0 {
		panic("negative duration")
	}
	b.do = append(b.do, func() { must(b.hist(t, end).RecordNanos(nanos, uint64(max(weight, 1)))) })
}

func (b *fakeBatch) Group(g Group) int { return int(g) }

func (b *fakeBatch) ObserveMember(group int, tenant string, end, nanos int64, weight uint32) {
	b.s.mu.Lock()
	name := fmt.Sprintf(b.s.groups[group], tenant)
	b.s.mu.Unlock()
	b.Observe(b.s.target(name), end, nanos, weight)
}

func (b *fakeBatch) Distribution(t Target, at int64, h *hist.Histogram) {
	must(h.Validate())
	if _, err := h.AppendBinary(nil); err != nil {
		panic(err)
	}
	h = h.Clone()
	b.do = append(b.do, func() { must(b.hist(t, at).Merge(h)) })
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (b *fakeBatch) Commit(ctx context.Context) error {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.s.commits++
	if b.s.fail > 0 {
		b.s.fail--
		return errRefused
	}
	if b.s.refuse != nil && b.s.refuse(b.s.commits) {
		return errRefused
	}
	for _, f := range b.do {
		f()
	}
	return nil
}

func (b *fakeBatch) Discard() {}

// dump lists what came, without slots: count and sum of each series whose name
// holds one of the words.
func (s *sink) dump(words ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := map[string]*hist.Histogram{}
	for k, h := range s.hists {
		name, _, _ := strings.Cut(k, " @")
		if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) }) {
			continue
		}
		if total[name] == nil {
			total[name] = hist.New(hist.DefaultSchema)
		}
		must(total[name].Merge(h))
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(total)) {
		fmt.Fprintf(&b, "%s: %d in %v\n", k, total[k].Count, time.Duration(total[k].Sum*1e9+0.5))
	}
	return b.String()
}

// count is the total count of a family.
func (s *sink) count(family string) (n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, h := range s.hists {
		if strings.HasPrefix(k, family) {
			n += h.Count
		}
	}
	return n
}

// traceStore is a Keeper.
type traceStore struct {
	mu     sync.Mutex
	traces map[store.TraceID]store.Trace
	fail   int
}

func (k *traceStore) PutTraces(_ context.Context, traces []store.Trace) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail > 0 {
		k.fail--
		return errRefused
	}
	if k.traces == nil {
		k.traces = map[store.TraceID]store.Trace{}
	}
	for _, t := range traces {
		k.traces[t.ID] = t
	}
	return nil
}

// clock is set by hand.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	c.t = c.t.Add(d)
	c.mu.Unlock()
}

var epoch0 = time.Unix(1_700_000_000, 0)

// start makes an Assembler whose clock is the test's. Its own sweeps find
// nothing to do unless the test advances the clock far.
func start(t testing.TB, o Options) (*Assembler, *sink, *clock) {
	t.Helper()
	s, c := newSink(), &clock{t: epoch0}
	if o.Sink == nil {
		o.Sink = s
	}
	o.Now = c.now
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil && !errors.Is(err, errRefused) {
			t.Error(err)
		}
	})
	return a, s, c
}

func (a *Assembler) tick(t testing.TB, c *clock) {
	t.Helper()
	err := a.sweep(context.Background(), c.now(), false)
	if err == nil {
		err = a.handOver(context.Background()) // as if a generation were cut
	}
	if err != nil {
		t.Fatal(err)
	}
}

// script writes spans as text: one a line, "id parent service kind component
// operation start-end [key=value]", times in milliseconds after epoch0; - is without a parent.
func script(t testing.TB, a *Assembler, trace byte, text string) []Span {
	t.Helper()
	var spans []Span
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		id := Identity{Service: f[2], Kind: f[3], Component: f[4], Operation: strings.ReplaceAll(f[5], "_", " ")}
		var s Span
		s.TraceID = store.TraceID{0: trace, 15: 1}
		s.ID = spanID(f[0])
		if f[1] != "-" {
			s.Parent = spanID(f[1])
		}
		var from, to float64
		if _, err := fmt.Sscanf(f[6], "%g-%g", &from, &to); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		s.Start, s.End = ms(from), ms(to)
		for _, kv := range f[7:] {
			k, v, _ := strings.Cut(kv, "=")
			switch k {
			case "failed":
				s.Failed = true
			case "at":
				id.Instance = v
			case "tenant":
				id.Tenant = v
			case "text":
				s.Text = a.Text(v)
			case "detail":
				s.Detail = []byte(v)
			case "weight":
				fmt.Sscan(v, &s.Weight)
			case "queued":
				var q float64
				fmt.Sscan(v, &q)
				s.Queued = ms(q)
			default:
				t.Fatalf("%q: %s?", line, k)
			}
		}
		s.Name = a.Name(&id)
		spans = append(spans, s)
	}
	return spans
}

func ms(x float64) int64 { return epoch0.UnixNano() + int64(x*1e6) }

func spanID(s string) (b [8]byte) {
	copy(b[:], s)
	return b
}

func traceID(n uint64) (id store.TraceID) {
	binary.BigEndian.PutUint64(id[8:], n+1)
	id[0] = 7
	return id
}

// diffSet is diff of lines in any order.
func diffSet(t testing.TB, got, want string) {
	t.Helper()
	sorted := func(s string) string {
		var lines []string
		for _, l := range strings.Split(s, "\n") {
			lines = append(lines, strings.TrimSpace(l))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	diff(t, sorted(got), sorted(want))
}

func diff(t testing.TB, got, want string) {
	t.Helper()
	trim := func(s string) string {
		var out []string
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
		return strings.Join(out, "\n")
	}
	if trim(got) != trim(want) {
		t.Errorf("got\n%s\nwant\n%s", trim(got), trim(want))
	}
}

// nothing is a sink that takes everything and costs nothing.
type nothing struct{}

func (nothing) NewBatch() Batch                                 { return nothing{} }
func (nothing) SelfGroup(*Identity, string, bool) Group         { return 1 }
func (nothing) SeriesTarget(series.Series) Target               { return 1 }
func (nothing) Cohort(string, string) string                    { return series.Large }
func (nothing) Epoch() uint32                                   { return 1 }
func (nothing) BeforeCut(func(context.Context))                 {}
func (nothing) Group(Group) int                                 { return 0 }
func (nothing) ObserveMember(int, string, int64, int64, uint32) {}
func (nothing) Observe(Target, int64, int64, uint32)            {}
func (nothing) Distribution(Target, int64, *hist.Histogram)     {}
func (nothing) Commit(context.Context) error                    { return nil }
func (nothing) Discard()                                        {}
