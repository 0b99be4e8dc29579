package chstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/tier"
)

// metaKind is the kind of the log that holds what the store itself has to know: the
// writers, the tiers, the families, the forms of histograms, and the last epoch given. What
// is written together there holds together: a generation's commit is one row.
const metaKind = "meta"

// Keys of metaKind.
const (
	keyTiers                               = "tiers"
	keyEpochs                              = "epochs"
	keyCopy                                = "copy"   // of what a copy is being made; see OpenCopy
	keyCopied                              = "copied" // the copy that has ended
	keyDirect                              = "direct" // slots that no finer tier holds; of a copy
	prefixWriter, prefixFamily, prefixForm = "writer/", "family/", "form/"
)

// Every row that is inserted carries the number of the insertion that it came with: an
// epoch above bit 32, which one process has for one writer, and a count. No number is used
// twice, so a retried insertion never doubles rows: what counts is which numbers are
// committed. Roll-ups have epoch 0.
type putNumber = uint64

func numberOf(epoch, n uint32) putNumber { return uint64(epoch)<<32 | uint64(n) }

// putRange is the numbers from its first to its last. One number alone is written as it is,
// more as [first,last].
type putRange [2]putNumber

func (r putRange) MarshalJSON() ([]byte, error) {
	if r[0] == r[1] {
		return json.Marshal(r[0])
	}
	return json.Marshal([2]putNumber(r))
}

func (r *putRange) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[2]putNumber)(r))
	}
	err := json.Unmarshal(b, &r[0])
	r[1] = r[0]
	return err
}

// putNumbers is a set of numbers: ascending ranges. While ClickHouse is away hundreds fail one
// after the other.
type putNumbers []putRange

// with returns the set with more numbers. p is not changed.
func (p putNumbers) with(more ...putNumber) putNumbers {
	ranges := make([]putRange, len(more))
	for i, n := range more {
		ranges[i] = putRange{n, n}
	}
	return p.union(ranges...)
}

// union returns the set with more ranges. p is not changed.
func (p putNumbers) union(more ...putRange) putNumbers {
	all := slices.Concat(p, more)
	slices.SortFunc(all, func(a, b putRange) int { return cmp.Compare(a[0], b[0]) })
	var out putNumbers
	for _, r := range all {
		if k := len(out) - 1; k >= 0 && r[0] <= out[k][1]+1 {
			out[k][1] = max(out[k][1], r[1])
		} else {
			out = append(out, r)
		}
	}
	return out
}

func (p putNumbers) has(n putNumber) bool {
	i, found := slices.BinarySearchFunc(p, n, func(r putRange, n putNumber) int { return cmp.Compare(r[0], n) })
	return found || i > 0 && n <= p[i-1][1]
}

// epochMeta is what a process has committed for a writer: the numbers from 1 to Last, but
// those aborted or replaced.
type epochMeta struct {
	Number, Last uint32
}

// writerMeta is a writer's record.
type writerMeta struct {
	Flushed     uint64
	At          int64       `json:",omitempty"` // of the last commit or epoch, Unix seconds by that server's clock
	Epochs      []epochMeta // the last is the present one, unless Ended
	Ended       bool        `json:",omitempty"` // no process has an epoch
	Aborted     putNumbers  `json:",omitempty"` // failed, while a later one was committed
	Replaced    []putNumber `json:",omitempty"` // of generations put again: their points do not count any more
	First, Last int64       // range of the slots put, seconds; Last is exclusive
}

// tiersMeta is the record of the tiers.
type tiersMeta struct {
	// Ready is how far slots are being rolled up: what is put before it is added to the tier
	// by Put itself. Done is how far that has been finished; questions read the tier up to
	// it. Index 0 is not used.
	Ready, Done  [tier.Count]int64
	Floor        [tier.Count]int64 // slots that start before it have expired
	SampleFloor  int64             // Unix seconds: samples before it have expired
	TraceFloor   int64             // traces of partitions before it have expired
	Steps        uint32            // last step of roll-ups that is finished
	AbortedSteps putNumbers        `json:",omitempty"`
	Folded       putNumbers        `json:",omitempty"` // all of the epochs that are folded; see foldEpochs
	Beyond       putNumbers        `json:",omitempty"` // of them what was not committed
	Plan         *plan             `json:",omitempty"` // the step under way
}

// plan is a step of roll-ups that has begun.
type plan struct {
	Step uint32
	Seen visibility // what it adds up
}

// familyMeta is a family's record.
type familyMeta struct {
	Kind     series.Kind
	Interval int64                `json:",omitempty"`
	Dropped  store.SamplesDropped `json:",omitzero"`
}

