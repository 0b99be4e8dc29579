package query

import (
	"context"

	"tailscope/internal/store"
)

// shortestGap is the shortest stretch without a request, in seconds, that is a gap in
// the data, and gapOfUsual the times that it is as long as the usual one.
const shortestGap, gapOfUsual = 300, 10

// Gaps returns the stretches of slots without requests that are longer than least seconds,
// in Unix seconds. Slot 0 begins at start.
func Gaps(has []bool, start, step int64, least float64) (out [][2]int64) {
	from := start
	for i := range len(has) + 1 {
		at := start + int64(i)*step
		if i < len(has) && !has[i] {
			continue
		}
		if at > from && float64(at-from) > least {
			out = append(out, [2]int64{from, at})
		}
		from = at + step
	}
	return out
}

// LongestWaitOf returns the longest stretch without a request, in seconds, that is not a gap
// in these slots: 0 if none of them has requests.
func LongestWaitOf(has []bool, step int64) float64 {
	unusual := UnusualWaitOf(has, step)
	if unusual == 0 {
		return 0
	}
	return max(shortestGap, unusual)
}

// UnusualWaitOf returns from how long on a stretch without a request is unusual in these slots,
// in seconds: 0 if none of them has requests.
func UnusualWaitOf(has []bool, step int64) float64 {
	n, first, last := 0, 0, 0
	for i, any := range has {
		if any {
			if n == 0 {
				first = i
			}
			n, last = n+1, i
		}
	}
	if n == 0 {
		return 0
	}
	return unusualWait(float64(int64(last+1-first)*step), n)
}

// LongestWait returns the longest stretch without a request, in seconds, that is not a gap
// where n slots within so many seconds have requests.
func LongestWait(seconds float64, n int) float64 {
	return max(shortestGap, unusualWait(seconds, n))
}

// unusualWait is ten times the time from one of n slots with requests, within so many seconds,
// to the next.
func unusualWait(seconds float64, n int) float64 { return gapOfUsual * seconds / float64(n) }

// Occupied reports in which slots of [start, end), Unix seconds, any service has requests:
// the server was up, so that a service without requests in such a slot has a rate of 0.
func Occupied(ctx context.Context, st store.Store, start, end, step int64) ([]bool, error) {
	m := measuring{ctx: ctx, st: st}
	found, err := m.columns(start, end, step)
	out := make([]bool, (end-start)/step)
	for _, at := range found.starts {
		for t := max(at, start); t < min(at+found.step, end); t += step {
			out[(t-start)/step] = true
		}
	}
	return out, err
}

// Occupied reports in which steps of its range requests were found.
func (r *Requested) Occupied() []bool {
	out := make([]bool, (r.End-r.Start)/r.Step)
	for _, g := range r.Groups {
		for i := range g.Good {
			out[i] = out[i] || g.Count(i) > 0
		}
	}
	return out
}
