package capacity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench/load"
	"tailscope/internal/experiment/bench/session"
	"tailscope/internal/experiment/bench/tally"
	"tailscope/internal/experiment/capacity/objective"
	"tailscope/internal/experiment/capacity/search"
)

// LoadOptions describe the search's own load. Target, Set, Objective and Highest are
// required.
type LoadOptions struct {
	Target    *url.URL // scheme and host; the path is the requests'
	Set       session.Requests
	Load      load.Options // what is chosen of the engine's: see session.Options
	Even      bool         // arrivals; those of Poisson otherwise
	Seed      uint64
	Objective objective.Objective
	Bounds    []float64 // of slots
	Limits    tally.Limits
	// Timings are the fields of answers that hold the time they queued; default
	// usualTimings, an empty list for none.
	Timings []Timing
	// Highest is the highest rate that will be asked for, in requests a second.
	Highest float64
	// Pool is the pool of a search for servers, under Highest; nil if the rate is
	// searched for.
	Pool  Pool
	Usage Usage // of processes under test
	// Note is called with a line for each action beside the load; default none.
	Note func(string)
	Now  func() time.Time // time.Now if nil
}

// Load is a Holder that sends its own load. It has one engine from the first step to
// the last, or one for each server of a list, whose rate is dialled.
type Load struct {
	o       LoadOptions
	engines []*engine
	queue   *queueing
	meter   *session.Meter
	metered time.Time
	step    int // number of the last one that was begun, -1 before
	applied int // servers in the pool's last command, 0 before
	// reachWithin bounds the time for a target that refuses connections to come back.
	reachWithin time.Duration
}

// sampleEvery is the interval of samples of a step.
const sampleEvery = 100 * time.Millisecond

// engine is an engine that runs until it is ended.
type engine struct {
	dial     *load.Dial
	observer *observer
	// address is the target's, host:port.
	address string
	// loops are its threads.
	loops   int
	end     context.CancelFunc
	done    chan struct{}
	err     error
	due     uint64 // requests, at the last sample
	handled uint64 // of them that were sent or dropped
}

// StartLoad reaches the target and begins at a rate of 0. The caller calls Restore,
// or passes the Load to Run.
func StartLoad(ctx context.Context, o LoadOptions) (*Load, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.Timings == nil {
		o.Timings = usualTimings
	}
	for _, c := range o.Objective {
		if c.Part.Side != "" {
			return nil, session.Mistake{Err: fmt.Errorf("objective %q: there are no live clients here (hint: leave %s out, or search on live traffic with capacity mirror)", c.Text, c.Part.Side)}
		}
	}
	if err := o.Objective.Check(o.Set.Queries()); err != nil {
		return nil, session.Mistake{Err: err}
	}
	l := &Load{o: o, step: -1, reachWithin: 10 * time.Second, queue: &queueing{Checker: o.Set.Checker(), timings: o.Timings}}
	addresses := []string{""}
	if o.Pool != nil {
		if list := o.Pool.Addresses(); list != nil {
			addresses = list
		}
	}
	for i, address := range addresses {
		e, err := l.start(ctx, i, len(addresses), address)
		if err != nil {
			return nil, errors.Join(err, l.Restore(ctx))
		}
		l.engines = append(l.engines, e)
	}
	l.meter, l.metered = session.NewMeter(o.Now()), o.Now()
	return l, nil
}

// loopRate is the highest rate for one loop, in requests a second.
const loopRate = 20_000

