package compare

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/seconds"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/stat"
)

// Stretches are the requests of a range, read once, of which any two stretches
// can be compared. They may be used by many goroutines at once.
type Stretches struct {
	request  Request
	st       store.Store
	all      *side
	occupied []bool // slots in which anything at all was measured
	parts    []Part
	several  map[string]bool // services whose environments are parts of their own
	followed map[string][]string
	left     map[Part][]Stretch // see Leave
	ofRate   map[Part][]Stretch // see LeaveRate
}

// Part is a service as a whole, or one of its operations.
type Part struct {
	Service     string
	Environment string // empty if the service has one only
	Operation   string
	Own         bool // of the operation alone, which may have no name
	Requests    uint64
	Effective   float64 // independent requests that say as much
}

// Stretch is slots [From, To) of the range, counted from its beginning.
type Stretch struct{ From, To int }

// Spike is slots in which much more of a part's requests were slow, or failed, than in
// the others, and after which they were as before.
type Spike struct {
	Stretch
	P     float64 // of a spike as clear in any slots of the part, where there is none
	Shape api.Shape
}

// Found is what two stretches of a part differ by.
type Found struct {
	Verdict  judge.Verdict // as of a comparison
	Sentence string
	Measures []api.CompareMeasure
	// Rate compares requests a second; it is not among the measures.
	Rate api.CompareMeasure
	// Shape says that what changed did so in a step, or along a line through both, or as
	// it does on other days; nil if none is plainly so.
	Shape *api.Shape
	// Mix says that the requests are of other operations or tenants than before, beyond
	// what chance would move or so that it explains a measure; nil if they are not.
	Mix *Mix
	// Seconds is the length of the newest stretch, where it was compared in slots of one
	// second; else 0.
	Seconds int64
}

// Slots returns the length in seconds of the slots in which Read reads the range of r, if they
// are kept, and the range up to the last slot that is complete.
func Slots(r Request) (step int64, of Window, err error) {
	c := &comparison{Request: r}
	return c.slots()
}

func (c *comparison) slots() (step int64, of Window, err error) {
	of = Window{c.Start, c.atLatest(c.End)}
	if !of.End.After(of.Start) {
		return 0, of, query.Invalid("end", "end is not after start; write a later end or an earlier start")
	}
	if of.Start.Unix() < 0 {
		return 0, of, query.Invalid("start", "start is before 1970; write a later time, such as now-6h")
	}
	if step, err = slotLength(of.End.Unix() - of.Start.Unix()); err != nil {
		return 0, of, query.Invalid("start", "a range of %d days is longer than the longest that can be searched, %d; write a later start",
			(of.End.Unix()-of.Start.Unix())/86400, slotLengths[len(slotLengths)-1]*mostSlots/86400)
	}
	step = max(step, c.Step)
	if at := inward(of, step); at.end <= at.start {
		return 0, of, query.Invalid("end", "the range does not hold a slot of %d s; write a longer one", step)
	}
	return step, of, nil
}

// Read reads the requests of a selection in slots of the length that a side of
// the same range has, Step at least. Of r it takes the selection, Now, the level, the margin,
// the measures, and as Limit how many operations are told apart where there are
// so many that all of them would be too much: those with the most requests. The
// others of each service are then one stratum of it, and are no series of their own.
func Read(ctx context.Context, st store.Store, r Request) (*Stretches, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	c := &comparison{Request: r, st: st}
	step, w, err := c.slots()
	if err != nil {
		return nil, err
	}
	for {
		at := inward(w, step)
		if at.end <= at.start {
			return nil, query.Invalid("end", "the range does not hold a slot of %d s; write a longer one", step)
		}
		counted, err := c.count(ctx, at, step)
		if err != nil {
			return nil, err
		}
		var all *side
		few := counted.points((at.end-at.start)/step) <= manyPoints
		if few {
			all, err = c.read(ctx, at, step)
		}
		if !few || errors.Is(err, store.ErrTooMany) {
			apart := counted.heaviest(c.Limit)
			if long := counted.longer(at, step, len(apart)+len(counted.services)); long > step {
				step = long
				at = inward(w, step)
			}
			all, err = c.readSome(ctx, at, step, apart)
		}
		if err != nil {
			return nil, err
		}
		if all.step <= step {
			occupied, err := query.Occupied(ctx, st, all.start, all.end, all.step)
			if err != nil {
				return nil, err
			}
			return &Stretches{request: r, st: st, all: all, occupied: occupied, parts: counted.parts(), several: c.environments, followed: c.followed}, nil
		}
		step = all.step // only longer slots are kept
	}
}

