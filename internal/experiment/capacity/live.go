package capacity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/hist"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
	"tailscope/internal/experiment/mirror"
)

// LiveOptions name the session whose live traffic is searched.
type LiveOptions struct {
	Objective objective.Objective
	// Unit is Copies, of each live request, Requests, that those make a second, or
	// Servers, of the candidate's pool.
	Unit string
	// Session is a session in this process. If it is nil the search is on session ID,
	// by Client's server; not with Requests.
	Session *mirror.Session
	Client  *client.Client
	ID      string
	// Timings reads the queueing times in the answers of Session; default none.
	Timings *AnswerTimings
	// Candidate is the shadow's name; default the only candidate.
	Candidate string
	Usage     Usage // of the candidate's processes
	// Quiet is the time without live requests after which the search gives up;
	// default 10 s.
	Quiet time.Duration
	Now   func() time.Time // time.Now if nil
}

// Live is a Holder of steps on live traffic: each is a number of copies of every live
// request, or of servers of the candidate's pool. The primary answers clients all the
// time.
type Live struct {
	t           traffic
	o           objective.Objective
	unit        string
	bounds      []float64 // of slots
	batches     *batcher
	quiet       time.Duration
	usage       Usage
	now         func() time.Time
	lastRequest time.Time // of a live request, last
	pauses      int       // without samples
	late        uint64    // copies of all steps
	ended       uint64
	timings     *queueing // nil: none
	events      []api.BenchEvent
}

// NewLive borrows a session. Restore gives it back as it was.
func NewLive(ctx context.Context, o LiveOptions) (*Live, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Quiet == 0 {
		o.Quiet = 10 * time.Second
	}
	var t traffic
	var err error
	if o.Session != nil {
		t, err = newSessionTraffic(o.Session, o.Candidate, o.Unit)
	} else {
		t, err = newFarTraffic(ctx, o.Client, o.ID, o.Candidate, o.Unit, o.Objective.Queries())
	}
	if err != nil {
		return nil, err
	}
	l := &Live{t: t, o: o.Objective, unit: o.Unit, bounds: DefaultBounds(), batches: newBatcher(o.Objective), quiet: o.Quiet, usage: o.Usage, now: o.Now, lastRequest: o.Now()}
	if s, ok := t.(*sessionTraffic); ok && o.Timings != nil {
		l.timings = o.Timings.listenTo(s.index)
	}
	return l, nil
}

// Check returns an error if a session in that state cannot be searched up to highest.
func (o *LiveOptions) Check(state *api.MirrorState, highest float64) error {
	i, err := candidateOf(state, o.Candidate)
	if err != nil {
		return err
	}
	if state.Mode == "tcp" {
		return errors.New("the session copies bytes, and knows of no requests (hint: run it without mirror.tcp)")
	}
	if o.Session == nil && o.Unit == Requests {
		return errors.New("how many copies make a rate is found out where the mirror runs (hint: search for copies, or leave --session out: then the mirror runs in this process)")
	}
	t := &state.Shadows[i]
	switch n := len(t.Servers); {
	case o.Unit == Copies && highest > mostCopies:
		return fmt.Errorf("%s copies of each request cannot be sent (hint: give up to %d)", search.Number(highest), mostCopies)
	case o.Unit == Servers && n < 2:
		return fmt.Errorf("the pool of %s has one server, of which none can be taken away (hint: give it more, or search for copies)", t.Name)
	case o.Unit == Servers && highest > float64(n):
		return fmt.Errorf("the pool of %s has %d servers, not %s", t.Name, n, search.Number(highest))
	}
	return nil
}

// Options sets the options of a search on live traffic: all except the bounds of the
// answer and the name.
func (l *Live) Options(o *Options) {
	t := l.t.shadow()
	o.Search.Objective, o.Search.Unit = l.o, l.unit
	o.Mode, o.Arrivals, o.Bounds, o.Now = "mirror", "live", l.bounds, l.now
	o.Events = func() []api.BenchEvent { return l.events }
	o.Warn = l.warnings
	o.Target = fmt.Sprintf("%s: %d servers", t.Name, len(t.Servers))
	if len(t.Servers) == 1 {
		o.Target = t.Servers[0].URL
	}
	if l.unit == Servers {
		o.Mode, o.Search.Integer, o.Search.Falling = "servers", true, true
	} else {
		o.Search.SettlingTime = l.t.settlingTime()
	}
}