func (l *Load) start(ctx context.Context, i, n int, address string) (*engine, error) {
	o := l.o.Load
	if address != "" {
		o.Address = address
	}
	o = session.Towards(l.o.Target, o)
	if o.Connections == 0 {
		o.Connections = 1024
	}
	o.Loops = max(1, min(int(math.Ceil(l.o.Highest/loopRate)), o.Connections))
	e := &engine{dial: load.NewDial(!l.o.Even, l.o.Seed+uint64(i)), observer: newObserver(len(l.o.Set.Queries()), l.o.Set.Accepts), done: make(chan struct{}), loops: o.Loops, address: o.Address}
	begun := make(chan struct{})
	o.Begun = func(at time.Time) {
		e.dial.Begun(at)
		close(begun)
	}
	o.Pacer, o.Withdrawn, o.Recorder = e.dial.Pacer, e.dial.Withdrawn, e.observer.Recorder
	o.Checker = l.queue
	o.Source = func(loop, loops int) (load.Source, error) { return l.o.Set.Source(i*loops+loop, n*loops) }
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	e.end = end
	go func() {
		defer close(e.done)
		a, err := load.Run(running, o)
		if e.err = err; err == nil && a.Exhausted {
			e.err = errors.New("the requests ran out (hint: let their rows begin again, without once)")
			if why := l.o.Set.RanOut(); why != "" {
				e.err = fmt.Errorf("the requests ran out: %s (hint: let their rows begin again, without once)", why)
			}
		}
	}()
	select {
	case <-begun:
		return e, nil
	case <-e.done:
		end()
		return nil, e.err
	case <-ctx.Done():
		end()
		<-e.done
		return nil, context.Cause(ctx)
	}
}

// now returns the engine's time.
func (e *engine) now() time.Duration { return time.Since(e.dial.Started()) }

// set brings the load to a rate that is spread over the first n engines.
func (l *Load) set(rate float64, n int) {
	for i, e := range l.engines {
		if i < n {
			e.dial.Set(rate/float64(n), l.step)
		} else {
			e.dial.Set(0, l.step)
		}
	}
}

// rest removes the load.
func (l *Load) rest() {
	for _, e := range l.engines {
		e.dial.Stop()
	}
}

// sample holds what all engines observed since the last sample.
type sample struct {
	at   time.Time
	step *observed // of the step that goes on; empty between steps
	due  uint64    // requests that became due
	left uint64    // due, and neither sent nor dropped
	// away counts the requests of earlier steps that are still under way.
	away   uint64
	queued float64 // seconds that answers queued, as they say
	timed  uint64  // by how many
	timing *Timing
}

func (l *Load) sample() *sample {
	out := &sample{at: l.o.Now(), step: newObserved(l.step, len(l.o.Set.Queries()))}
	for _, e := range l.engines {
		total := e.dial.Due()
		for step, g := range e.observer.takeCounts(e.now()) {
			e.handled += g.begun + g.dropped
			if step == l.step {
				out.step.merge(g)
				continue
			}
			for _, n := range g.under {
				out.away += n
			}
		}
		out.due += total - e.due
		e.due = total
		out.left += e.due - min(e.due, e.handled)
	}
	out.queued, out.timed, out.timing = l.queue.takeTimings()
	return out
}

// under returns the number of requests that were due and have not ended.
func (o *sample) under() uint64 {
	n := o.left + o.away
	for _, u := range o.step.under {
		n += u
	}
	return n
}

// batch returns the sample as the objective needs it.
func (l *Load) batch(o *sample, since time.Time) objective.Batch {
	b := objective.Batch{At: o.at.Sub(since), Ended: map[objective.Part]objective.Ended{}, Waiting: map[objective.Part]objective.Waiting{}}
	whole := objective.Waiting{Due: o.due, UnderWay: o.left}
	for i := range o.step.under {
		whole.UnderWay += o.step.under[i]
		whole.Oldest = max(whole.Oldest, o.step.oldest[i])
	}
	b.Ended[objective.Part{}] = objective.Ended{Requests: o.step.ended, Errors: o.step.errors, Latency: o.step.all}
	b.Waiting[objective.Part{}] = whole
	for _, p := range l.o.Objective.Parts() {
		i := slices.Index(l.o.Set.Queries(), p.Query)
		if p.Query == "" || i < 0 {
			continue
		}
		q := &o.step.queries[i]
		b.Ended[p] = objective.Ended{Requests: q.ended, Errors: q.errors, Latency: q.latency}
		b.Waiting[p] = objective.Waiting{Due: q.begun, UnderWay: o.step.under[i], Oldest: o.step.oldest[i]}
	}
	return b
}

// trouble returns the reason why an engine has ended.
func (l *Load) trouble() error {
	for _, e := range l.engines {
		select {
		case <-e.done:
			return e.err
		default:
		}
	}
	return nil
}

