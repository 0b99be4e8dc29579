package shadow

import (
	"time"

	"tailscope/internal/experiment/mirror/pair"
)

// sweeps calls sweep now and then, so that no copy needs a timer of its own. Limits
// are kept to within one of its steps.
func (l *Sender) sweeps() {
	every := min(max(l.o.Timeout/20, 5*time.Millisecond), 100*time.Millisecond)
	t := time.NewTicker(every)
	defer t.Stop()
	var late []*conn
	for {
		select {
		case <-l.swept:
			return
		case <-t.C:
			late = l.sweep(l.o.Now(), late[:0])
		}
	}
}

// sweep drops copies that have waited for too long, ends connections that are over
// their time or idle for too long, and tries unreachable servers again. It returns
// conns for the next call.
func (l *Sender) sweep(now int64, conns []*conn) []*conn {
	var unused []*conn
	l.mu.Lock()
	expired := l.queue.takeBefore(nil, now-int64(l.o.Timeout))
	for _, s := range l.servers {
		for _, c := range s.conns {
			if d := c.deadline.Load(); d != 0 && d <= now || c.streams > 0 && c.h2 != nil {
				conns = append(conns, c)
			}
			if c.idling && c.streams == 0 && now-c.unused > int64(l.o.Idle) {
				unused = append(unused, c)
			}
		}
	}
	for _, c := range unused {
		c.s.unidle(c)
	}
	if l.queue.n > 0 && !l.closed {
		l.connectFor(now)
	}
	l.mu.Unlock()
	for i := range expired {
		cause := pair.Expired
		if r := expired[i].r; r != nil {
			if broken := r.broken(); broken != pair.None {
				cause = broken
			}
		}
		l.drop(&expired[i], cause)
	}
	for _, c := range conns {
		if c.h2 != nil {
			c.expireStreams(now)
		} else {
			c.expire(now)
		}
	}
	for _, c := range unused {
		c.kill(pair.Stopped)
	}
	clear(conns)
	return conns
}
