package seconds

import (
	"cmp"
	"maps"
	"slices"

	"tailscope/hist"
)

// renewAfter is how long numbers of series hold at least, in seconds, however many new
// series there are.
const renewAfter = 3600

// scratch is memory of Fold.
type scratch struct {
	h    hist.Histogram
	ids  []uint32
	ends []uint32
	data []byte
}

// Fold sorts what was accepted since the last call into seconds, seals those that are due
// and forgets those that are too old.
func (r *Ring) Fold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Now().Unix()
	r.newest = max(r.newest, now)
	r.logMu.Lock()
	log, full := r.log, r.full
	r.log = r.spare[:0]
	r.others = 0
	for service := range r.short {
		r.whole[service] = r.newest + 1
	}
	clear(r.short)
	renew := len(r.refused) > 0 && now-r.renewed >= renewAfter
	if renew {
		clear(r.names)
		clear(r.refused)
		r.kept = make([]name, 1)
		r.epoch++
	}
	r.seen, r.without = r.kept, maps.Clone(r.refused)
	r.logMu.Unlock()
	if renew {
		r.forgetAll()
		log = log[:0] // of numbers that are given anew
	}
	if full != r.lost {
		r.lost, r.began = full, r.newest+1
	}
	for len(r.state) < len(r.seen) {
		s := state{}
		if r.pressed {
			s.since = r.newest + 1 // it may have been left out before
		}
		r.state = append(r.state, s)
		r.bytes += nameBytes
	}
	oldest := r.newest - int64(len(r.ring)) + ahead
	for i := range log {
		o := &log[i]
		at := int64(o.Second)
		if at < oldest || at > r.newest+ahead || int(o.Series) >= len(r.state) {
			continue
		}
		st := &r.state[o.Series]
		st.requests++
		r.arrived(r.seen[o.Series].service, at, int64(o.Came))
		if st.out {
			r.stats.LeftOut++
			continue
		}
		s := r.second(at)
		if s.at != at {
			r.empty(s)
			s.at = at
		}
		if s.pending == nil {
			s.pending = r.buffer()
		}
		r.bytes -= int64(cap(s.pending)) * observationBytes
		s.pending = append(s.pending, *o)
		r.bytes += int64(cap(s.pending)) * observationBytes
		r.stats.Observations++
		if len(s.pending) >= sealBeyond {
			r.seal(s)
		}
	}
	r.spare = log[:0]
	for i := range r.ring {
		switch s := &r.ring[i]; {
		case s.at != 0 && s.at < oldest:
			r.empty(s)
		case len(s.pending) > 0 && s.at <= now-sealAfter:
			r.seal(s)
		}
	}
	if m := now / 60; m > r.minute {
		r.minute = m
		r.age()
	}
	r.bound()
}

// arrived counts a request that came so many seconds after its second.
func (r *Ring) arrived(service string, at, came int64) {
	if r.lastLag == nil || r.lastOf != service {
		l := r.lags[service]
		if l == nil {
			l = new(lag)
			r.bytes += lagBytes
			r.lags[service] = l
		}
		r.lastLag, r.lastOf = l, service
	}
	i := min(max(came-at, 0), mostLag)
	r.lastLag.n[i]++
	r.lastLag.last[i] = came
}

// forgetAll empties the ring, for numbers are given anew.
func (r *Ring) forgetAll() {
	for i := range r.ring {
		r.empty(&r.ring[i])
	}
	r.bytes -= int64(len(r.state)-1)*nameBytes + int64(len(r.lags))*lagBytes
	clear(r.lags)
	r.lastLag = nil
	r.state = r.state[:1]
	r.renewed, r.began, r.pressed = r.newest, r.newest+1, false
}

// buffer returns an empty buffer of observations.
func (r *Ring) buffer() []Observation {
	if n := len(r.free); n > 0 {
		b := r.free[n-1]
		r.free = r.free[:n-1]
		return b
	}
	b := make([]Observation, 0, 64)
	r.bytes += int64(cap(b)) * observationBytes
	return b
}

// keepBuffer keeps the memory of a buffer for another second, or gives it back.
func (r *Ring) keepBuffer(b []Observation) {
	const most = 2 * sealAfter
	if b != nil && len(r.free) < most {
		r.free = append(r.free, b[:0])
		return
	}
	r.bytes -= int64(cap(b)) * observationBytes
}

func (r *Ring) empty(s *second) {
	r.keepBuffer(s.pending)
	s.pending = nil
	r.bytes -= s.bytes()
	*s = second{}
}

