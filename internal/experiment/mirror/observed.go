package mirror

import (
	"errors"
	"time"

	"tailscope/internal/experiment/mirror/observe"
	"tailscope/internal/experiment/mirror/pair"
	"tailscope/internal/experiment/mirror/shadow"
)

// Look is what a session did since the one before.
type Look struct {
	At, Since time.Time
	Primary   observe.Target
	Shadows   []observe.Target // as State has them
}

// Looker looks at a session some times a second. It is for one goroutine.
type Looker struct {
	s     *Session
	o     *observe.Observer
	last  time.Time
	under []shadow.Under
}

// ErrNoRequests says that a session copies bytes, and knows of no requests.
var ErrNoRequests = errors.New("in tcp mode there are no requests to be looked at: leave out mirror.tcp")

// ErrLooked says that somebody looks at the session already.
var ErrLooked = errors.New("somebody looks at the session already: wait until that search has ended")

// Looker has the session watched from now on, until Close. It returns
// ErrNoRequests in tcp mode, and ErrLooked if there is another.
func (s *Session) Looker() (*Looker, error) {
	if s.tcp != nil {
		return nil, ErrNoRequests
	}
	if !s.looked.CompareAndSwap(false, true) {
		return nil, ErrLooked
	}
	l := &Looker{s: s, o: observe.New(len(s.lanes), nil), last: time.Now()}
	s.book.Observe(l.o)
	return l, nil
}

// Close ends the watching.
func (l *Looker) Close() {
	l.s.book.Observe(nil)
	l.s.looked.Store(false)
}

// Look returns what happened since the last look, or since the Looker was made,
// and what is under way at the moment. The caller owns it.
func (l *Looker) Look() Look {
	seen := l.o.Take()
	look := Look{At: time.Now(), Since: l.last, Primary: seen[0], Shadows: seen[1:]}
	l.last = look.At
	now := pair.Steady()
	for i, lane := range l.s.lanes {
		l.under = lane.UnderWay(l.under[:0])
		t := &look.Shadows[i]
		for _, u := range l.under {
			t.Add(u.Operation, time.Duration(now-u.Due), u.Waits)
		}
	}
	return look
}

// Shed drops the copies that amplifying has added to a shadow's load and that were
// not sent yet, and says how many; with it less is sent at once when fewer copies
// are asked for.
func (s *Session) Shed(shadow int) int {
	if s.tcp != nil {
		return 0
	}
	return s.lanes[shadow].Shed()
}

// Spread is the time within which the further copies of a request are sent.
func (s *Session) Spread() time.Duration { return s.o.Spread }
