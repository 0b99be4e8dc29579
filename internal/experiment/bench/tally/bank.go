package tally

import (
	"time"

	"tailscope/hist"
	"tailscope/internal/experiment/bench/load"
)

// The two halves of a cell.
const (
	ok = iota
	failed
	statuses
)

// Measures of an answer.
const (
	latency = iota // from when it was due
	service        // from when it was sent
	firstByte
	size
	measures
)

// cell counts the requests of one query by one tenant.
type cell struct {
	sent     uint64
	errors   uint64
	bytes    uint64
	causes   [load.Causes]uint64 // Answered and CutOff too
	statuses []statusCount
	checks   []uint64 // failed, by number
	hists    [statuses][measures]*hist.Histogram
}

type statusCount struct {
	status int
	n      uint64
}

// phase counts the requests of one phase.
type phase struct {
	due, answered, errors uint64
	latency, service      *hist.Histogram
}

// bank holds counts and histograms: a loop's since the last Collect, or the totals.
type bank struct {
	t               *Tally
	cells           []*cell // by query and tenant; nil until seen
	used            []int   // cells that hold something
	phases          []phase
	slots           []*slot // by when requests were due, sent or ended: the first n
	n               int
	late            *hist.Histogram
	blocked         *hist.Histogram
	dropped         uint64
	warmed, skipped uint64        // sent and dropped in the warm-up
	end             time.Duration // of the last request that ended
}

func newBank(t *Tally) *bank {
	b := &bank{
		t: t, cells: make([]*cell, max(len(t.o.Queries), 1)*(t.tenants+1)), phases: make([]phase, t.o.Phases),
		late: hist.New(hist.DefaultSchema), blocked: hist.New(hist.DefaultSchema),
	}
	for i := range b.phases {
		b.phases[i] = phase{latency: hist.New(hist.DefaultSchema), service: hist.New(hist.DefaultSchema)}
	}
	return b
}

// cell returns the cell of a query and a tenant; tenant -1 is none. A tenant out of
// range is counted in the last cell.
func (b *bank) cell(query, tenant int) *cell {
	at := min(max(query, 0), max(len(b.t.o.Queries), 1)-1)*(b.t.tenants+1) + min(max(tenant, -1), b.t.tenants-1) + 1
	c := b.cells[at]
	if c == nil {
		c = &cell{checks: make([]uint64, len(b.t.o.Checks))}
		b.cells[at] = c
	}
	if c.sent == 0 {
		b.used = append(b.used, at)
	}
	return c
}

func (c *cell) status(status int, n uint64) {
	for i := range c.statuses {
		if c.statuses[i].status == status {
			c.statuses[i].n += n
			return
		}
	}
	c.statuses = append(c.statuses, statusCount{status, n})
}

// histogram returns the histogram of a measure, made when it is needed.
func (c *cell) histogram(half, measure int) *hist.Histogram {
	h := &c.hists[half][measure]
	if *h == nil {
		*h = hist.New(hist.DefaultSchema)
	}
	return *h
}

func record(h *hist.Histogram, d time.Duration) {
	_ = h.RecordNanos(int64(max(d, 0)), 1) // refuses only what a run cannot reach: 2^64 of them
}

func (b *bank) observe(o *load.Observation) {
	due, sent, end := o.Due-b.t.o.Skip, o.Sent-b.t.o.Skip, o.End-b.t.o.Skip
	if due < 0 {
		b.warmed++
		return
	}
	b.end = max(b.end, end)
	c := b.cell(o.Query, o.Tenant)
	c.sent++
	c.causes[o.Cause]++
	c.bytes += uint64(max(o.Bytes, 0))
	p := &b.phases[b.phase(o.Due, o.Phase)]
	p.due++
	wrong := o.Cause != load.Answered && o.Cause != load.CutOff
	lasted := o.End - o.Due

	at := b.slot(due)
	at.due++
	record(at.late, o.Late)
	record(b.late, o.Late)
	record(b.blocked, o.Sent-o.Due-o.Late)
	if o.Cause == load.Answered {
		half := ok
		if o.Check >= 0 || !b.t.accepts(o.Query, o.Status) {
			half, wrong = failed, true
		}
		c.status(o.Status, 1)
		if o.Check >= 0 && o.Check < len(c.checks) {
			c.checks[o.Check]++
		}
		record(c.histogram(half, latency), lasted)
		record(c.histogram(half, service), o.End-o.Sent)
		record(c.histogram(half, firstByte), o.FirstByte-o.Sent)
		_ = c.histogram(half, size).Record(float64(max(o.Bytes, 0)))
		p.answered++
		record(p.latency, lasted)
		record(p.service, o.End-o.Sent)
		record(at.latency, lasted)
	}
	if sent >= 0 {
		at = b.slot(sent)
		at.sent++
	}
	at = b.slot(max(end, 0))
	if o.Cause == load.Answered {
		at.answered++
		at.ended++
	} else if wrong {
		at.ended++
	}
	if wrong {
		c.errors++
		p.errors++
		at.errors++
	}
}