// Hold implements Holder.
func (l *Load) Hold(ctx context.Context, st search.Step, w *search.Watch, report func(*api.CapacityStep)) (*api.CapacityStep, search.Outcome, error) {
	began := l.o.Now()
	rate, servers := st.X, len(l.engines)
	var err error
	if l.o.Pool != nil {
		rate = l.o.Highest
		servers, err = l.shrink(ctx, int(st.X))
	}
	if err == nil && st.Drain > 0 {
		l.rest()
		if err = l.drain(ctx, st.Drain); err == nil {
			err = l.reach(ctx, servers)
		}
	}
	l.step++
	h := newHeld(l, st, rate)
	if err != nil {
		return h.report(w), search.Outcome{Took: l.o.Now().Sub(began)}, err
	}
	l.sample() // what was before is of no step
	h.start = l.o.Now()
	l.set(rate, servers)
	err = l.watch(ctx, h, w, report)
	step := h.report(w)
	out := search.Outcome{Took: l.o.Now().Sub(began), Disturbed: h.disturbed}
	if !step.Valid {
		out.Invalid, out.Idle = step.Why, float64(step.Generator.Cores) < idleCores
	}
	return step, out, err
}

// idleCores is the most cores that a generator uses that can surely send more.
const idleCores = 0.1

// reportEvery is the interval of reports of a step that grows.
const reportEvery = 500 * time.Millisecond

// watch holds the step until it ends. If it was not kept the load has been removed by
// then.
func (l *Load) watch(ctx context.Context, h *held, w *search.Watch, report func(*api.CapacityStep)) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	last := h.start
	for {
		select {
		case <-ctx.Done():
			l.rest()
			return context.Cause(ctx)
		case <-tick.C:
		}
		if err := l.trouble(); err != nil {
			l.rest()
			return err
		}
		o := l.sample()
		w.Add(l.batch(o, h.start))
		why, broken := w.Broken()
		if broken {
			l.rest()
		}
		h.addSample(o)
		switch {
		case broken:
			h.stopped, h.broke = why, o.at
			h.close()
			return l.lull(ctx, h, tick.C)
		case w.Enough() || o.at.Sub(h.start) >= h.st.For:
			h.close()
			return nil
		}
		if report != nil && o.at.Sub(last) >= reportEvery {
			last = o.at
			report(h.report(w))
		}
	}
}

// afterwards is the time for which answers are still observed after the load was
// removed, for the step's heatmap.
const afterwards = time.Second

// lull observes a step whose load was removed.
func (l *Load) lull(ctx context.Context, h *held, tick <-chan time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick:
		}
		o := l.sample()
		h.addSample(o)
		if o.under() == 0 || o.at.Sub(h.broke) >= afterwards {
			return nil
		}
	}
}

// drain waits until nothing is under way any more, most at most.
func (l *Load) drain(ctx context.Context, most time.Duration) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for begin := l.o.Now(); l.o.Now().Sub(begin) < most; {
		if l.sample().under() == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// reach waits until the servers of the first n engines accept connections. A server
// that is gone breaks at any load, which says nothing of its capacity.
func (l *Load) reach(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, l.reachWithin)
	defer cancel()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for _, e := range l.engines[:min(n, len(l.engines))] {
		var said error // by the first attempt: the last one may be cut short
		for {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.address)
			if err == nil {
				_ = c.Close()
				break
			}
			if said == nil {
				said = err
			}
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
			}
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("the target is not there any more: %w (hint: see why it ended; what was found out before stands)", said)
			}
			return context.Cause(ctx)
		}
	}
	return nil
}

// shrink reduces the pool to n servers, and returns the number of engines that load
// is spread over. There is no load while a command does that.
func (l *Load) shrink(ctx context.Context, n int) (engines int, err error) {
	if l.o.Pool.Addresses() != nil {
		return n, nil
	}
	if l.applied != n {
		l.rest()
		if l.applied = n; err == nil {
			err = l.o.Pool.Set(ctx, n)
		}
	}
	return len(l.engines), err
}

// restGrace bounds the time that requests under way at the end may take.
const restGrace = 2 * time.Second

// Restore implements Holder: it removes the load, restores the pool, and ends the
// engines.
func (l *Load) Restore(ctx context.Context) error {
	l.rest()
	var err error
	if l.o.Pool != nil {
		err = l.o.Pool.Restore(ctx)
	}
	_ = l.drain(ctx, restGrace) // what is not answered by then is cut off
	for _, e := range l.engines {
		e.end()
		<-e.done
	}
	return err
}
