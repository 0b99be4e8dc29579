package accesslog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/internal/agg"
	"tailscope/internal/observe/traces"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger is a Sink and a Traces that remember everything by name.
type ledger struct {
	mu       sync.Mutex
	epoch    uint32
	names    []string
	byName   map[string]int
	seen     []string // what was observed, in order
	counts   map[string]int
	whole    [][]traces.Span
	overload int // so many commits are refused
	fail     error
	commits  int
}

func newLedger() *ledger {
	return &ledger{names: []string{""}, byName: map[string]int{}, counts: map[string]int{}, epoch: 1}
}

func (l *ledger) number(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := l.byName[name]
	if !ok {
		n = len(l.names)
		l.names = append(l.names, name)
		l.byName[name] = n
	}
	return n
}

func spanText(id *agg.SpanIdentity) string {
	s := fmt.Sprintf("%s %q %s %s %s", id.Service, id.Operation, id.Component, id.Kind, id.Status)
	for _, p := range [][2]string{{"tenant", id.Tenant}, {"version", id.Version}, {"variant", id.Variant}, {"instance", id.Instance}} {
		if p[1] != "" {
			s += " " + p[0] + "=" + p[1]
		}
	}
	return s
}

func (l *ledger) NamedTarget(id *agg.SpanIdentity) agg.Target {
	return agg.Target(l.number(spanText(id)))
}

func (l *ledger) SeriesTarget(s series.Series) agg.Target {
	return agg.Target(l.number(s.Family + s.Labels.String()))
}
func (l *ledger) DeclareFamily(store.FamilyInfo) {}
func (l *ledger) RetryAfter() time.Duration      { return 5 * time.Second }

func (l *ledger) Name(id *traces.Identity) traces.Name {
	return traces.Name(l.number(fmt.Sprintf("%s %q %s %s instance=%s tenant=%s", id.Service, id.Operation, id.Component, id.Kind, id.Instance, id.Tenant)))
}
func (l *ledger) Epoch() uint32 { l.mu.Lock(); defer l.mu.Unlock(); return l.epoch }
func (l *ledger) AddWhole(spans []traces.Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := slices.Clone(spans)
	for i := range own {
		own[i].Detail = slices.Clone(own[i].Detail)
	}
	l.whole = append(l.whole, own)
}

func (l *ledger) NewBatch() Batch { return &ledgerBatch{l: l, epoch: l.Epoch()} }

type ledgerBatch struct {
	l     *ledger
	epoch uint32
	obs   []observed
}

type observed struct {
	t             agg.Target
	end, duration int64
	n             float64 // of a DeltaNumber; -1 otherwise
}

func (b *ledgerBatch) Epoch() uint32 { return b.epoch }
func (b *ledgerBatch) Discard()      {}
func (b *ledgerBatch) Observe(t agg.Target, end, duration int64, _ uint32) {
	b.obs = append(b.obs, observed{t, end, duration, -1})
}
func (b *ledgerBatch) DeltaNumber(t agg.Target, _ agg.StreamID, at int64, n float64) {
	b.obs = append(b.obs, observed{t, at, 0, n})
}
func (b *ledgerBatch) Commit(ctx context.Context) (agg.Rejects, error) {
	l := b.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return agg.Rejects{}, err
	}
	if l.overload > 0 {
		l.overload--
		return agg.Rejects{}, agg.ErrOverloaded
	}
	if l.fail != nil {
		return agg.Rejects{}, l.fail
	}
	l.commits++
	for _, o := range b.obs {
		name := l.names[o.t]
		if o.n >= 0 {
			l.counts[name] += int(o.n)
			l.seen = append(l.seen, fmt.Sprintf("%s: %v at %s", name, o.n, time.Unix(0, o.end).UTC().Format("15:04:05.000")))
			continue
		}
		l.counts[name]++
		l.seen = append(l.seen, fmt.Sprintf("%s: %s at %s", name, time.Duration(o.duration), time.Unix(0, o.end).UTC().Format("15:04:05.000")))
	}
	return agg.Rejects{}, nil
}

// requests is how many requests were counted.
func (l *ledger) requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for name, c := range l.counts {
		if strings.Contains(name, " server ") {
			n += c
		}
	}
	return n
}

func (l *ledger) text() string { l.mu.Lock(); defer l.mu.Unlock(); return strings.Join(l.seen, "\n") }

// memory is a State that may be made to fail, and survives an Ingester.
type memory struct {
	mu      sync.Mutex
	records map[string]string
	fail    error
}

func newMemory() *memory { return &memory{records: map[string]string{}} }

func (m *memory) Load(_ context.Context, prefix string, yield func(string, []byte) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(m.records)) {
		if strings.HasPrefix(k, prefix) {
			if err := yield(k, []byte(m.records[k])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *memory) Save(_ context.Context, records map[string][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	for k, v := range records {
		if len(v) == 0 {
			delete(m.records, k)
		} else {
			m.records[k] = string(v)
		}
	}
	return nil
}

// noon is the moment at which the tests' servers are.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func testIngester(l *ledger, st State) *Ingester {
	return New(Options{Sink: l, Traces: l, State: st, Now: func() time.Time { return noon }})
}

func compile(t testing.TB, c Config) *Source {
	t.Helper()
	if c.Service == "" {
		c.Service = "shop"
	}
	s, err := c.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const example = `10.0.0.9 - - [01/Mar/2026:11:59:30 +0000] "GET /cart/4711?x=1 HTTP/1.1" 200 512 "-" "curl/8" 1772366370.250 0.120 "10.0.0.1:8080" "0.100" "0.002" "0.090" "200" "backend" "acme.example.com" "t=1772366370.100" "4bf92f3577b34da6a3ce929d0e0e4736" "-"
`
