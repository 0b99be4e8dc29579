package query

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	// measuredColumns bounds the columns that are looked at for gaps.
	measuredColumns = 120
	// fewestOfNew is the least number of columns since the first request, of which the
	// first is a small part.
	fewestOfNew = 20
	// fewestInside is the least number of requests in whole slots by which those in the
	// others are turned into time.
	fewestInside = 20
	// bySeconds is the longest time, in seconds, that is read in slots of one second.
	bySeconds = 300
	// newFor is how long before a range, in seconds, a service without requests is new.
	newFor = 86400
)

// WholeUntil returns the moment, in Unix seconds, up to which the requests of a service are
// stored but for one in a thousand, by how late those of the last minute came. newest may be
// nil, and an empty service stands for all of them.
func WholeUntil(now time.Time, newest *seconds.Ring, service string) int64 {
	if newest != nil {
		for _, name := range []string{service, ""} { // a service that serves nobody is not kept in its first minute
			if ripe, ok := newest.Ripe(name); ok {
				return now.Unix() - ripe
			}
		}
	}
	return now.Add(-Whole).Unix()
}

// Measured tells in how many seconds of a range requests were measured, which is what a rate
// divides by. It counts neither gaps, in which no service has any request for five minutes,
// and for ten times as long as usual, nor the time before the first request of a service
// that had none on the day before. Of slots that are measured in part, which are the first
// of a service and the newest, it counts the share that their requests have of the rate in
// the others.
type Measured struct {
	measuring
	from, to int64
	now      time.Time // zero: all of the range is stored
	newest   *seconds.Ring
	past     *PastCache // nil: nothing is kept
	matchers []*labels.Matcher

	gaps  [][2]int64 // in time
	step  int64
	parts map[serviceIn]columns // of the services that matchers leave
	had   map[serviceIn]bool    // services with requests on the day before; nil: not read
}

// NewMeasured reads when requests were measured, of services that satisfy what matchers say
// of service and environment. newest may be nil.
func NewMeasured(ctx context.Context, st store.Store, matchers []*labels.Matcher, start, end, now time.Time, newest *seconds.Ring) (*Measured, error) {
	return newMeasured(ctx, st, matchers, start, end, now, newest, nil)
}

// newMeasured is NewMeasured with what past keeps; nil reads all of it.
func newMeasured(ctx context.Context, st store.Store, matchers []*labels.Matcher, start, end, now time.Time, newest *seconds.Ring, past *PastCache) (*Measured, error) {
	m := &Measured{measuring: measuring{ctx: ctx, st: st}, now: now, newest: newest, past: past}
	m.from, m.to = Base(start, end)
	for _, x := range matchers {
		if x.Name == series.LabelService || x.Name == series.LabelEnvironment {
			m.matchers = append(m.matchers, x)
		}
	}
	return m, m.readGaps()
}

// Seconds returns the time of the services that of selects; nil selects all.
func (m *Measured) Seconds(of func(service, environment string) bool) (float64, error) {
	var chosen []serviceIn
	for s := range m.parts {
		if of == nil || of(s.name, s.environment) {
			chosen = append(chosen, s)
		}
	}
	return m.seconds(chosen)
}

// secondsOf returns the time of one service.
func (m *Measured) secondsOf(s serviceIn) (float64, error) {
	if _, ok := m.parts[s]; !ok {
		return m.seconds(nil)
	}
	return m.seconds([]serviceIn{s})
}

// seconds returns the time of chosen services, of which all have requests.
func (m *Measured) seconds(chosen []serviceIn) (float64, error) {
	until := float64(m.to)
	if !m.now.IsZero() {
		until = min(until, float64(m.now.UnixNano())/1e9)
	}
	if len(chosen) == 0 {
		return max(1, m.lasts(float64(m.from), until)), nil
	}
	c := mergeColumns(m.parts, chosen, m.step)
	start := m.from
	isNew, err := m.isNew(c.starts[0], chosen)
	if err != nil {
		return 0, err
	}
	if isNew {
		if c, err = m.refine(c, chosen); err != nil {
			return 0, err
		}
		start = c.starts[0]
	}
	begun, whole, inside := float64(start), 0.0, 0.0
	known := start // from when on slots of one second are needed
	if isNew {
		known += c.step // the server may have started in the first slot
	}
	if seen, ok := m.inSeconds(chosen, start, known); ok {
		from := 0 // of what is measured as a whole
		if isNew {
			if from = slices.IndexFunc(seen, func(n float64) bool { return n > 0 }); from < 0 {
				from = len(seen)
			}
			begun = float64(start + int64(from))
			from++
		}
		if from < len(seen) {
			whole = m.lasts(float64(start+int64(from)), float64(start+int64(len(seen))))
			for _, n := range seen[from:] {
				inside += n
			}
		}
	} else {
		from, to := start, m.to
		if isNew {
			from += c.step
		}
		if w := m.wholeUntil(chosen); !m.now.IsZero() && w < to {
			to = c.starts[0] + (w-c.starts[0])/c.step*c.step
		}
		for i, at := range c.starts {
			if at >= from && at < to {
				inside += c.counts[i]
			}
		}
		whole = m.lasts(float64(from), float64(to))
	}
	elapsed := max(1, m.lasts(begun, until))
	if inside < fewestInside || !(whole > 0) {
		return elapsed, nil
	}
	return min(max(whole*c.requests()/inside, whole), max(elapsed, whole)), nil
}

