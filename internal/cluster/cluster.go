// Package cluster divides work between the servers that share a store, without a clock
// that they would have to share.
//
// Each server that has joined renews a record of its own every few seconds. Others see it
// alive for as long as they see the record change: each measures by its own clock how long
// ago that was. A server that could not renew its record considers itself expired before
// any other does, so that what it holds is never held twice, as long as no clock runs
// Dead/Valid times faster than another (Gray & Cheriton, Leases, 1989).
//
// A piece of work belongs to the live server, of those that can hold it, that rendezvous hashing puts first (Thaler &
// Ravishankar, 1998): when a server comes or goes, only what it gets or held moves. Who
// holds a piece of work stands in a lease, a record with a term that rises whenever the
// holder changes. What a holder does may have begun before it lost the lease, so what it
// writes has to bear that: the clock of a machine that is suspended stands still.
package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tailscope/internal/backoff"
	"tailscope/internal/store"
)

// ErrTwin reports that another process that is alive has joined under the same name: the
// data directory was copied, or is used by two.
var ErrTwin = errors.New("another server of this name is alive")

// ErrExpired reports work that ended early because this server no longer holds it.
var ErrExpired = errors.New("another server does this work, or may")

// Times by which a server lives and dies. A server is not taken for alive Dead after its
// record was last seen to change; it takes itself for expired Valid after it began to
// write it.
const (
	Every = 5 * time.Second
	Valid = 15 * time.Second
	Dead  = 20 * time.Second
)

// kind is the kind of all records of a cluster: members under "member/", leases under
// "lease/".
const (
	kind         = "cluster"
	memberPrefix = "member/"
	leasePrefix  = "lease/"
)

// Options are what a server joins with. Records, Writer and Work are required.
type Options struct {
	Records store.Records
	Writer  string       // the server's name in the store
	Address string       // base URL at which other servers reach it; may be empty
	Version string       // of the program
	Work    []string     // names of the pieces of work that this server can hold
	State   func() State // what the server tells with each renewal; nil: nothing
	Logger  *slog.Logger // default discards
	// Spans returns the base URL at which the server takes spans of other servers, or "" while
	// it takes none; nil: never. It is asked with each renewal.
	Spans func() string
	// Agents is Spans for what agents have sent to other servers.
	Agents func() string
}

// Member is a server as another sees it.
type Member struct {
	Writer  string
	Address string
	Spans   string
	Agents  string
	Version string
	Since   time.Time     // when it joined, by its own clock
	Seen    time.Duration // how long ago its record was seen to change
	Alive   bool
	Works   []string // pieces of work that it holds, sorted
	State   State    // as it told last
	// Ahead is how far its clock is ahead of that of who looks, at least: it may be Every
	// more, or less if it is behind. 0 if that is not known.
	Ahead time.Duration
}

// State is what a server tells of itself.
type State struct {
	Now      time.Time `json:"now,omitzero"`       // by its own clock
	Lag      float64   `json:"lag,omitempty"`      // age in seconds of its oldest generation that is not stored; 0 for none
	Problems []string  `json:"problems,omitempty"` // why it is degraded, a sentence each
}

// memberRecord is what a member's record holds. Each renewal raises Beat.
type memberRecord struct {
	Incarnation string    `json:"incarnation"` // random, of one process
	Beat        uint64    `json:"beat"`
	Left        bool      `json:"left,omitempty"` // stopped in order
	Address     string    `json:"address,omitempty"`
	Spans       string    `json:"spans,omitempty"`
	Agents      string    `json:"agents,omitempty"`
	Version     string    `json:"version,omitempty"`
	Since       time.Time `json:"since"`
	Work        []string  `json:"work,omitempty"` // that it can hold
	State       State     `json:"state,omitzero"`
	// Claim is the incarnation of a process that wants to be this member, and is refused if
	// this one is alive.
	Claim string `json:"claim,omitempty"`
}

// leaseRecord is what the record of a piece of work holds.
type leaseRecord struct {
	Holder      string `json:"holder"` // writer; empty: given back
	Incarnation string `json:"incarnation,omitempty"`
	Term        uint64 `json:"term"` // rises with each holder
}

// Cluster is one server's view of the servers that share its store, and its part in their
// work. Its methods are safe for concurrent use.
type Cluster struct {
	o           Options
	incarnation string
	since       time.Time

	round sync.Mutex // held by a round, and by what joins and leaves

	mu      sync.Mutex
	own     uint64    // revision of the own record
	beat    uint64    // of the own record
	valid   time.Time // the leases are held until then
	seen    map[string]sighting
	leases  map[string]held // of all servers, as last read
	running map[*doing]bool // calls of Do
	yields  map[string]bool // work of this server that belongs to another: no new call of Do
	over    bool            // it left, or lost its name
	done    sync.WaitGroup  // of running
}

