package load

import (
	"testing"
	"time"
)

func TestFreezes(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct{ at, want time.Duration }{
		{0, 1 * ms},
		{5000 * ms, 5001 * ms},
		{8999 * ms, 9000 * ms},
		{8999*ms + 500*time.Microsecond, 10000*ms + 500*time.Microsecond}, // half before the freeze
		{9000 * ms, 10001 * ms},
		{9999 * ms, 10001 * ms},
		{10000 * ms, 10001 * ms},
		{19500 * ms, 20001 * ms},
	} {
		if got := Freeze.End(c.at); got != c.want {
			t.Errorf("what arrives at %s ends at %s, want %s", c.at, got, c.want)
		}
	}
}

// With a connection for every request the waits are known without a queue: in each
// ten seconds one waits 1.001 s, the next a millisecond less, down to 2 ms.
func TestImplied(t *testing.T) {
	const rate = 1000
	all := Freeze.Implied(rate, 2*rate, 20*time.Second)
	got := TailOf(all)
	if len(all) != 20*rate || got.P50 != 0.001 || got.P99 != 0.901 || got.P999 != 0.991 || got.Max != 1.001 {
		t.Errorf("%d requests, %+v", len(all), got)
	}
	few := TailOf(Freeze.Implied(rate, 10, 20*time.Second))
	if few.P99 <= got.P99 || few.Max < got.Max || few.P99 > 1.01 {
		t.Errorf("on 10 connections %+v, on enough %+v", few, got)
	}
}
