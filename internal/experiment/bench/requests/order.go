package requests

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// dealt is the order in which weighted queries take turns. Within a period each comes
// exactly as often as its weight says, as evenly spread as possible. The order is a
// function of the request's number, so loops need not agree.
type dealt struct {
	turns []uint32 // which query, of each place of the period
	nth   []uint32 // how many times it came before, in the period
	times []uint64 // how often each comes in the period
}

// maxPeriod bounds a period; weights that need a longer one are rounded to it.
const maxPeriod = 1 << 16

// deal makes the order. Weights are positive.
func deal(weights []float64) dealt {
	d := dealt{times: shares(weights)}
	type turn struct {
		at    float64
		query uint32
		nth   uint32
	}
	var turns []turn
	for q, n := range d.times {
		for i := range n {
			// The i-th of n is due in the middle of its part of the period.
			turns = append(turns, turn{(float64(i) + 0.5) / float64(n), uint32(q), uint32(i)})
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.query, b.query)) })
	for _, t := range turns {
		d.turns, d.nth = append(d.turns, t.query), append(d.nth, t.nth)
	}
	return d
}

// shares returns whole numbers in proportion to the weights.
func shares(weights []float64) []uint64 {
	least := slices.Min(weights)
	times := make([]uint64, len(weights))
	for scale := 1; ; scale++ {
		sum, exact := 0.0, true
		for _, w := range weights {
			n := w / least * float64(scale)
			sum += n
			exact = exact && math.Abs(n-math.Round(n)) <= 1e-9*n
		}
		if sum > maxPeriod {
			break
		}
		if exact {
			for i, w := range weights {
				times[i] = uint64(math.Round(w / least * float64(scale)))
			}
			return reduced(times)
		}
	}
	whole := 0.0
	for _, w := range weights {
		whole += w
	}
	for i, w := range weights {
		times[i] = max(1, uint64(math.Round(w/whole*maxPeriod)))
	}
	return reduced(times)
}

func reduced(times []uint64) []uint64 {
	common := times[0]
	for _, n := range times {
		for n > 0 {
			common, n = n, common%n
		}
	}
	for i := range times {
		times[i] /= common
	}
	return times
}

// turn returns the query of the k-th request, and how many requests of that query
// came before.
func (d *dealt) turn(k uint64) (query int, nth uint64) {
	period := uint64(len(d.turns))
	at := k % period
	q := d.turns[at]
	return int(q), k/period*d.times[q] + uint64(d.nth[at])
}

// count returns how many of the first n requests are of a query.
func (d *dealt) count(query int, n uint64) uint64 {
	period := uint64(len(d.turns))
	whole := n / period * d.times[query]
	for _, q := range d.turns[:n%period] {
		if int(q) == query {
			whole++
		}
	}
	return whole
}

// mix hashes two numbers (Steele, Lea and Flood's SplitMix64, 2014).
func mix(seed, k uint64) uint64 {
	z := seed + (k+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below maps a hash to a number below n (Lemire, Fast Random Integer Generation in an
// Interval, 2019; the bias of at most n/2^64 is left).
func below(hash, n uint64) uint64 {
	high, _ := bits.Mul64(hash, n)
	return high
}

// permuted returns the place of i in a permutation of n numbers chosen by the seed: a
// Feistel network of four rounds over the next power of four, walked until it is
// below n (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002).
func permuted(i, n, seed uint64) uint64 {
	half := uint((bits.Len64(n-1) + 1) / 2)
	if half == 0 {
		return 0
	}
	mask := uint64(1)<<half - 1
	for {
		left, right := i>>half, i&mask
		for round := range uint64(4) {
			left, right = right, left^mix(seed+round, right)&mask
		}
		if i = left<<half | right; i < n {
			return i
		}
	}
}

// order is the order in which rows are used.
type order uint8

const (
	sequential order = iota
	byChance
	shuffled
)

// row returns the row of a query's nth request.
func (o order) row(nth, rows, seed uint64) uint64 {
	switch o {
	case byChance:
		return below(mix(seed, nth), rows)
	case shuffled:
		return permuted(nth%rows, rows, mix(seed, nth/rows))
	}
	return nth % rows
}
