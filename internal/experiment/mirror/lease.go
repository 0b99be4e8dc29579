package mirror

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/mirror/observe"
)

// sampleEvery is the interval of reports while the session is sampled.
const sampleEvery = 250 * time.Millisecond

// lease is a session on loan: it is sampled, and changes of its shadows last until
// the loan ends. When the borrower disappears, everything is set back.
type lease struct {
	mu      sync.Mutex
	sampler *Sampler // nil: not lent
	since   time.Time
	until   time.Time
	sums    []sums             // the primary's, then the shadows'
	last    Sample             // for what is under way
	before  []api.ShadowChange // the shadows as they were
}

// sums add up the samples of a target since the loan began.
type sums struct {
	all   *observe.Seen
	apart map[string]*observe.Seen // of all, operations that are counted apart
}

// lend samples the session for seconds seconds; 0 ends the loan. Operations in apart
// are counted separately from its beginning to its end. Under s.mu.
func (s *Session) lend(seconds int, apart []string, targets []api.MirrorTarget) error {
	l := &s.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if seconds == 0 {
		return s.endLoan()
	}
	l.until = now.Add(time.Duration(seconds) * time.Second)
	if l.sampler != nil {
		return nil
	}
	sampler, err := s.NewSampler()
	if err != nil {
		return fmt.Errorf("look: %w", err)
	}
	l.sampler, l.since = sampler, now
	l.sums, l.last, l.before = make([]sums, 1+len(targets)), Sample{}, nil
	for i := range l.sums {
		l.sums[i] = sums{observe.NewSeen(), map[string]*observe.Seen{}}
		for _, name := range apart {
			l.sums[i].apart[name] = observe.NewSeen()
		}
	}
	for _, t := range targets {
		using, amplify := t.Using, t.Amplify
		l.before = append(l.before, api.ShadowChange{Using: &using, Amplify: &amplify})
	}
	return nil
}

// endLoan sets pools and copies back. Under s.mu and lease.mu.
func (s *Session) endLoan() error {
	l := &s.lease
	if l.sampler == nil {
		return nil
	}
	l.sampler.Close()
	l.sampler = nil
	var errs []error
	for i, c := range l.before {
		errs = append(errs, s.changeShadow(i, c))
		s.Shed(i)
	}
	return errors.Join(errs...)
}

// giveBack ends a loan whose time is over.
func (s *Session) giveBack(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	if s.lease.sampler == nil || now.Before(s.lease.until) {
		return
	}
	s.log.Warn("mirror: nobody looks at the session any more; its pools and copies are again what they were before")
	if err := s.endLoan(); err != nil {
		s.log.Warn("mirror: not all pools and copies are what they were", "error", err)
	}
}

func (s *Session) reportsEvery() time.Duration {
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	if s.lease.sampler != nil {
		return sampleEvery
	}
	return reportEvery
}

// seen takes a sample and returns the sums since the loan began, or nil without a
// loan.
func (l *lease) seen(m *api.MirrorState) *api.MirrorSeen {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sampler == nil {
		return nil
	}
	l.last = l.sampler.Sample()
	out := &api.MirrorSeen{Since: unix(l.since), At: unix(l.last.At), Until: unix(l.until)}
	names := []string{m.Primary.Name}
	for _, t := range m.Shadows {
		names = append(names, t.Name)
	}
	for i, name := range names {
		t := &l.last.Primary
		if i > 0 {
			t = &l.last.Shadows[i-1]
		}
		sum := &l.sums[i]
		sum.all.Add(t.All())
		x := sight(name, sum.all, t.AllUnder())
		for operation, s := range sum.apart {
			if now := t.Seen[operation]; now != nil {
				s.Add(now)
			}
			if x.Operations == nil {
				x.Operations = map[string]api.MirrorSight{}
			}
			x.Operations[operation] = sight(operation, s, t.Under[operation])
		}
		out.Targets = append(out.Targets, x)
	}
	return out
}

func sight(name string, s *observe.Seen, u observe.Under) api.MirrorSight {
	return api.MirrorSight{
		Name: name, Begun: s.Begun, Ended: s.Ended, Errors: s.Errors, Refused: s.Refused, Lost: s.Lost,
		UnderWay: u.N, Waiting: u.Waits, Oldest: api.Float(u.Oldest.Seconds()), Latency: encoded(s.Latency), Service: encoded(s.Service), Failed: encoded(s.Failed),
	}
}

// encoded returns h encoded, or nil if it is empty.
func encoded(h *hist.Histogram) []byte {
	if h.Count == 0 {
		return nil
	}
	b, err := h.AppendBinary(nil)
	if err != nil {
		return nil // it was not filled by hand
	}
	return b
}

func unix(t time.Time) api.Float { return api.Float(float64(t.UnixMicro()) / 1e6) }