// mostCopies bounds the copies of a request, as the mirror does.
const mostCopies = 255

// warnings returns what makes the answer less certain than it seems.
func (l *Live) warnings(c *api.Capacity) (out []api.CompareWarning) {
	least, most := math.Inf(1), 0.0
	for _, s := range c.Steps {
		rate := float64(s.Asked)
		switch l.unit {
		case Copies:
			rate /= float64(s.X)
		case Requests:
			continue // they were followed
		}
		if took := float64(s.End) - float64(s.Start); took >= 2 && rate > 0 {
			least, most = min(least, rate), max(most, rate)
		}
	}
	if most > 1.2*least {
		out = append(out, api.CompareWarning{Code: "moved", Text: fmt.Sprintf("live traffic moved between %s and %s requests/s from step to step: the answer is of what it was on the whole", search.Number(least), search.Number(most))})
	}
	if l.unit == Copies && c.Answer != nil && float64(c.Answer.Value) > 3 {
		out = append(out, api.CompareWarning{Code: "clustered", Text: "copies of one request come one after the other, and queues feel it: as much load by independent clients would wait a little less"})
	}
	if float64(l.late) > mostLate*float64(l.ended) {
		out = append(out, api.CompareWarning{Code: "late", Text: fmt.Sprintf("the mirror sent %d of %d copies more than 10 ms after they were due, which is in their latency (hint: give it a machine of its own)", l.late, l.ended)})
	}
	if l.pauses > 0 {
		out = append(out, api.CompareWarning{Code: "paused", Text: fmt.Sprintf("the mirror's machine had no time to look %d times; what happened then is left out (hint: run it where less else runs)", l.pauses)})
	}
	if w := l.t.within(); w > time.Second/2 {
		out = append(out, api.CompareWarning{Code: "slow_stop", Text: fmt.Sprintf("the session runs elsewhere: load that is too much is gone only after up to %v", w)})
	}
	return out
}

// Restore gives the session back, with its pool and copies as they were.
func (l *Live) Restore(ctx context.Context) error {
	return errors.Join(l.t.rest(ctx), l.t.close(ctx))
}

// errQuiet says that nobody sends anything that could be copied.
var errQuiet = errors.New("no live requests came: nothing can be searched for (hint: have clients connect to the mirror's address first)")

// Hold implements Holder.
func (l *Live) Hold(ctx context.Context, st search.Step, w *search.Watch, report func(*api.CapacityStep)) (*api.CapacityStep, search.Outcome, error) {
	began := l.now()
	step := &api.CapacityStep{
		Phase: st.Phase, X: api.Float(st.X), Kept: search.Unclear, Valid: true,
		Asked: none, Queued: none, CPU: none, StoppedAfter: none,
		Generator: api.BenchGenerator{CPUSeconds: none, CPUPerRequest: none, Cores: none, Busiest: none, Host: none, Delayed: none,
			Late: tally.Latency(nil, false), Blocked: tally.Latency(nil, false)},
	}
	p := pause{most: l.t.every() * 5 / 2}
	outcome := func() search.Outcome {
		out := search.Outcome{Took: l.now().Sub(began), Invalid: step.Why}
		if p.n > 0 { // how much that did is not known
			out.Disturbed = 0.5
		}
		return out
	}
	if st.Drain > 0 {
		if err := l.drain(ctx, st.Drain); err != nil {
			return step, outcome(), err
		}
	}
	if err := l.t.set(ctx, st.X); err != nil {
		return step, outcome(), err
	}
	if err := l.begin(ctx); err != nil {
		return step, outcome(), err
	}
	m := newMeasured(l.bounds)
	var last sight
	var early measured
	shown := l.now()
	err := l.each(ctx, func(s *sight) (done bool, err error) {
		last = *s
		if p.missed(s, l.healthyAge()) && l.now().Sub(began) < st.Drain+2*st.For {
			l.batches.skip(s)
			return false, nil
		}
		b := l.batches.batch(s)
		w.Add(b)
		if b.At > st.Discard {
			m.add(s)
			m.addTimings(l.timings)
		} else {
			early = measured{} // it is of before, unless it ends here
			early.addTimings(l.timings)
		}
		if why, broken := w.Broken(); broken {
			seen := l.now()
			if err := l.t.rest(context.WithoutCancel(ctx)); err != nil {
				return true, err
			}
			step.Stopped, step.StoppedAfter = why, api.Float(l.now().Sub(seen).Seconds())
			l.events = append(l.events, api.BenchEvent{Time: tally.Unix(seen), End: none, Kind: "abort", Name: search.Amount(st.X, l.unit), Text: why})
			return true, nil
		}
		if l.now().Sub(shown) >= time.Second {
			shown = l.now()
			now := *step
			m.into(&now)
			l.usage.writeTo(&now, m.from, m.to)
			now.Objectives, now.Kept = w.Objectives(), w.Kept()
			report(&now)
		}
		return w.Enough() || b.At >= st.For, nil
	})
	if m.from.IsZero() && last.to.After(l.batches.start) { // broken before it was measured
		m.add(&last)
		m.queued, m.answers, m.by = early.queued, early.answers, early.by
	}
	m.into(step)
	l.usage.writeTo(step, m.from, m.to)
	l.pauses, l.late, l.ended = l.pauses+p.n, l.late+m.late, l.ended+m.ended
	if asked := float64(step.Asked); l.unit == Requests && step.Stopped == "" && m.to.Sub(m.from) >= 3*time.Second && asked < 0.7*st.X {
		step.Valid = false
		step.Why = fmt.Sprintf("only %s requests/s were sent: live traffic is too little to be copied as often as that takes", search.Number(asked))
	}
	step.Objectives, step.Kept = w.Objectives(), w.Kept()
	if step.Stopped != "" {
		step.Kept = search.Broken
	}
	return step, outcome(), err
}

