package bench

import (
	"context"
	"errors"
	"math"
	"sort"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func schedule(t *testing.T, a Arrivals, rate float64) *Schedule {
	t.Helper()
	s, err := NewSchedule(a, rate, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEvenScheduleDoesNotDrift(t *testing.T) {
	s := schedule(t, Even, 3)
	var last time.Duration
	for range 3_000_001 {
		last = s.Next()
	}
	if want := 1_000_000 * time.Second; last != want {
		t.Errorf("the 3,000,000th of 3/s is due at %v, want %v", last, want)
	}
}

// Gaps of a Poisson schedule are exponential: compared with the law by the
// Kolmogorov-Smirnov statistic, whose 99.9 % point for n gaps is 1.95/sqrt(n).
func TestPoissonScheduleFollowsItsLaw(t *testing.T) {
	const n, rate = 50_000, 120.0
	s := schedule(t, Poisson, rate)
	gaps := make([]float64, n)
	var prev time.Duration
	for i := range gaps {
		due := s.Next()
		gaps[i] = (due - prev).Seconds()
		prev = due
	}
	sort.Float64s(gaps)
	worst := 0.0
	for i, g := range gaps {
		want := 1 - math.Exp(-rate*g)
		worst = max(worst, math.Abs(want-float64(i)/n), math.Abs(want-float64(i+1)/n))
	}
	if limit := 1.95 / math.Sqrt(n); worst > limit {
		t.Errorf("distance from the exponential law %.4f, want at most %.4f", worst, limit)
	}
}

func TestScheduleRefusesNonsense(t *testing.T) {
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := NewSchedule(Even, rate, 1); err == nil {
			t.Errorf("rate %v: no error", rate)
		}
	}
}

func TestSameSeedSameSchedule(t *testing.T) {
	a, b := schedule(t, Poisson, 10), schedule(t, Poisson, 10)
	for k := range 100 {
		if x, y := a.Next(), b.Next(); x != y {
			t.Fatalf("request %d: due at %v and at %v", k, x, y)
		}
	}
}

func fakeSleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// One worker that needs 250 ms per request, asked for 10 a second: the k-th
// request is due at k·100 ms and ends at (k+1)·250 ms, so its latency is
// 250 ms + k·150 ms. A generator that waited for the worker would report 250 ms.
func TestLatencyRunsFromTheIntendedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []time.Duration
		sum, err := Run(t.Context(), Options{
			Schedule: schedule(t, Even, 10), Duration: time.Second, Workers: 1, Queue: 100,
			Do:    func(context.Context, Request) error { time.Sleep(250 * time.Millisecond); return nil },
			Done:  func(r Result) { got = append(got, r.Latency()) },
			sleep: fakeSleep,
		})
		if err != nil {
			t.Fatal(err)
		}
		for k, d := range got {
			if want := 250*time.Millisecond + time.Duration(k)*150*time.Millisecond; d != want {
				t.Errorf("request %d: latency %v, want %v", k, d, want)
			}
		}
		if len(got) != 10 || sum.Completed != 10 || sum.Dropped != 0 {
			t.Errorf("%d results, %d completed, %d dropped; want 10, 10, 0", len(got), sum.Completed, sum.Dropped)
		}
		if sum.Latency.Count != 10 || math.Abs(sum.Latency.Sum-9.25) > 1e-9 {
			t.Errorf("latency count %d, sum %v; want 10, 9.25", sum.Latency.Count, sum.Latency.Sum)
		}
	})
}

func TestWhatCannotBeSentIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(950*time.Millisecond, cancel)
		block := func(ctx context.Context, _ Request) error { <-ctx.Done(); return ctx.Err() }
		sum, err := Run(ctx, Options{
			Schedule: schedule(t, Even, 10), Workers: 2, Queue: 3, Do: block, sleep: fakeSleep,
		})
		if err != nil {
			t.Fatal(err)
		}
		if sum.Scheduled != 10 || sum.Completed != 0 || sum.Interrupted != 2 || sum.Unstarted != 3 || sum.Dropped != 5 {
			t.Errorf("got %+v, want 10 scheduled = 2 interrupted + 3 unstarted + 5 dropped", sum)
		}
	})
}

func TestFailuresAreCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		failed := 0
		sum, _ := Run(t.Context(), Options{
			Schedule: schedule(t, Even, 100), Duration: time.Second, sleep: fakeSleep,
			Do: func(_ context.Context, r Request) error {
				if r.K%4 == 0 {
					return errors.New("refused")
				}
				return nil
			},
			Done: func(r Result) {
				if r.Err != nil {
					mu.Lock()
					failed++
					mu.Unlock()
				}
			},
		})
		if sum.Completed != 100 || sum.Failed != 25 || failed != 25 {
			t.Errorf("got %d completed, %d failed (%d seen); want 100, 25, 25", sum.Completed, sum.Failed, failed)
		}
	})
}

// On the real clock: everything due is handed out, and the lateness is known.
func TestRealClock(t *testing.T) {
	sum, err := Run(t.Context(), Options{
		Schedule: schedule(t, Even, 1000), Duration: 100 * time.Millisecond,
		Do: func(context.Context, Request) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Scheduled != 100 || sum.Completed+sum.Dropped != 100 || sum.Lateness.Count != 100 {
		t.Errorf("got %+v", sum)
	}
}
