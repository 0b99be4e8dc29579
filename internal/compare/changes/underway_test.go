package changes

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/query"
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
		if !w.isRead(q) {
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
				stop = f.GoOn(slog.New(slog.DiscardHandler))
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
		}, func(*inWindow, error, time.Duration) {})
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

// poll asks for a search again and again for two seconds, as a page does, until something is found.
func poll(t *testing.T, s *searches, key string, takes, pause time.Duration) {
	var kept atomic.Bool
	begun := time.Now()
	for !kept.Load() {
		if took := time.Since(begun); took > 5*time.Minute {
			t.Errorf("%s is not found in %s", key, took)
			return
		}
		ctx, stop := context.WithTimeout(t.Context(), knownWithin)
		s.find(ctx, key, func(on context.Context) (*inWindow, error) {
			select {
			case <-time.After(takes):
				return &inWindow{}, nil
			case <-on.Done():
				return nil, on.Err()
			}
		}, func(_ *inWindow, err error, _ time.Duration) { kept.Store(err == nil) })
		stop()
		time.Sleep(pause)
	}
}

// A search that nobody asks for any more gives way to one that somebody asks for.
func TestForgottenSearchesGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := searches{goOn: true}
		defer s.close()
		ctx, stop := context.WithTimeout(t.Context(), knownWithin)
		defer stop()
		s.find(ctx, "left", func(on context.Context) (*inWindow, error) {
			<-on.Done()
			return nil, on.Err()
		}, func(*inWindow, error, time.Duration) {})
		begun := time.Now()
		poll(t, &s, "wanted", 15*time.Second, time.Second)
		if took := time.Since(begun); took > forgotten+19*time.Second {
			t.Errorf("answered after %s", took)
		}
	})
}

// Of pages that ask for searches again and again each is answered, whenever they ask: they do not
// end each other's.
func TestPagesThatPollAreAllAnswered(t *testing.T) {
	for _, pause := range []time.Duration{time.Second, 1100 * time.Millisecond, 1700 * time.Millisecond, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := searches{goOn: true}
			defer s.close()
			var all sync.WaitGroup
			for i, key := range []string{"a", "b", "c"} {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 300 * time.Millisecond)
					poll(t, &s, key, 30*time.Second, []time.Duration{time.Second, pause, 2 * pause}[i])
				})
			}
			all.Wait()
		})
	}
}

// A search that panics is an error of those who asked for it, and of nobody else.
func TestSearchesThatPanic(t *testing.T) {
	var said strings.Builder
	f := NewFinder(nil)
	defer f.GoOn(slog.New(slog.NewTextHandler(&said, nil)))()
	_, err := f.searches.find(t.Context(), "key", func(context.Context) (*inWindow, error) { panic("of all things") }, func(*inWindow, error, time.Duration) {})
	if e := query.AsError(err); e == nil || e.Code != query.CodeInternal || !strings.Contains(err.Error(), "of all things") {
		t.Errorf("got %v, want an internal error", err)
	}
	if !strings.Contains(said.String(), "TestSearchesThatPanic") {
		t.Errorf("the log has no stack: %s", &said)
	}
}

// breaking is a store in which reading the durations of a window fails after a while.
type breaking struct {
	store.Store
	window window
	takes  time.Duration
	err    error // nil: it lasts as long as it may
	reads  int
}

func (b *breaking) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	if q.Start != b.window.start || q.End > b.window.end || q.End-q.Start <= chunk || q.Measure != store.Buckets {
		return b.Store.Query(ctx, q)
	}
	b.reads++
	select {
	case <-time.After(b.takes):
		return nil, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A search that fails is not begun anew by each question. One that takes longer than any may is
// missing from an answer that has all else.
func TestSearchesThatFailAreNotBegunByEachQuestion(t *testing.T) {
	const hour = 3600
	whole := flow(t, rand.New(rand.NewPCG(56, 2)), 6*360, series.Base, 0.3, traffic{"shop", "GET /cart", always(60), always(0.01), nil})
	r := asked(0, 6*hour)
	r.Now, r.Known = r.Now.Add(24*hour*time.Second), true
	base := r.Now
	windows, of, err := r.windows(t.Context(), whole)
	if err != nil || len(windows) < 3 {
		t.Fatalf("%d windows, %v", len(windows), err)
	}
	for _, c := range []struct {
		err   error
		takes time.Duration
	}{{store.ErrBusy, 10 * time.Second}, {nil, time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			st := &breaking{Store: whole, window: windows[0], takes: c.takes, err: c.err}
			f := NewFinder(st)
			defer f.GoOn(slog.New(slog.DiscardHandler))()
			took, begun := min(c.takes, longestSearch), time.Now()
			failed := 0
			for time.Since(begun) < 3*took {
				r.Now = base.Add(time.Since(begun))
				out, err := f.Find(t.Context(), r)
				switch {
				case err != nil && c.err != nil && errors.Is(err, c.err):
					failed++
				case err != nil || !slices.Equal(out.Unsearched, stretchesOf(windows[:1], of)):
					t.Fatalf("after %s: answered %+v, %v; want that all is searched but %v", time.Since(begun), out, err, windows[0])
				}
				time.Sleep(time.Second)
			}
			if st.reads != 1 || (failed > 0) != (c.err != nil) {
				t.Errorf("read %d times in %s, want once; %d answers failed", st.reads, time.Since(begun), failed)
			}
			r.Now = base.Add(busiest * took)
			r.Known = false
			st.window = window{}
			if out := found(t, f, r); len(out.Unsearched) > 0 {
				t.Errorf("in a while %v is not searched", out.Unsearched)
			}
			r.Known = true
		})
	}
}
