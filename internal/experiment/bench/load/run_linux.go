package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"tailscope/internal/http1"
)

// events reports that plain HTTP/1.1 has an event loop.
const events = true

// runEvents runs loops, each on a thread of its own.
func runEvents(ctx context.Context, o Options) (Account, error) {
	if err := raiseFileLimit(o.Connections); err != nil {
		return Account{}, err
	}
	if n := runtime.GOMAXPROCS(0); n <= o.Loops {
		// A loop keeps its processor of the runtime in short sleeps. The rest of the
		// program needs one beside them.
		runtime.GOMAXPROCS(o.Loops + 1)
		defer runtime.GOMAXPROCS(n)
	}
	loops := make([]*loop, 0, o.Loops)
	defer func() {
		for _, l := range loops {
			l.poll.close()
		}
	}()
	for i := range o.Loops {
		l, err := newLoop(&o, i)
		if err != nil {
			return Account{}, err
		}
		loops = append(loops, l)
	}

	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for _, l := range loops {
		ready.Add(1)
		done.Go(func() {
			prepare()
			ready.Done()
			<-begin
			l.run()
		})
	}
	ready.Wait()
	const lead = 500 * time.Microsecond // for every thread to be there when the first is due
	start := time.Now().Add(lead)
	for _, l := range loops {
		l.start, l.in.start = start, start
	}
	o.begun(start)
	woken := make(chan struct{})
	quit := context.AfterFunc(ctx, func() {
		defer close(woken)
		for _, l := range loops {
			l.stop.Store(true)
			l.poll.wake()
		}
	})
	close(begin)
	done.Wait()
	if !quit() {
		<-woken
	}
	return sum(loops, start)
}

func sum(loops []*loop, start time.Time) (Account, error) {
	a := Account{Started: start, Loops: len(loops)}
	var errs []error
	for _, l := range loops {
		t := l.total()
		a.Due += t.Due
		a.Sent += t.Sent
		a.Dropped += t.Dropped
		a.Unsent += t.Unsent
		a.Connections += t.Connections
		a.CPU += t.CPU
		a.Elapsed = max(a.Elapsed, t.Elapsed)
		a.Exhausted = a.Exhausted || t.Exhausted
		errs = append(errs, l.err)
	}
	for _, l := range loops {
		elapsed := max(a.Elapsed, 1).Seconds()
		if busy := min(1, (l.account.CPU+l.starved).Seconds()/elapsed); busy > a.Busiest {
			a.Busiest, a.Starved = busy, min(busy, l.starved.Seconds()/elapsed)
		}
	}
	return a, errors.Join(errs...)
}

func newLoop(o *Options, i int) (*loop, error) {
	l := &loop{o: o, in: newReceiver()}
	var err error
	if l.target, err = resolve(o.Address); err != nil {
		return nil, err
	}
	if l.source, err = o.Source(i, o.Loops); err != nil {
		return nil, err
	}
	l.recorder = o.Recorder(i, o.Loops)
	l.beginner, _ = l.recorder.(Beginner)
	if o.Pacer != nil {
		head, err := o.Pacer(i, o.Loops)
		if err != nil {
			return nil, err
		}
		tail, err := o.Pacer(i, o.Loops)
		if err != nil {
			return nil, err
		}
		l.queue = newQueue(head, tail, max(1, o.Waiting/o.Loops), o.Duration, l.recorder.Drop)
	}
	l.conns = make([]conn, share(o.Connections, i, o.Loops))
	l.thinking = make([]int32, 0, len(l.conns))
	for _, list := range []*list{&l.busy, &l.idle, &l.shut} {
		list.first, list.last = -1, -1
	}
	head := new(http1.Head) // of one answer at a time
	for k := range l.conns {
		l.conns[k].id, l.conns[k].fd = int32(k), -1
		l.conns[k].answer.head = head
		l.push(&l.shut, &l.conns[k])
	}
	if l.poll, err = newPoll(); err != nil {
		return nil, err
	}
	return l, nil
}

// share returns the i-th of n parts of whole.
func share(whole, i, n int) int {
	s := whole / n
	if i < whole%n {
		s++
	}
	return s
}

// raiseFileLimit raises the limit of open files to what connections need.
func raiseFileLimit(connections int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil // then it is found out
	}
	const others = 64
	if need := uint64(connections + others); limit.Cur < need {
		return fmt.Errorf("%d connections need %d open files, the limit is %d (hint: raise it with ulimit -n %d, or use fewer connections)", connections, need, limit.Cur, need)
	}
	return nil
}

// resolve returns the socket address of an address that was connected to.
func resolve(address string) (target, error) {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return target{}, fmt.Errorf("address %q: %w", address, err)
	}
	p := a.AddrPort()
	ip := p.Addr().Unmap()
	if ip.Is4() {
		return target{unix.AF_INET, &unix.SockaddrInet4{Port: int(p.Port()), Addr: ip.As4()}}, nil
	}
	return target{unix.AF_INET6, &unix.SockaddrInet6{Port: int(p.Port()), ZoneId: zone(ip), Addr: ip.As16()}}, nil
}

func zone(ip netip.Addr) uint32 {
	if i, err := net.InterfaceByName(ip.Zone()); err == nil {
		return uint32(i.Index)
	}
	return 0
}
