package scenario

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/experiment/bench/requests"
	"tailscope/internal/experiment/bench/session"
)

// Held is a stage whose load another package sends.
type Held struct {
	stage *Stage
	read  *readings

	Set     *requests.Set   // closed when the hold ends
	Session session.Options // how load is sent: Target, Load, Limits
	// Warmed describes the warm-up; nil without one.
	Warmed      *api.BenchWarmUp
	Environment api.Environment // with what the file asked to be recorded
	// Dir and Env are those of the scenario's commands.
	Dir string
	Env []string
}

// Hold applies o.Vars, warms up, and samples processes under test while during runs.
// If a server ends meanwhile, the context of during ends. It leaves out phases,
// faults and thresholds of the scenario; of o it uses Vars, Name, Seed, SkipWarmUp,
// Limits and Environment.
func (st *Stage) Hold(ctx context.Context, o MeasureOptions, during func(context.Context, *Held) error) error {
	err := st.hold(ctx, o, during)
	st.failed = st.failed || err != nil
	return err
}

func (st *Stage) hold(ctx context.Context, o MeasureOptions, during func(context.Context, *Held) error) error {
	if err := st.Apply(ctx, o.Vars); err != nil {
		return err
	}
	s := st.s.seeded(o.Seed)
	h := &Held{stage: st, Dir: s.Dir, Env: st.env(s, nil)}
	var err error
	if h.Session, err = st.session(s, o); err != nil {
		return err
	}
	if s.WarmUp != nil && !o.SkipWarmUp {
		if h.Warmed, err = st.warmUp(ctx, s, h.Session); err != nil {
			return err
		}
	}
	if h.Set, err = s.compile(); err != nil {
		return err
	}
	defer h.Set.Close()
	if o.Environment != nil {
		h.Environment = *o.Environment
	}
	st.environment(s, &h.Environment)

	h.read = newReadings(st.servers, st.o.Note)
	h.read.labels = labelsOf(s.Service, o)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	around, over := context.WithCancel(context.WithoutCancel(ctx))
	var others sync.WaitGroup
	if len(st.servers) > 0 {
		others.Go(func() { h.read.follow(around) })
		others.Go(func() { st.guard(around, end) })
	}
	err = during(ctx, h)
	over()
	others.Wait()
	return errors.Join(err, st.checkServers("while load was sent"))
}

// guard ends a hold whose servers have ended.
func (st *Stage) guard(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(readEvery / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := st.checkServers("while load was sent"); err != nil {
			end(err)
			return
		}
	}
}

// Events returns the events on the stage so far.
func (h *Held) Events() []api.BenchEvent {
	h.stage.mu.Lock()
	defer h.stage.mu.Unlock()
	return slices.Clone(h.stage.events)
}

// Watched reports whether processes under test are sampled.
func (h *Held) Watched() bool { return len(h.stage.servers) > 0 }

// Usage returns the mean usage of processes under test between two moments: cores
// altogether, NaN if nothing was read, and all other readings by process and name.
func (h *Held) Usage(from, to time.Time) (cores float64, resources map[string]float64) {
	return h.read.between(from, to)
}
