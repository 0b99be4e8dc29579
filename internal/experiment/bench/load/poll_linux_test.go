package load

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A wait ends by its time, by an event and by wake, on kernels before
// epoll_pwait2(2) too.
func TestPoll(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("old=%t", old), func(t *testing.T) {
			p, err := newPoll()
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			p.old = old
			const d = 1500 * time.Microsecond
			begin := time.Now()
			for time.Since(begin) < d { // a signal may end a wait
				if events, err := p.wait(d - time.Since(begin)); err != nil || len(events) > 0 {
					t.Fatalf("%v, %d events", err, len(events))
				}
			}

			var pipe [2]int
			if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pipe[0])
			defer unix.Close(pipe[1])
			if err := p.control(unix.EPOLL_CTL_ADD, pipe[0], unix.EPOLLIN, 7, 3); err != nil {
				t.Fatal(err)
			}
			if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
				t.Fatal(err)
			}
			for _, d := range []time.Duration{0, time.Hour} {
				events, err := p.wait(d)
				if err != nil || len(events) != 1 || events[0].Fd != 7 || events[0].Pad != 3 {
					t.Fatalf("waiting %v: %v, %v", d, err, events)
				}
			}
			if err := p.control(unix.EPOLL_CTL_DEL, pipe[0], 0, 0, 0); err != nil {
				t.Fatal(err)
			}
			go p.wake()
			for {
				events, err := p.wait(time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				if len(events) == 1 && events[0].Fd == wakeID {
					return
				}
			}
		})
	}
}

// What a loop learns of its sleeps never makes them later than they would be, and
// a signal teaches it nothing.
func TestWokeEarlier(t *testing.T) {
	l := &loop{}
	for range 10_000 {
		l.woke(l.lead - 20*time.Microsecond) // each takes 20 µs too long
	}
	if l.lead < 17*time.Microsecond || l.lead > 20*time.Microsecond {
		t.Errorf("lead %v", l.lead)
	}
	before := l.lead
	l.woke(time.Millisecond)
	if l.lead != before {
		t.Errorf("after a signal %v, not %v", l.lead, before)
	}
	l.woke(l.lead - 5*time.Microsecond)
	if l.lead > 5*time.Microsecond {
		t.Errorf("lead %v where to wake takes 5 µs", l.lead)
	}
	for range 10_000 {
		l.woke(-time.Millisecond)
	}
	if l.lead > 30*time.Microsecond {
		t.Errorf("lead %v", l.lead)
	}
}

// The kernel's times, in the loop's clock, lie between what was before and after.
func TestReceiver(t *testing.T) {
	r := newReceiver()
	r.start = time.Now()
	r.check(0)
	if r.checked == -never {
		t.Skip("the clocks cannot be compared on a machine as busy as this")
	}
	for range 100 {
		r.check(time.Since(r.start))
		before := time.Since(r.start)
		wall := time.Now().UnixNano()
		after := time.Since(r.start)
		if at := time.Duration(wall) + r.skew; at < before-50*time.Microsecond || at > after+50*time.Microsecond {
			t.Fatalf("%v is not between %v and %v", at, before, after)
		}
	}
}
