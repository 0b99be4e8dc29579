// Package capacity is servers whose limit is known, for a search for capacity to find:
// queues with fixed workers and timed service, workers that are real threads of work,
// and nginx with a CPU limit.
package capacity

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tailscope/benchmarks/clock"
	"tailscope/hist"
	"tailscope/internal/experiment/capacity/virtual"
)

// Server answers HTTP on loopback.
type Server struct {
	URL string

	srv    *http.Server
	served chan struct{}
	under  sync.WaitGroup     // requests under way
	stop   context.CancelFunc // of what its requests wait for

	begin    time.Time
	arrivals atomic.Int64
	last     atomic.Int64 // when the last request arrived, nanoseconds since begin

	mu   sync.Mutex
	late *hist.Histogram // how much later than at its time an answer left, seconds
}

// Close ends it, and all that waits.
func (s *Server) Close() {
	s.stop()
	s.srv.Close()
	<-s.served
	s.under.Wait()
}

// Arrivals returns how many requests have come.
func (s *Server) Arrivals() int64 { return s.arrivals.Load() }

// Last returns when the last request came, zero if none has.
func (s *Server) Last() time.Time {
	if ns := s.last.Load(); ns > 0 {
		return s.begin.Add(time.Duration(ns))
	}
	return time.Time{}
}

// Late returns how much later than at their times answers left, seconds: what the machine
// adds to the latency that the server is made for.
func (s *Server) Late(quantile float64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late.Quantile(quantile)
}

// until waits for when an answer is to leave.
func (s *Server) until(ctx context.Context, c *clock.Clock, at time.Time) {
	c.Until(ctx, at)
	late := time.Since(at).Seconds()
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.late.Record(max(0, late)) // is finite
}

// serve listens. arrive is called with each request, in the order of time since the
// beginning; it returns whether the request was served, when that is known.
func serve(ctx context.Context, arrive func(ctx context.Context, s *Server) (ok bool)) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &Server{URL: "http://" + l.Addr().String() + "/", served: make(chan struct{}), stop: stop, begin: time.Now(), late: hist.New(hist.DefaultSchema)}
	s.srv = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.under.Add(1)
		defer s.under.Done()
		s.arrivals.Add(1)
		if !arrive(ctx, s) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go func() {
		defer close(s.served)
		_ = s.srv.Serve(l) // until Close
	}()
	return s, nil
}

// Queue serves what v serves, at the times it does: a request that arrives begins when
// the first worker is free and is answered when its service is over. Workers are
// kept account of by the clock, so that an answer that leaves late delays nobody else,
// and the limit is exactly that of v.
func Queue(ctx context.Context, v virtual.Server, c *clock.Clock, seed uint64) (*Server, error) {
	var mu sync.Mutex
	line := virtual.New(v, rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)))
	return serve(ctx, func(ctx context.Context, s *Server) bool {
		mu.Lock()
		now := time.Since(s.begin)
		s.last.Store(int64(now))
		takes, fails := line.Arrive(now.Seconds())
		mu.Unlock()
		if takes > 1e6 {
			<-ctx.Done() // it has frozen
			return false
		}
		s.until(ctx, c, s.begin.Add(now+time.Duration(takes*float64(time.Second))))
		return !fails
	})
}

// Workers is a Server of real workers, goroutines that take one request after the
// other and wait for as long as its service takes.
type Workers struct {
	*Server
	mu   sync.Mutex
	took []float64 // what service really took, seconds
}

// Took returns what each service really took so far, from when a worker took the request
// until it could take the next.
func (w *Workers) Took() []float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]float64(nil), w.took...)
}

// StartWorkers runs as many workers as v has, each of whose services takes what v says
// and what its clock is late.
func StartWorkers(ctx context.Context, v virtual.Server, c *clock.Clock, seed uint64) (*Workers, error) {
	type request struct{ done chan struct{} }
	// More would wait only if the search let the queue grow for minutes.
	queue := make(chan request, 1<<20)
	w := &Workers{}
	s, err := serve(ctx, func(ctx context.Context, s *Server) bool {
		s.last.Store(int64(time.Since(s.begin)))
		r := request{make(chan struct{})}
		select {
		case queue <- r:
		default:
			return false
		}
		select {
		case <-r.done:
			return true
		case <-ctx.Done():
			return false
		}
	})
	if err != nil {
		return nil, err
	}
	w.Server = s
	working, end := context.WithCancel(ctx)
	var workers sync.WaitGroup
	for i := range v.Workers {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		workers.Go(func() {
			for {
				select {
				case <-working.Done():
					return
				case r := <-queue:
					begun := time.Now()
					s.until(working, c, begun.Add(time.Duration(v.Service(random)*float64(time.Second))))
					close(r.done)
					took := time.Since(begun).Seconds()
					w.mu.Lock()
					w.took = append(w.took, took)
					w.mu.Unlock()
				}
			}
		})
	}
	stop := s.stop
	s.stop = func() { stop(); end(); workers.Wait() }
	return w, nil
}

// stretch is the number of consecutive services that Truth takes at once: services
// that were long together, because the machine was busy, make longer queues than the
// same ones far from each other.
const stretch = 2000

// Truth returns the rate at which the objective of shape breaks with service as it really
// was: the same virtual queue, its service drawn from took in stretches.
func Truth(shape virtual.Shape, took []float64, requests int) (float64, error) {
	if len(took) == 0 {
		return 0, fmt.Errorf("%s: no service was measured", shape.Name)
	}
	at, left := 0, 0
	shape.Service = func(r *rand.Rand) float64 {
		if left--; left < 0 {
			at, left = r.IntN(len(took)), stretch-1
		}
		at = (at + 1) % len(took)
		return took[at]
	}
	mean := 0.0
	for _, t := range took {
		mean += t / float64(len(took))
	}
	most := float64(shape.Workers) / mean
	return shape.Find(most/2, most*0.9999, requests, 1)
}
