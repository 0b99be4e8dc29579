package differ

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tailscope/api"
	"tailscope/internal/experiment/mirror/redact"
)

const (
	// maxPlaces bounds the places that an example shows, maxValue the bytes of each
	// value.
	maxPlaces = 8
	maxValue  = 200
	// A place keeps its first example and a later one, which is replaced at most this
	// often.
	exampleNanos = 1e9
)

// example is the example of one request; rows are those of its places.
type example struct {
	api.MirrorExample
	time int64
	rows []*row
}

// exampleMaker makes the example of one request when it is first needed.
type exampleMaker struct {
	t      *table
	x      *Exchange
	r      *result
	shadow int
	made   *example
}

// offer gives the request to a row as an example, place i of its result. The places
// after it are shown too.
func (m *exampleMaker) offer(r *row, i int) {
	if r.latest != nil && m.x.Time-r.latest.time < exampleNanos && m.x.Time >= r.latest.time {
		return
	}
	if m.made == nil {
		m.made = m.make()
	}
	place := m.r.places[i].place
	at := slices.IndexFunc(m.made.Places, func(v api.MirrorValues) bool { return v.Place == place })
	if at < 0 {
		if len(m.made.Places) == maxPlaces {
			return
		}
		m.made.Places = append(m.made.Places, m.values(i))
		m.made.rows = append(m.made.rows, r)
	}
	if r.first == nil {
		r.first = m.made
	}
	r.latest = m.made
}

func (m *exampleMaker) make() *example {
	redactor := m.t.o.Redactor
	return &example{
		time: m.x.Time,
		MirrorExample: api.MirrorExample{
			ID: m.x.ID, Time: api.Float(float64(m.x.Time) / 1e9), Shadow: m.t.o.Shadows[m.shadow].Name,
			Operation: m.x.Operation, Tenant: m.x.Tenant,
			Request: clip(m.x.Method+" "+redactor.Target(m.x.Target), 2*maxValue),
		},
	}
}

func (m *exampleMaker) values(i int) api.MirrorValues {
	f, redactor := &m.r.places[i], m.t.o.Redactor
	return api.MirrorValues{
		Place: f.place, Reference: clip(f.reference(redactor), maxValue), Shadow: clip(f.shadow(redactor), maxValue),
	}
}

// without returns the example without places that noise explains.
func (e *example) without(explained map[*row]bool) api.MirrorExample {
	out := e.MirrorExample
	out.Places = nil
	for i, v := range e.Places {
		if !explained[e.rows[i]] {
			out.Places = append(out.Places, v)
		}
	}
	return out
}

// excerpt returns the part of a body around its first difference from another, both
// without their secrets.
func excerpt(r *redact.Redactor, a, b *answer) string {
	mine, other := show(r, a), show(r, b)
	at := 0
	for at < len(mine) && at < len(other) && mine[at] == other[at] {
		at++
	}
	from := max(0, at-maxValue/4)
	for from > 0 && !utf8.RuneStart(mine[min(from, len(mine)-1)]) {
		from--
	}
	text := mine[from:]
	if from > 0 {
		text = fmt.Sprintf("… from byte %d: %s", from, text)
	}
	return text
}

func show(r *redact.Redactor, a *answer) string {
	text := string(r.Body(a.field("content-type"), a.plain))
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return unicode.IsControl(c) && !unicode.IsSpace(c) }) {
		return text
	}
	return fmt.Sprintf("%d bytes, %s", len(a.plain), r.Mark(string(a.plain)))
}

// clip cuts s to n bytes at a character, and marks the cut. It retains nothing of s.
func clip(s string, n int) string {
	if len(s) <= n {
		return strings.Clone(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
