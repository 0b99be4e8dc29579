package accesslog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/zeebo/xxh3"

	"tailscope/internal/agg"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Families of lines without a duration. Such a line has no span, and no part in any
// breakdown.
const (
	// Requests counts requests by service, operation, tenant and status.
	Requests = "access_log_requests_total"
	// ResponseBytes is the distribution of their response sizes, by the same labels.
	ResponseBytes = "access_log_response_bytes"
)

// LabelSequence numbers the sequence that a series of Requests counts. A running total
// cannot go back in time: lines older than those counted, and files read at the same
// time, are counted in a sequence of their own. The first has no label.
const LabelSequence = "lane"

// maxSequences bounds the sequences of a service. Beyond it sequences are shared, and
// what is older than the sequence's last request counts at the time of that.
const maxSequences = 64

// sequence is a sequence of requests in the order of time.
type sequence struct {
	last   int64  // Unix nanoseconds of the newest request counted
	holder string // the file that is read into it, or ""
}

func sequencesKey(service string) string { return "lanes/" + service + "\x00" }

// restoreSequences reads the saved position of each sequence.
func (s *service) restoreSequences(value []byte) error {
	var last []int64
	if err := json.Unmarshal(value, &last); err != nil {
		return fmt.Errorf("saved counts of access logs of %s: %w", s.name, err)
	}
	for _, t := range last {
		s.sequences = append(s.sequences, sequence{last: t})
	}
	return nil
}

// sequencePositions returns the position of each sequence, to be saved, or nil if there are none.
func (s *service) sequencePositions() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sequences) == 0 {
		return nil, nil
	}
	last := make([]int64, len(s.sequences))
	for i, l := range s.sequences {
		last[i] = l.last
	}
	return json.Marshal(last)
}

// enterSequence returns the sequence of a file whose next request ended at first: its own, or
// the free one that came closest to it, or a new one. The caller holds mu.
func (s *service) enterSequence(holder string, first int64) int {
	best := -1
	for i, l := range s.sequences {
		switch {
		case l.holder == holder:
			return i
		case l.holder == "" && l.last <= first && (best < 0 || l.last > s.sequences[best].last):
			best = i
		}
	}
	if best < 0 && len(s.sequences) < maxSequences {
		best = len(s.sequences)
		s.sequences = append(s.sequences, sequence{})
	}
	if best < 0 {
		return int(xxh3.HashString(holder) % maxSequences)
	}
	s.sequences[best].holder = holder
	return best
}

// leaveSequence frees the sequence of a file that was read.
func (s *service) leaveSequence(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sequences {
		if s.sequences[i].holder == holder {
			s.sequences[i].holder = ""
		}
	}
}

// maxSize bounds the sizes of responses that are distinguished, in bytes.
const maxSize = math.MaxInt64 / 1_000_000_000

type sizeKey struct {
	op       *operation
	tenant   uint32
	sequence int
	failed   bool
}

// counter holds the targets and positions of one key's requests. Targets are valid while
// the epoch lasts.
type counter struct {
	requests, bytes agg.Target
	stream          agg.StreamID
	last            int64 // slot of the last sample, in seconds; 0 if not known
	pending         int64 // the same, with the current block
}

// counterOf resolves a key. The caller holds mu.
func (in *Ingester) counterOf(s *service, k sizeKey) *counter {
	if c := s.counters[k]; c != nil {
		return c
	}
	in.declared.Do(in.declare)
	// Names are folded as those of spans are, under the same bounds.
	id := agg.SpanIdentity{
		Service: s.name, Operation: k.op.name, Component: series.ComponentApp, Kind: "server", Status: "ok", Tenant: s.texts[k.tenant],
	}
	if k.failed {
		id.Status = "error"
	}
	in.o.Sink.NamedTarget(&id)
	b := labels.NewBuilder(labels.EmptyLabels())
	for _, l := range [...]labels.Label{
		{Name: series.LabelOperation, Value: id.Operation}, {Name: series.LabelService, Value: id.Service},
		{Name: series.LabelStatus, Value: id.Status}, {Name: series.LabelTenant, Value: id.Tenant},
	} {
		b.Set(l.Name, l.Value) // an empty value is not a label
	}
	c := &counter{bytes: in.o.Sink.SeriesTarget(series.Series{Family: ResponseBytes, Kind: series.Distribution, Labels: b.Labels()})}
	if k.sequence > 0 {
		b.Set(LabelSequence, strconv.Itoa(k.sequence+1))
	}
	total := series.Series{Family: Requests, Kind: series.Counter, Labels: b.Labels()}
	c.requests = in.o.Sink.SeriesTarget(total)
	seriesID, _ := total.ID(nil)
	c.stream = agg.StreamID{seriesID.Hi, seriesID.Lo}
	s.counters[k] = c
	return c
}

