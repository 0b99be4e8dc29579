package simulate

// server is a node, or an aggregator, in the course of events. Its tasks share its
// cores equally (processor sharing: Kleinrock 1967, JACM 14). One clock serves all:
// it advances at the speed at which each of them progresses, so a piece of work is
// done when the clock has advanced by its length.
type server struct {
	number            int32
	s                 source
	threads           int
	cores, neighbours float64
	times             float64 // how much longer it takes
	version           uint32

	queue []int32 // for a thread; from head on
	head  int
	free  []int32
	made  int32
	under int // leaves queued or running

	clock, at, rate float64
	running         []int32 // heap by task.until
	touched         bool

	pauses *pauses
	pause  int
	paused bool
	held   []event // waits that were over in a pause

	load nodeLoad
}

// advance brings the clock up to now.
func (s *server) advance(e *engine) {
	d := e.now - s.at
	s.at = e.now
	if n := len(s.running); n > 0 && d > 0 && !s.paused {
		s.clock += d * s.rate
		busy := float64(n)
		if s.cores > 0 {
			busy = min(busy, s.cores)
		}
		s.load.cores += d * busy
	}
}

// touch notes a change of the running tasks.
func (s *server) touch(e *engine) {
	if !s.touched {
		s.touched = true
		e.changed = append(e.changed, s.number)
	}
}

// schedule computes the current speed, and the next task to be done.
func (s *server) schedule(e *engine) {
	s.touched = false
	s.version++
	n := len(s.running)
	if n == 0 || s.paused {
		return
	}
	s.rate = progress(n, s.cores, s.neighbours)
	left := e.tasks[s.running[0]].until - s.clock
	e.push(e.now+max(0, left)/s.rate, someWorkDone, s.number, s.version)
}

// progress returns the speed of each of n tasks.
func progress(n int, cores, neighbours float64) float64 {
	if cores == 0 {
		return 1
	}
	rate := min(1, cores/float64(n))
	if neighbours > 0 && cores > 1 {
		others := max(0, min(float64(n), cores)-1) / (cores - 1)
		rate /= 1 + neighbours*others
	}
	return rate
}

// run gives a task a share of the cores.
func (s *server) run(e *engine, i int32) {
	s.advance(e)
	t := &e.tasks[i]
	t.at = working
	t.start = e.now
	t.until = s.clock + t.work
	s.running = append(s.running, i)
	s.up(e, len(s.running)-1)
	s.touch(e)
}

// worked removes the tasks that are done, one at least.
func (s *server) worked(e *engine) {
	s.clock = max(s.clock, e.tasks[s.running[0]].until)
	for len(s.running) > 0 && e.tasks[s.running[0]].until <= s.clock {
		i := s.running[0]
		s.remove(e, 0)
		t := &e.tasks[i]
		if t.wait > 0 {
			t.at = waiting
			e.push(e.now+t.wait, waitOver, i, t.gen)
		} else {
			e.finished(i)
		}
	}
	if len(s.running) == 0 {
		s.clock = 0
	}
	s.touch(e)
}

// remove removes a task from the heap of running ones.
func (s *server) remove(e *engine, place int) {
	n := len(s.running) - 1
	last := s.running[n]
	s.running = s.running[:n]
	if place < n {
		s.running[place] = last
		e.tasks[last].place = int32(place)
		s.up(e, place)
		s.down(e, int(e.tasks[last].place))
	}
}

func (s *server) up(e *engine, i int) {
	t := s.running[i]
	until := e.tasks[t].until
	for i > 0 {
		parent := (i - 1) / 2
		p := s.running[parent]
		if e.tasks[p].until <= until {
			break
		}
		s.running[i], e.tasks[p].place = p, int32(i)
		i = parent
	}
	s.running[i], e.tasks[t].place = t, int32(i)
}

func (s *server) down(e *engine, i int) {
	t := s.running[i]
	until := e.tasks[t].until
	for {
		c := 2*i + 1
		if c >= len(s.running) {
			break
		}
		if c+1 < len(s.running) && e.tasks[s.running[c+1]].until < e.tasks[s.running[c]].until {
			c++
		}
		if until <= e.tasks[s.running[c]].until {
			break
		}
		s.running[i], e.tasks[s.running[c]].place = s.running[c], int32(i)
		i = c
	}
	s.running[i], e.tasks[t].place = t, int32(i)
}

// enter gives a leaf a thread, or a place in the queue for one.
func (s *server) enter(e *engine, i int32) {
	s.under++
	if thread, ok := s.thread(); ok {
		e.tasks[i].thread = thread
		s.run(e, i)
		return
	}
	e.tasks[i].at = queued
	s.queue = append(s.queue, i)
}

// thread returns the lowest free thread.
func (s *server) thread() (int32, bool) {
	if n := len(s.free); n > 0 {
		lowest := 0
		if n <= 64 {
			for k := range s.free {
				if s.free[k] < s.free[lowest] {
					lowest = k
				}
			}
		} else {
			lowest = n - 1
		}
		thread := s.free[lowest]
		s.free[lowest] = s.free[n-1]
		s.free = s.free[:n-1]
		return thread, true
	}
	if s.threads == 0 || int(s.made) < s.threads {
		s.made++
		return s.made - 1, true
	}
	return 0, false
}

// leave ends a task's use of its thread, and admits the next one.
func (s *server) leave(e *engine, i int32) {
	t := &e.tasks[i]
	if t.thread < 0 {
		return
	}
	s.under--
	s.load.threads += e.now - t.start
	s.free = append(s.free, t.thread)
	for s.head < len(s.queue) {
		next := s.queue[s.head]
		s.head++
		if s.head > 64 && s.head*2 > len(s.queue) {
			s.queue = s.queue[:copy(s.queue, s.queue[s.head:])]
			s.head = 0
		}
		if e.tasks[next].at == dropped {
			e.forget(next)
			continue
		}
		e.tasks[next].thread, _ = s.thread()
		s.run(e, next)
		return
	}
}

// drop removes a task from the node, wherever it is. Its number is free again, except
// for a task in the queue, which goes when its turn comes.
func (s *server) drop(e *engine, i int32) {
	t := &e.tasks[i]
	was := t.at
	t.at = dropped
	switch was {
	case queued:
		s.under--
		return
	case working:
		s.advance(e)
		s.remove(e, int(t.place))
		s.touch(e)
	}
	s.leave(e, i)
	e.watch.done(e, t)
	e.forget(i)
}
