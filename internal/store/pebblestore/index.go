package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// unit is the label index of one scope on one day: it numbers the series, densely and in
// order of arrival, and holds their labels by column, each value once. A matcher is
// tried once per distinct value, then a column of codes is scanned: some 146,000 series
// take a tenth of a millisecond, and there are no postings to build or keep.
//
// All tiers of a day share its unit, so rollups keep their numbers, and it expires with
// the last of them.
type unit struct {
	day   int64
	scope scope

	mu sync.RWMutex
	columns
	bytes int64 // estimate of the memory held

	// ids, by number plus one, and table map identities to numbers. They are nil until
	// the first Put into the unit, or the first read of series by identity.
	ids   []series.ID
	table series.Table // of numbers plus one

	brief bool      // it is made for one block of the index: see column.codes
	spare []*column // of a brief one, to be used

	making  sync.Mutex // held while ids are made; locked before mu
	lastPut uint64     // number of Puts before the last one of the unit; guarded by the store's write lock
}

// columns holds the kind and the labels of every series of a unit.
type columns struct {
	kinds []series.Kind // by number
	cols  []*column     // in order of name
}

// columnsNow returns the present columns, which can be read without a lock: what they
// hold never changes, and later series are appended behind it.
func (u *unit) columnsNow() *columns {
	u.mu.RLock()
	defer u.mu.RUnlock()
	out := &columns{kinds: u.kinds[:len(u.kinds):len(u.kinds)], cols: make([]*column, len(u.cols))}
	cols := make([]column, len(u.cols))
	for i, c := range u.cols {
		cols[i] = column{name: c.name, values: c.values[:len(c.values):len(c.values)], of: c.of.now()}
		out.cols[i] = &cols[i]
	}
	return out
}

// idBytes is the memory of a series in ids and table.
const idBytes = 32

// column holds one label of every series.
type column struct {
	name   string
	values []string          // by code; code 0 is the missing, empty value
	of     codes             // by number; series beyond its end lack the label
	codes  map[string]uint32 // of values; nil in a brief unit, where all values are of numbered tenants, until it is needed
	last   uint32            // the code set last: neighbours often have it too
}

func newUnit(day int64, sc scope) *unit { return &unit{day: day, scope: sc} }

func (c *column) code(number uint32) uint32 { return c.of.at(int(number)) }

// idOf returns the identity under which a unit numbers a series: unlike its ID it
// includes the kind, so that bytes of one kind are never read as another.
func idOf(s *series.Series, buf []byte) (series.ID, []byte) {
	id, buf := s.ID(buf)
	return withKind(id, s.Kind), buf
}

func withKind(id series.ID, k series.Kind) series.ID {
	id.Lo ^= uint64(k) * 0x9e3779b97f4a7c15
	return id
}

// column returns the column of a label, and creates it if it is new. The caller holds mu
// for writing.
func (u *unit) column(name string) *column { return u.cols[u.columnAt(name)] }

func (u *unit) columnAt(name string) int {
	i, ok := slices.BinarySearchFunc(u.cols, name, func(c *column, n string) int { return strings.Compare(c.name, n) })
	if !ok {
		// Capacity for the series to come, so that the many first ones of a new hour do
		// not copy each column over and over.
		u.cols = slices.Insert(u.cols, i, u.newColumn(name))
		u.bytes += 200
	}
	return i
}

func (u *unit) newColumn(name string) *column {
	if !u.brief {
		return &column{name: strings.Clone(name), values: []string{""}, codes: map[string]uint32{"": 0}, of: codes{narrow: make([]uint8, 0, cap(u.kinds))}}
	}
	k := len(u.spare)
	if k == 0 {
		return &column{name: name, values: []string{""}}
	}
	c := u.spare[k-1]
	u.spare = u.spare[:k-1]
	*c = column{name: name, values: c.values[:1], of: c.of.reset()}
	return c
}

func (u *columns) find(name string) *column {
	i, ok := slices.BinarySearchFunc(u.cols, name, func(c *column, n string) int { return strings.Compare(c.name, n) })
	if !ok {
		return nil
	}
	return u.cols[i]
}

// set sets the series' value of the label. The caller holds mu for writing.
func (u *unit) set(c *column, number uint32, value string) {
	code := c.last
	if c.values[code] != value {
		if c.codes == nil {
			c.codes = map[string]uint32{}
			for i, v := range c.values {
				c.codes[v] = uint32(i)
			}
		}
		var ok bool
		if code, ok = c.codes[value]; !ok {
			if !u.brief {
				value = strings.Clone(value)
			}
			code = uint32(len(c.values))
			c.values = append(c.values, value)
			c.codes[value] = code
			u.bytes += int64(len(value)) + 16 + 40
		}
		c.last = code
	}
	c.of.put(int(number), code)
}

