package traces

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever ids and parents spans have, linking ends with each span once in
// order, parents first, and the times of each request sum to it.
func TestLinkAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNames(math.MaxInt64)
		x := &tree{seed: 1}
		for i := range rapid.IntRange(1, 12).Draw(t, "spans") {
			kind := rapid.SampledFrom([]string{"internal", "client", "server", "producer", "consumer"}).Draw(t, "kind")
			k := n.name(&Identity{Service: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "service"), Kind: kind}, time.Now)
			s := rapid.Int64Range(0, 50).Draw(t, "start")
			x.nodes = append(x.nodes, node{
				id: rapid.Uint64Range(0, 8).Draw(t, "id"), up: rapid.Uint64Range(0, 8).Draw(t, "parent"),
				start: s, end: s + rapid.Int64Range(0, 50).Draw(t, "length"), name: k.common(), kind: kindNames[kind], slot: int32(i),
			})
		}
		total := len(x.nodes)
		x.acc = make([]sums, total)
		x.infos = n.list
		twice := x.link()
		if twice+len(x.order) != total || len(x.nodes) != len(x.order) {
			t.Fatalf("%d spans, %d sent twice, %d in order", total, twice, len(x.order))
		}
		seen := make([]bool, len(x.nodes))
		for _, i := range x.order {
			if p := x.nodes[i].parent; seen[i] || p != none && !seen[p] {
				t.Fatalf("order %v", x.order)
			}
			seen[i] = true
		}
		x.fanOut()
		for r := range x.reqs {
			q := &x.reqs[r]
			x.exclusive(q)
			x.critical(q, nil)
			var self, critical int64
			for _, s := range x.touch {
				self += x.acc[s].self
				critical += x.acc[s].critical
			}
			if d := x.nodes[q.node].end - x.nodes[q.node].start; self != d || critical != d {
				t.Fatal(fmt.Sprintf("request of %d: self %d, critical %d", d, self, critical))
			}
			x.clear()
		}
	})
}
