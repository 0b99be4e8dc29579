package load

import (
	"container/heap"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"tailscope/test/program"
)

// Freezes is a server that answers in Serves, but for the last Lasts of every
// Every, when it stands still.
type Freezes struct{ Serves, Every, Lasts time.Duration }

// Freeze is the one of benchmarks/cmd/frozen.
var Freeze = Freezes{Serves: time.Millisecond, Every: 10 * time.Second, Lasts: time.Second}

// worked returns how long the server has not stood still until t.
func (f Freezes) worked(t time.Duration) time.Duration {
	runs := f.Every - f.Lasts
	return t/f.Every*runs + min(t%f.Every, runs)
}

// End returns when a request that arrives at t is answered.
func (f Freezes) End(t time.Duration) time.Duration {
	runs := f.Every - f.Lasts
	w := f.worked(t) + f.Serves
	if w%runs == 0 { // it ends just as the server freezes
		return w/runs*f.Every - f.Lasts
	}
	return w/runs*f.Every + w%runs
}

// Implied returns the waits of requests that are due at a rate, those due in the
// first stretch, each from when it was due: in order, each on the connection that is
// free first. Nothing in it is random. Ascending.
func (f Freezes) Implied(rate, connections int, stretch time.Duration) []time.Duration {
	free := make(ends, connections)
	var all []time.Duration
	for k := 0; ; k++ {
		due := time.Duration(k) * time.Second / time.Duration(rate)
		if due >= stretch {
			break
		}
		free[0] = f.End(max(due, free[0]))
		all = append(all, free[0]-due)
		heap.Fix(&free, 0)
	}
	slices.Sort(all)
	return all
}

type ends []time.Duration

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i] < e[j] }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(time.Duration)) }
func (e *ends) Pop() any          { panic("none is taken out") }

// Tail is the figures of a distribution that this is about, in seconds.
type Tail struct{ P50, P99, P999, Max float64 }

// TailOf returns the tail of values in ascending order, each quantile the least value
// that so many do not exceed.
func TailOf(sorted []time.Duration) Tail {
	n := len(sorted)
	if n == 0 {
		return Tail{}
	}
	at := func(perMille int) float64 { return sorted[max(0, (n*perMille+999)/1000-1)].Seconds() }
	return Tail{P50: at(500), P99: at(990), P999: at(999), Max: at(1000)}
}

// StartFrozen runs a server that freezes.
func StartFrozen(ctx context.Context, dir string) (p *program.Process, url string, err error) {
	p, addr, err := program.StartFrozen(ctx, filepath.Join(dir, "frozen.log"))
	if err != nil {
		return nil, "", fmt.Errorf("frozen: %w", err)
	}
	return p, "http://" + addr + "/", nil
}
