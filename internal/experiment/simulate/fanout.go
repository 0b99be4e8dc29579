package simulate

import "math"

// idle is the distribution of a query on nodes that nobody else uses and that start
// all its leaves at once: the product of its leaves' distribution functions, F^N
// where they are alike, over classes, moments and the shared score (by the trapezium
// rule, which for a bell curve is as good as any: Trefethen & Weideman 2014, SIAM
// Review 56). Second answers of hedged requests are in it if they are independent of
// the first.
type idle struct {
	*plan
	weights []float64 // of kinds
	longest float64
	shards  []int     // by how many of their replicas are on slow nodes
	hedge   []float64 // by kind: when a leaf is asked again, +Inf never
	z, at   []float64 // points of the shared normal score, and their weights
}

func newIdle(p *plan, weights []float64) *idle {
	i := &idle{plan: p, weights: weights, shards: make([]int, p.Replicas+1)}
	points := 256
	if len(p.kinds) > 16 { // their mean is smooth
		points = 64
	}
	total := 0.0
	for n := range points {
		z := (float64(n)+0.5)/float64(points)*14 - 7
		w := math.Exp(-z * z / 2)
		i.z, i.at = append(i.z, z), append(i.at, w)
		total += w
	}
	for n := range i.at {
		i.at[n] /= total
	}
	for s := range p.Shards {
		slow := 0
		for r := range p.Replicas {
			if p.home(s, r) < p.Slow.Nodes {
				slow++
			}
		}
		i.shards[slow]++
	}
	slowest := 1.0
	if p.Slow.Nodes > 0 {
		slowest = max(1, p.Slow.Times)
	}
	for k := range p.kinds {
		d := &p.kinds[k]
		i.longest = max(i.longest, d.before+d.after+p.Network+slowest*max(d.takes(p, d.leaf.Max()), (d.cached+d.overhead)/p.core()))
		hedge := math.Inf(1)
		if p.Hedge.on() && p.Hedge.Alike == 0 {
			hedge = p.hedgeAfter(d)
		}
		i.hedge = append(i.hedge, hedge)
	}
	i.longest = max(i.longest, p.Cache.Takes)
	return i
}

// core returns how much of a core a leaf gets that has a node for itself.
func (p *plan) core() float64 {
	if p.Cores > 0 {
		return min(1, p.Cores)
	}
	return 1
}

// takes returns the time on an idle node of a leaf that was measured to take d.
func (k *kind) takes(p *plan, d float64) float64 {
	return d*(k.work/p.core()+k.wait) + k.overhead/p.core()
}

// hedgeAfter returns the time after which a leaf is asked again.
func (p *plan) hedgeAfter(k *kind) float64 {
	if p.Hedge.Quantile > 0 {
		return k.takes(p, k.leaf.Quantile(p.Hedge.Quantile)) + p.Network
	}
	return p.Hedge.After
}

// atMost returns the share of queries that take at most this long.
func (i *idle) atMost(seconds float64) float64 {
	share := 0.0
	if seconds >= i.Cache.Takes {
		share = i.Cache.Queries
	}
	rest := 0.0
	for n := range i.kinds {
		if i.weights[n] > 0 {
			rest += i.weights[n] * i.kindAtMost(n, seconds)
		}
	}
	return share + (1-i.Cache.Queries)*rest
}

// answer holds the probabilities of one answer by some time, on one kind of node.
type answer struct {
	share  float64 // of leaves that have answered, whatever they share
	score  float64 // its normal score
	cached float64 // share of those found ready that have
}

func (i *idle) answer(k *kind, left, times float64) answer {
	a := answer{score: math.Inf(-1)}
	d := (left/times - k.overhead/i.core()) / (k.work/i.core() + k.wait)
	switch {
	case left < 0:
		return a
	case d >= k.leaf.Max():
		a.share = 1
	case d >= 0:
		a.share = k.leaf.AtMost(d)
	}
	a.score = score(a.share)
	if left/times >= (k.cached+k.overhead)/i.core() {
		a.cached = 1
	}
	return a
}

// given returns the share that has answered if the shared score is z.
func (i *idle) given(k *kind, a answer, z float64) float64 {
	share := a.share
	if k.together > 0 && share > 0 && share < 1 {
		switch {
		case k.apart > 0:
			share = normal((a.score - k.together*z) / k.apart)
		case z <= a.score:
			share = 1
		default:
			share = 0
		}
	}
	return i.Cache.Leaves*a.cached + (1-i.Cache.Leaves)*share
}

func (i *idle) kindAtMost(n int, seconds float64) float64 {
	k := &i.kinds[n]
	left := seconds - k.before - k.after - i.Network
	if left < 0 {
		return 0
	}
	fast, slow := i.answer(k, left, 1), answer{}
	fast2, slow2 := i.answer(k, left-i.hedge[n], 1), answer{}
	if i.Slow.Nodes > 0 {
		slow, slow2 = i.answer(k, left, i.Slow.Times), i.answer(k, left-i.hedge[n], i.Slow.Times)
	}
	all := func(z float64) float64 {
		product := 1.0
		f, s := i.given(k, fast, z), i.given(k, slow, z)
		f2, s2 := i.given(k, fast2, z), i.given(k, slow2, z)
		for copies, shards := range i.shards {
			if shards == 0 {
				continue
			}
			// One replica at random, and perhaps another.
			on := float64(copies) / float64(i.Replicas)
			leaf := (1-on)*f + on*s
			if f2 > 0 || s2 > 0 {
				others := float64(i.Replicas - 1)
				missed := 0.0
				if on < 1 {
					to := float64(copies) / others
					missed += (1 - on) * (1 - f) * (1 - ((1-to)*f2 + to*s2))
				}
				if on > 0 {
					to := float64(copies-1) / others
					missed += on * (1 - s) * (1 - ((1-to)*f2 + to*s2))
				}
				leaf = 1 - missed
			}
			product *= math.Pow(leaf, float64(shards))
		}
		return product
	}
	if k.together == 0 || fast.share >= 1 && (i.Slow.Nodes == 0 || slow.share >= 1) || fast.share <= 0 {
		return all(0)
	}
	sum := 0.0
	for n, z := range i.z {
		sum += i.at[n] * all(z)
	}
	return sum
}

// quantile inverts atMost, which is below p up to low: by false position (the
// Illinois rule, Dowell & Jarratt 1971, BIT 11), or bisection where there are steps.
func (i *idle) quantile(p, low float64) float64 {
	close := 1e-7
	if len(i.kinds) > 8 {
		close = 1e-4
	}
	high := i.longest * (1 + 1e-9)
	under, over := i.atMost(low)-p, 1-p
	if under >= 0 {
		return low
	}
	for n := 0; high-low > close*high && n < 100; n++ {
		middle := low + (high-low)*under/(under-over)
		if n%3 == 2 || !(middle > low && middle < high) {
			middle = (low + high) / 2
		}
		if v := i.atMost(middle) - p; v >= 0 {
			high, over = middle, v
			under /= 2
		} else {
			low, under = middle, v
			over /= 2
		}
	}
	return high
}

// Needs returns the number of observations of a leaf that a quantile of queries
// needs, with ten above it: the p-quantile of the slowest of n leaves is the leaf's
// p^(1/n)-quantile.
func Needs(p float64, shards int) uint64 {
	return uint64(math.Ceil(10 / -math.Expm1(math.Log(p)/float64(shards))))
}
