package mirror

import (
	"errors"
	"time"

	"tailscope/internal/experiment/mirror/observe"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/shadow"
)

// Sample holds the activity of a session since the sample before.
type Sample struct {
	At, Since time.Time
	Primary   observe.Target
	Shadows   []observe.Target // as State has them
}

// Sampler takes samples of a session, some a second. It belongs to one goroutine.
type Sampler struct {
	s     *Session
	o     *observe.Observer
	last  time.Time
	under []shadow.Under
}

// ErrNoRequests reports that a session copies bytes, in which it sees no requests.
var ErrNoRequests = errors.New("in tcp mode there are no requests to be looked at: leave out mirror.tcp")

// ErrSampled reports that the session has a Sampler already.
var ErrSampled = errors.New("somebody looks at the session already: wait until that search has ended")

// NewSampler observes the session until Close. It returns ErrNoRequests in tcp mode,
// and ErrSampled if there is another.
func (s *Session) NewSampler() (*Sampler, error) {
	if s.tcp != nil {
		return nil, ErrNoRequests
	}
	if !s.sampled.CompareAndSwap(false, true) {
		return nil, ErrSampled
	}
	l := &Sampler{s: s, o: observe.New(len(s.senders), nil), last: time.Now()}
	s.ledger.Observe(l.o)
	return l, nil
}

// Close ends the sampling.
func (l *Sampler) Close() {
	l.s.ledger.Observe(nil)
	l.s.sampled.Store(false)
}

// Sample returns what happened since the last sample, or since NewSampler, and what
// is under way. The caller owns it.
func (l *Sampler) Sample() Sample {
	seen := l.o.Take()
	sample := Sample{At: time.Now(), Since: l.last, Primary: seen[0], Shadows: seen[1:]}
	l.last = sample.At
	now := pair.Steady()
	for i, sender := range l.s.senders {
		l.under = sender.UnderWay(l.under[:0])
		t := &sample.Shadows[i]
		for _, u := range l.under {
			t.Add(u.Operation, time.Duration(now-u.Due), u.Waits)
		}
	}
	return sample
}

// Shed drops the copies that amplifying has added to a shadow's load and that were
// not sent yet, and returns their number. Then a lower factor takes effect at once.
func (s *Session) Shed(shadow int) int {
	if s.tcp != nil {
		return 0
	}
	return s.senders[shadow].Shed()
}

// Spread returns the time over which the further copies of a request are sent.
func (s *Session) Spread() time.Duration { return s.o.Spread }
