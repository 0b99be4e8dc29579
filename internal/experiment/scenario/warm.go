package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/bench"
	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/experiment/bench/session"
)

// errSteady ends a warm-up that has done its work.
var errSteady = errors.New("latency is steady")

// leastAnswers is the number of answers that a slot's figures need; a slot with fewer
// goes on.
const leastAnswers = 30

// slotFor returns the default length of a slot: a hundred requests, from a quarter of
// a second to a fiftieth of all.
func slotFor(w *WarmUp, p *bench.Plan) time.Duration {
	if w.Slot > 0 {
		return w.Slot
	}
	slot := 250 * time.Millisecond
	if rate := warmRate(p); rate > 0 {
		slot = max(slot, time.Duration(100/rate*1e9))
	}
	return min(slot, max(w.AtMost/50, 50*time.Millisecond))
}

// warmRate returns the rate at which the plan begins, or 0 if it has none.
func warmRate(p *bench.Plan) float64 {
	if p.Arrivals >= bench.Closed || len(p.Phases) == 0 {
		return 0
	}
	for _, ph := range p.Phases {
		if ph.From > 0 {
			return ph.From
		}
		if ph.To > 0 {
			return (ph.From + ph.To) / 2
		}
	}
	return 0
}

// warmUp sends the load with which the plan begins until latency is steady. It draws
// its requests by another seed, so that the measurement does not repeat them in the
// same order.
func (st *Stage) warmUp(ctx context.Context, s *Scenario, o session.Options) (*api.BenchWarmUp, error) {
	w := s.WarmUp
	spec := s.Requests
	spec.Seed = ^spec.Seed
	spec.Queries = nil
	for _, q := range s.Requests.Queries {
		q.AtEnd = "loop"
		spec.Queries = append(spec.Queries, q)
	}
	if spec.Record != nil {
		record := *spec.Record
		record.Loop, spec.Record = true, &record
	}
	if spec.AccessLog != nil {
		log := *spec.AccessLog
		log.Loop, spec.AccessLog = true, &log
	}
	set, err := requests.Compile(spec)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	o.Set, o.Plan, o.Duration, o.Every = set, s.Plan, w.AtMost, slotFor(w, &s.Plan)
	if s.Plan.Arrivals != bench.Recorded {
		rate := warmRate(&s.Plan)
		o.Plan.Phases = []bench.Phase{{Name: "warm-up", From: rate, To: rate, For: w.AtMost}}
	}
	judge := &steadiness{margin: w.Steady}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	begin := st.o.Now()
	slot, report, answered := hist.New(hist.DefaultSchema), begin, uint64(0)
	o.Progress = func(m session.Moment) {
		if err := st.checkServers("while it was warmed up"); err != nil {
			end(err)
		}
		now := st.o.Now()
		if m.Ended || slot.Merge(m.Live.Last) != nil || slot.Count < leastAnswers {
			return
		}
		answered += slot.Count
		steady := judge.add(slot)
		slot.Reset(hist.DefaultSchema)
		if steady && now.Sub(begin) >= w.AtLeast {
			end(errSteady)
		} else if now.Sub(report) >= 5*time.Second {
			report = now
			st.o.Note("warming up: " + judge.String())
		}
	}
	st.o.Note("warming up")
	out, err := session.Run(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("warm-up: %w", errors.Join(st.checkServers("before it was warmed up"), err))
	}
	r := &api.BenchWarmUp{Seconds: api.Float(st.o.Now().Sub(begin).Seconds()), Requests: out.Result.Account.Sent, Steady: errors.Is(context.Cause(ctx), errSteady)}
	r.Why = fmt.Sprintf("%s, where %.3g %% are allowed", judge, 100*w.Steady)
	var said string
	switch {
	case r.Steady:
		said = "steady"
	case ctx.Err() != nil:
		return nil, fmt.Errorf("warm-up: %w", context.Cause(ctx))
	default:
		said = fmt.Sprintf("not steady after %s", w.AtMost)
		if judge.slots() < leastSlots {
			r.Why += fmt.Sprintf("; %d answers came (hint: a longer at_most or a higher rate)", answered)
		}
	}
	if e := out.Result.Account.Errors; e > 0 {
		r.Why += fmt.Sprintf("; %d of %d requests failed", e, r.Requests)
	}
	said = "warm-up: " + said + ": " + r.Why
	st.o.Note(said)
	var failed error
	if !r.Steady && w.Need {
		failed = errors.New(said)
	}
	st.happened("warm_up", "warm-up", map[bool]string{true: "steady", false: "not known to be steady"}[r.Steady], begin, failed)
	return r, failed
}
