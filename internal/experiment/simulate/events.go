package simulate

import (
	"context"
	"math"

	"tailscope/hist"
)

// Kinds of events; each happens to a numbered thing.
const (
	someWorkDone  = iota // on a node: the running piece with the least left
	waitOver             // of a task
	hedgeDue             // of a task: it may need a second one
	answerSeen           // of a task
	pauseStarts          // of a node
	pauseEnds            // of a node
	thoughtEnough        // of a user
	leavesDue            // of a query
	mergeDue             // of a query
	queryDone            // of a query
)

type event struct {
	t    float64
	seq  uint32 // of equal times the first one made is first
	what uint32
	of   int32
	gen  uint32 // it is stale if its thing has another
}

// events is a heap, four children to a parent.
type events struct {
	heap []event
	seq  uint32
}

func (a *event) before(b *event) bool {
	return a.t < b.t || a.t == b.t && int32(a.seq-b.seq) < 0
}

func (h *events) push(t float64, what int, of int32, gen uint32) {
	h.seq++
	e := event{t, h.seq, uint32(what), of, gen}
	h.heap = append(h.heap, e)
	i := len(h.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h.heap[parent]) {
			break
		}
		h.heap[i] = h.heap[parent]
		i = parent
	}
	h.heap[i] = e
}

func (h *events) pop() event {
	top := h.heap[0]
	n := len(h.heap) - 1
	e := h.heap[n]
	h.heap = h.heap[:n]
	i := 0
	for {
		c := 4*i + 1
		if c >= n {
			break
		}
		for k := c + 1; k < min(c+4, n); k++ {
			if h.heap[k].before(&h.heap[c]) {
				c = k
			}
		}
		if !h.heap[c].before(&e) {
			break
		}
		h.heap[i] = h.heap[c]
		i = c
	}
	if n > 0 {
		h.heap[i] = e
	}
	return top
}

// Kinds of tasks.
const (
	leafTask = iota
	hedgeTask
	beforeTask
	afterTask
)

// Places of a task.
const (
	queued = iota
	working
	waiting
	answered
	dropped
)

// task is work on a node.
type task struct {
	work, wait   float64 // seconds with a core, then without
	ready, start float64
	until        float64 // of the node's shared clock, when the work is done
	query, shard int32
	node, thread int32 // thread -1: needs none
	twin         int32 // the other one of a leaf that was asked twice, -1 if none
	place        int32 // in the node's heap
	gen          uint32
	what, at     uint8
	noise        float32 // normal score of what the leaf's time does not share
}

// query is a query under way.
type query struct {
	arrive, asked, last float64
	left                int32
	of                  int32
	aggregator          int32
	user                int32
	shared              float32
}

// engine plays all nodes at once, event by event.
type engine struct {
	*plan
	events
	now     float64
	tasks   []task
	unused  []int32
	queries []query
	servers []server
	changed []int32 // servers whose next completion is to be found anew
	hedges  *source
	users   *source
	drawn   *source // of queries as they come, of closed arrivals
	hedgeAt []float64
	started int // queries
	done    int // counted or before
	alive   int // tasks
	out     *played
	watch   *watch
	shards  [][]int32 // copies: nodes by shard
}

// mostAlive is the number of tasks at once from which work is taken to pile up.
const mostAlive = 3_000_000

func (p *plan) playEvents(ctx context.Context, w *watch) (*played, error) {
	e := &engine{
		plan: p, watch: w, hedges: newSource(p.seed, ofHedges), users: newSource(p.seed, ofUsers), drawn: newSource(p.seed, ofQueries),
		out: &played{latency: make([]float64, p.total), nodes: make([]nodeLoad, p.Nodes), leaf: hist.New(hist.DefaultSchema)},
	}
	e.queries = make([]query, 0, p.total)
	for i := range p.kinds {
		e.hedgeAt = append(e.hedgeAt, p.hedgeAfter(&p.kinds[i]))
	}
	if p.Arrivals == Closed {
		for u := range p.Users {
			e.push(e.now+e.users.exponential()*p.Think, thoughtEnough, int32(u), 0)
		}
	} else {
		e.now = p.arrive[0]
	}
	e.out.start = e.now
	e.start()
	for steps := 0; e.done < p.total; steps++ {
		if steps&0xfff == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if e.alive > mostAlive {
			e.out.piled = true
			break
		}
		if w != nil && w.full() {
			break
		}
		e.step()
	}
	e.out.end = e.now
	for i := range e.servers {
		s := &e.servers[i]
		s.advance(e)
		if i < p.Nodes {
			e.out.nodes[i] = s.load
		} else {
			e.out.aggBusy += s.load.threads
		}
	}
	return e.out, nil
}

