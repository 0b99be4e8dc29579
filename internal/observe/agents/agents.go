// Package agents receives what agents send in the packed form, and knows which agents there
// are.
//
// A frame is put into the store under its agent's writer and generation. What the store has
// of a writer is in order, for an agent sends in order: a frame at or below the writer's
// last generation is a duplicate, after a lost acknowledgement, and is acknowledged again.
//
// A writer belongs to one agent. Each start of an agent has a random name, an incarnation,
// and names those before it that the server may know. A request of another incarnation
// takes over if it names the known one: the agent was restarted. Otherwise two agents have
// one identity, as when a data directory was copied: the request is refused while the known
// one is alive, and if it is not, unless everything that it sends is new. A copy also names
// the incarnation that was known when it was made: a start that had put fewer generations
// than are stored here is refused, for what it sends under their numbers would be taken for
// duplicates.
package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tailscope/internal/store"
	"tailscope/internal/store/packed"
)

// Store is the part of a store that agents need.
type Store interface {
	Put(ctx context.Context, b *store.Batch) error
	PutTraces(ctx context.Context, traces []store.Trace) error
	Flushed(ctx context.Context, writer string) (uint64, error)
	store.Records
}

// Options configures a Receiver. Store is required.
type Options struct {
	Store Store
	// Own is the server's own writer, which no agent may have.
	Own string
	// MaxAhead is how far ahead of Now a slot or sample may lie, as of what the server
	// aggregates itself; default 10 min.
	MaxAhead time.Duration
	Now      func() time.Time
	Log      *slog.Logger // default discards
}

const (
	// kind is the kind of the records that hold the known incarnation of each writer.
	kind = "agents"
	// alive is the time since an agent was last heard for which it counts as running.
	alive = 10 * time.Minute
	// mostAgents bounds the agents that are known at once; those not heard for longest are
	// forgotten first. Their records stay.
	mostAgents = 10_000
)

// Receiver receives frames. It is safe for concurrent use.
type Receiver struct {
	o        Options
	began    time.Time
	decoders sync.Pool

	mu     sync.Mutex
	agents map[string]*agent // by writer
	totals Totals
}

// agent holds the state of one writer. mu is held while a frame of it is stored.
type agent struct {
	mu    sync.Mutex
	known known // as last read or written
	// status is guarded by Receiver.mu.
	status Status
}

// known is the record of a writer.
type known struct {
	Incarnation string `json:"incarnation"`
	Name        string `json:"name"`
}

// Status describes one agent.
type Status struct {
	packed.Agent           // as it told last
	Heard        time.Time // when it was last heard
	Stored       uint64    // its last generation that is stored here
	Frames       uint64    // since the start of the server
	Bytes        uint64    // of frames, likewise
	Duplicates   uint64    // frames that were here before
	Refused      uint64    // requests of others with its identity, or of an older state of it
}

// Totals are counts of all agents since the start.
type Totals struct {
	Requests   uint64 // frames and signs of life
	Frames     uint64 // stored, or stored before
	Bytes      uint64 // of these frames
	Points     uint64 // stored
	Traces     uint64 // stored
	Duplicates uint64
	Malformed  uint64 // not a frame, one that was changed, or one with times too far ahead
	Versions   uint64 // of a version that this server does not know
	Identities uint64 // refused because another agent has the identity
	Failed     uint64 // could not be stored, to be sent again
}

// New returns a receiver.
func New(o Options) *Receiver {
	if o.MaxAhead == 0 {
		o.MaxAhead = 10 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Receiver{o: o, began: o.Now(), agents: map[string]*agent{}}
}

// refusal is an error with its status code.
type refusal struct {
	code int
	text string
}

func (e *refusal) Error() string { return e.text }

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// Receive stores a frame, or, without one, notes that an agent is alive. about is its
// packed.AgentHeader. reserve is asked before memory is allocated. The answer is JSON, for
// the status code; codes of 429 and 503 ask for a retry, and are retried as 409, 413 and 415
// are, since somebody may put right what is wrong.
func (r *Receiver) Receive(ctx context.Context, about string, frame []byte, reserve func(bytes int) bool) (code int, answer []byte) {
	a, err := r.receive(ctx, about, frame, reserve)
	code = http.StatusOK
	if err != nil {
		a = packed.Answer{Stored: a.Stored, Error: err.Error()}
		code = http.StatusServiceUnavailable
		if said := (*refusal)(nil); errors.As(err, &said) {
			code = said.code
		}
	}
	r.count(func(t *Totals) {
		t.Requests++
		switch code {
		case http.StatusBadRequest:
			t.Malformed++
		case http.StatusUnsupportedMediaType:
			t.Versions++
		case http.StatusConflict:
			t.Identities++
		case http.StatusServiceUnavailable:
			t.Failed++
		}
	})
	b, err := json.Marshal(a)
	if err != nil {
		return http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
	}
	return code, b
}

func (r *Receiver) count(f func(*Totals)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.totals)
}

