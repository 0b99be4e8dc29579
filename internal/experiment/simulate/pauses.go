package simulate

// pauses holds the pauses of one node, drawn as far as they are needed. The node's
// own clock stands still in a pause.
type pauses struct {
	Pause
	lasts *table
	s     *source
	// Pause i starts when the node's clock shows at[i] and it has paused before[i]
	// seconds until then.
	at, before []float64
	total      float64
	own        float64 // clock where the next pause starts
}

// newPauses returns the pauses of a node from start, or nil if it has none.
func newPauses(p *plan, node int, start float64) *pauses {
	if p.Pause.Lasts == nil {
		return nil
	}
	u := &pauses{Pause: p.Pause, s: newSource(p.seed, ofPauses, uint64(node))}
	u.lasts = u.Lasts.table(false)
	if u.Regular {
		u.own = start + u.s.share()*u.Every
	} else {
		u.own = start + u.s.exponential()*u.Every
	}
	return u
}

// more draws one more pause.
func (u *pauses) more() {
	u.at, u.before = append(u.at, u.own), append(u.before, u.total)
	u.total += u.lasts.draw(u.s.next())
	if u.Regular {
		u.own += u.Every
	} else {
		u.own += u.s.exponential() * u.Every
	}
}

// get returns the start and the end of pause i.
func (u *pauses) get(i int) (start, end float64) {
	for len(u.at) <= i+1 {
		u.more()
	}
	return u.at[i] + u.before[i], u.at[i] + u.before[i+1]
}

// clock converts times to the node's own, and back. Both must be asked for in about
// ascending order, because i is the place of the last one.
type clock struct {
	*pauses
	i int
}

// ownAt returns the node's clock at time t.
func (c *clock) ownAt(t float64) float64 {
	if c.pauses == nil {
		return t
	}
	for {
		start, end := c.get(c.i)
		switch {
		case t >= end:
			c.i++
		case t >= start:
			return c.at[c.i]
		case c.i > 0 && t < c.at[c.i-1]+c.before[c.i]:
			c.i--
		default:
			return t - c.before[c.i]
		}
	}
}

// timeOf returns the first moment at which the node's clock shows own.
func (c *clock) timeOf(own float64) float64 {
	if c.pauses == nil {
		return own
	}
	i := c.i
	for {
		c.get(i)
		if own <= c.at[i] {
			break
		}
		i++
	}
	for i > 0 && own <= c.at[i-1] {
		i--
	}
	return own + c.before[i]
}