func (e *engine) start() {
	e.servers = make([]server, e.Nodes+e.plan.Aggregator.Nodes)
	for i := range e.servers {
		s := &e.servers[i]
		*s = server{number: int32(i), at: e.now, rate: 1, times: 1, s: *newSource(e.seed, ofLeaves, uint64(i))}
		if i >= e.Nodes {
			s.threads = int(math.Ceil(e.plan.Aggregator.Cores))
			continue
		}
		s.threads, s.cores, s.neighbours, s.times = e.Threads, e.Cores, e.Neighbours, e.times(i)
		if s.pauses = newPauses(e.plan, i, e.now); s.pauses != nil {
			from, _ := s.pauses.get(0)
			e.push(from, pauseStarts, int32(i), 0)
		}
	}
	e.shards = make([][]int32, e.Shards)
	for i := range e.shards {
		for r := range e.Replicas {
			e.shards[i] = append(e.shards[i], int32(e.home(i, r)))
		}
	}
}

// step handles the next event, or query.
func (e *engine) step() {
	if e.Arrivals != Closed && e.started < e.total && (len(e.heap) == 0 || e.arrive[e.started] <= e.heap[0].t) {
		q := e.started
		e.now = e.arrive[q]
		shared := float32(0)
		if e.shared != nil {
			shared = e.shared[q]
		}
		e.ask(query{arrive: e.now, of: e.of[q], shared: shared})
	} else {
		ev := e.pop()
		e.now = ev.t
		e.handle(ev)
	}
	for _, n := range e.changed {
		e.servers[n].schedule(e)
	}
	e.changed = e.changed[:0]
}

func (e *engine) handle(ev event) {
	switch ev.what {
	case someWorkDone:
		if s := &e.servers[ev.of]; s.version == ev.gen {
			s.advance(e)
			s.worked(e)
		}
	case waitOver:
		if t := &e.tasks[ev.of]; t.gen == ev.gen && t.at == waiting {
			if s := &e.servers[t.node]; s.paused {
				s.held = append(s.held, ev)
			} else {
				e.finished(ev.of)
			}
		}
	case hedgeDue:
		if e.tasks[ev.of].gen == ev.gen {
			e.hedge(ev.of)
		}
	case answerSeen:
		if e.tasks[ev.of].gen == ev.gen {
			e.answer(ev.of)
		}
	case pauseStarts, pauseEnds:
		e.pause(&e.servers[ev.of], ev.what == pauseStarts)
	case thoughtEnough:
		of, shared := e.drawQuery(e.drawn, e.now)
		if e.started < e.total {
			e.of[e.started] = of
		}
		e.ask(query{arrive: e.now, of: of, shared: shared, user: ev.of})
	case leavesDue:
		e.fanOut(ev.of)
	case mergeDue:
		e.merge(ev.of)
	case queryDone:
		e.finish(ev.of)
	}
}

func (e *engine) pause(s *server, starts bool) {
	s.advance(e)
	s.paused = starts
	s.touch(e)
	from, to := s.pauses.get(s.pause)
	if starts {
		e.push(to, pauseEnds, s.number, 0)
		e.watch.paused(e, s.number, from, to)
		return
	}
	s.pause++
	from, _ = s.pauses.get(s.pause)
	e.push(from, pauseStarts, s.number, 0)
	held := s.held
	s.held = nil
	for _, ev := range held {
		e.handle(ev)
	}
}

// newTask returns the number of a free task.
func (e *engine) newTask(t task) int32 {
	e.alive++
	if n := len(e.unused); n > 0 {
		i := e.unused[n-1]
		e.unused = e.unused[:n-1]
		t.gen = e.tasks[i].gen + 1
		e.tasks[i] = t
		return i
	}
	e.tasks = append(e.tasks, t)
	return int32(len(e.tasks) - 1)
}

// forget makes references to the task stale.
func (e *engine) forget(i int32) {
	e.alive--
	e.tasks[i].gen++
	e.unused = append(e.unused, i)
}
