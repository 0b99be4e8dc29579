package compare

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/judge"
	"tailscope/internal/query"
)

// span is a range of whole slots, Unix seconds.
type span struct{ start, end int64 }

// part says where slots of a side are read: n slots from the first on begin at
// start, Unix seconds. Parts of several days lie over each other.
type part struct {
	first, n int
	start    int64
}

// side is what was measured on one side.
type side struct {
	name string
	span // of several days, the last; of several windows, as long as they are together
	step int64
	// parts are where the slots are read; nil is the span itself.
	parts []part
	days  []span // of earlier days that slots were merged of
	// windows are those that the parts are of, one each, where a side is of several.
	windows []span
	busy    []bool // which of the days have anything
	left    []bool // slots that were left out; nil if none
	// gaps are where no service has requests, so that nothing was measured, and outages where
	// others have requests and this side has none, see findGaps.
	gaps, outages []span
	strata        map[operation]*stratum
}

// operation names a stratum. Cohort is that of tenants, empty where they are
// not told apart; tenant is one that is a stratum of its own, within its cohort. Of
// a family that is not of spans, operation holds the labels. Environment is empty where
// the environments of a service are taken together, or it has one.
type operation struct{ service, operation, cohort, tenant, environment string }

// wider returns the stratum that holds this one and others: all tenants of the
// cohort, then all of the operation, then all of the environment.
func (o operation) wider() operation {
	switch {
	case o.tenant != "":
		o.tenant = ""
	case o.cohort != "":
		o.cohort = ""
	case o.environment != "":
		o.operation = ""
	}
	return o
}

// title names an operation, or its service, and its environment if that is one of several.
func (o operation) title() string {
	title := cmp.Or(o.operation, o.service)
	if title == "" {
		return ""
	}
	return judge.Where(title, o.environment, "")
}

// stratum is an operation's requests, or whatever is measured, in each slot of
// a side.
type stratum struct {
	good, failed []*hist.Histogram // nil where there were none
	num, den     []float64         // instead, of numbers, see query.SlotGroup
	seen         hist.Moment       // of all observations; of samples only their number
	errors       uint64

	made  sync.Once // alone
	alone column    // of it by itself, which several rows need
	err   error
}

func (s *side) slots() int { return int((s.end - s.start) / s.step) }

func (s *side) places() []part {
	if s.parts != nil {
		return s.parts
	}
	return []part{{0, s.slots(), s.start}}
}

// seconds is how long each slot was measured, over all days that it is of.
func (s *side) seconds() []float64 {
	out := make([]float64, s.slots())
	for _, p := range s.places() {
		for i := p.first; i < p.first+p.n; i++ {
			out[i] += float64(s.step)
		}
		for _, g := range s.gaps {
			for i := max(0, (g.start-p.start)/s.step); i < min(int64(p.n), (g.end-p.start)/s.step); i++ {
				out[p.first+int(i)] -= float64(s.step)
			}
		}
	}
	for i, left := range s.left {
		if left {
			out[i] = 0
		}
	}
	return out
}

func (x *stratum) has(i int) bool {
	if x.den != nil {
		return x.den[i] > 0
	}
	return x.good[i] != nil || x.failed[i] != nil
}

func (s *side) has(i int) bool {
	for _, x := range s.strata {
		if x.has(i) {
			return true
		}
	}
	return false
}

// occupied is the slots with requests; first and last are -1 if there are none.
func (s *side) occupied() (n, first, last int) {
	first, last = -1, -1
	for i := range s.slots() {
		if s.has(i) {
			if first < 0 {
				first = i
			}
			n, last = n+1, i
		}
	}
	return n, first, last
}

func (s *side) total() (requests, errors uint64) {
	for _, x := range s.strata {
		requests, errors = requests+x.seen.Count, errors+x.errors
	}
	return requests, errors
}

// seen returns the moments of strata, of all if none is named.
func (s *side) seen(names ...operation) (m hist.Moment) {
	if names == nil {
		names = slices.Collect(maps.Keys(s.strata))
	}
	for _, name := range names {
		if x := s.strata[name]; x != nil {
			m.Merge(x.seen)
		}
	}
	return m
}

