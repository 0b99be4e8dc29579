package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/internal/proc"
)

// streams is a run of an engine without threads of its own: goroutines read answers,
// and one goroutine of each dispatcher sends on time.
type streams struct {
	o      *Options
	tls    *tls.Config     // nil for none
	ctx    context.Context // of connections; ends when the run has
	end    context.CancelFunc
	wg     sync.WaitGroup // of what connections run
	opened atomic.Uint64  // connections
}

func newStreams(o *Options) *streams {
	s := &streams{o: o, tls: o.TLS}
	s.ctx, s.end = context.WithCancel(context.Background())
	if s.tls != nil && s.tls.ClientSessionCache == nil {
		s.tls = s.tls.Clone()
		s.tls.ClientSessionCache = tls.NewLRUClientSessionCache(0) // one target: one session
	}
	return s
}

// run sends the load over lines. lines adds n lines to a dispatcher and returns a
// function that closes their connections, which is called once nothing is under way.
func (s *streams) run(ctx context.Context, lines func(d *dispatcher, n int) (stop func())) (Account, error) {
	o := s.o
	dispatchers := make([]*dispatcher, 0, o.Loops)
	for i := range o.Loops {
		d, err := newDispatcher(o, i)
		if err != nil {
			return Account{}, err
		}
		defer d.alarm.close()
		dispatchers = append(dispatchers, d)
	}
	defer s.wg.Wait()
	defer s.end()
	for i, d := range dispatchers {
		n := o.Connections / o.Loops
		if i < o.Connections%o.Loops {
			n++
		}
		defer lines(d, n)()
	}

	started, before := time.Now(), proc.CPU()
	for _, d := range dispatchers {
		d.start = started
	}
	o.begun(started)
	quit := make(chan struct{})
	var pacing, watching sync.WaitGroup
	for _, d := range dispatchers {
		defer context.AfterFunc(ctx, d.alarm.wake)()
		pacing.Go(func() { d.pace(ctx) })
		watching.Go(func() { d.watch(quit) })
	}
	pacing.Wait()
	s.drain(ctx, dispatchers)
	close(quit)
	watching.Wait()

	a := Account{Started: started, Elapsed: time.Since(started), CPU: proc.CPU() - before, Connections: s.opened.Load()}
	a.Busiest = min(1, a.CPU.Seconds()/a.Elapsed.Seconds()/float64(runtime.GOMAXPROCS(0)))
	for _, d := range dispatchers {
		a.Due += d.account.Due
		a.Sent += d.account.Sent
		a.Dropped += d.account.Dropped
		a.Unsent += d.account.Unsent
		a.Exhausted = a.Exhausted || d.account.Exhausted
	}
	return a, nil
}

// drain waits for what is under way and what waits, Options.Drain at most, and cuts
// off the rest.
func (s *streams) drain(ctx context.Context, dispatchers []*dispatcher) {
	t := time.NewTimer(s.o.Drain)
	defer t.Stop()
	over := false
	for _, d := range dispatchers {
		if !over {
			select {
			case <-d.empty:
				continue
			case <-ctx.Done():
			case <-t.C:
			}
			over = true
		}
		d.cutOff()
	}
	for _, d := range dispatchers {
		<-d.empty
	}
}

func newDispatcher(o *Options, i int) (*dispatcher, error) {
	d := &dispatcher{o: o, limit: max(1, o.Waiting/o.Loops), empty: make(chan struct{})}
	var err error
	if d.source, err = o.Source(i, o.Loops); err != nil {
		return nil, err
	}
	d.recorder = o.Recorder(i, o.Loops)
	d.beginner, _ = d.recorder.(Beginner)
	if o.Pacer != nil {
		if d.pacer, err = o.Pacer(i, o.Loops); err != nil {
			return nil, err
		}
	}
	d.alarm, err = newAlarm()
	return d, err
}

// line adds a line whose requests via carries.
func (d *dispatcher) line(via carrier) *line {
	l := &line{dispatcher: d, via: via}
	d.lines = append(d.lines, l)
	d.shut = append(d.shut, l)
	return l
}

// dial connects, with TLS if it is asked for. The error of a handshake is a
// handshakeError.
func (s *streams) dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.o.Address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	s.opened.Add(1)
	if s.tls == nil {
		return conn, nil
	}
	t := tls.Client(conn, s.tls)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &handshakeError{fmt.Errorf("TLS handshake: %w", err)}
	}
	return t, nil
}

type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// refusal returns the cause of an error of dial.
func refusal(err error) Cause {
	var h *handshakeError
	switch {
	case errors.As(err, &h):
		return TLS
	case errors.Is(err, errFrame):
		return NotHTTP
	}
	return Connect
}

// broken returns the cause of a failed read from a connection.
func broken(err error) Cause {
	switch {
	case alerted(err): // TLS 1.3 refuses a client's certificate after the handshake
		return TLS
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Closed
	}
	return Reset
}

// alerted reports whether the other side ended a TLS connection with an alert.
func alerted(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
