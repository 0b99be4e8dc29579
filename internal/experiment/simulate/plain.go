package simulate

import "math/bits"

// plain reports whether nodes do nothing but serve leaves, so that playPlain can play
// them.
func (g *line) plain() bool {
	return g.order == nil && g.Cache.Leaves == 0 && g.Replicas == 1 && g.Pause.Lasts == nil
}

// playPlain is playNode for plain nodes. Big simulations spend their time here, so it
// has its loops written out, and draws as table.draw and source.next do.
func (g *line) playPlain(n *node, from, to int) {
	load := &g.load[n.number]
	s, leaves := n.s, len(n.copies)
	var spent, idle, each float64
	var taken [64]float64
	alone := g.alone()
	for q := from; q < to; q++ {
		of := g.of[q]
		if of < 0 {
			continue
		}
		k := &g.kinds[of]
		asked := g.asked[q]
		if alone {
			n.threads.reset()
		}
		scale, extra := (k.work+k.wait)*n.times, k.overhead*n.times
		latest, sum, total := asked, 0.0, 0.0
		for left := leaves; left > 0; {
			some := taken[:min(left, len(taken))]
			left -= len(some)
			if k.together > 0 {
				shared := k.together * float64(g.shared[q])
				for i := range some {
					some[i] = k.at(shared+k.apart*drawScore(g.half, s.next()))*scale + extra
				}
			} else {
				cells := k.cells
				for i := range some {
					r := s.next()
					zeros := uint(bits.LeadingZeros64(r | 1<<(64-octaves)))
					r <<= (zeros + 1) & 63
					c := &cells[zeros<<pieceBits|uint(r>>(64-pieceBits))]
					some[i] = float64(c.base+c.slope*(float32(uint32(r<<pieceBits>>40))*0x1p-24))*scale + extra
				}
			}
			for _, d := range some {
				total += d
			}
			n.threads.takeAll(asked, some)
			for _, done := range some {
				sum += done
				if done > latest {
					latest = done
				}
			}
			if q >= g.warm && g.noted(q) {
				for _, done := range some {
					_ = g.leaf.Record(done - asked + g.Network)
				}
			}
		}
		spent += total
		if k.wait > 0 {
			fixed := extra * float64(leaves)
			idle += (total - fixed) * k.wait / (k.work + k.wait)
		}
		if latest > g.last[q] {
			g.last[q] = latest
		}
		if q >= g.warm {
			all := float64(leaves)
			each += sum - all*(asked-g.Network)
			load.waited += sum - all*asked - total
			n.leaves += uint64(leaves)
		}
	}
	load.threads += spent
	load.cores += spent - idle
	n.each += each
	n.s = s
}