// effective returns how many independent requests say as much as those of strata, of all
// if none is named: fewer where requests stand for several.
func (s *side) effective(names ...operation) float64 {
	m := s.seen(names...)
	return m.Effective()
}

func (s *side) api() api.CompareSide {
	out := api.CompareSide{Range: api.Range{Start: s.start, End: s.end}, Name: s.name, Rate: api.Float(math.NaN())}
	out.Slots, _, _ = s.occupied()
	out.Requests, out.Errors = s.total()
	out.Effective = query.Effective(s.seen())
	long := 0.0
	for _, v := range s.seconds() {
		long += v
	}
	if long > 0 {
		out.Rate = api.Float(float64(out.Requests) / long)
	}
	for _, d := range s.days {
		out.Days = append(out.Days, api.Range{Start: d.start, End: d.end})
	}
	if out.Windows = s.apiWindows(); out.Windows != nil {
		out.End = s.windows[len(s.windows)-1].end
	}
	return out
}

// cut keeps slots [from, to).
func (s *side) cut(from, to int) {
	s.start, s.end = s.start+int64(from)*s.step, s.start+int64(to)*s.step
	var parts []part
	for _, p := range s.parts {
		first, last := max(p.first, from), min(p.first+p.n, to)
		if first < last {
			parts = append(parts, part{first - from, last - first, p.start + int64(first-p.first)*s.step})
		}
	}
	s.parts = parts
	if s.left != nil {
		s.left = s.left[from:to]
	}
	for name, x := range s.strata {
		y := &stratum{}
		if x.den != nil {
			y.num, y.den, y.seen = x.num[from:to], x.den[from:to], x.seen
			if !y.any() {
				delete(s.strata, name)
				continue
			}
			s.strata[name] = y
			continue
		}
		y.good, y.failed = x.good[from:to], x.failed[from:to]
		y.countAll()
		if s.strata[name] = y; y.seen.Count == 0 {
			delete(s.strata, name)
		}
	}
}

// countAll counts the observations of all slots anew.
func (x *stratum) countAll() {
	x.seen, x.errors = hist.Moment{}, 0
	for i := range x.good {
		x.seen.Merge(moment(x.good[i]))
		x.seen.Merge(moment(x.failed[i]))
		x.errors += count(x.failed[i])
	}
}

func (x *stratum) any() bool {
	for _, d := range x.den {
		if d > 0 {
			return true
		}
	}
	return false
}

func count(h *hist.Histogram) uint64 {
	if h == nil {
		return 0
	}
	return h.Count
}

func moment(h *hist.Histogram) (m hist.Moment) {
	if h != nil {
		m = h.Moment()
	}
	return m
}

func newSide(w span, step int64) *side {
	return &side{span: w, step: step, strata: map[operation]*stratum{}}
}

func (s *side) stratum(name operation, numbers bool) *stratum {
	x := s.strata[name]
	if x == nil {
		n := s.slots()
		if x = new(stratum); numbers {
			x.num, x.den = make([]float64, n), make([]float64, n)
		} else {
			x.good, x.failed = make([]*hist.Histogram, n), make([]*hist.Histogram, n)
		}
		s.strata[name] = x
	}
	return x
}

// add takes in a group of requests that begins at a slot, and keeps it.
func (s *side) add(name operation, first int, g *query.RequestGroup) error {
	x := s.stratum(name, false)
	for i := range g.Good {
		x.seen.Merge(g.Moment(i))
		x.errors += count(g.Failed[i])
		if err := errors.Join(mergeInto(&x.good[first+i], g.Good[i]), mergeInto(&x.failed[first+i], g.Failed[i])); err != nil {
			return err
		}
	}
	if x.seen.Count == 0 {
		delete(s.strata, name)
	}
	return nil
}

// found notes that a part has something in it.
func (s *side) found(p part) {
	if s.busy == nil {
		s.busy = make([]bool, len(s.days))
	}
	for i, d := range s.days {
		s.busy[i] = s.busy[i] || d.start <= p.start && p.start < d.end
	}
}

func mergeInto(to **hist.Histogram, h *hist.Histogram) error {
	switch {
	case h == nil || h.Count == 0:
		return nil
	case *to == nil:
		*to = h
		return nil
	}
	return (*to).Merge(h)
}
