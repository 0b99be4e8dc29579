package changes

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/api"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// stalled is a store in which questions for the durations of certain windows, not of chunks of
// them, last until nobody waits for them.
type stalled struct {
	store.Store
	stalls []window
}

func (s *stalled) Query(ctx context.Context, q store.Query) (*store.Result, error) {
	if slices.ContainsFunc(s.stalls, func(w window) bool { return w.isRead(q) }) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Query(ctx, q)
}

// isRead reports whether a question is for the durations of the window, not of a chunk of it.
func (w *window) isRead(q store.Query) bool {
	return q.Measure == store.Buckets && q.Start == w.start && q.End <= w.end && q.End-q.Start > chunk
}

// A question whose time is over answers the windows that are searched and says which stretch is
// not; the next one goes on from there. One of which nothing is searched fails.
func TestWhatIsSearchedInTimeIsAnswered(t *testing.T) {
	const hour = 3600
	whole := flow(t, rand.New(rand.NewPCG(55, 1)), 6*360, series.Base, 0.3, traffic{"shop", "GET /cart", always(60), always(0.01), from(1700, 1, 1.4)})
	r := asked(0, 6*hour)
	windows, of, err := r.windows(t.Context(), whole)
	if err != nil || len(windows) < 3 {
		t.Fatalf("%d windows, %v", len(windows), err)
	}
	complete := found(t, NewFinder(whole), r)
	if len(complete.Changes) == 0 {
		t.Fatal("no change was found")
	}
	synctest.Test(t, func(t *testing.T) {
		st := &stalled{Store: whole}
		f := NewFinder(st)
		ask := func(stalls ...window) (changes int, notes []string, err error) {
			st.stalls = stalls
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			begun := time.Now()
			out, err := f.Find(ctx, r)
			if took := time.Since(begun); took >= 30*time.Second {
				t.Errorf("answered after %s", took)
			}
			if err != nil {
				return 0, nil, err
			}
			return len(out.Changes), out.Notes, nil
		}
		if _, _, err := ask(windows...); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("where no window was searched: %v, want that it took too long", err)
		}
		changes, notes, err := ask(windows[:2]...)
		want := unsearchedText(stretchesOf(windows[:2], of))
		if err != nil || changes != len(complete.Changes) || len(want) != 1 || !slices.Contains(notes, want[0]) {
			t.Errorf("%d changes, notes %q, %v; want %d and %q", changes, notes, err, len(complete.Changes), want)
		}
		// Those that are searched are kept: what stalls them now matters to nobody.
		changes, notes, err = ask(windows[2 : len(windows)-1]...)
		if err != nil || changes != len(complete.Changes) || strings.Contains(strings.Join(notes, " "), "not searched yet") {
			t.Errorf("%d changes, notes %q, %v; want %d and all searched", changes, notes, err, len(complete.Changes))
		}
	})
}

// What was found in a window whose moments all have enough slots after them is kept for longer
// than what was found in the newest.
func TestSettledWindowsAreKeptLonger(t *testing.T) {
	const hour = 3600
	whole := flow(t, rand.New(rand.NewPCG(55, 2)), 6*360, series.Base, 0.3, traffic{"shop", "GET /cart", always(60), always(0.01), nil})
	r := asked(4*hour, 5*hour+1800) // of a window that decides from 5 h on, and one that decides up to then
	windows, _, err := r.windows(t.Context(), whole)
	if err != nil || len(windows) != 2 {
		t.Fatalf("%d windows, %v; want 2", len(windows), err)
	}
	synctest.Test(t, func(t *testing.T) {
		st := &stalled{Store: whole}
		f := NewFinder(st)
		found(t, f, r)
		r.Now = r.Now.Add(time.Minute)
		st.stalls = windows[:1]
		if out := found(t, f, r); len(out.Notes) > 0 {
			t.Errorf("a minute later: %q", out.Notes)
		}
		r.Now = r.Now.Add(time.Minute)
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		if out, err := f.Find(ctx, r); err != nil || !out.Kept || len(out.Unsearched) > 0 {
			t.Errorf("two minutes later: %+v, %v; want that it is searched anew, and what is known where there is no time for that", out, err)
		}
	})
}

// A question for what is known of a range that is one window is answered before that is searched.
func TestNothingIsKnownOfALongRange(t *testing.T) {
	const hour = 3600
	whole := flow(t, rand.New(rand.NewPCG(55, 3)), 28*6, 600, 0.3, traffic{"shop", "GET /cart", always(60), always(0.01), nil})
	r := asked(0, 28*hour)
	r.Known = true
	windows, of, err := r.windows(t.Context(), whole)
	if err != nil || len(windows) != 1 {
		t.Fatalf("%d windows, %v; want 1", len(windows), err)
	}
	synctest.Test(t, func(t *testing.T) {
		out, err := NewFinder(&stalled{Store: whole, stalls: windows}).Find(t.Context(), r)
		if err != nil || len(out.Changes) > 0 || !slices.Equal(out.Unsearched, []api.Range{of}) {
			t.Errorf("answered %+v, %v; want that nothing is searched yet", out, err)
		}
		synctest.Wait()
	})
}