// seal encodes the pending observations of a second, with those of its series that were
// sealed before.
func (r *Ring) seal(s *second) {
	p := s.pending
	slices.SortFunc(p, func(a, b Observation) int { return cmp.Compare(a.Series, b.Series) })
	x := &r.scratch
	x.ids, x.ends, x.data = x.ids[:0], x.ends[:0], x.data[:0]
	done := func(id uint32) {
		x.ids, x.ends = append(x.ids, id), append(x.ends, uint32(len(x.data)))
	}
	i := 0 // of what is sealed
	before := func(id uint32) {
		for ; i < len(s.ids) && s.ids[i] < id; i++ {
			x.data = append(x.data, s.of(i)...)
			done(s.ids[i])
		}
	}
	for len(p) > 0 {
		id, n := p[0].Series, 1
		for n < len(p) && p[n].Series == id {
			n++
		}
		before(id)
		x.h.Reset(hist.DefaultSchema)
		if i < len(s.ids) && s.ids[i] == id {
			if err := x.h.UnmarshalBinary(s.of(i)); err != nil {
				x.h.Reset(hist.DefaultSchema) // encoded here, so it decodes
			}
			i++
		}
		for _, o := range p[:n] {
			_ = x.h.RecordNanos(o.Nanos, uint64(o.Weight)) // fails only at 2⁶⁴ requests
		}
		if data, err := x.h.AppendBinary(x.data); err == nil {
			x.data = data
			done(id)
		}
		p = p[n:]
	}
	before(^uint32(0))
	r.keepBuffer(s.pending)
	s.pending = nil
	r.bytes -= s.bytes()
	s.ids, s.ends, s.data = slices.Clone(x.ids), slices.Clone(x.ends), slices.Clone(x.data)
	r.bytes += s.bytes()
}

// age halves what is recent, and takes back the busiest series that were left out, as
// far as there is memory for as much as the others take for each request.
func (r *Ring) age() {
	r.dropBuffers()
	maps.DeleteFunc(r.whole, func(_ string, second int64) bool { return second < r.newest-r.Keep() })
	kept := 0.0
	var out []int
	for i := range r.state {
		s := &r.state[i]
		if s.requests /= 2; s.out {
			out = append(out, i)
		} else {
			kept += s.requests
		}
	}
	slices.SortFunc(out, func(a, b int) int { return cmp.Compare(r.state[b].requests, r.state[a].requests) })
	left := float64(r.bytes)
	for _, i := range out {
		s := &r.state[i]
		if left += float64(r.bytes) * s.requests / max(1, kept); left > float64(r.o.Bytes)*3/4 {
			break
		}
		s.out, s.since = false, r.newest+1
	}
	for service, l := range r.lags {
		total := 0.0
		for i := range l.n {
			l.n[i] /= 2
			total += l.n[i]
		}
		if total < 1 {
			delete(r.lags, service)
			r.bytes -= lagBytes
		}
	}
	r.lastLag = nil
}

// bound leaves out the series with the fewest requests until what is kept is well within
// the bound on memory.
func (r *Ring) bound() {
	if r.bytes <= r.o.Bytes {
		return
	}
	r.dropBuffers()
	for i := range r.ring {
		if s := &r.ring[i]; len(s.pending) > 0 {
			r.seal(s)
		}
	}
	size := make([]int64, len(r.state))
	for i := range r.ring {
		s := &r.ring[i]
		for k, id := range s.ids {
			size[id] += int64(len(s.of(k))) + 8
		}
	}
	order := make([]int, 0, len(r.state))
	for i := 1; i < len(r.state); i++ {
		if size[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(r.state[a].requests, r.state[b].requests) })
	left := r.bytes
	for _, i := range order {
		if left <= r.o.Bytes*7/8 {
			break
		}
		r.state[i].out = true
		left -= size[i]
	}
	r.pressed = true
	x := &r.scratch
	for i := range r.ring {
		s := &r.ring[i]
		x.ids, x.ends, x.data = x.ids[:0], x.ends[:0], x.data[:0]
		for k, id := range s.ids {
			if !r.state[id].out {
				x.data = append(x.data, s.of(k)...)
				x.ids, x.ends = append(x.ids, id), append(x.ends, uint32(len(x.data)))
			}
		}
		if len(x.ids) < len(s.ids) {
			r.bytes -= s.bytes()
			s.ids, s.ends, s.data = slices.Clone(x.ids), slices.Clone(x.ends), slices.Clone(x.data)
			r.bytes += s.bytes()
		}
	}
}

// dropBuffers gives the memory of buffers back that no second uses.
func (r *Ring) dropBuffers() { r.free, r.bytes = nil, r.bytes-r.freeBytes() }

func (r *Ring) freeBytes() (n int64) {
	for _, b := range r.free {
		n += int64(cap(b)) * observationBytes
	}
	return n
}