// formMeta is the record of a form of histograms that is not one of the usual; see form.
type formMeta struct {
	Schema    int8
	Threshold float64   `json:",omitempty"`
	Bounds    []float64 `json:",omitempty"`
}

// meta is metaKind decoded, as of one moment. It is not changed.
type meta struct {
	revision uint64
	writers  map[string]*writerMeta
	tiers    tiersMeta
	epochs   uint32
	copyOf   string // the copy that is being made, empty for none
	copied   string // the one that has ended
	direct   []store.DirectSlots
	families map[string]familyMeta
	forms    map[uint64]formMeta
	of       map[string]uint64 // revisions by key
	visible  visibility
}

// metaCache holds the last meta, and what its values were decoded from.
type metaCache struct {
	mu   sync.Mutex
	last *meta
}

// readMeta returns what is committed now; of one answer, what was at a moment of it, with all
// that this process had committed by now.
func (s *Store) readMeta(ctx context.Context) (*meta, error) {
	l := s.log(metaKind)
	asked := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isRead(ctx, asked) {
		if err := s.readLog(ctx, l); err != nil {
			return nil, err
		}
	}
	return s.decodeMeta(l)
}

// answerMoment bounds how long the questions of one answer share a reading of the log.
const answerMoment = time.Second

// isRead reports whether a reading of the log serves a question of a moment: one that began
// after it, while the question waited, or after the answer that the question is a part of. The
// caller holds l.mu.
func (l *kindLog) isRead(ctx context.Context, asked time.Time) bool {
	if l.readAt.After(asked) {
		return true
	}
	began, ok := store.AnswerBegan(ctx)
	return ok && l.readAt.After(began) && asked.Sub(l.readAt) < answerMoment
}

// decodeMeta decodes what has been read. The caller holds l.mu.
func (s *Store) decodeMeta(l *kindLog) (*meta, error) {
	s.meta.mu.Lock()
	defer s.meta.mu.Unlock()
	old := s.meta.last
	if old != nil && old.revision == l.revision {
		return old, nil
	}
	m := &meta{revision: l.revision, writers: map[string]*writerMeta{}, families: map[string]familyMeta{}, forms: map[uint64]formMeta{}, of: map[string]uint64{}}
	for key, r := range l.records {
		m.of[key] = r.Revision
		same := old != nil && old.of[key] == r.Revision
		var err error
		switch {
		case key == keyTiers:
			err = json.Unmarshal(r.Value, &m.tiers)
		case key == keyEpochs:
			err = json.Unmarshal(r.Value, &m.epochs)
		case key == keyCopy:
			m.copyOf = string(r.Value)
		case key == keyCopied:
			m.copied = string(r.Value)
		case key == keyDirect:
			if same {
				m.direct = old.direct
				continue
			}
			err = json.Unmarshal(r.Value, &m.direct)
		case strings.HasPrefix(key, prefixWriter):
			w := key[len(prefixWriter):]
			if same {
				m.writers[w] = old.writers[w]
				continue
			}
			m.writers[w] = &writerMeta{}
			err = json.Unmarshal(r.Value, m.writers[w])
		case strings.HasPrefix(key, prefixFamily):
			f := key[len(prefixFamily):]
			if same {
				m.families[f] = old.families[f]
				continue
			}
			var x familyMeta
			err = json.Unmarshal(r.Value, &x)
			m.families[f] = x
		case strings.HasPrefix(key, prefixForm):
			var n uint64
			if _, err = fmt.Sscanf(key[len(prefixForm):], "%x", &n); err != nil {
				break
			}
			if same {
				m.forms[n] = old.forms[n]
				continue
			}
			var x formMeta
			err = json.Unmarshal(r.Value, &x)
			m.forms[n] = x
		}
		if err != nil {
			return nil, fmt.Errorf("record %s of the store: %w: %w", key, err, store.ErrCorrupt)
		}
	}
	m.visible = m.visibility()
	s.meta.last = m
	return m, nil
}

func encodeMeta(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	return string(b)
}

// visibility is the set of numbers whose rows count.
type visibility struct {
	Last     map[uint32]uint32 // by epoch: numbers from 1 to it
	Folded   putNumbers        `json:",omitempty"` // and these
	Aborted  putNumbers        `json:",omitempty"` // but these
	Replaced []putNumber       `json:",omitempty"` // and, of points, these
}

func (m *meta) visibility() visibility {
	v := visibility{Last: map[uint32]uint32{}, Folded: m.tiers.Folded}
	if m.tiers.Steps > 0 {
		v.Last[0] = m.tiers.Steps
	}
	aborted := slices.Concat(m.tiers.AbortedSteps, m.tiers.Beyond)
	for _, name := range slices.Sorted(maps.Keys(m.writers)) {
		w := m.writers[name]
		for _, e := range w.Epochs {
			if e.Last > 0 {
				v.Last[e.Number] = e.Last
			}
		}
		aborted = append(aborted, w.Aborted...)
		v.Replaced = append(v.Replaced, w.Replaced...)
	}
	v.Aborted = aborted.with()
	slices.Sort(v.Replaced)
	return v
}