// pause is a time in which this process did not run, because its machine was busy.
// The candidate must not be blamed for what took long meanwhile.
type pause struct {
	most  time.Duration // between two samples that are none
	since time.Time     // the end of the last one; zero: it is over
	n     int
}

// catchUp bounds the time in which requests that waited in a pause are done.
const catchUp = 500 * time.Millisecond

// missed reports whether a sample falls in a pause, or holds what waited in one.
func (p *pause) missed(s *sight, healthyAge time.Duration) bool {
	switch {
	case s.to.Sub(s.from) > p.most:
		p.since = s.to
		p.n++
	case p.since.IsZero():
	case s.candidate.AllUnder().Oldest < healthyAge/2 || s.to.Sub(p.since) > catchUp:
		p.since = time.Time{}
	}
	return !p.since.IsZero()
}

var none = api.Float(math.NaN())

// each samples until see is done.
func (l *Live) each(ctx context.Context, see func(*sight) (bool, error)) error {
	ticker := time.NewTicker(l.t.every())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		s, err := l.t.sample(ctx)
		if err != nil {
			return err
		}
		if s.to.IsZero() {
			continue
		}
		if p := s.primary.All(); p.Begun > 0 || s.primary.AllUnder().N > 0 {
			l.lastRequest = l.now()
		} else if l.now().Sub(l.lastRequest) > l.quiet {
			return errQuiet
		}
		if done, err := see(&s); done || err != nil {
			return err
		}
	}
}

// begin lets the next batch be the first of a step.
func (l *Live) begin(ctx context.Context) error {
	return l.each(ctx, func(s *sight) (bool, error) {
		l.batches.batch(s)
		l.batches.start = s.to
		return true, nil
	})
}

// drain removes the added load and waits until the candidate has caught up: no more
// is under way there than the load before needs, and none of it is old.
func (l *Live) drain(ctx context.Context, most time.Duration) error {
	if err := l.t.rest(ctx); err != nil {
		return err
	}
	begin := l.now()
	return l.each(ctx, func(s *sight) (bool, error) {
		l.batches.batch(s)
		u := s.candidate.AllUnder()
		return u.Waits == 0 && u.Oldest < l.healthyAge() || l.now().Sub(begin) >= most, nil
	})
}

// healthyAge returns an age that no request under way reaches while the candidate is
// healthy.
func (l *Live) healthyAge() time.Duration {
	longest := 0.0
	for _, c := range l.o {
		if c.Measure != "errors" {
			longest = max(longest, c.Limit)
		}
	}
	return max(time.Duration(longest*float64(time.Second)), 250*time.Millisecond)
}

// measured adds up the measurements of a step.
type measured struct {
	bounds                 []float64
	from, to               time.Time
	latency, service       *hist.Histogram
	ended, errors, refused uint64
	lost, late             uint64
	slots                  []slot

	queued  float64 // seconds, by so many answers
	by      *Timing
	answers uint64
}

