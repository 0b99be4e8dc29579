package load

import (
	"context"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// follow reads a dial's schedule up to a time, and calls at before each reading.
func follow(t *testing.T, p Pacer, until time.Duration, at func(time.Duration)) []dueAt {
	t.Helper()
	var out []dueAt
	for last := time.Duration(0); last < until; {
		if at != nil {
			at(last)
		}
		due, phase, ok := p.Next()
		if !ok || due < last {
			t.Fatalf("%s after %s, %v", due, last, ok)
		}
		if last = due; phase != Again {
			out = append(out, dueAt{due, phase})
		}
	}
	return out
}

func TestDialIsOnePlanOverLoops(t *testing.T) {
	for _, loops := range []int{1, 3} {
		for _, poisson := range []bool{false, true} {
			d := NewDial(poisson, 7)
			d.Set(1000, 0)
			count, gaps, sum, squares := 0, 0.0, 0.0, 0.0
			for loop := range loops {
				head, err := d.Pacer(loop, loops)
				if err != nil {
					t.Fatal(err)
				}
				tail, err := d.Pacer(loop, loops)
				if err != nil {
					t.Fatal(err)
				}
				all, last := follow(t, head, 100*time.Second, nil), time.Duration(0)
				for k, want := range all[:len(all)/2] {
					due, phase, ok := tail.Next()
					if !ok || due != want.due || phase != 0 {
						t.Fatalf("the %d-th of the second reader is due at %s, not %s", k, due, want.due)
					}
					gap := (due - last).Seconds() * 1000 / float64(loops)
					gaps, sum, squares, last = gaps+1, sum+gap, squares+gap*gap, due
				}
				count += len(all)
			}
			if lim := 5 * math.Sqrt(100_000); math.Abs(float64(count)-100_000) > lim || !poisson && math.Abs(float64(count)-100_000) > float64(loops) {
				t.Errorf("%d requests over %d loops, poisson %v", count, loops, poisson)
			}
			// The squared coefficient of variation of gaps is 1 of Poisson's, 0 of even ones.
			cv := squares*gaps/(sum*sum) - 1
			if want := map[bool]float64{true: 1}[poisson]; math.Abs(cv-want) > 0.05 {
				t.Errorf("gaps vary by %.3f, not %v", cv, want)
			}
		}
	}
}

func TestDialChangesWhileItRuns(t *testing.T) {
	d := NewDial(true, 1)
	p, err := d.Pacer(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	step := -1
	all := follow(t, p, 40*time.Second, func(now time.Duration) {
		switch s := int(now / (10 * time.Second)); {
		case s == step:
		case s == 2:
			d.Stop()
			step = s
		default:
			d.Set([]float64{100, 400, 0, 50}[s], s)
			step = s
		}
	})
	var counts [4]int
	for _, x := range all {
		if at := int(x.due / (10 * time.Second)); at != x.phase && x.due%(10*time.Second) > 2*dialAhead {
			t.Fatalf("due at %s in phase %d", x.due, x.phase)
		}
		counts[x.phase]++
	}
	for s, want := range []float64{1000, 4000, 0, 500} {
		if math.Abs(float64(counts[s])-want) > 5*math.Sqrt(want) {
			t.Errorf("%d requests in phase %d, not %v", counts[s], s, want)
		}
	}
	if d.Withdrawn() != 1 {
		t.Errorf("withdrawn up to %d", d.Withdrawn())
	}
	d.End()
	for {
		if _, _, ok := p.Next(); !ok {
			break
		}
	}
}

// What waits for a connection when the dial stops is not sent any more, and the
// next phase goes on over the same connections.
func TestDialStopsAndGoesOn(t *testing.T) {
	eachEngine(t, func(t *testing.T, e *engine) {
		var hang atomic.Bool
		var hung atomic.Int64
		release := make(chan struct{})
		hang.Store(true)
		e.serve(func(w http.ResponseWriter, r *http.Request) {
			if hang.Load() {
				hung.Add(1)
				select {
				case <-release:
				case <-r.Context().Done():
				}
			}
		})
		d := NewDial(false, 1)
		seen := func(phase int) (n int) {
			e.mu.Lock()
			defer e.mu.Unlock()
			for _, o := range e.seen {
				if o.Phase == phase {
					n++
				}
			}
			return n
		}
		d.Stop() // at rest it changes nothing
		d.Set(500, 0)
		steps := []func() bool{
			func() bool { return hung.Load() == 4 && d.Due() > 40 },
			func() bool {
				d.Stop()
				e.mu.Lock()
				defer e.mu.Unlock()
				return len(e.lost) > 20
			},
			func() bool {
				if hang.Swap(false) {
					close(release)
					d.Set(500, 1)
				}
				return seen(1) >= 20
			},
		}
		var conduct sync.WaitGroup
		conduct.Go(func() {
			defer d.End()
			for begin := time.Now(); len(steps) > 0 && time.Since(begin) < 30*time.Second; time.Sleep(time.Millisecond) {
				if steps[0]() {
					steps = steps[1:]
				}
			}
		})
		e.load(context.Background(), Options{Connections: 4, Loops: 1, Timeout: time.Minute, Pacer: d.Pacer, Withdrawn: d.Withdrawn, Begun: d.Begun})
		conduct.Wait()
		if len(steps) > 0 {
			t.Fatalf("%d steps are left; %d were dropped", len(steps), len(e.lost))
		}
		if n := seen(0); n != 4 {
			t.Errorf("%d requests of the phase that was stopped were sent, not 4", n)
		}
	})
}