// Parts are the services, then all operations, each the heaviest first. The
// first operations that have a name, as many as the limit of Read, have a series.
func (s *Stretches) Parts() []Part { return s.parts }

// Slots is how many slots the range has, and Step how long each is, in seconds.
func (s *Stretches) Slots() int  { return s.all.slots() }
func (s *Stretches) Step() int64 { return s.all.step }

// Start is the beginning of slot i, Unix seconds.
func (s *Stretches) Start(i int) int64 { return s.all.start + int64(i)*s.all.step }

// of are the strata of a part.
func (s *Stretches) of(p Part) []operation {
	var names []operation
	for name := range s.all.strata {
		if name.service == p.Service && name.environment == p.Environment && (!p.Own || name.operation == p.Operation && name.cohort != together) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y operation) int {
		return cmp.Or(cmp.Compare(x.operation, y.operation), cmp.Compare(x.cohort, y.cohort))
	})
	return names
}

// Series is the durations of a part's requests, failed ones too, in the slots
// that have any; at says which those are.
func (s *Stretches) Series(p Part) (of *stat.Series, at []int, err error) {
	names := s.of(p)
	var all []*hist.Histogram
	for i := range s.all.slots() {
		if s.IsLeft(p, i) {
			continue
		}
		var sum *hist.Histogram
		owned := false // a sum of several, ours to add to
		for _, name := range names {
			x := s.all.strata[name]
			for _, h := range []*hist.Histogram{x.good[i], x.failed[i]} {
				switch {
				case h == nil:
				case sum == nil:
					sum = h
				default:
					if !owned {
						sum, owned = sum.Clone(), true
					}
					if err := sum.Merge(h); err != nil {
						return nil, nil, err
					}
				}
			}
		}
		if sum != nil {
			all, at = append(all, sum), append(at, i)
		}
	}
	of, err = stat.NewSeries(all)
	return of, at, err
}

// Tallies returns the failed requests of a part among all, and its requests a second. A
// part has a rate from its first slot with requests on, but in slots in which no service
// has requests, and in the first if it began there, which is partly filled. So a part that
// stops has a rate of 0 while others go on.
func (s *Stretches) Tallies(p Part) (errors, rate stat.Tally) {
	n := s.all.slots()
	tally := func() stat.Tally { return stat.Tally{Num: make([]float64, n), Den: make([]float64, n)} }
	errors, rate = tally(), tally()
	errors.Each = make([]float64, n)
	rate.Each = errors.Each
	first := n
	names := s.of(p)
	for i := range n {
		seen := 0.0
		for _, name := range names {
			x := s.all.strata[name]
			failed := float64(count(x.failed[i]))
			errors.Num[i] += failed
			squares := moment(x.failed[i])
			errors.NumSquares += squares.SquaredWeights()
			squares.Merge(moment(x.good[i]))
			seen += squares.SquaredWeights()
			errors.Den[i] += failed + float64(count(x.good[i]))
		}
		errors.DenSquares += seen
		if errors.Den[i] > 0 {
			errors.Each[i] = seen / errors.Den[i]
			first = min(first, i)
		}
	}
	rate.NumSquares = errors.DenSquares
	begun := first
	if first > 0 {
		begun++
	}
	for i := begun; i < n; i++ {
		if s.occupied[i] || errors.Den[i] > 0 {
			rate.Num[i], rate.Den[i] = errors.Den[i], float64(s.all.step)
		}
	}
	for i := range n {
		if s.IsLeft(p, i) {
			errors.Num[i], errors.Den[i] = 0, 0
		}
		if isIn(s.ofRate[p], i) {
			rate.Num[i], rate.Den[i] = 0, 0
		}
	}
	return errors, rate
}

