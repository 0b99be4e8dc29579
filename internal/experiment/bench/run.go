package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tailscope/hist"
)

// Request is one request of the schedule.
type Request struct {
	K   int64     // 0 for the first
	Due time.Time // intended start
}

// Result is the outcome of a request that was started.
type Result struct {
	Request
	Started, Ended time.Time
	Err            error
}

// Latency returns the response time as a caller sees it: from the intended start to
// the end.
func (r Result) Latency() time.Duration { return r.Ended.Sub(r.Due) }

// Options configures Run; the zero value of each field but Do and Schedule
// means its default.
type Options struct {
	Schedule *Schedule
	Do       func(ctx context.Context, r Request) error
	Duration time.Duration // requests due before it are sent; 0: until the context is done
	Workers  int           // most requests under way at once; default 64
	Queue    int           // due requests that may wait for a worker; default 16 per worker
	// Done, if set, is called with each completed request. The workers call it
	// concurrently.
	Done func(Result)

	sleep func(context.Context, time.Duration) // default: on a locked thread
}

// Summary is the account of a run:
// Scheduled = Completed + Interrupted + Dropped + Unstarted.
type Summary struct {
	Scheduled   uint64 // requests that were due
	Completed   uint64 // started and ended, failed ones included
	Failed      uint64 // of Completed
	Interrupted uint64 // cut off by the end of the context; they have no latency
	Dropped     uint64 // due while every worker was busy and the queue full
	Unstarted   uint64 // still queued when the context was done

	Elapsed time.Duration
	// Latency, in seconds, of completed requests from their intended start.
	Latency *hist.Histogram
	// Lateness, in seconds, between a request being due and the generator
	// handing it to the queue: the generator's own error.
	Lateness *hist.Histogram
}

// Run sends the schedule's requests until the duration is over or the context
// is done, waits for those under way, and returns the account.
func Run(ctx context.Context, o Options) (Summary, error) {
	if o.Schedule == nil || o.Do == nil {
		return Summary{}, errors.New("a run needs a schedule and something to do")
	}
	if o.Workers < 0 || o.Queue < 0 || o.Duration < 0 {
		return Summary{}, fmt.Errorf("workers %d, queue %d, duration %s: must not be negative", o.Workers, o.Queue, o.Duration)
	}
	if o.Workers == 0 {
		o.Workers = 64
	}
	if o.Queue == 0 {
		o.Queue = 16 * o.Workers
	}

	s := Summary{Lateness: hist.New(hist.DefaultSchema), Latency: hist.New(hist.DefaultSchema)}
	queue := make(chan Request, o.Queue)
	var mu sync.Mutex // guards s while workers run
	var workers sync.WaitGroup
	for range o.Workers {
		workers.Go(func() {
			for r := range queue {
				if ctx.Err() != nil {
					mu.Lock()
					s.Unstarted++
					mu.Unlock()
					continue
				}
				res := Result{Request: r, Started: time.Now()}
				res.Err = o.Do(ctx, r)
				res.Ended = time.Now()
				mu.Lock()
				if res.Err != nil && ctx.Err() != nil {
					s.Interrupted++
					mu.Unlock()
					continue
				}
				s.Completed++
				if res.Err != nil {
					s.Failed++
				}
				record(s.Latency, res.Latency())
				mu.Unlock()
				if o.Done != nil {
					o.Done(res)
				}
			}
		})
	}

	start := time.Now()
	dispatch(ctx, o, start, queue, &s, &mu)
	close(queue)
	workers.Wait()
	s.Elapsed = time.Since(start)
	return s, nil
}

// dispatch queues each request when it falls due.
func dispatch(ctx context.Context, o Options, start time.Time, queue chan<- Request, s *Summary, mu *sync.Mutex) {
	sleep := o.sleep
	if sleep == nil {
		var release func()
		sleep, release = threadSleeper()
		defer release()
	}
	for k := int64(0); ; k++ {
		offset := o.Schedule.Next()
		if o.Duration > 0 && offset >= o.Duration {
			return
		}
		r := Request{K: k, Due: start.Add(offset)}
		for d := time.Until(r.Due); d > 0; d = time.Until(r.Due) {
			if sleep(ctx, d); ctx.Err() != nil {
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		late := time.Since(r.Due)
		dropped := false
		select {
		case queue <- r:
		default:
			dropped = true
		}
		mu.Lock()
		s.Scheduled++
		if dropped {
			s.Dropped++
		}
		record(s.Lateness, late)
		mu.Unlock()
	}
}

func record(h *hist.Histogram, d time.Duration) {
	// Record refuses a negative or non-finite value alone. A duration is negative
	// only if the clock was set back: zero is then the nearest that can be said.
	_ = h.Record(max(d, 0).Seconds())
}
