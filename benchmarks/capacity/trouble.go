package capacity

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/benchmarks/clock"
)

// Troubles are failures of a server in the middle of a search.
var Troubles = []string{"hangs", "fails", "is ten times slower"}

// Trouble is a search whose server breaks.
type Trouble struct {
	How string
	// After is the time from the break until the last request reached the server, by
	// the server's clock. Sure is the time from when the objective was surely broken
	// until the last request was sent, by the search's clock.
	After, Sure time.Duration
	Rate        float64 // requests a second at the break
}

// Troubled searches a server of 16 workers that serve in 10 ms, far from its limit of
// 1,600 requests a second, until it breaks how at a moment drawn from the seed. It
// returns once the load is away, and an error if it does not go within 10 s.
func Troubled(ctx context.Context, c *clock.Clock, how string, seed uint64) (Trouble, error) {
	t := Trouble{How: how}
	random := rand.New(rand.NewPCG(seed, 11))
	breaks := 4*time.Second + time.Duration(random.Float64()*float64(6*time.Second))
	const serves = 10 * time.Millisecond
	var mu sync.Mutex
	free := make([]time.Duration, 16)
	s, err := serve(ctx, func(ctx context.Context, s *Server) bool {
		mu.Lock()
		now := time.Since(s.begin)
		s.last.Store(int64(now))
		broken := now > breaks
		takes := serves
		if broken && how == "is ten times slower" {
			takes *= 10
		}
		first := 0
		for i, f := range free {
			if f < free[first] {
				first = i
			}
		}
		end := max(now, free[first]) + takes
		free[first] = end
		mu.Unlock()
		switch {
		case broken && how == "hangs":
			<-ctx.Done()
			return false
		case broken && how == "fails":
			return false
		}
		c.Until(ctx, s.begin.Add(end))
		return true
	})
	if err != nil {
		return t, err
	}
	defer s.Close()
	searching, end := context.WithTimeout(ctx, breaks+12*time.Second)
	defer end()
	stopped := false
	_, err = Search(searching, Case{
		URL: s.URL, Objective: "p99 < 100ms and errors < 1%", Lowest: 100, Highest: 800, Seed: seed,
		Tell: func(c *api.Capacity) {
			for _, step := range c.Steps {
				if broke := float64(step.End) > unix(s.begin.Add(breaks)); !stopped && broke && step.Stopped != "" {
					stopped = true
					t.Sure, t.Rate = time.Duration(float64(step.StoppedAfter)*float64(time.Second)), float64(step.X)
					end()
				}
			}
		},
	})
	if err != nil {
		return t, err
	}
	t.After = s.Last().Sub(s.begin.Add(breaks))
	if !stopped {
		return t, fmt.Errorf("the server %s and the load did not stop", how)
	}
	return t, nil
}

func unix(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