// doing is a call of Do.
type doing struct {
	work   string
	cancel context.CancelCauseFunc
}

// sighting is a member's record and when it was first seen so.
type sighting struct {
	record   memberRecord
	revision uint64
	at       time.Time
	changed  bool // at is when it was seen to change, not when it was seen first
}

// held is a lease as it was last read.
type held struct {
	record   leaseRecord
	revision uint64
}

// Join makes the server a member. If one of its name did not stop in order, Join first
// waits until that considers itself expired, Dead; if it is alive the error wraps ErrTwin,
// after its next renewal.
func Join(ctx context.Context, o Options) (*Cluster, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{o: o, incarnation: rand.Text(), since: time.Now(), seen: map[string]sighting{}, leases: map[string]held{}, running: map[*doing]bool{}, yields: map[string]bool{}}
	if err := c.join(ctx); err != nil {
		return nil, fmt.Errorf("join the servers of the store as %s: %w", o.Writer, err)
	}
	return c, c.Round(ctx)
}

func (c *Cluster) join(ctx context.Context) error {
	key := memberPrefix + c.o.Writer
	for {
		was, revision, err := c.readMember(ctx, key)
		if err != nil {
			return err
		}
		if revision == 0 || was.Left {
			_, err := c.write(ctx, key, c.record(0), revision)
			if errors.Is(err, store.ErrConflict) {
				continue // of two that start at once, one is second
			}
			return err
		}
		was.Claim = c.incarnation
		claimed, err := c.write(ctx, key, was, revision)
		if errors.Is(err, store.ErrConflict) {
			continue // a renewal came between
		}
		if err != nil {
			return err
		}
		for begin := time.Now(); time.Since(begin) < Dead; {
			if err := backoff.Sleep(ctx, time.Second); err != nil {
				return err
			}
			if _, revision, err = c.readMember(ctx, key); err != nil {
				return err
			}
			if revision != claimed {
				return errAlive
			}
		}
		if _, err = c.write(ctx, key, c.record(0), claimed); errors.Is(err, store.ErrConflict) {
			return errAlive
		}
		return err
	}
}

var errAlive = fmt.Errorf("%w: if the data directory was copied, delete the file WRITER in the copy", ErrTwin)

// record returns the own record with that number of renewals.
func (c *Cluster) record(beat uint64) memberRecord {
	r := memberRecord{Incarnation: c.incarnation, Beat: beat, Address: c.o.Address, Version: c.o.Version, Since: c.since.UTC().Round(0), Work: c.o.Work}
	if c.o.Spans != nil {
		r.Spans = c.o.Spans()
	}
	if c.o.Agents != nil {
		r.Agents = c.o.Agents()
	}
	return r
}

// readMember returns a member's record, and revision 0 if there is none.
func (c *Cluster) readMember(ctx context.Context, key string) (m memberRecord, revision uint64, err error) {
	r, err := c.o.Records.GetRecord(ctx, kind, key)
	if errors.Is(err, store.ErrNoRecord) {
		return m, 0, nil
	}
	if err != nil {
		return m, 0, err
	}
	if err := json.Unmarshal(r.Value, &m); err != nil {
		return m, 0, fmt.Errorf("record %s: %w", key, err)
	}
	return m, r.Revision, nil
}

// write writes one record of the cluster at a revision.
func (c *Cluster) write(ctx context.Context, key string, value any, revision uint64) (uint64, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	now, err := c.o.Records.PutRecords(ctx, kind, store.RecordWrite{Key: key, Value: b, IfRevision: revision})
	if err != nil {
		return 0, err
	}
	if m, ok := value.(memberRecord); ok && m.Incarnation == c.incarnation {
		c.mu.Lock()
		if !c.valid.IsZero() && !time.Now().Before(c.valid) { // others may hold what this server held
			c.leases = map[string]held{}
			c.cancelLost()
		}
		c.own, c.beat, c.valid = now, m.Beat, begin.Add(Valid)
		c.mu.Unlock()
	}
	return now, nil
}

// Run renews and divides until ctx is done, and then leaves: what this server held is
// given back. It returns an error that wraps ErrTwin if another process took its name.
func (c *Cluster) Run(ctx context.Context) error {
	for {
		if err := backoff.Sleep(ctx, Every); err != nil {
			return c.leave(context.WithoutCancel(ctx))
		}
		err := c.Round(ctx)
		if errors.Is(err, ErrTwin) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			c.o.Logger.Warn("the servers of the store could not be read; tried again in five seconds", "error", err)
		}
	}
}

