package faults

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Line is a line of the ledger: a series of a sender and, if a request names the slot
// in which it is counted, that slot.
type Line struct {
	Family, Service, Operation, Tenant, Instance string
	Slot                                         int64 // Unix seconds; 0 if the line is of all slots
}

func (l Line) String() string {
	return fmt.Sprintf("%s{%s %s %s %s}@%d", l.Family, l.Service, l.Operation, l.Tenant, l.Instance, l.Slot)
}

func compareLines(a, b Line) int {
	return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Operation, b.Operation),
		cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Slot, b.Slot))
}

// Bounds bounds what may be stored of a line: at least what was acknowledged, at most
// what was sent and not refused.
type Bounds struct{ Least, Most uint64 }

// Counts are observations by what became of their requests.
type Counts struct{ Sent, Acknowledged, Refused, Unknown uint64 }

// Ledger is the account of what was sent. It is safe for concurrent use.
type Ledger struct {
	mu     sync.Mutex
	now    Moment
	base   map[Line]uint64 // stored when it was last settled
	log    []*Request      // since then
	counts Counts
}

// Moment orders the entries of the ledger.
type Moment uint64

// Request is one request of a sender, in the ledger.
type Request struct {
	l                      *Ledger
	entries                map[Line]uint64
	total                  bool // see BeginTotal
	begun, acked, answered Moment
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{base: map[Line]uint64{}} }

// Begin writes down a request that is about to be sent. entries is retained.
func (l *Ledger) Begin(entries map[Line]uint64) *Request { return l.begin(entries, false) }

// BeginTotal writes down a request with running totals: acknowledging one
// acknowledges all that went before on its lines, whatever became of it.
func (l *Ledger) BeginTotal(totals map[Line]uint64) *Request { return l.begin(totals, true) }

func (l *Ledger) begin(entries map[Line]uint64, total bool) *Request {
	r := &Request{l: l, entries: entries, total: total}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	r.begun = l.now
	l.log = append(l.log, r)
	n := r.observations()
	l.counts.Sent += n
	l.counts.Unknown += n
	return r
}

// observations of the request; a running total counts as one.
func (r *Request) observations() (n uint64) {
	if r.total {
		return uint64(len(r.entries))
	}
	for _, c := range r.entries {
		n += c
	}
	return n
}

// Acknowledged says that the request was answered with success.
func (r *Request) Acknowledged() { r.answer(true) }

// Refused says that the request was answered with a refusal: none of it is to be stored.
func (r *Request) Refused() { r.answer(false) }

func (r *Request) answer(acknowledged bool) {
	l := r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	r.answered = l.now
	n := r.observations()
	l.counts.Unknown -= n
	if acknowledged {
		r.acked = l.now
		l.counts.Acknowledged += n
	} else {
		l.counts.Refused += n
	}
}

// Mark returns the present moment.
func (l *Ledger) Mark() Moment {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	return l.now
}

// Counts returns the totals since the ledger began.
func (l *Ledger) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// Bounds returns what may be stored of each line after a crash between two
// moments: what was acknowledged until the first must be, what was begun until
// the second may be.
func (l *Ledger) Bounds(kept, begun Moment) map[Line]Bounds {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[Line]Bounds, len(l.base))
	for line, n := range l.base {
		out[line] = Bounds{n, n}
	}
	for _, r := range l.log {
		if r.begun > begun || r.answered != 0 && r.acked == 0 {
			continue
		}
		must := r.acked != 0 && r.acked <= kept
		for line, n := range r.entries {
			b := out[line]
			switch {
			case r.total:
				b.Most = max(b.Most, n)
				if must {
					b.Least = max(b.Least, n)
				}
			default:
				b.Most += n
				if must {
					b.Least += n
				}
			}
			out[line] = b
		}
	}
	return out
}

// Settle makes what was found stored the account from now on: no later restart
// may change it.
func (l *Ledger) Settle(stored map[Line]uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base = stored
	l.log = nil
}

// Settled returns what was stored of a line when the ledger was settled.
func (l *Ledger) Settled(line Line) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.base[line]
}

// Difference is the result of a comparison: observations that are missing, and
// observations beyond what was sent.
type Difference struct {
	Lost, Doubled uint64
	lines         []string
}

// Compare holds what is stored against the bounds.
func Compare(bounds map[Line]Bounds, stored map[Line]uint64) Difference {
	var d Difference
	all := maps.Clone(bounds)
	for line := range stored {
		if _, ok := all[line]; !ok {
			all[line] = Bounds{}
		}
	}
	for _, line := range slices.SortedFunc(maps.Keys(all), compareLines) {
		b, n := all[line], stored[line]
		switch {
		case n < b.Least:
			d.Lost += b.Least - n
		case n > b.Most:
			d.Doubled += n - b.Most
		default:
			continue
		}
		d.lines = append(d.lines, fmt.Sprintf("%v: %d stored, want %d to %d", line, n, b.Least, b.Most))
	}
	return d
}

// Ok reports whether nothing differs.
func (d Difference) Ok() bool { return d.Lost == 0 && d.Doubled == 0 }

func (d Difference) String() string {
	const most = 8
	s := fmt.Sprintf("%d observations lost, %d beyond what was sent", d.Lost, d.Doubled)
	if len(d.lines) > 0 {
		s += "\n  " + strings.Join(d.lines[:min(most, len(d.lines))], "\n  ")
	}
	if n := len(d.lines) - most; n > 0 {
		s += fmt.Sprintf("\n  and %d lines more", n)
	}
	return s
}
