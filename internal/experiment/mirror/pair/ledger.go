package pair

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/api"
)

// Shadow is a server, or a pool of servers, that gets copies.
type Shadow struct {
	Name string // label variant
	Role Role   // Control or Candidate
}

// Options configures a Ledger. Service, Experiment and Shadows are required; the zero
// value of every other field means its default.
type Options struct {
	Service    string
	Experiment string // id of the session
	Primary    string // the primary's name; default primary
	Shadows    []Shadow
	// Sink stores what was measured; nil keeps accounts alone.
	Sink Sink
	// Now returns the time of day in Unix nanoseconds, which decides an observation's
	// slot; default the system's. Steady is the clock of legs; default Now if that is
	// set, else the function Steady.
	Now, Steady func() int64
	// Watch is called with every exchange that is kept, after its last leg has
	// ended, on the goroutine that ended it: it must not wait, nor keep the
	// exchange or its slices after it has returned. Answers may be kept.
	Watch func(*Exchange)

	FlushEvery time.Duration // default 2 s
	PutTimeout time.Duration // bounds one Put; default 10 s
	IdleAfter  time.Duration // names not seen for so long leave memory; default 10 min
	MaxNames   int           // pairs of operation and tenant in memory; default 2,048, see Stats.Folded
	MaxAnswers int64         // bytes of kept answers of exchanges that have not ended; default 64 MiB
	MaxHeld    int           // distributions kept while the sink refuses them; default 20,000
}

// EnsureDefaults sets the zero fields to their defaults.
func (o *Options) EnsureDefaults() {
	if o.Primary == "" {
		o.Primary = "primary"
	}
	if o.Steady == nil {
		if o.Steady = o.Now; o.Steady == nil {
			o.Steady = Steady
		}
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixNano() }
	}
	if o.FlushEvery <= 0 {
		o.FlushEvery = 2 * time.Second
	}
	if o.PutTimeout <= 0 {
		o.PutTimeout = 10 * time.Second
	}
	if o.IdleAfter <= 0 {
		o.IdleAfter = 10 * time.Minute
	}
	if o.MaxNames <= 0 {
		o.MaxNames = 2048
	}
	if o.MaxAnswers <= 0 {
		o.MaxAnswers = 64 << 20
	}
	if o.MaxHeld <= 0 {
		o.MaxHeld = 20_000
	}
}

// Validate reports every problem at once.
func (o *Options) Validate() error {
	var errs []error
	names := map[string]bool{o.Primary: true}
	for _, s := range o.Shadows {
		switch {
		case s.Name == "":
			errs = append(errs, errors.New("a shadow without a name"))
		case names[s.Name]:
			errs = append(errs, fmt.Errorf("two targets are named %q: give each a name of its own, as in new=http://b:8082", s.Name))
		}
		names[s.Name] = true
		if s.Role != Control && s.Role != Candidate {
			errs = append(errs, fmt.Errorf("shadow %q is neither control nor candidate", s.Name))
		}
	}
	return errors.Join(errs...)
}

// Ledger begins, counts and records exchanges. It is safe for concurrent use. Run
// flushes it.
type Ledger struct {
	o       Options
	lastID  atomic.Uint64
	open    atomic.Int64
	held    atomic.Int64 // bytes of answers of exchanges that have not ended
	strays  atomic.Uint64
	begun   [NumReasons]atomic.Uint64 // requests by Reason; Chosen are mirrored
	failed  [NumCauses]atomic.Uint64  // of the primary
	account []account
	pool    sync.Pool
	records recorder
	flusher flusher

	observer atomic.Pointer[Observer]
}

// NewLedger returns a ledger; its Options must be valid.
func NewLedger(o Options) *Ledger {
	o.EnsureDefaults()
	b := &Ledger{o: o, account: make([]account, len(o.Shadows))}
	b.pool.New = func() any { return &Exchange{ledger: b, copies: make([]copies, len(o.Shadows))} }
	b.records.init(&b.o)
	b.flusher.init(b)
	return b
}

// Begin begins the exchange of a request that was chosen. copies holds the number of
// copies for each shadow, in the order of Options.Shadows; the accounts count them as
// offered from now on. Nil copies is a chosen request without any. Keep asks for the
// answers, and for Watch. Begin does not retain copies.
//
// EndPrimary must follow exactly once, and EndCopy once for every copy.
func (b *Ledger) Begin(n Names, copies []uint8, keep bool) *Exchange {
	x := b.begin(n, Chosen)
	x.keep = keep
	x.left = 1
	for i := range copies {
		c := int(copies[i])
		x.left += c
		x.copies[i].left = c
		if c > 0 {
			b.account[i].offer(uint64(c))
		}
	}
	return x
}

// Skip begins the exchange of a request that was not chosen. Only its primary leg is
// timed, apart from those of chosen requests.
func (b *Ledger) Skip(n Names, why Reason) *Exchange {
	x := b.begin(n, why)
	x.left = 1
	return x
}

func (b *Ledger) begin(n Names, why Reason) *Exchange {
	if why >= NumReasons {
		why = Chosen
	}
	b.begun[why].Add(1)
	b.open.Add(1)
	x := b.pool.Get().(*Exchange)
	x.id = b.lastID.Add(1)
	x.names = n
	x.chosen = why == Chosen
	x.began = b.o.Now()
	x.entry = b.records.open(n, x.began)
	if o := b.observer.Load(); o != nil {
		(*o).Begun(x, why)
	}
	return x
}

// Account returns the account of the copies for a shadow, all at one moment. The
// sender fills in Buffered and BufferBound.
func (b *Ledger) Account(shadow int) api.MirrorAccount {
	return b.account[shadow].snapshot()
}

// Stats holds a ledger's totals since it was made.
type Stats struct {
	Requests uint64
	Open     int64 // exchanges not all of whose legs have ended
	// Skipped and Failed are keyed by Reason.String and Cause.String, without zeros.
	Skipped map[string]uint64
	Failed  map[string]uint64
	Strays  uint64 // ends of legs that were not open: a mistake of the caller, left out
	Names   int    // pairs of operation and tenant in memory
	Folded  uint64 // exchanges counted under _other, as there were too many names
	Held    int    // distributions that the sink has not taken yet
	Refused uint64 // Puts that failed; what they held is put again
	Lost    uint64 // observations given up, as too much was held or the last Put failed
	Err     error  // of the last Put, nil if it succeeded
}

// Stats returns the totals. Requests is never below the sum of Skipped, nor the sum
// of Failed above Requests.
func (b *Ledger) Stats() Stats {
	s := Stats{Skipped: map[string]uint64{}, Failed: map[string]uint64{}}
	for c := range b.failed {
		if n := b.failed[c].Load(); n > 0 {
			s.Failed[Cause(c).String()] = n
		}
	}
	for r := range b.begun {
		n := b.begun[r].Load()
		s.Requests += n
		if n > 0 && Reason(r) != Chosen {
			s.Skipped[Reason(r).String()] = n
		}
	}
	s.Open = b.open.Load()
	s.Strays = b.strays.Load()
	s.Names, s.Folded = b.records.stats()
	b.flusher.stats(&s)
	return s
}
