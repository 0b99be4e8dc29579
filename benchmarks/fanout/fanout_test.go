package fanout

import (
	"context"
	"math"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Processes are started by a thread that lives as long as the program.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("tailscope/test/program.init.func1.1"))
}

func TestWork(t *testing.T) {
	const n = 20_000
	for _, w := range []Work{{Seed: 1}, {Seed: 2, Fixed: 3 * time.Millisecond, Together: 0.5}} {
		var leaves []float64
		var both, each float64
		for q := range uint64(n) {
			a, b := w.Takes(q, 0, Base), w.Takes(q, 1, Base)
			leaves = append(leaves, a.Seconds())
			if again := w.Takes(q, 0, Base); again != a {
				t.Fatalf("the same leaf takes %s and %s", a, again)
			}
			median := Quantile(0.5)
			if a.Seconds() > median {
				each++
				if b.Seconds() > median {
					both++
				}
			}
			// The part beyond Fixed goes with the shard.
			fixed := min(w.Fixed, a)
			if half, want := w.Takes(q, 0, 2*Base), fixed+(a-fixed)/2; (half - want).Abs() > time.Microsecond {
				t.Fatalf("a leaf of %s takes %s of half the shard, want %s", a, half, want)
			}
		}
		slices.Sort(leaves)
		for _, p := range []float64{0.1, 0.5, 0.9, 0.99} {
			if got, want := leaves[int(p*n)], Quantile(p); math.Abs(got/want-1) > 0.05 {
				t.Errorf("%v: quantile %g is %g s, want %g s", w, p, got, want)
			}
		}
		// Both above the median: 1/4 + asin(correlation)/2π (Sheppard 1899).
		want := 0.5 + math.Asin(w.Together)/math.Pi
		if got := both / each; math.Abs(got-want) > 0.02 {
			t.Errorf("%v: of slow leaves %.3f have a slow neighbour, want %.3f", w, got, want)
		}
	}
}

func TestParseWork(t *testing.T) {
	want := Work{Seed: 7, Fixed: 3 * time.Millisecond, Together: 0.25, Even: true}
	if got, err := ParseWork(want.String()); err != nil || got != want {
		t.Errorf("ParseWork(%s) = %v, %v", want, got, err)
	}
	for _, s := range []string{"", "1,2ms,0", "x,2ms,0,false", "1,2,0,false", "1,2ms,2,false", "1,2ms,0,maybe"} {
		if _, err := ParseWork(s); err == nil {
			t.Errorf("ParseWork(%q) is understood", s)
		}
	}
}

func TestEvenly(t *testing.T) {
	for _, c := range []struct {
		nodes         int
		again         bool
		leaves, shard int
	}{{1, false, 16, 16}, {12, false, 16, 16}, {12, true, 24, 24}, {8, true, 16, 16}, {15, true, 30, 30}} {
		if l := Evenly(c.nodes, c.again, 0); l.Leaves != c.leaves || l.Shards != c.shard || l.Nodes != c.nodes {
			t.Errorf("Evenly(%d, %t) = %+v", c.nodes, c.again, l)
		}
	}
}

// TestServe lets real nodes of one thread answer: leaves wait for each other, queries
// for their last leaf.
func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var served sync.WaitGroup
	defer served.Wait()
	defer cancel()
	w := Work{Seed: 1}
	nodes, aggregator := make(chan []string, 1), make(chan string, 1)
	served.Go(func() {
		if err := ServeNodes(ctx, 2, 1, w, func(a []string) { nodes <- a }); err != nil {
			t.Error(err)
		}
	})
	s := &System{Nodes: <-nodes}
	served.Go(func() {
		if err := ServeAggregator(ctx, s.Nodes, func(a string) { aggregator <- a }); err != nil {
			t.Error(err)
		}
	})
	s.Aggregator = <-aggregator

	took, err := Closed(ctx, 0, 3, 10, s.Query(4, Base))
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range took {
		q := uint64(10 + i)
		least := max(w.Takes(q, 0, Base)+w.Takes(q, 2, Base), w.Takes(q, 1, Base)+w.Takes(q, 3, Base)).Seconds()
		if got < least {
			t.Errorf("query %d took %g s, its leaves one after another %g s", q, got, least)
		}
	}
	if took, err := Poisson(ctx, 200, 50*time.Millisecond, 1, 0, s.Leaf(Base)); err != nil || len(took) == 0 {
		t.Errorf("%d leaves asked, %v", len(took), err)
	}
	if takes := (Work{Even: true}).Takes(1, 2, Base); takes < 18*time.Millisecond || takes > 28*time.Millisecond {
		t.Errorf("an even leaf takes %s", takes)
	}
	client := newClient()
	defer client.CloseIdleConnections()
	for _, bad := range []string{"http://" + s.Aggregator + "/?leaves=none", "http://" + s.Nodes[0] + "/?query=1"} {
		resp, err := client.Get(bad)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", bad, resp.Status)
		}
	}
}
