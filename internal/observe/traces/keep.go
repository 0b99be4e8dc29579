package traces

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// keep chooses the traces to keep: of each entry operation and slot the slowest request
// and a failed one, and of each entry operation, minute and bucket of durations (each √2
// as wide as the last) the first. A trace is encoded when it is chosen, waits until its
// slot is certainly over, since a slower one may replace it, and is then handed to the
// Keeper. For old traces slots and minutes are oldKept long.
type keep struct {
	mu      sync.Mutex // guards the fields below
	a       *Assembler
	stats   Stats
	c       *closer // of the current trace
	bound   int64   // bytes of held; a third as much again for marks
	held    int64   // bytes of waiting
	marks   int64   // bytes of slots and seen
	waiting map[store.TraceID]*candidate
	slots   map[slotKey]*slotBest
	seen    map[exemplarKey]struct{}
	pruned  int64 // Unix seconds
	full    int64 // Unix seconds: when pruning freed little
	tries   int

	last []lastChoice // by entry

	why     []store.Why // by request of the current trace
	longest []int32
	e       encoder
}

// candidate is an encoded trace that waits.
type candidate struct {
	trace  store.Trace
	until  int64 // Unix nanoseconds: when it is handed over
	bytes  int64
	handed bool // or being handed over
}

type slotKey struct {
	entry uint32 // part of the entry operation
	slot  int64
}

// slotBest holds the slowest request so far and whether there was a failed one.
type slotBest struct {
	slowest int64
	trace   store.TraceID
	span    [8]byte
	failed  bool
}

// lastChoice is what the last request of an entry operation found, which the next mostly will.
type lastChoice struct {
	slot   int64
	best   *slotBest // nil for none
	minute int64
	seen   uint64 // buckets of the minute that are seen, from firstBucket on
}

const (
	firstBucket = -30 // about 30 microseconds; buckets to about three hours have a bit
	choiceCost  = 32
)

type exemplarKey struct {
	entry  uint32
	minute int64
	bucket int32
}

// oldKept is the length in seconds of the slots and minutes of old traces. A day that is
// imported is a hundred times the traces of what goes on: with slots of ten seconds a
// service with few requests would keep each of them.
const oldKept = int64(series.TenMin)

const (
	slotCost     = 160
	exemplarCost = 64
)

func (k *keep) init(a *Assembler, bound int64) {
	k.a, k.bound = a, bound/4*3
	k.waiting = map[store.TraceID]*candidate{}
	k.reset()
}

// reset drops what refers to numbers of parts.
func (k *keep) reset() {
	k.marks, k.last = 0, nil
	k.slots, k.seen = map[slotKey]*slotBest{}, map[exemplarKey]struct{}{}
}

// consider decides whether to keep the trace whose results c has just computed.
func (k *keep) consider(ctx context.Context, c *closer, o *openTrace, complete bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.c = c
	t := &c.tree
	k.why = k.why[:0]
	any, until := false, int64(0)
	for r := range t.reqs {
		w, slot := k.choose(t, &t.nodes[t.reqs[r].node], o.id)
		k.why = append(k.why, w)
		if w != 0 {
			any, until = true, max(until, (slot+1)*k.a.o.Slots*1e9+int64(k.a.o.Grace)+2e9)
		}
	}
	if !any {
		return
	}
	trace := store.Trace{ID: o.id, Entries: k.entries(t), Data: k.encode(t, o, complete)}
	x := &candidate{trace: trace, until: until, bytes: int64(cap(trace.Data)) + int64(len(trace.Entries))*160 + 256}
	if old := k.waiting[o.id]; old != nil {
		k.held -= old.bytes
		delete(k.waiting, o.id)
	}
	switch {
	case k.held+x.bytes <= k.bound:
	case c.atOnce: // whoever added it does not wait for the keeper
		select {
		case k.a.full <- struct{}{}:
		default:
		}
		if k.held+x.bytes > k.bound/4*5 {
			k.stats.LeftOutKept++
			return
		}
	case k.handAll(ctx, math.MaxInt64) != nil || x.bytes > k.bound:
		k.stats.LeftOutKept++
		return
	}
	if old := k.waiting[o.id]; old != nil { // of another closer, while others were handed over
		k.held -= old.bytes
	}
	k.waiting[o.id] = x
	k.held += x.bytes
}