// Writer returns the writer of an agent by its packed.AgentHeader. ok is false if Receive
// refuses the agent for it.
func (r *Receiver) Writer(about string) (writer string, ok bool) {
	who, err := r.parseAgent(about)
	return who.Writer, err == nil
}

func (r *Receiver) parseAgent(about string) (who packed.Agent, err error) {
	if err := json.Unmarshal([]byte(about), &who); err != nil {
		return who, refuse(http.StatusBadRequest, "header %s: %v: this address is for tailscope agent", packed.AgentHeader, err)
	}
	return who, checkAgent(&who, r.o.Own)
}

func (r *Receiver) receive(ctx context.Context, about string, frame []byte, reserve func(int) bool) (a packed.Answer, err error) {
	who, err := r.parseAgent(about)
	if err != nil {
		return a, err
	}
	var head packed.Head
	if len(frame) > 0 {
		if head, err = packed.Peek(frame); err != nil {
			return a, refuseFrame(err)
		}
		if !reserve(head.Memory) {
			return a, refuse(http.StatusTooManyRequests, "the memory for what arrives is in use: it is sent again")
		}
	}
	x := r.agent(who.Writer)
	x.mu.Lock()
	defer x.mu.Unlock()
	if a.Stored, err = r.o.Store.Flushed(ctx, who.Writer); err != nil {
		return a, fmt.Errorf("last generation of agent %s: %w", who.Name, err)
	}
	d, err := r.decoder()
	if err != nil {
		return a, err
	}
	defer r.decoders.Put(d)
	var b *store.Batch
	var traces []store.Trace
	switch {
	case len(frame) == 0:
	case head.Kind == packed.Batch:
		if b, err = d.Batch(frame, head.Memory); err == nil && b.Writer != who.Writer {
			err = fmt.Errorf("%w: of writer %q, sent by %q", packed.ErrCorrupt, b.Writer, who.Writer)
		}
	default:
		traces, err = d.Traces(frame, head.Memory)
	}
	if err != nil {
		return a, refuseFrame(err)
	}
	if err := r.identify(ctx, x, &who, b, a.Stored); err != nil {
		return a, err
	}
	switch {
	case b != nil && b.Generation <= a.Stored:
		a.Duplicate = true
	case b != nil:
		if err := r.checkTimes(b); err != nil {
			r.o.Log.Warn("a frame of an agent is refused, and is set aside there", "agent", who.Name, "writer", who.Writer, "why", err)
			return a, err
		}
		if err := r.o.Store.Put(ctx, b); err != nil {
			return a, fmt.Errorf("store what agent %s sent: %w", who.Name, err)
		}
		a.Stored = b.Generation
	case len(traces) > 0:
		if err := r.o.Store.PutTraces(ctx, traces); err != nil {
			return a, fmt.Errorf("store traces of agent %s: %w", who.Name, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, t := &x.status, &r.totals
	s.Agent, s.Heard, s.Stored = who, r.o.Now(), packed.AgentGeneration(a.Stored)
	s.Earlier = nil
	if len(frame) == 0 {
		return a, nil
	}
	s.Frames, s.Bytes = s.Frames+1, s.Bytes+uint64(len(frame))
	t.Frames, t.Bytes, t.Traces = t.Frames+1, t.Bytes+uint64(len(frame)), t.Traces+uint64(len(traces))
	if a.Duplicate {
		s.Duplicates, t.Duplicates = s.Duplicates+1, t.Duplicates+1
	} else if b != nil {
		t.Points += uint64(len(b.Points))
	}
	return a, nil
}

// checkTimes returns an error if a batch has slots or samples too far ahead of the clock.
func (r *Receiver) checkTimes(b *store.Batch) error {
	last := int64(math.MinInt64)
	for i := range b.Points {
		last = max(last, b.Points[i].Slot)
	}
	for _, ss := range b.Samples {
		for _, v := range ss.Samples {
			last = max(last, v.TimeMillis/1000)
		}
	}
	now := r.o.Now()
	if last <= now.Add(r.o.MaxAhead).Unix() {
		return nil
	}
	return refuse(http.StatusBadRequest, "it has points at %s, and it is %s: more than %s ahead; check the clocks of the agent and the server", time.Unix(last, 0).UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), r.o.MaxAhead)
}

func (r *Receiver) decoder() (*packed.Decoder, error) {
	if d, ok := r.decoders.Get().(*packed.Decoder); ok {
		return d, nil
	}
	return packed.NewDecoder()
}

// refuseFrame returns what to answer for a frame that does not decode.
func refuseFrame(err error) error {
	switch {
	case errors.Is(err, packed.ErrVersion):
		return refuse(http.StatusUnsupportedMediaType, "%v; this server knows version %d: update the server, or run the agent of its version", err, packed.Version)
	case errors.Is(err, packed.ErrTooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "%v: raise limits.memory of the server", err)
	}
	return refuse(http.StatusBadRequest, "%v", err)
}

// checkAgent returns an error if an agent's own description cannot be one.
func checkAgent(who *packed.Agent, own string) error {
	name := func(s string, most int) bool {
		return s != "" && len(s) <= most && strings.ToValidUTF8(s, "") == s && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' })
	}
	switch {
	case !name(who.Writer, 64) || !name(who.Incarnation, 64):
		return refuse(http.StatusBadRequest, "header %s: no writer or no incarnation", packed.AgentHeader)
	case !name(who.Name, 256) || len(who.Version) > 256:
		return refuse(http.StatusBadRequest, "header %s: the name is missing or too long", packed.AgentHeader)
	}
	id, ok := strings.CutPrefix(who.Writer, packed.WriterPrefix)
	if !ok || id == own || len(id) != 16 || strings.Trim(id, "0123456789abcdef") != "" {
		return refuse(http.StatusConflict, "writer %q is not an agent's own: the agent runs on a copy of this server's data directory; give it an empty one with --data", who.Writer)
	}
	return nil
}

// agent returns what is known of a writer.
func (r *Receiver) agent(writer string) *agent {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.agents[writer]
	if x == nil {
		if len(r.agents) >= mostAgents {
			oldest := ""
			for w, y := range r.agents {
				if oldest == "" || y.status.Heard.Before(r.agents[oldest].status.Heard) {
					oldest = w
				}
			}
			delete(r.agents, oldest)
		}
		// After a start nobody knows when the agent was last heard: it counts as alive.
		x = &agent{status: Status{Heard: r.began}}
		r.agents[writer] = x
	}
	return x
}

// identify returns an error if another agent has the writer. The caller holds x.mu.
func (r *Receiver) identify(ctx context.Context, x *agent, who *packed.Agent, b *store.Batch, stored uint64) error {
	if x.known.Incarnation == who.Incarnation {
		return nil
	}
	// Another server of the same store may have written it since.
	rec, err := r.o.Store.GetRecord(ctx, kind, who.Writer)
	if err == nil {
		err = json.Unmarshal(rec.Value, &x.known)
	}
	if err != nil && !errors.Is(err, store.ErrNoRecord) {
		return fmt.Errorf("record of agent %s: %w", who.Name, err)
	}
	if x.known.Incarnation == who.Incarnation {
		return nil
	}
	r.mu.Lock()
	heard := x.status.Heard
	r.mu.Unlock()
	if x.known.Incarnation != "" && !slices.Contains(who.Earlier, x.known.Incarnation) {
		// The known one may hold generations of the same numbers, of which only its own are
		// stored: what this one sends under them must not be taken for them.
		if r.o.Now().Sub(heard) < alive || b == nil || b.Generation <= stored {
			return r.refuseIdentity(x, who, fmt.Sprintf("another agent (%s) has the identity %s: it was started on a copy of the same data directory; give each agent its own with --data", x.known.Name, who.Writer))
		}
	}
	if last := packed.AgentGeneration(stored); last > who.First {
		return r.refuseIdentity(x, who, fmt.Sprintf("generation %d of %s is stored, and the agent had put %d when it started: it runs on a copy, or on an older state, of a data directory that was used since; give it an empty one with --data", last, who.Writer, who.First))
	}
	now := known{who.Incarnation, who.Name}
	value, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if _, err := r.o.Store.PutRecords(ctx, kind, store.RecordWrite{Key: who.Writer, Value: value, IfRevision: store.AnyRevision}); err != nil {
		return fmt.Errorf("record of agent %s: %w", who.Name, err)
	}
	x.known = now
	return nil
}

// refuseIdentity counts and logs a request that is refused because of its identity.
func (r *Receiver) refuseIdentity(x *agent, who *packed.Agent, why string) error {
	r.mu.Lock()
	x.status.Refused++
	r.mu.Unlock()
	r.o.Log.Warn("two agents have one identity: one is refused", "writer", who.Writer, "refused", who.Name, "other", x.known.Name, "why", why)
	return refuse(http.StatusConflict, "%s", why)
}

// Agents returns the agents heard since the start, by name.
func (r *Receiver) Agents() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Status
	for _, x := range r.agents {
		if x.status.Writer != "" {
			out = append(out, x.status)
		}
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Writer, b.Writer)) })
	return out
}

// Totals returns the counts since the start.
func (r *Receiver) Totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.totals
}