func (b *bank) drop(due time.Duration, ph int) {
	if due < b.t.o.Skip {
		b.skipped++
		return
	}
	b.dropped++
	b.phases[b.phase(due, ph)].due++
	at := b.slot(due - b.t.o.Skip)
	at.due++
	at.dropped++
}

// phase returns the number of the phase without the warm-up.
func (b *bank) phase(due time.Duration, engine int) int {
	if b.t.o.Phase != nil {
		engine = b.t.o.Phase(due - b.t.o.Skip)
	} else if b.t.o.Skip > 0 {
		engine--
	}
	return min(max(engine, 0), len(b.phases)-1)
}

// empty resets the bank and keeps its memory.
func (b *bank) empty() {
	for _, i := range b.used {
		c := b.cells[i]
		hists, counts, checks := c.hists, c.statuses[:0], c.checks
		clear(checks)
		*c = cell{hists: hists, statuses: counts, checks: checks}
		for half := range c.hists {
			for _, h := range c.hists[half] {
				if h != nil {
					h.Reset(hist.DefaultSchema)
				}
			}
		}
	}
	b.used = b.used[:0]
	for i := range b.phases {
		p := &b.phases[i]
		p.latency.Reset(hist.DefaultSchema)
		p.service.Reset(hist.DefaultSchema)
		*p = phase{latency: p.latency, service: p.service}
	}
	b.n = 0
	b.late.Reset(hist.DefaultSchema)
	b.blocked.Reset(hist.DefaultSchema)
	b.dropped, b.warmed, b.skipped, b.end = 0, 0, 0, 0
}

// add adds all of o but its slots.
func (b *bank) add(o *bank) {
	for _, i := range o.used {
		from := o.cells[i]
		c := b.cells[i]
		if c == nil {
			c = &cell{checks: make([]uint64, len(b.t.o.Checks))}
			b.cells[i] = c
		}
		if c.sent == 0 {
			b.used = append(b.used, i)
		}
		c.add(from)
	}
	for i := range o.phases {
		p, q := &b.phases[i], &o.phases[i]
		p.due, p.answered, p.errors = p.due+q.due, p.answered+q.answered, p.errors+q.errors
		merge(p.latency, q.latency)
		merge(p.service, q.service)
	}
	merge(b.late, o.late)
	merge(b.blocked, o.blocked)
	b.dropped, b.warmed, b.skipped = b.dropped+o.dropped, b.warmed+o.warmed, b.skipped+o.skipped
	b.end = max(b.end, o.end)
}

// add adds o, which belongs to the same set of requests.
func (c *cell) add(o *cell) {
	c.sent, c.errors, c.bytes = c.sent+o.sent, c.errors+o.errors, c.bytes+o.bytes
	for i, n := range o.causes {
		c.causes[i] += n
	}
	for _, s := range o.statuses {
		c.status(s.status, s.n)
	}
	for i, n := range o.checks {
		c.checks[i] += n
	}
	for half := range o.hists {
		for m, h := range o.hists[half] {
			if h != nil && h.Count > 0 {
				merge(c.histogram(half, m), h)
			}
		}
	}
}

// merge adds a histogram of observations, which never overflows.
func merge(h, o *hist.Histogram) { _ = h.Merge(o) }
