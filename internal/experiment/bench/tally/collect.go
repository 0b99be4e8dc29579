package tally

import (
	"iter"
	"time"

	"tailscope/hist"
	"tailscope/internal/experiment/bench/load"
)

// Collect adds to the totals what the loops have counted since the last call. now
// decides which slot of 10 s it belongs to in what is kept for a sink.
func (t *Tally) Collect(now time.Time) {
	t.since.empty()
	t.mu.Lock()
	loops := t.loops
	t.mu.Unlock()
	for _, l := range loops {
		b := l.takeBank()
		t.since.add(b)
		for _, s := range b.slots[:b.n] {
			t.line.add(s)
			t.recent.add(s)
		}
		b.empty()
		l.spare = b
	}
	t.sums.add(t.since)
	t.recall(now)
	if t.o.Keep && (len(t.since.used) > 0 || t.since.dropped > 0) {
		t.keepForSink(now)
	}
}

// Pending holds what was collected in one slot of 10 s, or in a part of one.
type Pending struct {
	Time time.Time // of the last that was collected
	Part
}

// maxPending bounds the slots that are kept: ten minutes.
const maxPending = 60

func (t *Tally) keepForSink(now time.Time) {
	n := len(t.pending)
	if n == 0 || t.pending[n-1].Time.Unix()/10 != now.Unix()/10 {
		t.pending = append(t.pending, &Pending{Part: Part{newBank(t)}})
		if n++; n > maxPending {
			t.lost += t.pending[0].Sent()
			t.pending = t.pending[1:]
			n--
		}
	}
	p := t.pending[n-1]
	p.Time = now
	p.bank.add(t.since)
}

// Take returns what was collected since the last call, slot by slot. The caller owns
// it. lost counts the requests that were forgotten because nobody called Take for ten
// minutes.
func (t *Tally) Take() (pending []*Pending, lost uint64) {
	pending, lost = t.pending, t.lost
	t.pending, t.lost = nil, 0
	return pending, lost
}

// Part holds counts and distributions of a stretch of the run, or of all of it.
type Part struct{ bank *bank }

// Totals returns what was collected of the whole run; it changes with the next
// Collect.
func (t *Tally) Totals() Part { return Part{t.sums} }

// Sent returns the number of requests that were sent.
func (p Part) Sent() (n uint64) {
	for _, c := range p.bank.all() {
		n += c.sent
	}
	return n
}

// Half holds the distributions of the answers to one query's requests by one tenant,
// either the right ones or the errors. Seconds and bytes.
type Half struct {
	Query, Tenant string // Tenant is empty of requests without one
	Status        string // ok or error
	// Latency runs from when a request was due, Service and FirstByte from when it
	// was sent; Bytes is the size of answers.
	Latency, Service, FirstByte, Bytes *hist.Histogram
}

// Values of Half.Status and Count.Status.
const (
	StatusOK    = "ok"
	StatusError = "error"
)

// Halves yields the distributions that are not empty; the histograms are the tally's.
func (p Part) Halves() iter.Seq[Half] {
	return func(yield func(Half) bool) {
		for name, c := range p.bank.all() {
			for half, status := range [...]string{ok: StatusOK, failed: StatusError} {
				h := c.hists[half]
				if h[latency] == nil || h[latency].Count == 0 {
					continue
				}
				if !yield(Half{name.query, name.tenant, status, h[latency], h[service], h[firstByte], h[size]}) {
					return
				}
			}
		}
	}
}

// Count is a number of requests of one query and tenant with the same outcome.
type Count struct {
	Query, Tenant string
	Status        string // ok or error; empty of those that were cut off or dropped
	Cause         string // load.Cause.String; dropped of requests of all queries
	N             uint64
}

// Counts yields the outcomes of requests.
func (p Part) Counts() iter.Seq[Count] {
	return func(yield func(Count) bool) {
		for name, c := range p.bank.all() {
			right := uint64(0)
			if h := c.hists[ok][latency]; h != nil {
				right = h.Count
			}
			counts := []Count{
				{name.query, name.tenant, StatusOK, load.Answered.String(), right},
				{name.query, name.tenant, StatusError, load.Answered.String(), c.causes[load.Answered] - right},
			}
			for cause := load.Answered + 1; cause < load.Causes; cause++ {
				n := Count{name.query, name.tenant, StatusError, cause.String(), c.causes[cause]}
				if cause == load.CutOff {
					n.Status = ""
				}
				counts = append(counts, n)
			}
			for _, n := range counts {
				if n.N > 0 && !yield(n) {
					return
				}
			}
		}
		if p.bank.dropped > 0 {
			yield(Count{Cause: "dropped", N: p.bank.dropped})
		}
	}
}

// Late returns the lateness of the generator at times when a connection was free.
func (p Part) Late() *hist.Histogram { return p.bank.late }

// Latency returns the response times of all answers together.
func (p Part) Latency() *hist.Histogram { return p.bank.whole(true) }
func (p Part) Service() *hist.Histogram { return p.bank.whole(false) }

func (b *bank) whole(corrected bool) *hist.Histogram {
	h := hist.New(hist.DefaultSchema)
	for i := range b.phases {
		if corrected {
			merge(h, b.phases[i].latency)
		} else {
			merge(h, b.phases[i].service)
		}
	}
	return h
}

// names identify a cell.
type names struct{ query, tenant string }

func (b *bank) names(i int) names {
	q, tenant := i/(b.t.tenants+1), i%(b.t.tenants+1)-1
	var n names
	if q < len(b.t.o.Queries) {
		n.query = b.t.o.Queries[q]
	}
	switch {
	case tenant < 0:
	case tenant == b.t.tenants-1: // beside its own all that are not counted apart
		n.tenant = b.t.o.Tenants[len(b.t.o.Tenants)-1]
	default:
		n.tenant = b.t.o.Tenants[tenant]
	}
	return n
}

// all yields the cells that hold something, with their names.
func (b *bank) all() iter.Seq2[names, *cell] {
	return func(yield func(names, *cell) bool) {
		for _, i := range b.used {
			if !yield(b.names(i), b.cells[i]) {
				return
			}
		}
	}
}