// addTimings adds the queueing times in answers.
func (m *measured) addTimings(q *queueing) {
	if q == nil {
		return
	}
	seconds, n, by := q.takeTimings()
	m.queued, m.answers, m.by = m.queued+seconds, m.answers+n, by
}

type slot struct {
	from, to time.Time
	h        *hist.Histogram
	errors   uint64
}

func newMeasured(bounds []float64) *measured {
	return &measured{bounds: bounds, latency: hist.New(hist.DefaultSchema), service: hist.New(hist.DefaultSchema)}
}

// slotWidth is the least width of a column of a step's heatmap.
const slotWidth = 500 * time.Millisecond

func (m *measured) add(s *sight) {
	if m.from.IsZero() {
		m.from = s.from
	}
	m.to = s.to
	c := s.candidate.All()
	_ = m.latency.Merge(c.Latency)
	_ = m.service.Merge(c.Service)
	m.ended, m.errors, m.refused, m.lost, m.late = m.ended+c.Ended, m.errors+c.Errors, m.refused+c.Refused, m.lost+c.Lost, m.late+s.late
	n := len(m.slots)
	if n == 0 || m.slots[n-1].to.Sub(m.slots[n-1].from) >= slotWidth {
		m.slots = append(m.slots, slot{from: s.from, h: hist.New(hist.DefaultSchema)})
		n++
	}
	at := &m.slots[n-1]
	at.to = s.to
	_ = at.h.Merge(c.Latency)
	at.errors += c.Errors
}

// mostLost is the share of copies that the mirror may lose for its own reasons.
const mostLost = 0.001

// mostLate is the share of copies that the mirror may send late without a warning.
// Their delay is part of their latency.
const mostLate = 0.02

// into writes the measurements into a step.
func (m *measured) into(step *api.CapacityStep) {
	step.Start, step.End = none, none
	step.Rate, step.Errors, step.Concurrency, step.Waited, step.Worked = none, none, none, none, none
	step.Latency, step.Uncorrected = tally.Latency(m.latency, true), tally.Latency(m.service, false)
	step.Slots = []api.CapacitySlot{}
	if m.from.IsZero() {
		return
	}
	step.Start, step.End = tally.Unix(m.from), tally.Unix(m.to)
	seconds := m.to.Sub(m.from).Seconds()
	step.Rate = api.Float(float64(m.ended-m.errors) / seconds)
	step.Asked = api.Float(float64(m.ended+m.lost) / seconds)
	if m.ended > 0 {
		step.Errors = api.Float(float64(m.errors) / float64(m.ended))
	}
	if m.latency.Count > 0 {
		mean, service := m.latency.Mean(), m.service.Mean()
		step.Concurrency = api.Float(float64(m.latency.Count) / seconds * mean)
		step.Waited, step.Worked = api.Float(max(mean-service, 0)), api.Float(service)
		if m.answers > 0 && m.by != nil {
			queued := m.queued / float64(m.answers)
			if m.by.Worked {
				queued = max(service-queued, 0)
			}
			queued = min(queued, service)
			step.Queued, step.QueuedBy, step.Worked = api.Float(queued), m.by.String(), api.Float(service-queued)
		}
	}
	for _, s := range m.slots {
		step.Slots = append(step.Slots, api.CapacitySlot{
			Time: api.Float(s.from.Sub(m.from).Seconds()), Width: api.Float(s.to.Sub(s.from).Seconds()),
			Counts: countsIn(s.h, m.bounds), Errors: s.errors,
		})
	}
	if all := m.ended + m.lost; float64(m.lost) > mostLost*float64(all) && step.Stopped == "" {
		step.Valid = false
		step.Why = fmt.Sprintf("%d of %d copies were lost to the mirror's own bounds (hint: raise mirror.buffer or mirror.body_limit)", m.lost, all)
	}
}

// countsIn spreads a distribution over bounds. Values below or above all of them are
// in the first or last.
func countsIn(h *hist.Histogram, bounds []float64) []uint64 {
	out := make([]uint64, len(bounds)-1)
	i := 0
	for b := range h.All() {
		middle := b.Lower + (b.Upper-b.Lower)/2
		for i < len(out)-1 && middle > bounds[i+1] {
			i++
		}
		out[i] += b.Count
	}
	return out
}
