package simulate

// ask lets a query begin.
func (e *engine) ask(q query) {
	n := int32(e.started)
	e.started++
	q.left = int32(e.Shards)
	e.queries = append(e.queries, q)
	e.watch.asked(e, n)
	if q.of < 0 {
		e.push(e.now+e.Cache.Takes, queryDone, n, 0)
		return
	}
	k := &e.kinds[q.of]
	switch {
	case e.plan.Aggregator.Nodes > 0:
		e.queries[n].aggregator = int32(e.Nodes + int(n)%e.plan.Aggregator.Nodes)
	default:
		e.queries[n].aggregator = n % int32(e.Nodes)
	}
	e.aggregate(n, beforeTask, k.before, leavesDue)
}

// aggregate runs work of a query's aggregator, and then what follows.
func (e *engine) aggregate(n int32, what uint8, work float64, then int) {
	own := e.plan.Aggregator.Nodes > 0
	if work == 0 || !own && e.Cores == 0 {
		if work > 0 {
			e.push(e.now+work, then, n, 0)
		} else {
			e.handle(event{what: uint32(then), of: n})
		}
		return
	}
	s := &e.servers[e.queries[n].aggregator]
	i := e.newTask(task{work: work, ready: e.now, query: n, shard: -1, node: s.number, thread: -1, twin: -1, what: what})
	if own {
		s.enter(e, i)
	} else {
		e.tasks[i].work *= s.times
		s.run(e, i)
	}
}

// fanOut asks a leaf of every shard.
func (e *engine) fanOut(n int32) {
	q := &e.queries[n]
	q.asked, q.last = e.now, e.now
	k := &e.kinds[q.of]
	for shard := range e.shards {
		copies := e.shards[shard]
		s := &e.servers[copies[e.pick(n, shard, copies)]]
		t := task{ready: e.now, query: n, shard: int32(shard), node: s.number, twin: -1, what: leafTask}
		var z float64
		t.work, t.wait, z = e.drawLeafNoise(&s.s, k, float64(q.shared))
		t.work, t.wait, t.noise = t.work*s.times, t.wait*s.times, float32(z)
		i := e.newTask(t)
		if e.Hedge.on() {
			e.push(e.now+e.hedgeAt[q.of], hedgeDue, i, e.tasks[i].gen)
		}
		s.enter(e, i)
	}
}

// pick returns the copy that is asked.
func (e *engine) pick(n int32, shard int, copies []int32) int {
	if e.Pick != Least || len(copies) == 1 {
		return e.picked(int(n), shard)
	}
	first := (int(n) + shard) % len(copies) // of equals not always the same
	best := first
	for i := range copies {
		c := (first + i) % len(copies)
		if e.servers[copies[c]].under < e.servers[copies[best]].under {
			best = c
		}
	}
	return best
}

// hedge asks another copy of a leaf that has not answered.
func (e *engine) hedge(i int32) {
	t := e.tasks[i]
	q := &e.queries[t.query]
	copies := e.shards[t.shard]
	at := 0
	for copies[at] != t.node {
		at++
	}
	other := (at + 1) % len(copies)
	for c := range copies { // the least busy of the others
		if c != at && e.servers[copies[c]].under < e.servers[copies[other]].under {
			other = c
		}
	}
	s := &e.servers[copies[other]]
	k := &e.kinds[q.of]
	second := task{ready: e.now, query: t.query, shard: t.shard, node: s.number, twin: i, what: hedgeTask}
	second.work, second.wait = e.drawAlike(e.hedges, k, float64(q.shared), float64(t.noise))
	second.work, second.wait = second.work*s.times, second.wait*s.times
	j := e.newTask(second)
	e.tasks[i].twin = j
	if int(t.query) >= e.warm && int(t.query) < e.total {
		e.out.hedged++
	}
	s.enter(e, j)
}

// finished handles a task that has done its work on the node.
func (e *engine) finished(i int32) {
	t := &e.tasks[i]
	t.at = answered
	s := &e.servers[t.node]
	n, what := t.query, t.what
	e.watch.done(e, t)
	s.leave(e, i)
	t = &e.tasks[i]
	switch what {
	case beforeTask:
		e.forget(i)
		e.fanOut(n)
	case afterTask:
		e.forget(i)
		e.finish(n)
	default:
		if e.counted(n) {
			s.load.waited += t.start - t.ready
		}
		if e.Network > 0 && e.Hedge.on() {
			e.push(e.now+e.Network, answerSeen, i, t.gen)
			return
		}
		e.answer(i)
	}
}

func (e *engine) counted(n int32) bool { return int(n) >= e.warm && int(n) < e.total }

// answer handles a leaf's answer, the first or the second.
func (e *engine) answer(i int32) {
	t := e.tasks[i]
	late := t.twin == gone
	if t.twin >= 0 { // the other one is not needed any more
		other := &e.tasks[t.twin]
		switch {
		case other.at == answered || e.Hedge.Cancel && other.at != dropped:
			if other.at == answered {
				e.forget(t.twin) // on its way
			} else {
				e.servers[other.node].drop(e, t.twin)
			}
		default:
			other.twin = gone
		}
	}
	e.forget(i)
	if late {
		return
	}
	q := &e.queries[t.query]
	seen := e.now
	if e.Network > 0 && !e.Hedge.on() {
		seen += e.Network
	}
	q.last = max(q.last, seen)
	if e.counted(t.query) {
		e.out.leaves++
		e.out.each += seen - q.asked
		if e.noted(int(t.query)) {
			_ = e.out.leaf.Record(seen - q.asked)
		}
	}
	if q.left--; q.left > 0 {
		return
	}
	if e.counted(t.query) {
		e.out.asked++
		e.out.slowest += q.last - q.asked
	}
	if q.last > e.now {
		e.push(q.last, mergeDue, t.query, 0)
		return
	}
	e.merge(t.query)
}

// gone is the twin of a task whose twin has answered.
const gone = -2

func (e *engine) merge(n int32) {
	e.aggregate(n, afterTask, e.kinds[e.queries[n].of].after, queryDone)
}

// finish completes the query.
func (e *engine) finish(n int32) {
	q := &e.queries[n]
	e.watch.answered(n)
	if int(n) < e.total {
		e.out.latency[n] = e.now - q.arrive
		e.done++
		if q.of >= 0 && e.counted(n) {
			e.out.merge += q.asked - q.arrive + e.now - q.last
		}
	}
	if e.Arrivals == Closed {
		think := 0.0
		if e.Think > 0 {
			think = e.users.exponential() * e.Think
		}
		e.push(e.now+think, thoughtEnough, q.user, 0)
	}
}