// tenantCodes remembers the codes of a batch's tenants in one unit, so that a name is looked
// up once.
type tenantCodes struct {
	of   []uint64 // by number in the batch: the turn above bit 32, the code below
	turn uint32   // of the unit, from 1
}

// setTenant sets the series' label tenant. The caller holds mu for writing.
func (u *unit) setTenant(c *column, number uint32, s *newSeries, known *tenantCodes) {
	if s.number == 0 {
		u.set(c, number, s.tenant)
		return
	}
	for len(known.of) <= int(s.number) {
		known.of = append(known.of, 0)
	}
	at := &known.of[s.number]
	switch {
	case uint32(*at>>32) == known.turn:
		c.of.put(int(number), uint32(*at))
		return
	case c.codes == nil: // no value of the column is known by its text
		c.last = uint32(len(c.values))
		c.values = append(c.values, s.tenant)
		c.of.put(int(number), c.last)
	default:
		u.set(c, number, s.tenant)
	}
	*at = uint64(known.turn)<<32 | uint64(c.last)
}

// newSeries is a series to be numbered.
type newSeries struct {
	*series.Series
	tenant string // the value of its label tenant, if Labels lacks that
	number uint32 // of the tenant in its batch, from 1; 0 if it is not known
}

// coded holds the codes of a set of labels.
type coded struct {
	labels labels.Labels
	codes  []columnCode
}

type columnCode struct {
	column *column
	code   uint32
}

// add appends series; their numbers follow those already held.
func (u *unit) add(ss []newSeries, ids []series.ID) {
	u.addEach(len(ss), func(i int) newSeries { return ss[i] }, ids, &tenantCodes{})
}

// addEach is add of n series of one batch, whose tenants may be known already.
func (u *unit) addEach(n int, each func(int) newSeries, ids []series.ID, known *tenantCodes) {
	u.mu.Lock()
	defer u.mu.Unlock()
	known.turn++
	if u.ids != nil {
		u.ids = slices.Grow(u.ids, len(ids))
		u.table.Grow(len(ids))
	}
	u.kinds = slices.Grow(u.kinds, n)
	for _, c := range u.cols {
		c.of.grow(n)
	}
	// Labels that tenants share are looked up once.
	shared := map[uint64]*coded{}
	var c *coded
	var tenants *column
	for i := range n {
		s := each(i)
		number := uint32(len(u.kinds))
		u.kinds = append(u.kinds, s.Kind)
		u.bytes++
		if s.tenant == "" {
			u.setLabels(s.Labels, number)
		} else {
			var hash uint64
			if c == nil || !labels.Equal(c.labels, s.Labels) { // neighbours often have the same
				hash = s.Labels.Hash()
				c = shared[hash]
			}
			if c == nil || !labels.Equal(c.labels, s.Labels) {
				c = &coded{labels: s.Labels, codes: u.setLabels(s.Labels, number)}
				shared[hash] = c
			} else {
				for _, x := range c.codes {
					x.column.of.put(int(number), x.code)
				}
			}
			if tenants == nil {
				tenants = u.column(series.LabelTenant)
			}
			u.setTenant(tenants, number, &s, known)
		}
		if u.ids != nil {
			u.ids = append(u.ids, ids[i])
			u.table.Add(ids[i], number+1)
			u.bytes += idBytes
		}
	}
}

// setLabels sets the labels of a series, and returns their codes. The caller holds mu for
// writing.
func (u *unit) setLabels(ls labels.Labels, number uint32) (codes []columnCode) {
	at := 0 // the column of a label often follows that of the label before
	ls.Range(func(l labels.Label) {
		if l.Value != "" {
			if at >= len(u.cols) || u.cols[at].name != l.Name {
				at = u.columnAt(l.Name)
			}
			c := u.cols[at]
			u.set(c, number, l.Value)
			codes = append(codes, columnCode{c, c.code(number)})
			at++
		}
	})
	return codes
}

// held returns the memory of the unit, including its spare capacity. The caller holds
// mu.
func (u *unit) held() int64 {
	sum := u.bytes + int64(cap(u.kinds)-len(u.kinds))
	for _, c := range u.cols {
		sum += c.of.bytes()
	}
	if u.ids != nil {
		sum += int64(cap(u.ids))*16 + u.table.Bytes() - int64(len(u.ids))*idBytes
	}
	return sum
}

