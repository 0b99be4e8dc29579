package pebblestore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// stalled is a context whose Err blocks at one of its calls until it is released.
type stalled struct {
	context.Context
	at               int64
	calls            atomic.Int64
	reached, release chan struct{}
}

func stallAt(ctx context.Context, call int64) *stalled {
	return &stalled{Context: ctx, at: call, reached: make(chan struct{}), release: make(chan struct{})}
}

func (s *stalled) Err() error {
	if s.calls.Add(1) == s.at {
		close(s.reached)
		<-s.release
	}
	return s.Context.Err()
}

// A question may take long wherever it looks at its context, which it does
// between the values that a regular expression is tried for. What is put
// meanwhile is stored and shown at once.
func TestSlowMatcherDelaysNoPut(t *testing.T) {
	ctx := context.Background()
	tenants := []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "tenant", "t[0-9]|x.*")}
	queues := []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "q", "a.*|x.*")}
	const from, to = t0, t0 + 86400
	for name, ask := range map[string]func(context.Context, *Store) error{
		"Query": func(ctx context.Context, s *Store) error {
			_, err := s.Query(ctx, store.Query{Family: series.SpanDuration, Start: from, End: to, Schema: 5, Matchers: tenants, By: []string{"tenant"}})
			return err
		},
		"LabelNames": func(ctx context.Context, s *Store) error {
			_, err := s.LabelNames(ctx, series.SpanDuration, series.Full, tenants, from, to)
			return err
		},
		"LabelValues": func(ctx context.Context, s *Store) error {
			_, err := s.LabelValues(ctx, series.SpanDuration, series.Full, "tenant", tenants, from, to)
			return err
		},
		"Samples": func(ctx context.Context, s *Store) error {
			_, err := s.Samples(ctx, store.SampleQuery{Family: "queue", Matchers: queues, StartMillis: from * 1000, EndMillis: to * 1000})
			return err
		},
		"Nearest": func(ctx context.Context, s *Store) error {
			_, err := s.Nearest(ctx, "queue", queues, from*1000)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{})
			defer s.Close()
			gen := uint64(1)
			check(t, s.Put(ctx, batch(gen, t0, 1)))
			for call := int64(1); ; call++ {
				stall := stallAt(ctx, call)
				asked := make(chan error, 1)
				go func() { asked <- ask(stall, s) }()
				select {
				case <-stall.reached:
				case err := <-asked: // it has fewer calls than that
					check(t, err)
					if call < 3 {
						t.Fatalf("stalled at %d calls, want 2 or more: one of them while matching", call-1)
					}
					return
				}
				gen++
				put := make(chan error, 1)
				go func() {
					b := batch(gen, t0+int64(gen)*10, 1)
					b.Series[0].Labels = labels.FromStrings("service", "a", "tenant", fmt.Sprint("x", gen), "zone", "z")
					b.Series[2].Labels = labels.FromStrings("q", fmt.Sprint("x", gen))
					put <- s.Put(ctx, b)
				}()
				select {
				case err := <-put:
					check(t, err)
				case <-time.After(20 * time.Second):
					close(stall.release)
					t.Fatalf("a Put waits for a question that stands still at its call %d", call)
				}
				if got := count(t, s, store.Query{Start: t0, End: t0 + 86400}); got != 3*gen {
					t.Errorf("got %d observations while a question stands still, want %d", got, 3*gen)
				}
				close(stall.release)
				check(t, <-asked)
			}
		})
	}
}