// Round renews the own record, looks at those of others, gives back what belongs to
// others and takes what belongs to this server.
func (c *Cluster) Round(ctx context.Context) error {
	c.round.Lock()
	defer c.round.Unlock()
	if err := c.renew(ctx); err != nil {
		return err
	}
	if err := c.read(ctx); err != nil {
		return err
	}
	return c.divide(ctx)
}

// renew writes the own record. A claim that another process wrote into it is refused by
// that.
func (c *Cluster) renew(ctx context.Context) error {
	key := memberPrefix + c.o.Writer
	c.mu.Lock()
	own, beat, lost := c.own, c.beat, c.over
	c.mu.Unlock()
	for !lost {
		r := c.record(beat + 1)
		if c.o.State != nil {
			r.State = c.o.State()
		}
		_, err := c.write(ctx, key, r, own)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		was, revision, err := c.readMember(ctx, key)
		if err != nil {
			return err
		}
		if lost = was.Incarnation != c.incarnation; !lost {
			own, beat = revision, max(beat, was.Beat)
		}
	}
	c.end()
	return fmt.Errorf("server %s: %w: it took this name while this server did not answer; restart this one once the other is stopped", c.o.Writer, ErrTwin)
}

// end lets nothing be done by this server from here on.
func (c *Cluster) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.cancelLost()
}

// cancelLost ends the calls of Do whose work this server does not hold. c.mu is held.
func (c *Cluster) cancelLost() {
	for d := range c.running {
		if c.over || !c.holds(c.leases[d.work].record) {
			d.cancel(ErrExpired)
		}
	}
}

// does reports whether a call of Do for the work is under way. c.mu is held.
func (c *Cluster) does(work string) bool {
	for d := range c.running {
		if d.work == work {
			return true
		}
	}
	return false
}