// writable makes ids. Nothing is added to a unit before it has returned.
func (u *unit) writable(family string) {
	u.making.Lock()
	defer u.making.Unlock()
	if u.ids != nil {
		return
	}
	ids := make([]series.ID, 1, len(u.kinds)+1)
	var table series.Table
	table.Grow(len(u.kinds))
	var buf []byte
	var b labels.ScratchBuilder
	for n := range u.kinds {
		s := series.Series{Family: family, View: u.scope.view(), Kind: u.kinds[n], Labels: u.labels(uint32(n), &b)}
		var id series.ID
		id, buf = idOf(&s, buf)
		ids = append(ids, id)
		table.Add(id, uint32(n)+1)
	}
	u.mu.Lock()
	u.ids, u.table = ids, table
	u.bytes += int64(len(ids)) * idBytes
	u.mu.Unlock()
}

// identified returns the numbers, ascending, of the number series with the identities,
// and the columns that hold them.
func (u *unit) identified(family string, ids []series.ID) (numbers []uint32, cols *columns) {
	u.writable(family)
	u.mu.RLock()
	for _, id := range ids {
		for _, k := range []series.Kind{series.Gauge, series.Counter} {
			if n := u.table.Find(u.ids, withKind(id, k)); n != 0 {
				numbers = append(numbers, n-1)
			}
		}
	}
	u.mu.RUnlock()
	slices.Sort(numbers)
	return slices.Compact(numbers), u.columnsNow()
}

// labels returns the labels of a series. The caller holds mu, or has columnsNow.
func (u *columns) labels(number uint32, b *labels.ScratchBuilder) labels.Labels {
	b.Reset()
	for _, c := range u.cols {
		if code := c.code(number); code != 0 {
			b.Add(c.name, c.values[code])
		}
	}
	return b.Labels()
}

// match returns which series the matchers select, by number. The caller has columnsNow
// and no lock: a regular expression may take seconds, is tried for each value, and must
// not delay Put. match ends with ctx.
func (u *columns) match(ctx context.Context, matchers []*labels.Matcher) ([]bool, error) {
	n := len(u.kinds)
	sel := make([]bool, n)
	for i := range sel {
		sel[i] = true
	}
	for _, m := range matchers {
		c := u.find(m.Name)
		if c == nil {
			if !m.Matches("") {
				return make([]bool, n), nil
			}
			continue
		}
		ok := make([]bool, len(c.values))
		all := true
		for code, v := range c.values {
			if code%64 == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			ok[code] = m.Matches(v)
			all = all && ok[code]
		}
		if all {
			continue
		}
		c.of.keep(sel, ok)
	}
	return sel, nil
}

// order returns the numbers in the order of labels that puts similar series next to each
// other in a run: service, component, kind, operation, status, then the rest by name
// with the tenant last.
func (u *unit) order() []uint32 {
	u.mu.RLock()
	defer u.mu.RUnlock()
	rank := map[string]int{
		series.LabelService: 1, series.LabelComponent: 2, series.LabelKind: 3, series.LabelOperation: 4,
		series.LabelStatus: 5, series.LabelVersion: 7, series.LabelVariant: 8, series.LabelInstance: 9, series.LabelTenant: 10,
	}
	cols := slices.Clone(u.cols)
	slices.SortStableFunc(cols, func(a, b *column) int {
		ra, rb := rank[a.name], rank[b.name]
		if ra == 0 {
			ra = 6
		}
		if rb == 0 {
			rb = 6
		}
		return ra - rb
	})
	// Codes in order of value, so that the sort compares integers.
	ranks := make([][]uint32, len(cols))
	for i, c := range cols {
		byValue := make([]uint32, len(c.values))
		for k := range byValue {
			byValue[k] = uint32(k)
		}
		slices.SortFunc(byValue, func(a, b uint32) int { return strings.Compare(c.values[a], c.values[b]) })
		ranks[i] = make([]uint32, len(c.values))
		for k, code := range byValue {
			ranks[i][code] = uint32(k)
		}
	}
	order := make([]uint32, len(u.kinds))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		for i, c := range cols {
			if d := int(ranks[i][c.code(a)]) - int(ranks[i][c.code(b)]); d != 0 {
				return d
			}
		}
		return int(a) - int(b)
	})
	return order
}

