package load

// The heap of connections whose user thinks, by when their next request is due.

func (l *loop) earlier(i, j int) bool {
	return l.conns[l.thinking[i]].due < l.conns[l.thinking[j]].due
}

func (l *loop) think(id int32) {
	h := append(l.thinking, id)
	l.thinking = h
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !l.earlier(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// wakeThinker takes the connection whose request is due first.
func (l *loop) wakeThinker() int32 {
	h := l.thinking
	id, n := h[0], len(h)-1
	h[0] = h[n]
	h = h[:n]
	l.thinking = h
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			return id
		}
		if down+1 < n && l.earlier(down+1, down) {
			down++
		}
		if !l.earlier(down, i) {
			return id
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}
