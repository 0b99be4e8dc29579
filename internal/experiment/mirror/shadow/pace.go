package shadow

import "time"

// The part of an answer beyond freeBytes is read at the pace of its sender: all
// connections together no faster than paceBytes a second. Without that a server whose
// answers do not end would keep every processor busy, and clients would wait for one.
const (
	freeBytes = 1 << 20
	paceBytes = 512 << 20
	// paceStep is the lead that a sender may have on its pace, so that not every read
	// waits.
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
