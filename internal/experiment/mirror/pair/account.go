package pair

import (
	"sync"

	"tailscope/api"
)

// account counts what became of the copies for one shadow. Under mu, at any moment,
//
//	offered  = queued + sum(dropped) + mirrored
//	mirrored = waiting + sum(failed) + answered
//	answered = pairing + paired + unpaired
type account struct {
	mu sync.Mutex
	tally
	_ [64]byte // the next account is another's
}

type tally struct {
	offered, queued, mirrored, waiting, answered, pairing, paired, unpaired uint64

	dropped, failed [NumCauses]uint64
}

func (a *account) offer(n uint64) {
	a.mu.Lock()
	a.offered += n
	a.queued += n
	a.mu.Unlock()
}

func (a *account) send() {
	a.mu.Lock()
	a.sendLocked()
	a.mu.Unlock()
}

func (a *account) sendLocked() {
	a.queued--
	a.mirrored++
	a.waiting++
}

func (a *account) drop(c Cause) {
	a.mu.Lock()
	a.queued--
	a.dropped[c]++
	a.mu.Unlock()
}

// end counts the end of a copy that was begun; sent reports that Sent was called for
// it.
func (a *account) end(c Cause, sent bool, primary fate) {
	a.mu.Lock()
	if !sent {
		a.sendLocked()
	}
	a.waiting--
	if c != None {
		a.failed[c]++
	} else {
		a.answered++
		switch primary {
		case pending:
			a.pairing++
		case whole:
			a.paired++
		case broken:
			a.unpaired++
		}
	}
	a.mu.Unlock()
}

// resolveWaiting counts n copies that waited for the primary's answer, by its fate.
func (a *account) resolveWaiting(n uint64, primary fate) {
	a.mu.Lock()
	a.pairing -= n
	if primary == whole {
		a.paired += n
	} else {
		a.unpaired += n
	}
	a.mu.Unlock()
}

func (a *account) read() tally {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tally
}

func (a *account) snapshot() api.MirrorAccount {
	t := a.read()
	return api.MirrorAccount{
		Offered: t.offered, Queued: t.queued, Dropped: byCause(&t.dropped),
		Mirrored: t.mirrored, Waiting: t.waiting, Failed: byCause(&t.failed),
		Answered: t.answered, Pairing: t.pairing, Paired: t.paired, Unpaired: t.unpaired,
	}
}

func byCause(counts *[NumCauses]uint64) map[string]uint64 {
	m := map[string]uint64{}
	for c, n := range counts {
		if n > 0 {
			m[Cause(c).String()] = n
		}
	}
	return m
}