// inSeconds returns the requests of services in slots of one second, from start to where
// they are whole; false if they are not all there from known on, or are too many.
func (m *Measured) inSeconds(of []serviceIn, start, known int64) ([]float64, bool) {
	if m.newest == nil || m.now.IsZero() {
		return nil, false
	}
	until := m.wholeUntil(of)
	if until <= start || until-start > bySeconds || until > m.to {
		return nil, false
	}
	out := make([]float64, until-start)
	for _, s := range of {
		if since, ok := m.newest.Since(s.name); !ok || since > known {
			return nil, false
		}
		for i, n := range m.newest.Counts(s.name, s.environment, start, until) {
			out[i] += n
		}
	}
	return out, true
}

// wholeUntil is that of the service that is stored last.
func (m *Measured) wholeUntil(of []serviceIn) int64 {
	out := int64(math.MaxInt64)
	for _, s := range of {
		out = min(out, WholeUntil(m.now, m.newest, s.name))
	}
	return out
}

// isNew reports whether services without requests before first, in the range, had none on
// the day before either.
func (m *Measured) isNew(first int64, of []serviceIn) (bool, error) {
	if first <= m.from {
		return false, nil
	}
	if m.had == nil {
		m.had = map[serviceIn]bool{}
		whole := series.Hour.Slot(m.from) // an hour that reaches into the range says nothing
		for _, r := range []struct{ from, to, step int64 }{{whole - newFor, whole, int64(series.Hour)}, {whole, m.from, int64(series.Base)}} {
			if r.from == r.to {
				continue
			}
			found, err := m.services(r.from, r.to, r.step)
			if err != nil {
				return false, err
			}
			for s := range found {
				m.had[s] = true
			}
		}
	}
	return !slices.ContainsFunc(of, func(s serviceIn) bool { return m.had[s] }), nil
}

// refine reads finer columns of new services while they have only a few.
func (m *Measured) refine(c columns, of []serviceIn) (columns, error) {
	for c.step > int64(series.Base) {
		first, last := c.starts[0], c.starts[len(c.starts)-1]+c.step
		if (last-first)/c.step >= fewestOfNew {
			break
		}
		step := stepFor(time.Unix(first, 0), time.Unix(last, 0), measuredColumns, int64(series.Base))
		found, err := m.services(first, last, step)
		if err != nil {
			return c, err
		}
		finer := mergeColumns(found, of, step)
		if len(finer.starts) == 0 || finer.step >= c.step {
			break // finer ones are not kept
		}
		c = finer
	}
	return c, nil
}

// lasts returns the seconds of [from, to) that are not in gaps.
func (m *Measured) lasts(from, to float64) float64 {
	out := max(0, to-from)
	for _, g := range m.gaps {
		out -= max(0, min(to, float64(g[1]))-max(from, float64(g[0])))
	}
	return out
}