// choose returns why a request is worth keeping, or 0.
func (k *keep) choose(t *tree, nd *node, id store.TraceID) (w store.Why, slot int64) {
	duration, end := nd.end-nd.start, nd.end-nd.shift
	entry := t.infos[nd.name].entry
	slot = end / 1e9 / k.a.o.Slots
	minute := end / 60e9
	if k.c.isOld(end) {
		slot -= slot % max(1, oldKept/k.a.o.Slots)
		minute -= minute % (oldKept / 60)
	}
	if age := k.a.o.KeepAge; age > 0 && end < k.c.aged*1e9-int64(age) {
		return 0, slot
	}
	sk := slotKey{entry, slot}
	if int(entry) >= len(k.last) {
		k.last = append(k.last, make([]lastChoice, int(entry)+1+int(entry)/2-len(k.last))...)
	}
	lc := &k.last[entry]
	if lc.best == nil || lc.slot != slot {
		lc.slot, lc.best = slot, k.slots[sk]
	}
	best := lc.best
	if best == nil {
		if k.marks > k.bound/3 && !k.freeSpace() {
			return 0, slot
		}
		best = &slotBest{slowest: -1}
		k.slots[sk], lc.best = best, best
		k.marks += slotCost
	}
	if duration > best.slowest {
		if best.slowest >= 0 {
			k.displace(best)
		}
		best.slowest, best.trace, best.span = duration, id, bytesOf(nd.id)
		w |= store.WhySlow
	}
	if nd.flags&failed != 0 && !best.failed {
		best.failed = true
		w |= store.WhyFailed
	}
	bucket := hist.BucketIndex(max(hist.Seconds(duration), 1e-9), 1)
	if lc.minute != minute {
		lc.minute, lc.seen = minute, 0
	}
	bit := uint64(0)
	if n := bucket - firstBucket; n >= 0 && n < 64 {
		bit = 1 << n
	}
	if lc.seen&bit != 0 {
		return w, slot
	}
	lc.seen |= bit
	ek := exemplarKey{entry, minute, bucket}
	if _, ok := k.seen[ek]; !ok {
		k.seen[ek] = struct{}{}
		k.marks += exemplarCost
		w |= store.WhyExemplar
	}
	return w, slot
}

func bytesOf(id uint64) (b [8]byte) {
	binary.LittleEndian.PutUint64(b[:], id)
	return b
}

// displace removes from the slowest request so far its reason to be kept.
func (k *keep) displace(best *slotBest) {
	x := k.waiting[best.trace]
	if x == nil || x.handed {
		return
	}
	any := store.Why(0)
	for i := range x.trace.Entries {
		e := &x.trace.Entries[i]
		if e.Span == best.span {
			e.Why &^= store.WhySlow
		}
		any |= e.Why
	}
	if any == 0 {
		delete(k.waiting, best.trace)
		k.held -= x.bytes
	}
}

// entries lists the requests of a trace, those with a reason first if they are too many.
func (k *keep) entries(t *tree) []store.TraceEntry {
	order := make([]int, len(t.reqs))
	for i := range order {
		order[i] = i
	}
	if len(order) > store.MaxTraceEntries {
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Or(-cmp.Compare(k.why[a], k.why[b]), cmp.Compare(a, b))
		})
		order = order[:store.MaxTraceEntries]
	}
	out := make([]store.TraceEntry, 0, len(order))
	for _, r := range order {
		nd := &t.nodes[t.reqs[r].node]
		id := t.infos[nd.name].identity(k.c.named[nd.tenant])
		out = append(out, store.TraceEntry{
			Span: bytesOf(nd.id), Service: id.Service, Operation: id.Operation, Tenant: id.Tenant,
			Failed: nd.flags&failed != 0, Why: k.why[r],
			StartNanos: nd.start - nd.shift, DurationNanos: nd.end - nd.start,
		})
	}
	return out
}

// maxKept bounds the spans stored of one trace.
const maxKept = 2000

