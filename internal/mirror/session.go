package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tailscope/api"
)

// Session is one run of a mirror. It is safe for concurrent use.
type Session struct {
	o       Options
	started time.Time

	stopping  context.Context // done when the session is to end
	stop      context.CancelFunc
	done      chan struct{} // closed when everything has ended
	closeOnce sync.Once
	err       error // of the session's end, read after done

	mu    sync.Mutex
	state api.MirrorState
}

// Start checks the options, listens, connects to the primary once, and serves
// clients from then on. It returns an error, and leaves nothing behind, if the
// options are wrong, the address is taken, the primary is not reached, or
// requests would go round in circles. The session ends by Close, when ctx is
// done, after Options.For, or when the server's reply says so.
func Start(ctx context.Context, o Options) (*Session, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return nil, errors.New("start: not assembled yet")
}

// ID is the session's name.
func (s *Session) ID() string { return s.o.ID }

// State is what the session does at the moment. The caller owns it.
func (s *Session) State() api.MirrorState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Apply makes a change. All of it is checked before any of it is done. A number
// that is not above that of the last change is one that was already made, and
// nothing happens; 0 is a change without a number, which is always made.
func (s *Session) Apply(c api.MirrorChange) error {
	return fmt.Errorf("change %d: not assembled yet", c.Number)
}

// Wait returns when the session has ended: with nil if that was asked for, else
// with what ended it.
func (s *Session) Wait() error {
	<-s.done
	return s.err
}

// Close ends the session in order: no new connections; clients finish within a
// bound, copies within their time limit; what is measured is handed over, the
// record file closed, the last report sent. Once ctx is done all of it is cut
// short. It returns what Wait returns; closing again is the same.
func (s *Session) Close(ctx context.Context) error {
	s.stop()
	return s.Wait()
}
