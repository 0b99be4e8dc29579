package differ

import (
	"tailscope/api"
	"tailscope/internal/series"
)

// Places beyond Options.Places are counted under these names, by part.
var otherPlaces = map[string]string{heads: "other places", bodies: "body other places"}

const (
	slotNanos = int64(series.Base) * 1e9
	noisy     = -1 // in place of a shadow's number: control against primary
)

type key struct {
	shadow    int
	operation string
	place     string
}

// table counts what was found. It is not safe for concurrent use, except names, which
// only the worker uses.
type table struct {
	o        *Options
	control  bool
	names    map[string]string
	groups   map[key]*group
	compared uint64
	skipped  map[string]uint64
	rows     int
}

// group holds the comparisons of one shadow and operation: of its heads, or of its
// bodies, which cannot always be compared.
type group struct {
	operation string
	shadow    int
	compared  uint64
	of        uint64 // of these, with the noise known
	rows      map[string]*row
	slot      int64
	n         float64 // in the open slot
	slots     int     // closed
	sumN      float64
	sumNN     float64
	waiting   []*row // that have counts in the open slot
}

// row is one place of a group. only and never count requests with known noise: those
// at which only the candidate differs, and those at which only control and primary
// do.
type row struct {
	place       string
	raw         uint64
	only, never uint64
	d           float64 // only−never in the open slot
	waits       bool
	sumD        float64 // over closed slots
	sumDD       float64
	sumDN       float64

	first, latest *example
}

func (t *table) init(o *Options, control bool) {
	*t = table{o: o, control: control, names: map[string]string{}, groups: map[key]*group{}, skipped: map[string]uint64{}}
}

// Parts of a group.
const (
	heads  = "heads"
	bodies = "bodies"
)

func part(place string) string {
	if len(place) >= 4 && place[:4] == "body" {
		return bodies
	}
	return heads
}

func (t *table) group(shadow int, operation, part string) *group {
	k := key{shadow, operation, part}
	g := t.groups[k]
	if g == nil {
		// Two parts of each shadow, and the noise.
		if len(t.groups) >= t.o.Operations*2*(len(t.o.Shadows)+1) && operation != series.Other {
			return t.group(shadow, series.Other, part)
		}
		g = &group{operation: operation, shadow: shadow, rows: map[string]*row{}}
		t.groups[k] = g
	}
	return g
}

// row returns the row of a place, or nil if the table is full.
func (t *table) row(g *group, place string) *row {
	r := g.rows[place]
	if r != nil {
		return r
	}
	if t.rows >= t.o.Places {
		if place = otherPlaces[part(place)]; g.rows[place] != nil {
			return g.rows[place]
		}
		if t.rows >= 2*t.o.Places {
			t.skipped["places"]++
			return nil
		}
	}
	r = &row{place: place}
	g.rows[place] = r
	t.rows++
	return r
}

// add counts one exchange.
func (t *table) add(x *Exchange, noise *result, results []*result) {
	if noise != nil {
		t.addNoise(x, noise)
	}
	for i, r := range results {
		if r == nil {
			continue
		}
		t.compared++
		if r.skipped != "" {
			t.skipped[r.skipped]++
		}
		t.addPart(x, i, heads, r, noise)
		if r.body {
			known := noise
			if noise != nil && !noise.body {
				known = nil
			}
			t.addPart(x, i, bodies, r, known)
		}
	}
}

func (t *table) addNoise(x *Exchange, noise *result) {
	for _, p := range []string{heads, bodies} {
		if p == bodies && !noise.body {
			continue
		}
		g := t.group(noisy, x.Operation, p)
		g.compared++
		for _, f := range noise.places {
			if part(f.place) == p {
				if r := t.row(g, f.place); r != nil {
					r.raw++
				}
			}
		}
	}
}

// addPart counts a shadow's heads, or its bodies; noise is nil if not known.
func (t *table) addPart(x *Exchange, shadow int, p string, r, noise *result) {
	g := t.group(shadow, x.Operation, p)
	if slot := x.Time / slotNanos; slot > g.slot {
		g.close(slot)
	}
	g.compared++
	if noise != nil {
		g.of++
		g.n++
	}
	e := exampleMaker{t: t, x: x, r: r, shadow: shadow}
	for i := range r.places {
		f := &r.places[i]
		if part(f.place) != p {
			continue
		}
		row := t.row(g, f.place)
		if row == nil {
			continue
		}
		row.raw++
		if noise != nil && !noise.seen[f.place] {
			row.only++
			g.differ(row, 1)
		}
		e.offer(row, i)
	}
	if noise == nil {
		return
	}
	for _, f := range noise.places {
		if part(f.place) != p || r.seen[f.place] {
			continue
		}
		if row := t.row(g, f.place); row != nil {
			row.never++
			g.differ(row, -1)
		}
	}
}

func (g *group) differ(r *row, by float64) {
	r.d += by
	if !r.waits {
		r.waits = true
		g.waiting = append(g.waiting, r)
	}
}

// close adds the open slot to the sums and opens another. A request that comes later
// than its slot counts in the open one.
func (g *group) close(slot int64) {
	if g.n > 0 {
		g.slots++
		g.sumN += g.n
		g.sumNN += g.n * g.n
		for _, r := range g.waiting {
			r.sumD += r.d
			r.sumDD += r.d * r.d
			r.sumDN += r.d * g.n
			r.d, r.waits = 0, false
		}
		g.waiting = g.waiting[:0]
	}
	g.slot, g.n = slot, 0
}

// noiseOf returns how often control and primary differ at a place, and among how many
// requests.
func (t *table) noiseOf(operation, place string) (noise, of uint64) {
	g := t.groups[key{noisy, operation, part(place)}]
	if g == nil {
		return 0, 0
	}
	if r := g.rows[place]; r != nil {
		noise = r.raw
	}
	return noise, g.compared
}

// difference returns a row without its verdict.
func (t *table) difference(g *group, r *row) api.MirrorDifference {
	d := api.MirrorDifference{
		Shadow: t.o.Shadows[g.shadow].Name, Operation: g.operation, Place: r.place, Compared: g.compared, Raw: r.raw,
		Noise: api.Float(nan), P: api.Float(nan),
	}
	if t.control {
		var noise uint64
		noise, d.NoiseOf = t.noiseOf(g.operation, r.place)
		d.Noise = api.Float(noise)
	}
	return d
}