// tick counts the requests of one series that ended in one slot, in a block.
type tick struct {
	c    *counter
	slot int64 // in seconds
	end  int64 // Unix nanoseconds of the last of them
	n    float64
}

// tickKey is the key of a tick.
type tickKey struct {
	c    *counter
	slot int64
}

// measure counts a request without a duration, and its size. addCounts adds the counts
// to the batch with the rest of the block.
func (f *feed) measure(b Batch, op *operation, tenant uint32) {
	r := &f.rec
	k := sizeKey{op: op, tenant: tenant, failed: r.status >= 500}
	if f.sequence < 0 {
		f.sequence = f.svc.enterSequence(f.holder, r.end)
	}
	k.sequence = f.sequence
	c := f.in.counterOf(f.svc, k)
	if r.bytes >= 0 {
		b.Observe(c.bytes, r.end, min(r.bytes, maxSize)*1e9, 1)
	}
	key := tickKey{c, series.Base.Slot(r.end / 1e9)}
	i, ok := f.tickAt[key]
	if !ok {
		i = len(f.ticks)
		f.tickAt[key] = i
		f.ticks = append(f.ticks, tick{c: c, slot: key.slot})
	}
	t := &f.ticks[i]
	t.end = max(t.end, r.end)
	t.n++
}

// steps holds the lengths of slots, in seconds, before which a total is repeated.
var steps = [...]int64{86400, int64(series.Hour), int64(series.TenMin), int64(series.Minute), int64(series.Base)}

// addCounts adds the counts of a block to the batch, the oldest first. Where nothing was
// counted in the slot before, of any resolution, it repeats the total there: an increase
// needs a sample to begin from.
func (f *feed) addCounts(b Batch, oldest int64) {
	for i := range f.ticks {
		f.ticks[i].c.pending = f.ticks[i].c.last
	}
	slices.SortFunc(f.ticks, func(a, b tick) int { return cmp.Compare(a.slot, b.slot) })
	for i := range f.ticks {
		t := &f.ticks[i]
		last := t.c.pending
		t.c.pending = max(last, t.slot)
		for _, step := range steps {
			begin := t.slot - t.slot%step
			if at := begin*1e9 - 1e6; last < begin-step && at >= oldest {
				b.DeltaNumber(t.c.requests, t.c.stream, at, 0)
			}
		}
		b.DeltaNumber(t.c.requests, t.c.stream, t.end, t.n)
	}
}

// commitCounts updates the counters, once the block was ingested.
func (f *feed) commitCounts() {
	for i := range f.ticks {
		t := &f.ticks[i]
		t.c.last = max(t.c.last, t.slot)
		f.svc.sequences[f.sequence].last = max(f.svc.sequences[f.sequence].last, t.end)
	}
}

// resetTicks begins a block.
func (f *feed) resetTicks() {
	f.ticks = f.ticks[:0]
	clear(f.tickAt)
}

// declare declares the families; their samples come as lines do.
func (in *Ingester) declare() {
	in.o.Sink.DeclareFamily(store.FamilyInfo{Name: Requests, Kind: series.Counter})
	in.o.Sink.DeclareFamily(store.FamilyInfo{Name: ResponseBytes, Kind: series.Distribution})
}

// Notice returns what a log lacks that is ingested nevertheless, or nil.
//
// The format determines it; for a JSON log its first lines do.
func (s *Source) Notice(first []byte) error {
	if s.format == nil || !s.format.untimed {
		return nil
	}
	p := parser{f: s.format}
	var r record
	for line := range bytes.Lines(first) {
		if p.read(bytes.TrimRight(line, "\r\n"), &r) {
			if r.untimed {
				return ErrNoDuration
			}
			return nil
		}
	}
	if s.format.json == nil {
		return ErrNoDuration
	}
	return nil
}

// loadService reads the saved state of a service.
func (in *Ingester) loadService(ctx context.Context, s *service) error {
	one := func(key string, restore func([]byte) error) error {
		return in.o.State.Load(ctx, key, func(_ string, value []byte) error { return restore(value) })
	}
	routes := func() error { return one(routesKey(s.name), s.restoreRoutes) }
	if in.o.Routes != nil {
		routes = func() error { _, err := in.readRoutes(ctx, s); return err }
	}
	return errors.Join(routes(), one(sequencesKey(s.name), s.restoreSequences))
}
