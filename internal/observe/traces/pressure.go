package traces

import "math"

// Near its bound on memory a shard leaves traces out whole: it puts one in oneIn together,
// and that one counts oneIn times. So distributions stay unbiased, which they would not if
// traces were closed before their last spans. A hash of the trace id chooses, as
// OpenTelemetry's consistent probability sampling has the id's random bits choose: an id that
// is chosen at one in four is chosen at one in two. The bits themselves would not do. A sender
// that samples has only ids whose bits are above its own threshold, and not every sender's are
// random.

// maxOneIn bounds the number of traces that one counts for.
const maxOneIn = math.MaxUint16

// chosen reports whether the trace with the hash h is one of those put together at one in n.
func chosen(h uint64, n uint16) bool {
	// The finalizer of MurmurHash3: shards and tables use the bits of h itself.
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return n <= 1 || h <= math.MaxUint64/uint64(n)
}

// load describes the open traces of a shard.
type load struct {
	bound, used float64 // bytes that they may take, and take
	all         float64 // bytes that they would take if none had been left out
	since       float64 // seconds since the first root came
	wait        float64 // seconds after which a trace with a root is closed, about
}

// oneIn returns the least n for which one in n of the traces to come fits the bound.
func (l load) oneIn() uint16 {
	aim := l.bound * 15 / 16
	n := l.all / aim
	if l.used > l.bound*3/4 && l.since < l.wait {
		// None is closed before the first has waited. What comes until then has to fit.
		rate := l.all / max(l.since, l.wait/32)
		n = max(n, rate*(l.wait-l.since)/max(aim-l.used, l.bound/64))
	}
	// Whatever was expected, the rest is filled ever more slowly.
	n = max(n, (l.bound-aim)/max(l.bound-l.used, l.bound/(16*maxOneIn)))
	return uint16(max(1, min(math.Ceil(n), maxOneIn)))
}

// adapt adapts oneIn to the open traces. It rises at once. It falls by a quarter a second,
// so that it does not swing as traces come in bursts.
func (sh *shard) adapt(a *Assembler, now int64) {
	used, bound := sh.used(), sh.bound-sh.overhead()
	if sh.oneIn == 1 && used < bound/2 || sh.ready.first != 0 { // those added whole make space at once
		return
	}
	l := load{bound: float64(bound), used: float64(used), wait: a.o.Grace.Seconds() + 1}
	l.since = l.wait
	if sh.spans > 0 {
		l.all = l.used * float64(sh.demand) / float64(sh.spans)
	}
	if sh.rooted.first != 0 {
		l.since = float64(now-sh.traces.at(sh.rooted.first).since) / 1e9
	}
	n := l.oneIn()
	if n >= sh.oneIn {
		sh.oneIn, sh.adapted = n, now
	}
	for sh.oneIn > n && now-sh.adapted >= 1e9 {
		sh.oneIn = max(n, sh.oneIn-max(1, sh.oneIn/4))
		sh.adapted += 1e9
	}
}

// used returns the bytes that open traces take.
func (sh *shard) used() int64 {
	return sh.traces.used()*openTraceBytes + sh.blocks.used()*blockBytes + sh.extras.used()*extraBytes
}

// overhead returns the bytes that a shard takes to find and to free traces, or will take soon:
// the table doubles, and elements are allocated in chunks.
func (sh *shard) overhead() int64 {
	n := sh.table.Bytes()
	if 3*int64(sh.table.Len()) > n/8*7/4 {
		n *= 2
	}
	n += openTraceBytes<<sh.traces.per + blockBytes<<sh.blocks.per + extraBytes<<sh.extras.per
	return n + int64(cap(sh.keys))*16 + int64(cap(sh.traces.free)+cap(sh.blocks.free)+cap(sh.extras.free))*4
}
