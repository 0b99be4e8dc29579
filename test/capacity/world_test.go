//go:build servers

package capacity_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tailscope/test/program"
)

// Who sends must not be late because other tests keep the machine busy.
func TestMain(m *testing.M) {
	program.Precede(-10)
	os.Exit(m.Run())
}

// appServer answers with so many workers, each of which takes its time for a request:
// half of it waiting for a database, as it were. Requests that no worker is free for
// queue.
type appServer struct {
	*httptest.Server
	free  chan struct{}
	extra atomic.Int64 // nanoseconds that each request takes longer
}

func newAppServer(t *testing.T, workers int, service func() time.Duration) *appServer {
	a := &appServer{free: make(chan struct{}, workers)}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came := time.Now()
		select {
		case a.free <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Server-Timing", fmt.Sprintf("queue;dur=%.3f", 1e3*time.Since(came).Seconds()))
		time.Sleep(service() + time.Duration(a.extra.Load()))
		<-a.free
		_, _ = w.Write([]byte("done"))
	}))
	t.Cleanup(a.Close)
	return a
}

// exponential returns a service time with that mean, the same for every seed.
func exponential(mean time.Duration, seed uint64) func() time.Duration {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 1))
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(float64(mean) * r.ExpFloat64())
	}
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// clients send live requests to an address, at times that are independent of each other
// and of answers, until the test ends.
type clients struct {
	sent, failed atomic.Int64
	stop         context.CancelFunc
	done         sync.WaitGroup
}

func startClients(t *testing.T, url string, rate float64) *clients {
	c := &clients{}
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	h := &http.Client{Transport: tr, Timeout: 10 * time.Second}
	r := rand.New(rand.NewPCG(uint64(rate), 7))
	c.done.Go(func() {
		next := time.Now()
		for {
			next = next.Add(time.Duration(r.ExpFloat64() / rate * 1e9))
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(next)):
			}
			c.sent.Add(1)
			c.done.Go(func() {
				resp, err := h.Get(url)
				if err != nil {
					c.failed.Add(1)
					return
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					c.failed.Add(1)
				}
			})
		}
	})
	t.Cleanup(func() {
		c.stop()
		c.done.Wait()
		tr.CloseIdleConnections()
	})
	return c
}