// readGaps finds the gaps, and the columns of each service that matchers leave.
func (m *Measured) readGaps() error {
	first, last := m.from, m.to
	var every map[serviceIn]columns
	var c columns // of all of them
	finest := func() int64 {
		return stepFor(time.Unix(first, 0), time.Unix(last, 0), measuredColumns, int64(series.Base))
	}
	step := finest()
	for {
		var err error
		if every, err = m.every(first, last, step); err != nil {
			return err
		}
		if c = mergeColumns(every, slices.Collect(maps.Keys(every)), step); len(c.starts) == 0 {
			return nil
		}
		first, last = max(first, c.starts[0]), min(last, c.starts[len(c.starts)-1]+c.step)
		finer := finest()
		if finer >= step || c.step > step { // or finer ones are not kept
			break
		}
		step = finer
	}
	m.step, m.parts = c.step, every
	if c.step > step { // finer ones are not kept
		var err error
		if m.parts, err = m.services(first, last, c.step); err != nil {
			return err
		}
	}
	maps.DeleteFunc(m.parts, func(s serviceIn, _ columns) bool {
		return slices.ContainsFunc(m.matchers, func(x *labels.Matcher) bool {
			of := s.name
			if x.Name == series.LabelEnvironment {
				of = s.environment
			}
			return !x.Matches(of)
		})
	})
	gap := LongestWait(float64(last-first), len(c.starts))
	for i, start := range c.starts[1:] {
		if before := c.starts[i] + c.step; float64(start-before) > gap {
			m.gaps = append(m.gaps, [2]int64{before, start})
		}
	}
	if float64(first-m.from) > gap {
		edge, err := m.columns(first, min(first+c.step, m.to), int64(series.Base))
		if err != nil {
			return err
		}
		from := first
		if len(edge.starts) > 0 {
			from = max(first, edge.starts[0])
		}
		m.gaps = append(m.gaps, [2]int64{m.from, from})
	}
	if to := float64(m.to); len(c.starts) > 1 && min(to, m.present())-float64(last) > gap {
		edge, err := m.columns(max(first, last-c.step), last, int64(series.Base))
		if err != nil {
			return err
		}
		until := last
		if n := len(edge.starts); n > 0 {
			until = min(last, edge.starts[n-1]+edge.step)
		}
		m.gaps = append(m.gaps, [2]int64{until, m.to})
	}
	return nil
}

// present is now in Unix seconds.
func (m *Measured) present() float64 {
	if m.now.IsZero() {
		return math.Inf(1)
	}
	return float64(m.now.UnixNano()) / 1e9
}

// every returns the columns of each service; those that are past may be kept.
func (m *Measured) every(from, to, step int64) (map[serviceIn]columns, error) {
	before, cut, err := m.past.counts(m, from, to, step)
	if err != nil {
		return nil, err
	}
	out, err := m.byService(cut, to, step, nil)
	if err != nil {
		return nil, err
	}
	for s, c := range before {
		n := out[s]
		out[s] = columns{slices.Concat(c.starts, n.starts), slices.Concat(c.counts, n.counts), step}
	}
	return out, nil
}

// services returns the columns of each service that matchers leave.
func (m *Measured) services(from, to, step int64) (map[serviceIn]columns, error) {
	return m.byService(from, to, step, m.matchers)
}

func (m *measuring) byService(from, to, step int64, matchers []*labels.Matcher) (map[serviceIn]columns, error) {
	res, err := m.query(from, to, step, matchers, series.LabelService, series.LabelEnvironment)
	if err != nil {
		return nil, err
	}
	out := make(map[serviceIn]columns, len(res.Groups))
	for _, g := range res.Groups {
		c := columnsOf(res, step, g)
		if s := serviceInOf(g.Labels); len(c.starts) > 0 {
			out[s] = c
		}
	}
	return out, nil
}

type measuring struct {
	ctx context.Context
	st  store.Store
}

// columns are those of a range that hold requests, by their starts.
type columns struct {
	starts []int64
	counts []float64
	step   int64
}

func (c *columns) requests() (n float64) {
	for _, x := range c.counts {
		n += x
	}
	return n
}

func (m *measuring) query(from, to, step int64, matchers []*labels.Matcher, by ...string) (*store.Result, error) {
	return m.st.Query(m.ctx, store.Query{Family: series.SpanDuration, View: series.Total, Matchers: matchers, By: by, Measure: store.Moments, Schema: hist.DefaultSchema, Start: from, End: to, Step: step})
}

func (m *measuring) columns(from, to, step int64) (columns, error) {
	res, err := m.query(from, to, step, nil)
	if err != nil {
		return columns{}, err
	}
	return columnsOf(res, step, res.Groups...), nil
}

func columnsOf(res *store.Result, step int64, groups ...store.Group) columns {
	c := columns{step: max(step, int64(res.Resolution))}
	for _, g := range groups {
		for _, p := range g.Points {
			if p.Hist != nil && p.Hist.Count > 0 {
				c.starts = append(c.starts, p.Start)
				c.counts = append(c.counts, float64(p.Hist.Count))
			}
		}
	}
	return c
}

// mergeColumns adds the columns of services up.
func mergeColumns(parts map[serviceIn]columns, of []serviceIn, step int64) columns {
	if len(of) == 1 {
		c := parts[of[0]]
		c.step = max(step, c.step)
		return c
	}
	sums := map[int64]float64{}
	for _, s := range of {
		c := parts[s]
		step = max(step, c.step)
		for i, at := range c.starts {
			sums[at] += c.counts[i]
		}
	}
	out := columns{step: step}
	for at := range sums {
		out.starts = append(out.starts, at)
	}
	slices.Sort(out.starts)
	for _, at := range out.starts {
		out.counts = append(out.counts, sums[at])
	}
	return out
}
