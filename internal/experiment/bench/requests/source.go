package requests

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
	"unsafe"

	"tailscope/internal/experiment/bench/load"
)

// source yields the requests of one loop.
type source struct {
	set     *Set
	k, step uint64 // number of the next request of the run, and how far the one after is
	fill    filler
	chance  *rand.PCG

	wire, body []byte
}

// Next implements load.Source. It allocates nothing once its buffers have grown,
// except for HTTP/2.
func (s *source) Next(r *load.Request) bool {
	k := s.k
	s.k += s.step
	s.chance.Seed(s.set.seed, mix(s.set.seed, k)) // so that k decides, and not who sends it
	if s.set.fixed != nil {
		return s.nextFixed(r, k)
	}
	it, nth := s.choose(k)
	row := 0
	if it.table != nil {
		rows := uint64(it.table.rows)
		if it.once && nth >= rows {
			s.runOut(fmt.Sprintf("query %s: the %d rows of %s have run out", it.name, rows, it.table.file))
			return false
		}
		row = int(it.order.row(nth, rows, it.seed))
	}
	if it.ready != nil {
		*r = *it.ready
	} else {
		s.render(r, it, k, row)
	}
	r.Query, r.Tenant = it.query, it.tenant
	if it.tenants != nil {
		r.Tenant = int(it.tenants[row])
	}
	r.Think = it.think.draw(s.fill.rng)
	return true
}

// choose returns the query of the k-th request, and its number among the requests of
// that query.
func (s *source) choose(k uint64) (*item, uint64) {
	if s.set.weights == nil {
		i, nth := s.set.order.turn(k)
		return s.set.items[i], nth
	}
	at := float64(mix(s.set.seed, k)>>11) / (1 << 53)
	i := sort.SearchFloat64s(s.set.weights, at)
	if i < len(s.set.weights) && s.set.weights[i] == at {
		i++
	}
	it := s.set.items[min(i, len(s.set.items)-1)]
	return it, it.taken.Add(1) - 1
}

func (s *source) nextFixed(r *load.Request, k uint64) bool {
	n := uint64(len(s.set.fixed))
	pass := k / n
	if pass > 0 && !s.set.loop {
		s.runOut(fmt.Sprintf("the %d requests of %s have run out", n, s.set.what))
		return false
	}
	*r = s.set.fixed[k%n]
	r.Due += time.Duration(pass) * s.set.period
	r.Think = s.set.think.draw(s.fill.rng)
	return true
}

func (s *source) runOut(text string) { s.set.ranOut.CompareAndSwap(nil, &text) }

// view returns b as a string that changes with it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// render fills the request from its templates.
func (s *source) render(r *load.Request, it *item, k uint64, row int) {
	s.fill.table, s.fill.row, s.fill.k = it.table, row, k
	if s.set.http2 {
		s.renderParts(r, it)
		return
	}
	s.body = it.body.append(s.body[:0], &s.fill)

	b := append(append(s.wire[:0], it.method...), ' ')
	from := len(b)
	b = it.target.append(b, &s.fill)
	to := len(b)
	b = append(b, " HTTP/1.1\r\n"...)
	b = append(b, it.before...)
	for i := range it.fields {
		f := &it.fields[i]
		b = append(append(b, f.name...), ": "...)
		b = f.value.append(b, &s.fill)
		b = append(b, "\r\n"...)
	}
	b = appendLength(b, it.method, len(s.body))
	b = append(b, "\r\n"...)
	head := len(b)
	b = append(b, s.body...)
	s.wire = b
	*r = load.Request{Method: it.method, Path: view(b[from:to]), Body: b[head:], Wire: b}
}

// renderParts fills the request without its wire, with strings of their own.
func (s *source) renderParts(r *load.Request, it *item) {
	s.body = it.target.append(s.body[:0], &s.fill)
	path := string(s.body)
	fields := make([]load.Field, 0, len(it.fields))
	for i := range it.fields {
		f := &it.fields[i]
		s.body = f.value.append(s.body[:0], &s.fill)
		fields = append(fields, load.Field{Name: f.name, Value: string(s.body)})
	}
	body := it.body.append(nil, &s.fill)
	*r = load.Request{Method: it.method, Path: path, Header: slices.Clip(fields), Body: body}
}
