package shadow

import "time"

// Of an answer, what is beyond freeBytes is read at the pace of its sender: all
// connections together no faster than paceBytes a second. A server whose answers
// do not end would have every processor read them, and clients wait for one.
const (
	freeBytes = 1 << 20
	paceBytes = 512 << 20
	// paceStep is how far ahead of its pace a sender may be, so that not every read
	// is followed by a wait.
	paceStep = int64(200 * time.Microsecond)
)

// pace waits until n bytes more of a long answer are due.
func (l *Sender) pace(n int) {
	now := l.o.Now()
	takes := int64(n) * int64(time.Second) / paceBytes
	for {
		free := l.paced.Load()
		due := max(free, now)
		if l.paced.CompareAndSwap(free, due+takes) {
			if wait := due + takes - now; wait > paceStep {
				time.Sleep(time.Duration(wait))
			}
			return
		}
	}
}
