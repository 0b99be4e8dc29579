package traces

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// plant makes a linked tree: spans of one service unless kinds say otherwise,
// each in a slot of its own.
func plant(spans []plain) *tree {
	n := newNames(math.MaxInt64)
	t := &tree{}
	t.acc = make([]sums, len(spans))
	for i, s := range spans {
		id := Identity{Service: "s", Operation: fmt.Sprint(i), Kind: s.kind}
		k := n.name(&id, time.Now)
		nd := node{id: uint64(i + 1), start: s.start, end: s.end, name: k.common(), kind: kindNames[s.kind], slot: int32(i)}
		if s.parent >= 0 {
			nd.up = uint64(s.parent + 1)
		}
		t.nodes = append(t.nodes, nd)
	}
	t.infos = n.list
	t.link()
	return t
}

type plain struct {
	parent     int
	start, end int64
	kind       string
}

const unit = 1_000_003 // of the drawn times, nanoseconds: a prime, so that little divides

func drawTree(t *rapid.T) []plain {
	n := rapid.IntRange(1, 14).Draw(t, "spans")
	out := make([]plain, n)
	for i := range out {
		s := rapid.IntRange(0, 24).Draw(t, "start")
		e := rapid.IntRange(s, 24).Draw(t, "end")
		out[i] = plain{-1, int64(s) * unit, int64(e) * unit, "internal"}
		if i > 0 {
			out[i].parent = rapid.IntRange(0, i-1).Draw(t, "parent")
			out[i].kind = rapid.SampledFrom([]string{"internal", "internal", "client", "consumer"}).Draw(t, "kind")
		}
	}
	return out
}

// below says which spans are in the subtree of top.
func below(spans []plain, top int) []bool {
	in := make([]bool, len(spans))
	in[top] = true
	for i := range spans {
		if p := spans[i].parent; i != top && p >= 0 && in[p] {
			in[i] = true
		}
	}
	return in
}

// naiveExclusive goes through every instant.
func naiveExclusive(spans []plain, top int) []float64 {
	in, out := below(spans, top), make([]float64, len(spans))
	for at := spans[top].start; at < spans[top].end; at += unit {
		on := func(i int) bool { return in[i] && spans[i].start <= at && at < spans[i].end }
		var leaves []int
		for i := range spans {
			leaf := on(i)
			for c := range spans {
				leaf = leaf && !(c != top && spans[c].parent == i && on(c))
			}
			if leaf {
				leaves = append(leaves, i)
			}
		}
		for _, i := range leaves {
			out[i] += unit / float64(len(leaves))
		}
	}
	return out
}

// naiveCritical says who is on the path at the instant before at, walking down.
func naiveCritical(spans []plain, top int) []int64 {
	out := make([]int64, len(spans))
	var walk func(i int, lo, hi int64)
	walk = func(i int, lo, hi int64) {
		for hi > lo {
			last := -1
			for c := range spans {
				s := spans[c]
				if c == top || s.parent != i || s.end > hi || s.end > spans[i].end || s.end <= lo || s.start == s.end {
					continue
				}
				// Of equal ends the later in the order of kids, which is by number.
				if last < 0 || s.end >= spans[last].end {
					last = c
				}
			}
			if last < 0 {
				out[i] += hi - lo
				return
			}
			out[i] += hi - spans[last].end
			from := max(spans[last].start, lo)
			walk(last, from, spans[last].end)
			hi = from
		}
	}
	walk(top, spans[top].start, spans[top].end)
	return out
}

func TestTimesAgainstNaiveTwins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := drawTree(t)
		x := plant(spans)
		if len(x.skews) > 0 {
			return // moved; what is left is covered by other draws
		}
		for r := range x.reqs {
			q := &x.reqs[r]
			top := int(q.node)
			x.exclusive(q)
			x.critical(q, nil)
			wantSelf, wantCritical := naiveExclusive(spans, top), naiveCritical(spans, top)
			var self, critical int64
			in := below(spans, top)
			for i := range spans {
				s := x.acc[i]
				self += s.self
				critical += s.critical
				if math.Abs(float64(s.self)-wantSelf[i]) > float64(2*len(spans)*len(spans)) {
					t.Errorf("request %d, span %d: self %d, want %.1f", top, i, s.self, wantSelf[i])
				}
				if s.critical != wantCritical[i] {
					t.Errorf("request %d, span %d: critical %d, want %d", top, i, s.critical, wantCritical[i])
				}
				if calls := s.calls; (calls == 1) != in[i] {
					t.Errorf("request %d, span %d: %d calls, in its subtree %v", top, i, calls, in[i])
				}
			}
			if d := spans[top].end - spans[top].start; self != d || critical != d {
				t.Errorf("request %d of %d ns: self %d, critical %d", top, d, self, critical)
			}
			x.clear()
		}
	})
}

