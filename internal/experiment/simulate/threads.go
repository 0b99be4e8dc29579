package simulate

import "math"

// threads holds when each thread is free next; empty means unlimited. Times are not
// negative and kept by their bits, whose order is the same: integers are compared
// without a branch, which nobody could predict.
type threads []uint64

// fewThreads is the most threads that are kept in ascending order; more are a heap.
const fewThreads = 32

func newThreads(n int, free float64) threads {
	t := make(threads, n)
	for i := range t {
		t[i] = math.Float64bits(free)
	}
	return t
}

// reset makes all free.
func (t threads) reset() { clear(t) }

// take gives work that arrives at a time, no earlier than any before, to the thread
// that is free first, and returns when it is done.
func (t threads) take(at, work float64) float64 {
	if len(t) == 0 {
		return at + work
	}
	done := math.Float64frombits(max(t[0], math.Float64bits(at))) + work
	if len(t) <= fewThreads {
		t.insert(math.Float64bits(done))
	} else {
		t.sift(math.Float64bits(done))
	}
	return done
}

// insert replaces the first time, and restores the order.
func (t threads) insert(done uint64) {
	for i := 1; i < len(t); i++ {
		next := t[i]
		t[i-1] = min(next, done)
		done = max(next, done)
	}
	t[len(t)-1] = done
}

// sift replaces the first time of a heap, and restores the order.
func (t threads) sift(done uint64) {
	i := 0
	for {
		c := 2*i + 1
		if c >= len(t) {
			break
		}
		if c+1 < len(t) && t[c+1] < t[c] {
			c++
		}
		if t[c] >= done {
			break
		}
		t[i] = t[c]
		i = c
	}
	t[i] = done
}

// takeAll is take for work that arrives at the same time: it replaces durations by
// the times at which they are done.
func (t threads) takeAll(at float64, work []float64) {
	begin := math.Float64bits(at)
	switch {
	case len(t) == 0:
		for i := range work {
			work[i] += at
		}
	case len(t) == 1:
		free := math.Float64frombits(max(t[0], begin))
		for i, d := range work {
			free += d
			work[i] = free
		}
		t[0] = math.Float64bits(free)
	case len(t) == 4:
		a, b, c, e := t[0], t[1], t[2], t[3]
		for i, d := range work {
			done := math.Float64frombits(max(a, begin)) + d
			work[i] = done
			x := math.Float64bits(done)
			a, x = min(b, x), max(b, x)
			b, x = min(c, x), max(c, x)
			c, e = min(e, x), max(e, x)
		}
		t[0], t[1], t[2], t[3] = a, b, c, e
	case len(t) <= fewThreads:
		for i, d := range work {
			done := math.Float64frombits(max(t[0], begin)) + d
			work[i] = done
			t.insert(math.Float64bits(done))
		}
	default:
		for i, d := range work {
			work[i] = t.take(at, d)
		}
	}
}