// encode encodes the current trace. Of one with too many spans it keeps the requests,
// the failed and the longest; those whose parent is left out move to the nearest kept
// ancestor.
func (k *keep) encode(t *tree, o *openTrace, complete bool) []byte {
	out := 0
	if len(t.nodes) > maxKept {
		k.longest = k.longest[:0]
		for i := range t.nodes {
			k.longest = append(k.longest, int32(i))
		}
		rank := func(i int32) int {
			switch f := t.nodes[i].flags; {
			case i == t.root:
				return 0
			case f&request != 0:
				return 1
			case f&failed != 0:
				return 2
			}
			return 3
		}
		slices.SortFunc(k.longest, func(a, b int32) int {
			x, y := &t.nodes[a], &t.nodes[b]
			return cmp.Or(rank(a)-rank(b), -cmp.Compare(x.end-x.start, y.end-y.start), int(a-b))
		})
		out = len(t.nodes) - maxKept
		for _, i := range k.longest[maxKept:] {
			t.nodes[i].flags |= leftOut
		}
	}
	k.stats.CutSpans += uint64(out)
	e := &k.e
	e.begin(o.id, complete, out+int(o.left), len(t.nodes)-out)
	for _, i := range t.order { // parents first: their strings come first
		nd := &t.nodes[i]
		if nd.flags&leftOut != 0 {
			continue
		}
		up := nd.up
		if nd.flags&orphan == 0 && nd.parent != none {
			p := nd.parent
			for p != none && t.nodes[p].flags&leftOut != 0 {
				p = t.nodes[p].parent
			}
			if p == none {
				up = 0
			} else if p != nd.parent {
				up = t.nodes[p].id
			}
		}
		x := k.c.extraOf(nd.extra)
		if int(x.text) >= len(k.c.texts) {
			x.text = 0
		}
		e.span(&TraceSpan{
			ID: bytesOf(nd.id), Parent: bytesOf(up), Start: nd.start - nd.shift, End: nd.end - nd.shift, Queued: x.queued,
			Identity: t.infos[nd.name].identity(k.c.named[nd.tenant]), Failed: nd.flags&failed != 0, Weight: x.weight, Text: k.c.texts[x.text].s,
		}, x.detail)
	}
	return e.end()
}

// handOver hands over what has waited long enough, or everything.
func (k *keep) handOver(ctx context.Context, now int64, all bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	due := now
	if all || k.held > k.bound {
		due = math.MaxInt64
	}
	err := k.handAll(ctx, due)
	if s := now / 1e9; s-k.pruned >= 10 {
		k.prune(s)
	}
	return err
}

// handAll hands over what waits until due at most. It tries a few times what is not
// accepted. It unlocks k.mu meanwhile.
func (k *keep) handAll(ctx context.Context, due int64) error {
	var traces []store.Trace
	for _, x := range k.waiting {
		if x.until <= due && !x.handed {
			traces = append(traces, x.trace)
			x.handed = true
		}
	}
	if len(traces) == 0 {
		return nil
	}
	slices.SortFunc(traces, func(a, b store.Trace) int {
		return cmp.Or(cmp.Compare(a.Entries[0].StartNanos, b.Entries[0].StartNanos), slices.Compare(a.ID[:], b.ID[:]))
	})
	now := k.a.o.Now().Unix()
	k.mu.Unlock()
	err := k.a.o.Keeper.PutTraces(ctx, traces)
	k.mu.Lock()
	if err != nil {
		k.stats.KeepErrors++
		if k.tries++; k.tries < maxAttempts || ctx.Err() != nil {
			if k.tries == 1 {
				k.a.o.Logger.Warn("traces not stored, retrying", "traces", len(traces), "err", err)
			}
			for i := range traces {
				if x := k.waiting[traces[i].ID]; x != nil {
					x.handed = false
				}
			}
			return err
		}
		k.stats.LostKept += uint64(len(traces))
		k.stats.Lost.add(traces[0].Entries[0].StartNanos/1e9, traces[len(traces)-1].Entries[0].StartNanos/1e9+1, now)
		k.a.o.Logger.Error("traces are lost", "traces", len(traces), "err", err)
	} else {
		k.stats.Kept += uint64(len(traces))
	}
	k.tries = 0
	for i := range traces {
		// Meanwhile it may have been displaced, or the trace chosen anew.
		if x := k.waiting[traces[i].ID]; x != nil && x.handed {
			k.held -= x.bytes
			delete(k.waiting, traces[i].ID)
		}
	}
	return err
}

// freeSpace prunes early, as imports of old data need. It is not tried again within the
// second if it frees little.
func (k *keep) freeSpace() bool {
	if k.full == k.c.now {
		return false
	}
	before := k.marks
	k.prune(k.c.now)
	if k.marks > before/4*3 {
		k.full = k.c.now
	}
	return k.marks <= k.bound/3
}

// prune drops what was chosen in slots that are long over.
func (k *keep) prune(now int64) {
	k.pruned = now
	clear(k.last)
	wait := 60 + 2*int64((k.a.o.Grace+k.a.o.Idle)/1e9)
	for s := range k.slots {
		if (s.slot+1)*k.a.o.Slots < now-wait {
			delete(k.slots, s)
			k.marks -= slotCost
		}
	}
	for s := range k.seen {
		if (s.minute+1)*60 < now-wait {
			delete(k.seen, s)
			k.marks -= exemplarCost
		}
	}
}
