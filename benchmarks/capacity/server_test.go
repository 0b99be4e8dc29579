package capacity

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tailscope/benchmarks/clock"
	"tailscope/internal/experiment/capacity/virtual"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends n requests at once and returns how long all of them took, and how many
// were served.
func ask(t *testing.T, url string, n int) (took time.Duration, served int) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: n}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	begun := time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			resp, err := client.Get(url)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			if resp.StatusCode == http.StatusOK {
				served++
			}
		})
	}
	all.Wait()
	return time.Since(begun), served
}

func ticking(t *testing.T) *clock.Clock {
	ctx, cancel := context.WithCancel(t.Context())
	c := clock.New()
	var runs sync.WaitGroup
	runs.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); runs.Wait() })
	return c
}

func fixed(d float64) func(*rand.Rand) float64 { return func(*rand.Rand) float64 { return d } }

// Twelve requests at once take three workers four services, and no less.
func TestServersTakeTheirTime(t *testing.T) {
	c := ticking(t)
	v := virtual.Server{Workers: 3, Service: fixed(0.03)}
	q, err := Queue(t.Context(), v, c, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	w, err := StartWorkers(t.Context(), v, c, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Server{"queue": q, "workers": w.Server} {
		took, served := ask(t, s.URL, 12)
		if took < 120*time.Millisecond || served != 12 || s.Arrivals() != 12 || s.Last().IsZero() {
			t.Errorf("%s: %d of 12 served in %s, %d arrivals", name, served, took, s.Arrivals())
		}
	}
	w.Close() // the last service is measured after it was answered
	for _, took := range w.Took() {
		if took < 0.03 {
			t.Errorf("a service took %v s of 0.03", took)
		}
	}
	if len(w.Took()) != 12 {
		t.Errorf("%d services were measured", len(w.Took()))
	}
}

// Of eight requests one is served and two wait, for as long as anybody looks; the
// others are refused at once.
func TestQueuesRefuse(t *testing.T) {
	s, err := Queue(t.Context(), virtual.Server{Workers: 1, Service: fixed(1000), QueueLimit: 2}, ticking(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	answers := make(chan int) // their status, 0 of none
	for range 8 {
		go func() {
			status := 0
			if r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil); err == nil {
				if resp, err := transport.RoundTrip(r); err == nil {
					resp.Body.Close()
					status = resp.StatusCode
				}
			}
			answers <- status
		}()
	}
	for i := range 8 {
		want := http.StatusServiceUnavailable
		if i == 5 {
			for s.Arrivals() < 8 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}
		if i >= 5 {
			want = 0
		}
		if got := <-answers; got != want {
			t.Errorf("answer %d has status %d, want %d", i, got, want)
		}
	}
	if n := s.Arrivals(); n != 8 {
		t.Errorf("%d of 8 arrived", n)
	}
}

// The truth of measured services is that of the shape they were drawn from.
func TestTruth(t *testing.T) {
	shape := virtual.Shapes()[0] // M/M/1 of 500/s, p99 < 100ms: 500 − ln(100)/0.1
	random := rand.New(rand.NewPCG(1, 2))
	took := make([]float64, 100_000)
	for i := range took {
		took[i] = shape.Service(random)
	}
	got, err := Truth(shape, took, 300_000)
	if want := 500 - math.Log(100)/0.1; err != nil || math.Abs(got/want-1) > 0.03 {
		t.Errorf("%v %v, want %v within 3 %%", got, err, want)
	}
	if _, err := Truth(shape, nil, 1000); err == nil {
		t.Error("no service was measured, and there is a truth")
	}
}

func TestPlan(t *testing.T) {
	short, long := Plan(7), Plan(50)
	real := 0
	seeds := map[uint64]bool{}
	for i, k := range long {
		if i < len(short) && (short[i].Shape != k.Shape || short[i].Seed != k.Seed || short[i].Real != k.Real || short[i].Truth != k.Truth) {
			t.Errorf("run %d of a shorter plan is %+v, of a longer one %+v", i, short[i], k)
		}
		if k.Real {
			real++
		}
		if seeds[k.Seed] || !(k.Truth > 0) {
			t.Errorf("%+v", k)
		}
		seeds[k.Seed] = true
	}
	if real < 5 {
		t.Errorf("%d of 50 have real workers", real)
	}
	k := Known{Truth: 100, Value: 103, Low: 99, High: 107}
	if !k.Covers() || math.Abs(k.Off()-0.03) > 1e-12 || (Known{Truth: 1}).Off() != 1 {
		t.Errorf("%v %v", k.Covers(), k.Off())
	}
}
