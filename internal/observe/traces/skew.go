package traces

// skew is a call whose times had to be moved.
type skew struct {
	node  int32
	nanos int64 // by which the callee was moved; negative if its clock is ahead
}

// unskew moves the callees whose times are impossible, with everything below them on the
// same clock, and reports whether there were any. The rule is that of Jaeger's clock
// skew adjuster (jaeger/internal/adjuster), narrowed so that work that really outlasts
// its caller is left alone:
//
//   - only calls from one clock to another are examined; see differs;
//   - a callee that would fit into its caller but does not lie inside is put into its
//     middle, as if the way there took as long as the way back;
//   - one that lasted longer than its caller is moved only if it starts before it, to
//     start with it: the caller may have timed out;
//   - so is one that starts within a failed call, or whose caller is not a call: that it
//     ends later is no proof. Messages may wait: a consumer is moved only if it starts
//     before its producer.
func (t *tree) unskew() bool {
	t.skews = t.skews[:0]
	for _, i := range t.order {
		nd := &t.nodes[i]
		nd.shift = 0
		if nd.parent == none || nd.flags&orphan != 0 {
			continue
		}
		p := &t.nodes[nd.parent]
		if !t.differs(p, nd) {
			if p.shift != 0 {
				nd.move(p.shift)
			}
			continue
		}
		if d := misfitOf(p, nd); d != 0 {
			nd.move(d)
			t.skews = append(t.skews, skew{i, d})
		}
	}
	return len(t.skews) > 0
}

func (nd *node) move(d int64) {
	nd.shift = d
	nd.start += d
	nd.end += d
}

// differs reports whether the spans were timed by different clocks: a call and its
// answer, or spans of two services or instances. The Instance of a call may be the
// address it calls, and is not compared.
func (t *tree) differs(p, c *node) bool {
	if p.kind == kindClient && c.kind == kindServer || p.kind == kindProducer && c.kind == kindConsumer {
		return true
	}
	a, b := t.infos[p.name], t.infos[c.name]
	if a == b {
		return false
	}
	if a.service != b.service {
		return true
	}
	return !p.kind.call() && !c.kind.call() && a.id.Instance != b.id.Instance && a.id.Instance != "" && b.id.Instance != ""
}

// misfitOf returns by how much a callee must be moved. p was moved already.
func misfitOf(p, c *node) int64 {
	early := c.start < p.start
	if !early && c.end <= p.end {
		return 0
	}
	if early && (c.end-c.start > p.end-p.start || p.kind == kindProducer || c.kind == kindConsumer) {
		return p.start - c.start
	}
	if !early {
		gaveUp := p.flags&failed != 0 && c.start <= p.end
		if p.kind != kindClient || c.kind == kindConsumer || c.end-c.start > p.end-p.start || gaveUp {
			return 0
		}
	}
	return p.start + ((p.end-p.start)-(c.end-c.start))/2 - c.start
}