// rate compares the requests a second of a part in two stretches.
func (s *Stretches) rate(c *comparison, p Part, a, b Stretch) (api.CompareMeasure, error) {
	_, rate := s.Tallies(p)
	of := func(w Stretch) []stat.Tally {
		return []stat.Tally{{Num: rate.Num[w.From:w.To], Den: rate.Den[w.From:w.To]}}
	}
	m := ratioMeasure(judge.Rate)
	m.Sense = judge.NeitherIsBetter
	out, _, err := c.judged(m, &strata{ratesA: of(a), ratesB: of(b)}, nil, c.of)
	out.Adjusted = out.Raw.P
	return out, err
}

// By returns the same stretches, compared by other measures.
func (s *Stretches) By(measures []string) *Stretches {
	out := *s
	out.request.Measures = measures
	return &out
}

// Compare judges what differs between stretch b of a part and stretch a, as a comparison
// of two windows does: operations, and the heaviest tenants, are held in the same shares.
func (s *Stretches) Compare(ctx context.Context, p Part, a, b Stretch) (*Found, error) {
	c := &comparison{Request: s.request, st: s.st, step: s.all.step, a: s.cut(p, a), b: s.cut(p, b)}
	c.opts, c.unit = stat.Options{Level: c.Level}, "seconds"
	c.of = s.Subject(p)
	c.fineA, c.fineB = c.a, c.b
	c.out = &api.CompareResponse{Of: c.of, Warnings: []api.CompareWarning{}}
	whole, err := c.strata(c.a, c.b)
	if err != nil {
		return nil, err
	}
	if p.Own {
		whole.mix = nil // it is one stratum
	}
	like, err := s.ofTenants(ctx, c, p, whole)
	if err != nil {
		return nil, err
	}
	if err := c.judge(whole, like); err != nil {
		return nil, err
	}
	c.conclude()
	if c.whole = whole; judge.Moved(c.out.Verdict) {
		c.nameLasting()
	}
	found := &Found{Verdict: c.out.Verdict, Sentence: c.out.Sentence, Measures: c.out.Measures}
	if len(c.out.Shapes) > 0 {
		found.Shape = &c.out.Shapes[0]
	}
	if found.Rate, err = s.rate(c, p, a, b); err != nil {
		return nil, err
	}
	found.Mix = c.mixOf(p)
	return found, nil
}

// Shorter compares as Compare does where the slots of the range are too few for it: in those
// of ten seconds that adjoin the moment, or in those of one second, where the ring has them
// and is not nil. It returns nil if they say no more.
func (s *Stretches) Shorter(ctx context.Context, p Part, a, b Stretch, ring *seconds.Ring) (*Found, error) {
	end := time.Unix(s.Start(a.To), 0)
	r := s.request
	r.Matchers, r.Measures = s.Matchers(p), append(slices.Clip(r.Measures), judge.Rate)
	r.A = Window{time.Unix(max(s.Start(a.From), end.Unix()-sideSlots*int64(series.Base)), 0), end}
	r.B = Window{time.Unix(s.Start(b.From), 0), time.Unix(min(s.Start(b.To), s.Start(b.From)+sideSlots*int64(series.Base)), 0)}
	r.Start, r.End, r.brief = time.Time{}, time.Time{}, true
	if s.all.step > int64(series.Base) {
		c := &comparison{Request: r, given: r.Matchers, st: s.st, left: s.spans(s.left[p])}
		if found, err := c.foundOf(ctx, p); found != nil || err != nil {
			return found, err
		}
	}
	if ring == nil || r.Now.IsZero() || s.Start(b.To) < s.all.end {
		return nil, nil
	}
	r.B.End = r.Now
	sideA, sideB, why := SecondsOf(ring, p.Service, r.A, r.B, r.Now)
	if why != "" {
		return nil, nil
	}
	c := &comparison{Request: InSeconds(r, ring, sideA, sideB), given: r.Matchers, st: s.st}
	found, err := c.foundOf(ctx, p)
	if found == nil || !judge.Moved(found.Verdict) && !judge.Moved(found.Rate.Verdict) {
		return nil, err
	}
	found.Seconds = c.b.end - c.b.start
	return found, nil
}

