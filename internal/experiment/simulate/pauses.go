package simulate

// pauses of one node, drawn as far as they are needed. Between them the node's own
// clock goes on; while it pauses the clock stands still.
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

// newPauses returns nil if there are none. They begin at start.
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

// more draws one pause more.
func (u *pauses) more() {
	u.at, u.before = append(u.at, u.own), append(u.before, u.total)
	u.total += u.lasts.draw(u.s.next())
	if u.Regular {
		u.own += u.Every
	} else {
		u.own += u.s.exponential() * u.Every
	}
}

// get returns pause i: when it starts and ends.
func (u *pauses) get(i int) (start, end float64) {
	for len(u.at) <= i+1 {
		u.more()
	}
	return u.at[i] + u.before[i], u.at[i] + u.before[i+1]
}

// clock turns times into the node's own, and back; both must be asked for in about
// ascending order, as i remembers where the last one was.
type clock struct {
	*pauses
	i int
}

// own returns what the node's clock shows at time t.
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

// timeOf returns when the node's clock shows own, the first moment of it.
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
