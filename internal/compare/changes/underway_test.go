package changes

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// loaded is a store on a machine so loaded that reading a window takes a while.
type loaded struct {
	store.Store
	windows []window
	takes   time.Duration
	reads   int // of windows, that ended
}

func (l *loaded) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	for _, w := range l.windows {
		if q.Start != w.start || q.End > w.end || q.End-q.Start <= chunk || q.Measure != store.Buckets {
			continue
		}
		select {
		case <-time.After(l.takes):
			l.reads++
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return l.Store.Query(ctx, q)
}

// A search that takes longer than a question has goes on when the question is over, and the next
// ones find more and more, until nothing is left. What is found meanwhile is not searched again before
// the rest is. Stop ends what is under way.
func TestSearchesGoOnBetweenQuestions(t *testing.T) {
	const hour = 3600
	whole := flow(t, rand.New(rand.NewPCG(56, 1)), 6*360, series.Base, 0.3, traffic{"shop", "GET /cart", always(60), always(0.01), from(1700, 1, 1.4)})
	r := asked(0, 6*hour)
	r.Now = r.Now.Add(24 * hour * time.Second) // all windows are over, and stay so
	windows, of, err := r.windows(t.Context(), whole)
	if err != nil || len(windows) < 3 {
		t.Fatalf("%d windows, %v", len(windows), err)
	}
	once := &loaded{Store: whole, windows: windows}
	complete := found(t, NewFinder(once), r)
	for _, goOn := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			st := &loaded{Store: whole, windows: windows, takes: 40 * time.Second}
			f := NewFinder(st)
			stop := func() {}
			if goOn {
				stop = f.GoOn()
			}
			r, begun := r, time.Now()
			base := r.Now
			var left []int64 // seconds not searched, after each question
			for range 150 {
				r.Now = base.Add(time.Since(begun))
				r.Known = true
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				asked := time.Now()
				out, err := f.Find(ctx, r)
				cancel()
				if took := time.Since(asked); err != nil || took > 2*knownWithin { // the other half is for ends
					t.Fatalf("answered after %s, %v; want what is known at once", took, err)
				}
				sum := int64(0)
				for _, s := range out.Unsearched {
					sum += s.End - s.Start
				}
				if n := len(left); n > 0 && sum > left[n-1] {
					t.Errorf("%d s are not searched, after %d", sum, left[n-1])
				}
				if left = append(left, sum); sum == 0 {
					if len(out.Changes) != len(complete.Changes) {
						t.Errorf("%d changes, want %d", len(out.Changes), len(complete.Changes))
					}
					break
				}
				time.Sleep(time.Second)
			}
			switch last := left[len(left)-1]; {
			case left[0] != of.End-of.Start:
				t.Errorf("at first %d s are not searched, want all", left[0])
			case goOn && (last != 0 || st.reads > once.reads):
				t.Errorf("%d s are not searched after %s, after %d reads of windows; want 0, as after the %d of one search", last, time.Since(begun), st.reads, once.reads)
			case !goOn && last != left[0]:
				t.Errorf("%d s are not searched, want all: nothing goes on", last)
			}
			st.takes = time.Hour
			r.Now = base.Add(24 * hour * time.Second)
			r.Known = true
			if _, err := f.Find(t.Context(), r); err != nil {
				t.Error(err)
			}
			stop()
			synctest.Wait() // the bubble fails if a search is left
			if n := len(f.searches.running); n > 0 {
				t.Errorf("%d searches are under way after the stop", n)
			}
		})
	}
}

// A search that outlasts its question keeps nothing for that one's answer: once both are over no
// memory is held.
func TestSearchesThatGoOnReleaseTheirMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory(64 << 20)
		question := memory.Question(16 << 20)
		ctx, stop := context.WithCancel(store.OneAnswer(store.WithBudget(t.Context(), question)))
		s := searches{goOn: true}
		over := make(chan struct{})
		go s.find(ctx, "key", func(on context.Context) (*inWindow, error) {
			<-over
			_, err := store.Once(on, "part", func() ([]byte, error) { return make([]byte, 1000), nil })
			if err == nil && memory.Used() == 0 {
				t.Error("the search keeps nothing while it goes on")
			}
			return &inWindow{}, err
		}, func(*inWindow, time.Duration) {})
		synctest.Wait()
		stop()
		synctest.Wait()
		question.Close()
		close(over)
		s.all.Wait()
		if used := memory.Used(); used != 0 {
			t.Errorf("%d bytes are held after the question and its search", used)
		}
	})
}
