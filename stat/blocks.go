package stat

import (
	"fmt"
	"math"
)

// minBlocks is the least number of blocks of a side: with fewer, how much they differ
// from each other cannot be seen.
const minBlocks = 3

// Blocks says that each side consists of stretches that are no neighbours, such as
// nights: each has the numbers of slots of its stretches, in order. One night differs
// from another by more than its slots show, so that nights are what is counted: the
// variance of a side is that of its blocks' influences (Cochran 1977, Sampling
// Techniques, section 9A.2, of clusters drawn with replacement), and is referred to
// Student's t with one degree of freedom fewer than there are blocks.
type Blocks struct{ A, B []int }

func (b *Blocks) check(slotsA, slotsB int, o Options) error {
	switch {
	case o.Paired || o.Live != nil:
		return invalidf("blocks of sides that are paired or live")
	case max(len(b.A), len(b.B)) > maxCosines:
		return invalidf("more than %d blocks of a side", maxCosines)
	}
	for _, side := range []struct {
		each  []int
		slots int
	}{{b.A, slotsA}, {b.B, slotsB}} {
		sum := 0
		for _, n := range side.each {
			if n < 1 {
				return invalidf("a block of %d slots", n)
			}
			sum += n
		}
		if sum != side.slots {
			return invalidf("blocks of %d slots for a side of %d", sum, side.slots)
		}
	}
	return nil
}

// among returns the standard error of a figure by what differs among its blocks, and
// the number of blocks with observations.
func (f *figure) among(each []int) (se float64, blocks int) {
	sum, squares, first := 0.0, 0.0, 0
	for _, n := range each {
		part, some := 0.0, false
		for _, v := range f.influence[first : first+n] {
			part += v
			some = some || v != 0
		}
		if first += n; some {
			blocks++
			sum, squares = sum+part, squares+part*part
		}
	}
	if blocks == 0 { // they all agree
		return 0, len(each)
	}
	k := float64(blocks)
	return math.Sqrt(max(0, squares-sum*sum/k) * k / max(1, k-1)), blocks
}

// sums returns the influence of each of at most n blocks, after an element that is 0, as
// element 0 of cosines is.
func (f *figure) sums(each []int, n int) []float64 {
	out, first := make([]float64, n+1), 0
	for i, slots := range each {
		for _, v := range f.influence[first : first+slots] {
			out[i+1] += v
		}
		first += slots
	}
	return out
}

// byBlocks compares sides of blocks.
func (c *Change) byBlocks(a, b *figure, o Options) {
	sa, ka := a.among(o.Blocks.A)
	sb, kb := b.among(o.Blocks.B)
	for _, side := range []struct {
		name   string
		blocks int
	}{{"A", ka}, {"B", kb}} {
		if side.blocks < minBlocks {
			c.Effect = math.NaN()
			c.Short = fmt.Sprintf("side %s: %s with observations, at least %d are needed", side.name, windows(side.blocks), minBlocks)
			return
		}
	}
	c.apartBy(a, b, sa, sb, float64(ka-1), float64(kb-1), ka, kb, o)
}

func windows(n int) string {
	if n == 1 {
		return "1 window"
	}
	return fmt.Sprintf("%d windows", n)
}