// read looks at all records of the cluster as of one moment.
func (c *Cluster) read(ctx context.Context) error {
	members, leases := map[string]sighting{}, map[string]held{}
	now := time.Now()
	err := c.o.Records.ListRecords(ctx, kind, "", func(r store.Record) error {
		if name, ok := strings.CutPrefix(r.Key, memberPrefix); ok {
			s := sighting{revision: r.Revision, at: now}
			if err := json.Unmarshal(r.Value, &s.record); err != nil {
				return fmt.Errorf("record %s: %w", r.Key, err)
			}
			members[name] = s
		}
		if work, ok := strings.CutPrefix(r.Key, leasePrefix); ok {
			h := held{revision: r.Revision}
			if err := json.Unmarshal(r.Value, &h.record); err != nil {
				return fmt.Errorf("record %s: %w", r.Key, err)
			}
			leases[work] = h
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range members {
		// A claim changes the revision, and is not a sign of life.
		was, ok := c.seen[name]
		if s.changed = ok; ok && was.record.Incarnation == s.record.Incarnation && was.record.Beat == s.record.Beat {
			s.at, s.changed = was.at, was.changed
		}
		members[name] = s
	}
	c.seen, c.leases = members, leases
	c.cancelLost()
	return nil
}

// alive reports whether a member is alive at now. c.mu is held.
func (c *Cluster) alive(name string, now time.Time) bool {
	s, ok := c.seen[name]
	return ok && !s.record.Left && now.Sub(s.at) < Dead
}

// divide gives back the leases that belong to other servers and takes those that belong to
// this one and that nobody who is alive holds.
func (c *Cluster) divide(ctx context.Context) error {
	now := time.Now()
	c.mu.Lock()
	live := map[string][]string{} // by work, who can hold it
	for name, s := range c.seen {
		if c.alive(name, now) {
			for _, work := range s.record.Work {
				live[work] = append(live[work], name)
			}
		}
	}
	type change struct {
		work string
		to   leaseRecord
		at   uint64
	}
	var changes []change
	for _, work := range c.o.Work {
		h := c.leases[work]
		mine := first(live[work], work) == c.o.Writer
		holds := c.holds(h.record)
		c.yields[work] = holds && !mine
		switch {
		case holds && !mine && !c.does(work):
			changes = append(changes, change{work, leaseRecord{Term: h.record.Term}, h.revision})
		case !holds && mine && !c.holderAlive(h.record, now):
			changes = append(changes, change{work, leaseRecord{c.o.Writer, c.incarnation, h.record.Term + 1}, h.revision})
		}
	}
	c.mu.Unlock()
	for _, x := range changes {
		revision, err := c.write(ctx, leasePrefix+x.work, x.to, x.at)
		if errors.Is(err, store.ErrConflict) {
			continue // another was first
		}
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.leases[x.work] = held{x.to, revision}
		c.mu.Unlock()
		c.o.Logger.Info("work has another holder", "work", x.work, "holder", x.to.Holder, "term", x.to.Term)
	}
	return nil
}

// holds reports whether a lease is this process's. c.mu is held.
func (c *Cluster) holds(r leaseRecord) bool {
	return r.Holder == c.o.Writer && r.Incarnation == c.incarnation
}

// holderAlive reports whether the holder of a lease is alive: the process, not only the
// server. c.mu is held.
func (c *Cluster) holderAlive(r leaseRecord, now time.Time) bool {
	return r.Holder != "" && c.alive(r.Holder, now) && c.seen[r.Holder].record.Incarnation == r.Incarnation
}

// Do calls do if this server holds the work, and reports whether it did. The context of
// do ends when the lease can no longer be relied on; then an error of do wraps ErrExpired.
// The work is not given back before do returns. If its error is store.ErrConflict, another
// server may have written what do writes, and the lease is not relied on before Round has read
// it again: the clock by which it is valid may have stood still.
func (c *Cluster) Do(ctx context.Context, work string, do func(context.Context) error) (did bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := &doing{work, cancel}
	c.mu.Lock()
	h := c.leases[work]
	if c.over || c.yields[work] || !c.holds(h.record) || !time.Now().Before(c.valid) {
		c.mu.Unlock()
		return false, nil
	}
	c.running[d] = true
	c.done.Add(1)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.running, d)
		c.mu.Unlock()
		c.done.Done()
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			left := c.left()
			if left <= 0 {
				cancel(ErrExpired)
				return
			}
			if backoff.Sleep(ctx, left) != nil {
				return
			}
		}
	}()
	defer func() {
		cancel(nil)
		<-watched
	}()
	if err := do(ctx); err != nil {
		if errors.Is(context.Cause(ctx), ErrExpired) {
			err = fmt.Errorf("%s: %w: %w", work, ErrExpired, err)
		}
		if errors.Is(err, store.ErrConflict) {
			c.mu.Lock()
			if c.leases[work].revision == h.revision {
				delete(c.leases, work)
			}
			c.mu.Unlock()
		}
		return true, err
	}
	return true, nil
}

// left returns for how long the leases of this server are valid.
func (c *Cluster) left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.valid)
}

// Members lists all servers of the store, by name, as this one last saw them.
func (c *Cluster) Members() []Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var out []Member
	for _, name := range slices.Sorted(maps.Keys(c.seen)) {
		s := c.seen[name]
		m := Member{Writer: name, Address: s.record.Address, Spans: s.record.Spans, Agents: s.record.Agents, Version: s.record.Version, Since: s.record.Since, Seen: now.Sub(s.at), Alive: c.alive(name, now), State: s.record.State}
		if s.changed && !s.record.State.Now.IsZero() {
			// The record was written between Every before it was seen and then.
			least := s.record.State.Now.Sub(s.at)
			m.Ahead = max(least, min(least+Every, 0))
		}
		for work, h := range c.leases {
			if h.record.Holder == name && h.record.Incarnation == s.record.Incarnation && m.Alive {
				m.Works = append(m.Works, work)
			}
		}
		slices.Sort(m.Works)
		out = append(out, m)
	}
	return out
}

// Offers reports whether a server that can hold the work is alive, or was less than within ago,
// as far as this one has seen: it counts those that were gone before from its own start on.
func (c *Cluster) Offers(work string, within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seen {
		if slices.Contains(s.record.Work, work) && time.Since(s.at) < within {
			return true
		}
	}
	return false
}

// leave ends what this server does, and then marks its record as left, so that others
// need not wait to take over.
func (c *Cluster) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Every)
	defer cancel()
	c.round.Lock()
	defer c.round.Unlock()
	c.end()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.done.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return fmt.Errorf("leave the servers of the store: %w: others take over in %v", ctx.Err(), Dead)
	}
	c.mu.Lock()
	r, own := c.record(c.beat+1), c.own
	c.mu.Unlock()
	r.Left = true
	if _, err := c.write(ctx, memberPrefix+c.o.Writer, r, own); err != nil {
		return fmt.Errorf("leave the servers of the store: %w", err)
	}
	return nil
}