func TestExclusive(t *testing.T) {
	for _, c := range []struct {
		name           string
		spans          []plain
		self, critical []int64
	}{
		{"alone", []plain{{-1, 0, 100, ""}}, []int64{100}, []int64{100}},
		{"nested", []plain{{-1, 0, 100, ""}, {0, 10, 60, ""}, {1, 20, 30, ""}}, []int64{50, 40, 10}, []int64{50, 40, 10}},
		{"parallel", []plain{{-1, 0, 100, ""}, {0, 0, 60, ""}, {0, 0, 100, ""}}, []int64{0, 30, 70}, []int64{0, 0, 100}},
		{"one after another", []plain{{-1, 0, 100, ""}, {0, 10, 40, ""}, {0, 50, 90, ""}}, []int64{30, 30, 40}, []int64{30, 30, 40}},
		{"asynchronous", []plain{{-1, 0, 100, ""}, {0, 20, 60, ""}, {1, 40, 140, ""}}, []int64{20 + 20, 20, 20 + 20}, []int64{60, 40, 0}},
		{"what does not divide goes on", []plain{{-1, 0, 10, ""}, {0, 0, 10, ""}, {0, 0, 10, ""}, {0, 0, 10, ""}}, []int64{0, 4, 3, 3}, nil},
		{"no length", []plain{{-1, 0, 10, ""}, {0, 5, 5, ""}}, []int64{10, 0}, []int64{10, 0}},
		{"a request of no length", []plain{{-1, 5, 5, ""}, {0, 5, 5, ""}}, []int64{0, 0}, []int64{0, 0}},
		{"begins before its parent", []plain{{-1, 10, 20, ""}, {0, 0, 15, ""}}, []int64{5, 5}, []int64{5, 5}},
		{"wholly after", []plain{{-1, 0, 10, ""}, {0, 15, 25, ""}}, []int64{10, 0}, []int64{10, 0}},
	} {
		x := plant(c.spans)
		x.exclusive(&x.reqs[0])
		x.critical(&x.reqs[0], nil)
		for i := range c.spans {
			if x.acc[i].self != c.self[i] {
				t.Errorf("%s: span %d has %d of its own, want %d", c.name, i, x.acc[i].self, c.self[i])
			}
			if c.critical != nil && x.acc[i].critical != c.critical[i] {
				t.Errorf("%s: span %d has %d on the path, want %d", c.name, i, x.acc[i].critical, c.critical[i])
			}
		}
	}
}

// Wide, deep and nested traces take time in proportion to their spans.
func TestLargeTraces(t *testing.T) {
	const n = 20000
	wide := []plain{{-1, 0, 2 * n, "server"}}
	deep := []plain{{-1, 0, 4 * n, "server"}}
	servers := []plain{{-1, 0, 4 * n, "server"}}
	requests := []plain{{-1, 0, 2 * n, "internal"}}
	for i := range int64(n - 1) {
		wide = append(wide, plain{0, i % 7, 2*n - i, "client"})
		deep = append(deep, plain{int(i), i, 4*n - i, "internal"})
		servers = append(servers, plain{int(i), i, 4*n - i, "server"})
		requests = append(requests, plain{0, i, i + 5, "server"})
	}
	for name, spans := range map[string][]plain{"wide": wide, "deep": deep, "servers": servers, "requests": requests} {
		begin := time.Now()
		x := plant(spans)
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
				t.Fatalf("%s: request of %d: self %d, critical %d", name, d, self, critical)
			}
			x.clear()
		}
		// Quadratic would be tens of seconds, on a machine that does nothing else.
		if d := time.Since(begin); d > 10*time.Second && !raceEnabled {
			t.Errorf("%s: %v", name, d)
		}
		if want := n - maxNest; name == "servers" && x.nested != want {
			t.Errorf("%d requests too deep, want %d", x.nested, want)
		}
	}
}