// foundOf returns what a comparison of a part finds; nil if it cannot be made, or has too little.
func (c *comparison) foundOf(ctx context.Context, p Part) (*Found, error) {
	err := c.compare(ctx)
	var refused *query.Error
	switch {
	case errors.As(err, &refused) && ctx.Err() == nil, errors.Is(err, store.ErrTooMany):
		return nil, nil
	case err != nil:
		return nil, err
	case c.out.Verdict == judge.TooLittle:
		return nil, nil
	}
	out := &Found{Verdict: c.out.Verdict, Sentence: c.out.Sentence, Mix: c.mixOf(p)}
	for _, m := range c.out.Measures {
		if m.Name == judge.Rate {
			out.Rate = m
		} else {
			out.Measures = append(out.Measures, m)
		}
	}
	return out, nil
}

// ofTenants returns the strata of both sides by operation and tenant: whole, which are
// those by operation, where tenants are not told apart or are too many to be read.
func (s *Stretches) ofTenants(ctx context.Context, c *comparison, p Part, whole *strata) (*strata, error) {
	together := func(side *side) bool { // operations that are too many as well
		for name := range side.strata {
			if name.cohort == together {
				return true
			}
		}
		return false
	}
	if together(c.a) || together(c.b) {
		return whole, nil
	}
	c.Matchers, c.left = s.Matchers(p), s.spans(s.left[p])
	err := c.onlyRequests(ctx, []where{c.a.where(), c.b.where()})
	if err == nil {
		err = c.cohorts(ctx)
	}
	switch {
	case errors.Is(err, store.ErrTooMany):
		return whole, nil
	case err != nil:
		return nil, err
	case c.fineA == c.a:
		return whole, nil
	}
	return c.strata(c.fineA, c.fineB)
}

// mixOf returns how the mix of a part moved, see Found.
func (c *comparison) mixOf(p Part) *Mix {
	mix := c.mix()
	if mix != nil && p.Own {
		mix.Of = "tenants"
	}
	return mix
}

// cut is a part's side of a stretch.
func (s *Stretches) cut(p Part, w Stretch) *side {
	out := &side{span: s.all.span, step: s.all.step, strata: map[operation]*stratum{}}
	for _, name := range s.of(p) {
		out.strata[name] = s.all.strata[name]
	}
	out.cut(w.From, w.To) // makes strata of its own
	out.leave(s.spans(s.left[p]))
	return out
}

// spans are stretches in Unix seconds.
func (s *Stretches) spans(of []Stretch) []span {
	out := make([]span, len(of))
	for i, w := range of {
		out[i] = span{s.Start(w.From), s.Start(w.To)}
	}
	return out
}

// mostSpikes bounds the spikes that are looked for in a part.
const mostSpikes = 8

// Spikes finds the spikes in a stretch of a part that are shorter than so many slots, the
// clearest first, as a comparison of a range does. Alpha is the probability of a first one where
// there is none. Quiet are the durations of a stretch without spikes, in all of its slots; else nil.
func (s *Stretches) Spikes(p Part, in Stretch, shorter int, alpha float64) (out []Spike, quiet *stat.Series, err error) {
	c := &comparison{Request: s.request, st: s.st, step: s.all.step, unit: "seconds", of: s.Subject(p)}
	of := s.cut(p, in)
	var seen []span
	for range mostSpikes {
		if len(of.strata) == 0 {
			break
		}
		col, err := c.column(of, namesOf(of, of))
		if err != nil {
			return nil, nil, err
		}
		shape, prob, err := c.spikeIn(of, namesOf(of, of), col, stat.SpikeOptions{Alpha: alpha})
		if err != nil {
			return nil, nil, err
		}
		if shape == nil {
			if len(seen) == 0 {
				quiet = col.series
			}
			break
		}
		// What one spike hides is seen without its slots, short or long.
		seen = append(seen, span{shape.Start, shape.End})
		of.leave(seen)
		at := Stretch{int((shape.Start - s.all.start) / s.all.step), int((shape.End - s.all.start) / s.all.step)}
		// What adjoins a clearer one is the rest of it.
		if i := slices.IndexFunc(out, func(x Spike) bool { return x.From == at.To || x.To == at.From }); i >= 0 {
			x := &out[i]
			x.From, x.To = min(x.From, at.From), max(x.To, at.To)
			x.Shape.Start, x.Shape.End = s.Start(x.From), s.Start(x.To)
			continue
		}
		out = append(out, Spike{at, prob, *shape})
	}
	return slices.DeleteFunc(out, func(x Spike) bool { return x.To-x.From >= shorter }), quiet, nil
}

