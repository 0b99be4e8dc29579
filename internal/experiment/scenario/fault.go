package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"tailscope/api"
	"tailscope/internal/backoff"
)

// chaos runs the faults of a scenario during load.
type chaos struct {
	st *Stage
	s  *Scenario

	// turns runs the faults of one server one after the other: the end of one would
	// undo another.
	turns map[string]chan struct{}

	mu     sync.Mutex
	events []api.BenchEvent
	wrong  []error
	// expected counts the servers that a fault has ended, which therefore may be
	// down.
	expected map[string]int
}

// happen runs all faults from begun on until ctx ends; then it undoes them.
func (c *chaos) happen(ctx context.Context, begun time.Time) {
	var faults sync.WaitGroup
	c.turns = map[string]chan struct{}{}
	for _, v := range c.st.servers {
		c.turns[v.Name] = make(chan struct{}, 1)
	}
	for i := range c.s.Faults {
		faults.Go(func() { c.repeat(ctx, &c.s.Faults[i], begun) })
	}
	faults.Wait()
}

func (c *chaos) repeat(ctx context.Context, f *Fault, begun time.Time) {
	for due := begun.Add(f.At); backoff.Sleep(ctx, time.Until(due)) == nil; {
		if turn := c.turns[f.Server()]; turn == nil { // a command
			c.once(ctx, f)
		} else if !c.inTurn(ctx, f, turn) {
			return
		}
		if f.Every == 0 {
			return
		}
		for due = due.Add(f.Every); time.Until(due) < 0; { // what was missed meanwhile is left out
			due = due.Add(f.Every)
		}
	}
}

// inTurn runs a fault when no other fault of its server is under way. It reports
// whether ctx lasted until then.
func (c *chaos) inTurn(ctx context.Context, f *Fault, turn chan struct{}) bool {
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-turn }()
	if ctx.Err() != nil {
		return false
	}
	c.once(ctx, f)
	return true
}

// once runs a fault and undoes it after its time, or when ctx ends.
func (c *chaos) once(ctx context.Context, f *Fault) {
	begin := c.st.o.Now()
	c.st.o.Note("fault: " + f.Name)
	at := c.show(api.BenchEvent{Time: unix(begin), End: unix(time.Time{}), Kind: "fault", Name: f.Name, Text: f.text()})
	var err error
	// A fault is undone whatever happened meanwhile.
	undo := context.WithoutCancel(ctx)
	switch f.Sort() {
	case "pause":
		v := c.st.server(f.Pause)
		err = v.pause()
		_ = backoff.Sleep(ctx, f.For)
		err = errors.Join(err, v.resume())
	case "kill", "restart":
		v := c.st.server(f.Server())
		c.expect(v.Name, 1)
		s, grace := syscall.SIGKILL, ""
		if f.Restart != "" {
			s = signals[v.Stop]
		}
		if err = v.end(undo, s); err != nil {
			grace = err.Error()
			err = nil // it was killed then, which is worth saying
		}
		_ = backoff.Sleep(ctx, f.For)
		if err = v.launch(undo, c.st.env(c.s, v.env()), c.st.log(v.Name)); err == nil && grace != "" {
			c.st.o.Note(grace)
		}
		c.expect(v.Name, -1)
	default:
		_, err = run(ctx, f.Run, c.st.env(c.s, nil), c.st.log("fault-"+f.Name))
		if f.For > 0 {
			_ = backoff.Sleep(ctx, f.For)
		}
		if f.Undo != nil {
			_, again := run(undo, f.Undo, c.st.env(c.s, nil), c.st.log("undo-"+f.Name))
			err = errors.Join(err, again)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[at].End = unix(c.st.o.Now())
	if err != nil {
		c.events[at].Failed, c.events[at].Text = true, err.Error()
		c.wrong = append(c.wrong, fmt.Errorf("fault %s: %w", f.Name, err))
	}
}

// text describes a fault for people.
func (f *Fault) text() string {
	if f.For > 0 {
		return f.Sort() + " " + f.Server() + " for " + f.For.String()
	}
	return f.Sort() + " " + f.Server()
}

func (c *chaos) show(e api.BenchEvent) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
	return len(c.events) - 1
}

func (c *chaos) expect(name string, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expected == nil {
		c.expected = map[string]int{}
	}
	c.expected[name] += by
}

// checkServers returns an error if a server that was started here has ended, and not
// by a fault.
func (st *Stage) checkServers(when string) error {
	for _, v := range st.servers {
		if proc := v.running(); proc != nil && proc.ended() {
			return fmt.Errorf("server %w", proc.failed(proc.how()+" "+when))
		}
	}
	return nil
}

// surprised notes that a server ended that should run.
func (c *chaos) surprised(v *server) error {
	proc := v.running()
	c.mu.Lock()
	expected := c.expected[v.Name] > 0
	c.mu.Unlock()
	if expected || proc == nil || !proc.ended() {
		return nil
	}
	return fmt.Errorf("server %w", proc.failed(proc.how()+" while it was measured"))
}

func (c *chaos) shown() []api.BenchEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

func (st *Stage) server(name string) *server {
	for _, v := range st.servers {
		if v.Name == name {
			return v
		}
	}
	return nil // a scenario that was read knows all it names
}
