package history

import (
	"context"
	"testing"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store/storetest"
)

// What another server puts is seen once what was read is no longer fresh: samples of
// series that were looked up, and series that are new.
func TestWhatOthersPut(t *testing.T) {
	st, now := storetest.NewTwin(), time.Unix(t0, 0)
	o := CacheOptions{Refresh: time.Minute, Now: func() time.Time { return now }}
	a, b := NewCache(st, o), NewCache(st, o)
	sample := func(s int64) series.Sample { return series.Sample{TimeMillis: (t0 + s) * 1000, Value: float64(s)} }
	newest := func(q string) int64 {
		t.Helper()
		found, _ := seriesIn(t, a, "queue").match(equals("q", q), 0)
		if len(found) == 0 {
			return -1
		}
		got, err := found[0].latest(context.Background(), nil, (t0+3600)*1000, 0, 1)
		check(t, err)
		return got[0].TimeMillis/1000 - t0
	}
	putSamples(t, a, 1, gauge("q", "a"), sample(1))
	equal(t, "its own", newest("a"), 1)
	putSamples(t, b, 2, gauge("q", "a"), sample(2))
	putSamples(t, b, 3, gauge("q", "b"), sample(3))
	equal(t, "while it is fresh", newest("a"), 1)
	equal(t, "a new series while it is fresh", newest("b"), -1)
	now = now.Add(time.Minute)
	equal(t, "the other's", newest("a"), 2)
	equal(t, "the other's series", newest("b"), 3)
	putSamples(t, a, 4, gauge("q", "a"), sample(4))
	equal(t, "its own, at once", newest("a"), 4)
}