// groups returns, for the series in the given order, a number that changes where the
// next operation begins. The caller holds mu.
func (u *unit) groups(order []uint32) []uint32 {
	var cols []*column
	for _, name := range []string{series.LabelService, series.LabelComponent, series.LabelKind, series.LabelOperation} {
		if c := u.find(name); c != nil {
			cols = append(cols, c)
		}
	}
	out := make([]uint32, len(order))
	for i := 1; i < len(order); i++ {
		out[i] = out[i-1]
		for _, c := range cols {
			if c.code(order[i]) != c.code(order[i-1]) {
				out[i]++
				break
			}
		}
	}
	return out
}

// An index block holds series that came together:
//
//	format byte | count uvarint | kinds: count bytes, or 0xff and one for all
//	columns uvarint, each: name, values uvarint, the values, count codes (0 missing)
//
// Strings are length-prefixed. Codes are the block's own, so that each block
// stands alone; Pebble's compression takes care of what neighbours repeat.
const indexFormat = 1

func appendIndexBlock(dst []byte, ss []newSeries) []byte {
	var w indexWriter
	return w.append(dst, ss)
}

// indexWriter appends index blocks of the series of one batch, and reuses its memory.
type indexWriter struct {
	u     unit
	known tenantCodes
}

func (w *indexWriter) append(dst []byte, ss []newSeries) []byte {
	dst = append(dst, indexFormat)
	dst = binary.AppendUvarint(dst, uint64(len(ss)))
	same := true
	for _, s := range ss {
		same = same && s.Kind == ss[0].Kind
	}
	if same {
		dst = append(dst, 0xff, byte(ss[0].Kind))
	} else {
		for _, s := range ss {
			dst = append(dst, byte(s.Kind))
		}
	}
	u := &w.u
	u.brief = true
	u.spare = append(u.spare, u.cols...)
	u.cols, u.kinds = u.cols[:0], u.kinds[:0]
	u.addEach(len(ss), func(i int) newSeries { return ss[i] }, nil, &w.known)
	dst = binary.AppendUvarint(dst, uint64(len(u.cols)))
	for _, c := range u.cols {
		dst = appendString(dst, c.name)
		dst = binary.AppendUvarint(dst, uint64(len(c.values)-1))
		for _, v := range c.values[1:] {
			dst = appendString(dst, v)
		}
		for n := range ss {
			dst = binary.AppendUvarint(dst, uint64(c.code(uint32(n))))
		}
	}
	return dst
}

// load appends the series of a block that starts at number first.
func (u *unit) load(first uint32, value []byte) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if int(first) != len(u.kinds) {
		return fmt.Errorf("index block at series %d, expected %d: %w", first, len(u.kinds), store.ErrCorrupt)
	}
	r := reader{b: value}
	if f := r.byte(); r.err == nil && f != indexFormat {
		return fmt.Errorf("index block format %d: %w", f, store.ErrCorrupt)
	}
	n := r.count(0)
	kinds := make([]series.Kind, 0, min(n, 4096))
	if len(r.b) > 0 && r.b[0] == 0xff {
		r.byte()
		// A count is bounded by the codes that follow, except without labels.
		k := r.byte()
		if n > 1<<20 {
			return fmt.Errorf("index block of %d series: %w", n, store.ErrCorrupt)
		}
		for range n {
			kinds = append(kinds, series.Kind(k))
		}
	} else {
		for range r.atMost(n) {
			kinds = append(kinds, series.Kind(r.byte()))
		}
	}
	type loaded struct {
		name   string
		values []string
		codes  []uint32
	}
	var cols []loaded
	for range r.count(2) {
		l := loaded{name: r.string(), values: []string{""}}
		for range r.count(1) {
			l.values = append(l.values, r.string())
		}
		l.codes = make([]uint32, 0, min(n, len(r.b)))
		for range r.atMost(n) {
			code := r.uvarint()
			if code >= uint64(len(l.values)) {
				r.fail()
				break
			}
			l.codes = append(l.codes, uint32(code))
		}
		cols = append(cols, l)
	}
	if r.err != nil || len(r.b) != 0 || len(kinds) != n {
		return fmt.Errorf("index block of series %d: %w", first, store.ErrCorrupt)
	}
	for _, k := range kinds {
		if k > series.Counter {
			return fmt.Errorf("index block: kind %d: %w", k, store.ErrCorrupt)
		}
	}
	u.kinds = append(u.kinds, kinds...)
	u.bytes += int64(len(kinds))
	for _, l := range cols {
		c := u.column(l.name)
		for i, code := range l.codes {
			if code != 0 {
				u.set(c, first+uint32(i), l.values[code])
			}
		}
	}
	return nil
}