// rows returns the condition on the column put of rows that count. points excludes rows
// whose generation was put again.
func (v *visibility) rows(points bool) string {
	if len(v.Last)+len(v.Folded) == 0 {
		return "0"
	}
	epochs := slices.Sorted(maps.Keys(v.Last))
	lasts := make([]uint32, len(epochs))
	for i, e := range epochs {
		lasts[i] = v.Last[e]
	}
	c := "bitAnd(put, 4294967295) <= transform(bitShiftRight(put, 32), CAST([" + list(epochs) + "], 'Array(UInt64)'), CAST([" + list(lasts) + "], 'Array(UInt64)'), toUInt64(0))"
	for _, r := range v.Folded {
		c += fmt.Sprintf(" OR put >= %d AND put <= %d", r[0], r[1])
	}
	if len(v.Folded) > 0 {
		c = "(" + c + ")"
	}
	var not []putNumber
	for _, r := range v.Aborted {
		if r[0] == r[1] {
			not = append(not, r[0])
		} else {
			c += fmt.Sprintf(" AND NOT (put >= %d AND put <= %d)", r[0], r[1])
		}
	}
	if points {
		not = append(not, v.Replaced...)
	}
	if len(not) > 0 {
		c += " AND put NOT IN (" + list(not) + ")"
	}
	return "(" + c + ")"
}

// has reports whether a number counts.
func (v *visibility) has(n putNumber) bool {
	if uint32(n) > v.Last[uint32(n>>32)] && !v.Folded.has(n) {
		return false
	}
	_, replaced := slices.BinarySearch(v.Replaced, n)
	return !v.Aborted.has(n) && !replaced
}

// extent returns the range of slots that were ever put, on the hour; first >= last if none
// were.
func (m *meta) extent() (first, last int64) {
	first, last = math.MaxInt64, math.MinInt64
	for _, w := range m.writers {
		if w.First < w.Last {
			first, last = min(first, w.First), max(last, w.Last)
		}
	}
	if first >= last {
		return 0, 0
	}
	hour := int64(series.Hour)
	return tier.Floor(first, hour), tier.Ceil(last, hour)
}

// horizon returns which slots questions about a family in a view read.
func (m *meta) horizon(family string, view series.View) *tier.Horizon {
	h := &tier.Horizon{Floor: m.tiers.Floor, Ready: m.tiers.Done}
	var direct [tier.Count][]store.DirectSlots // a question asks of each slot
	any := false
	for _, d := range m.direct {
		if d.Family == "" || d.Family == family && d.View == view {
			direct[d.Tier], any = append(direct[d.Tier], d), true
		}
	}
	if any {
		h.Direct = func(k int, t int64) bool {
			return slices.ContainsFunc(direct[k], func(d store.DirectSlots) bool { return t >= d.From && t < d.To })
		}
	}
	return h
}

// flushed returns the highest generation of a writer that is committed, or 0.
func (m *meta) flushed(writer string) uint64 {
	if w := m.writers[writer]; w != nil {
		return w.Flushed
	}
	return 0
}

// Flushed returns the highest generation that a writer has put, or 0.
func (s *Store) Flushed(ctx context.Context, writer string) (uint64, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	m, err := s.readMeta(ctx)
	if err != nil {
		return 0, fmt.Errorf("generation of %s: %w", writer, err)
	}
	return m.flushed(writer), nil
}

// Durable is Flushed: ClickHouse has no log of its own before its parts. How a crash of its
// machine treats the newest parts is its operator's choice; see docs/clickhouse.md.
func (s *Store) Durable(ctx context.Context, writer string) (uint64, error) {
	return s.Flushed(ctx, writer)
}

// Families lists the families, by name.
func (s *Store) Families(ctx context.Context) ([]store.FamilyInfo, error) {
	done, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := s.readMeta(ctx)
	if err != nil {
		return nil, fmt.Errorf("families: %w", err)
	}
	var out []store.FamilyInfo
	for _, name := range slices.Sorted(maps.Keys(m.families)) {
		f := m.families[name]
		d := f.Dropped
		if floor := m.tiers.SampleFloor; floor > 0 {
			d = store.SamplesDropped{Times: d.Times + uint64(floor/3600), Until: max(d.Until, floor)}
		}
		out = append(out, store.FamilyInfo{Name: name, Kind: f.Kind, IntervalSeconds: f.Interval, Dropped: d})
	}
	return out, nil
}