// Leave leaves slots of a part out of its series and errors, and of what is compared of it,
// from then on. It must not be called while s is used otherwise, nor must LeaveRate.
func (s *Stretches) Leave(p Part, at ...Stretch) {
	if s.left == nil {
		s.left = map[Part][]Stretch{}
	}
	s.left[p] = append(s.left[p], at...)
}

// LeaveRate leaves slots of a part out of its rate.
func (s *Stretches) LeaveRate(p Part, at ...Stretch) {
	if s.ofRate == nil {
		s.ofRate = map[Part][]Stretch{}
	}
	s.ofRate[p] = append(s.ofRate[p], at...)
}

// IsLeft reports whether a slot is left out of a part.
func (s *Stretches) IsLeft(p Part, slot int) bool { return isIn(s.left[p], slot) }

func isIn(all []Stretch, slot int) bool {
	return slices.ContainsFunc(all, func(w Stretch) bool { return w.From <= slot && slot < w.To })
}

// Environments reports whether a service has several, so that each is searched.
func (s *Stretches) Environments(service string) bool { return s.several[service] }

// Subject names the requests of a part, as sentences do.
func (s *Stretches) Subject(p Part) string {
	c := &comparison{Request: s.request}
	c.Matchers = slices.DeleteFunc(s.Matchers(p), func(m *labels.Matcher) bool {
		return !p.Own && m.Name == series.LabelOperation
	})
	return c.subject()
}

// Followed returns the environments, in order of time, of services that have several one
// after the other; each such service is one part.
func (s *Stretches) Followed() map[string][]string { return s.followed }

// Matchers selects the requests of a part.
func (s *Stretches) Matchers(p Part) []*labels.Matcher {
	return p.Select(s.request.Matchers, s.several[p.Service])
}

// Select returns the matchers of what is of a part, among what was asked for. Several says
// that the environments of its service are parts of their own.
func (p Part) Select(asked []*labels.Matcher, several bool) []*labels.Matcher {
	out := slices.DeleteFunc(slices.Clone(asked), func(m *labels.Matcher) bool {
		return m.Name == series.LabelService && p.Service != "" || p.Own && m.Name == series.LabelOperation || several && m.Name == series.LabelEnvironment
	})
	if p.Service != "" { // a metric may be of none
		out = append(out, labels.MustNewMatcher(labels.MatchEqual, series.LabelService, p.Service))
	}
	if several {
		out = append(out, query.InEnvironment(p.Environment))
	}
	if p.Own {
		out = append(out, labels.MustNewMatcher(labels.MatchEqual, series.LabelOperation, p.Operation))
	}
	return out
}

// CompareTally judges a ratio of two sums, of which less is better, between two stretches.
// Unit is seconds, or empty of a number.
func (s *Stretches) CompareTally(p Part, name, unit string, t stat.Tally, a, b Stretch) (api.CompareMeasure, error) {
	c := &comparison{Request: s.request, st: s.st, step: s.all.step, a: s.cut(p, a), b: s.cut(p, b)}
	c.opts = stat.Options{Level: c.Level}
	m := ratioMeasure(name)
	m.Unit = unit
	of := func(w Stretch) []stat.Tally { return []stat.Tally{{Num: t.Num[w.From:w.To], Den: t.Den[w.From:w.To]}} }
	out, _, err := c.judged(m, &strata{valuesA: of(a), valuesB: of(b)}, nil, "")
	out.Adjusted = out.Raw.P
	return out, err
}
