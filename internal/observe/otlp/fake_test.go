package otlp

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/hist"
	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger is a Sink that remembers everything by the text of its labels.
type ledger struct {
	mu        sync.Mutex
	epoch     uint32
	from      int64 // ends before it are refused
	names     []string
	byName    map[string]agg.Target
	resolved  int
	families  map[string]store.FamilyInfo
	entries   []entry
	full      bool
	commitErr error
	commit    chan struct{} // if not nil, Commit waits for it
	waiting   chan struct{} // if not nil, Commit says here that it waits
	discarded int
}

// entry is one observation: what it is of, and everything it says.
type entry struct{ series, text string }

func newLedger() *ledger {
	return &ledger{names: []string{""}, byName: map[string]agg.Target{}, families: map[string]store.FamilyInfo{}}
}

// answer sets whether it is overloaded, and what Commit returns.
func (l *ledger) answer(full bool, commitErr error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full, l.commitErr = full, commitErr
}

func (l *ledger) Overloaded() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.full }

func spanText(id *agg.SpanIdentity) string {
	var b strings.Builder
	for _, p := range [][2]string{{"service", id.Service}, {"operation", id.Operation}, {"component", id.Component}, {"kind", id.Kind}, {"status", id.Status}, {"tenant", id.Tenant}, {"version", id.Version}, {"variant", id.Variant}, {"instance", id.Instance},
		{"environment", id.Environment}, {"service_namespace", id.Namespace}, {"k8s_namespace", id.K8sNamespace}, {"k8s_workload", id.Workload}, {"system", id.System}, {"peer", id.Peer}} {
		if p[1] != "" {
			fmt.Fprintf(&b, "%s=%q ", p[0], p[1])
		}
	}
	for _, e := range id.Extra {
		fmt.Fprintf(&b, "%s=%q ", e.Name, e.Value)
	}
	return strings.TrimSpace(b.String())
}

func (l *ledger) target(name string) agg.Target {
	t := l.number(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resolved++
	return t
}

func (l *ledger) number(name string) agg.Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, ok := l.byName[name]
	if !ok {
		t = agg.Target(len(l.names))
		l.names = append(l.names, name)
		l.byName[name] = t
	}
	return t
}

// anyTenant stands where the text of a target of spans has the tenant.
const anyTenant = `tenant="?"`

func (l *ledger) NamedTarget(id *agg.SpanIdentity) agg.Target {
	any := *id
	any.Tenant = "?"
	return l.target(spanText(&any))
}

// Fold folds tenants whose names begin so.
func (l *ledger) Fold(list []agg.Member) {
	for i := range list {
		list[i].Folded = strings.HasPrefix(list[i].Tenant, "folded")
	}
}

func (l *ledger) RefusesFamily(string) bool { return false }

func (l *ledger) MetricTarget(s series.Series) agg.Target {
	kind := [...]string{"distribution", "gauge", "counter"}[s.Kind]
	return l.target(kind + " " + s.Family + s.Labels.String())
}

func (l *ledger) DeclareFamily(f store.FamilyInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.families[f.Name] = f
}

func (l *ledger) NewBatch() Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &ledgerBatch{l: l, epoch: l.epoch}
}

type ledgerBatch struct {
	l       *ledger
	epoch   uint32
	entries []struct {
		t    agg.Target
		text string
	}
}

func (b *ledgerBatch) add(t agg.Target, format string, args ...any) {
	b.entries = append(b.entries, struct {
		t    agg.Target
		text string
	}{t, fmt.Sprintf(format, args...)})
}

func (b *ledgerBatch) Epoch() uint32 { return b.epoch }

// Accepts takes what the tests of reasons call neither too old nor too new.
func (b *ledgerBatch) Accepts() (from, to int64) { return b.l.from, math.MaxInt64 }
func (b *ledgerBatch) ObserveTenant(t agg.Target, tenant string, folded bool, end, duration int64, weight uint32) {
	b.l.mu.Lock()
	name := b.l.names[t]
	b.l.mu.Unlock()
	if folded {
		tenant = series.Other
	}
	if tenant != "" {
		tenant = fmt.Sprintf("tenant=%q ", tenant)
	}
	name = strings.TrimSpace(strings.Replace(name+" ", anyTenant+" ", tenant, 1))
	b.add(b.l.number(name), "%d at %d weight %d", duration, end, weight)
}
func (b *ledgerBatch) Number(t agg.Target, nanos int64, v float64) { b.add(t, "%v at %d", v, nanos) }
func (b *ledgerBatch) DeltaNumber(t agg.Target, _ agg.StreamID, nanos int64, v float64) {
	b.add(t, "+%v at %d", v, nanos)
}
func histText(h *hist.Histogram) string {
	s := fmt.Sprintf("schema %d count %d sum %v min %v max %v zero %d+%v", h.Schema, h.Count, h.Sum, h.Min, h.Max, h.ZeroCount, h.ZeroThreshold)
	if h.Bounds != nil {
		s += fmt.Sprintf(" bounds %v", h.Bounds)
	}
	if len(h.Positive.Counts) > 0 {
		s += fmt.Sprintf(" positive %d:%v", h.Positive.Offset, h.Positive.Counts)
	}
	if len(h.Negative.Counts) > 0 {
		s += fmt.Sprintf(" negative %d:%v", h.Negative.Offset, h.Negative.Counts)
	}
	if h.Error != 0 {
		s += fmt.Sprintf(" error %.4f", h.Error)
	}
	return s
}
func (b *ledgerBatch) Distribution(t agg.Target, nanos int64, h *hist.Histogram) {
	b.add(t, "delta %s at %d", histText(h), nanos)
}
func (b *ledgerBatch) Cumulative(t agg.Target, _ agg.StreamID, _ uint64, start, nanos int64, h *hist.Histogram) {
	b.add(t, "cumulative %s from %d at %d", histText(h), start, nanos)
}
func (b *ledgerBatch) Discard() {
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	b.l.discarded++
}
func (b *ledgerBatch) Commit(ctx context.Context) (agg.Rejects, error) {
	b.l.mu.Lock()
	wait, err := b.l.commit, b.l.commitErr
	b.l.mu.Unlock()
	if wait != nil {
		if b.l.waiting != nil {
			b.l.waiting <- struct{}{}
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return agg.Rejects{}, ctx.Err()
		}
	}
	if err != nil {
		return agg.Rejects{}, err
	}
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	for _, e := range b.entries {
		b.l.entries = append(b.l.entries, entry{b.l.names[e.t], e.text})
	}
	return agg.Rejects{}, nil
}

// text lists the entries, sorted.
func (l *ledger) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := make([]string, len(l.entries))
	for i, e := range l.entries {
		lines[i] = e.series + ": " + e.text
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// clear forgets what was stored.
func (l *ledger) clear()   { l.mu.Lock(); defer l.mu.Unlock(); l.entries = nil }
func (l *ledger) len() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.entries) }

func testReceiver(t testing.TB, l Sink) *receiver {
	t.Helper()
	r, err := newReceiver(l, nil, nil, nil, 24*time.Hour, entriesOf(12<<20))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sortStrings(s []string) { sort.Strings(s) }
