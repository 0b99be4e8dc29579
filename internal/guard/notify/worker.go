package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/backoff"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// Bounds where a receiver's definition gives none.
const (
	spoolBytes      = 64 << 20
	spoolAgeResults = 24 * time.Hour
	spoolAgeEvents  = 7 * 24 * time.Hour
	sendTimeout     = 10 * time.Second
	// patience is the number of attempts that a receiver may answer with an error
	// before the next message is tried. If that succeeds, the fault was the message's.
	patience = 10
	// logInterval is the time between two logged losses.
	logInterval = time.Minute
	// retryTurn is the time until it is asked again whose turn it is.
	retryTurn = time.Second
)

// sender implements one receiver's protocol. One goroutine calls its methods.
type sender interface {
	// capabilities returns what the receiver takes and how much at once.
	capabilities() capabilities
	// send delivers messages, oldest first. It calls report for each that is
	// delivered (nil) or refused for ever, in any order and from any goroutine, until
	// it returns. Its error says why the others are to be tried again. It ends soon
	// after ctx does.
	send(ctx context.Context, messages []message, report func(i int, err error)) error
	// close releases connections and files.
	close()
}

type capabilities struct {
	kind, to        string // to is without secrets
	events, results bool
	batch           int           // most messages at once
	pause           time.Duration // between batches, unless one is full
	resend          time.Duration // 0: never
}

// takes reports whether the receiver takes q's messages. Those left by a definition of
// another kind wait until they are too old.
func (a capabilities) takes(q *queue) bool { return q.durable && a.events || !q.durable && a.results }

// resender sends all known incidents again and again, because its receiver keeps
// them for a short time.
type resender interface {
	resend(ctx context.Context, known []incident) error
}

// worker delivers messages to one receiver.
type worker struct {
	n    *Notifier
	name string
	dir  string
	log  *slog.Logger

	queues  []*queue // of events, of results; whose turn is first comes first
	events  *queue
	results *queue

	wake   chan struct{} // capacity 1
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{}
	halt   chan struct{}
	once   sync.Once

	mu        sync.Mutex // of the fields below
	receiver  spec.Receiver
	sender    sender
	next      sender // takes sender's place before the next batch
	breaker   backoff.Breaker
	busy      bool
	problem   string
	delivered uint64
	failed    uint64
	saidAt    time.Time // a refusal, in the log
	unsaid    int

	// Of the goroutine alone:
	head     uint64 // the message that fails, and how often its receiver answered so
	headFail int
	lastSent time.Time
	resent   time.Time
}

func openWorker(n *Notifier, r spec.Receiver, s sender) (*worker, error) {
	l := &worker{
		n: n, name: r.Name, dir: filepath.Join(n.o.Dir, spoolDir(r.Name)), log: n.o.Logger.With("receiver", r.Name),
		receiver: r, sender: s,
		wake: make(chan struct{}, 1), ended: make(chan struct{}), halt: make(chan struct{}),
	}
	limit, _ := boundsOf(r)
	var err error
	if l.events, err = openQueue(filepath.Join(l.dir, "events"), true, limit, age(r, true), n.o.Now); err != nil {
		return nil, err
	}
	if l.results, err = openQueue(filepath.Join(l.dir, "results"), false, limit, age(r, false), n.o.Now); err != nil {
		_ = l.events.close()
		return nil, err
	}
	l.queues = []*queue{l.events, l.results}
	for _, q := range l.queues {
		if q.spool.torn > 0 || q.spool.damaged > 0 {
			l.log.Warn("the spool was not whole: a crash broke off a write, or the disk is at fault", "torn_bytes", q.spool.torn, "damaged", q.spool.damaged, "waiting", len(q.spool.waiting))
		}
	}
	if n.o.Shared {
		err = l.restart(nil)
	} else if n.open != nil {
		err = l.reconcile(n.open)
	}
	if err != nil {
		return nil, errors.Join(err, l.closeQueues())
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	go l.run()
	return l, nil
}

// boundsOf returns the receiver's bounds, or their defaults.
func boundsOf(r spec.Receiver) (bytes int64, timeout time.Duration) {
	bytes, timeout = r.Spool.Bytes, r.Timeout
	if bytes <= 0 {
		bytes = spoolBytes
	}
	if timeout <= 0 {
		timeout = sendTimeout
	}
	return bytes, timeout
}

func age(r spec.Receiver, events bool) time.Duration {
	switch {
	case r.Spool.Age > 0:
		return r.Spool.Age
	case events:
		return spoolAgeEvents
	}
	return spoolAgeResults
}

// replace gives the worker another definition. A send under way ends with the old.
func (l *worker) replace(r spec.Receiver, s sender) {
	l.mu.Lock()
	if l.next != nil {
		l.next.close()
	}
	l.receiver, l.next = r, s
	// The old definition may have been at fault.
	l.breaker.Until = time.Time{}
	l.mu.Unlock()
	limit, _ := boundsOf(r)
	l.events.setLimits(limit, age(r, true))
	l.results.setLimits(limit, age(r, false))
	l.wakeUp()
}

func (l *worker) definition() (spec.Receiver, capabilities) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sender
	if l.next != nil {
		s = l.next
	}
	return l.receiver, s.capabilities()
}

func (l *worker) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *worker) pushResults(results []event.Result) {
	r, a := l.definition()
	if !a.results {
		return
	}
	now := l.n.o.Now()
	messages := make([]message, 0, len(results))
	kept := make([]event.Result, 0, len(results))
	for i := range results {
		if matches(r, &results[i]) {
			kept = append(kept, results[i])
			messages = append(messages, message{at: now, result: &kept[len(kept)-1]})
		}
	}
	if len(messages) == 0 {
		return
	}
	if err := l.results.push(messages); err != nil && !errors.Is(err, errClosed) {
		l.logLoss("results cannot be spooled and are dropped", err, len(messages))
	}
	l.wakeUp()
}

func (l *worker) pushEvents(events []event.Event) error {
	r, a := l.definition()
	if !a.events {
		return nil
	}
	now := l.n.o.Now()
	wanted := wantedEvents(r, events, l.events.knows)
	messages := make([]message, 0, len(wanted))
	for i := range wanted {
		messages = append(messages, message{at: now, event: &wanted[i]})
	}
	if len(messages) == 0 {
		return nil
	}
	if err := l.events.push(messages); err != nil {
		return fmt.Errorf("receiver %s: %w", l.name, err)
	}
	l.wakeUp()
	return nil
}

// restart drops what waits, and makes known the incidents of those events that the receiver
// wants.
func (l *worker) restart(known []event.Event) error {
	r, a := l.definition()
	if !a.events {
		known = nil
	}
	err := errors.Join(l.events.restart(wantedEvents(r, known, func(string) bool { return false })), l.results.restart(nil))
	if l.n.o.Shared && err != nil && !errors.Is(err, errClosed) {
		// What is on disk is not read in a later turn either. A full disk must not keep this
		// server from guarding.
		l.log.Error("the spool cannot be written; events wait in the store, and are delivered once it can", "err", err)
		return nil
	}
	return err
}

// run delivers until the worker is stopped.
func (l *worker) run() {
	defer close(l.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait := l.step()
		select {
		case <-l.halt:
			return
		default:
		}
		if wait == 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-l.halt:
			return
		case <-timer.C:
		case <-l.wake:
		}
	}
}

// step does what is due, and returns the time until the next step. Waking the worker
// may shorten it.
func (l *worker) step() time.Duration {
	const idle = time.Minute // for what grows too old
	now := l.n.o.Now()
	l.mu.Lock()
	if l.next != nil {
		l.sender.close()
		l.sender, l.next = l.next, nil
	}
	s, r := l.sender, l.receiver
	wait, half := l.breaker.Wait(now), l.breaker.Open()
	l.mu.Unlock()
	a := s.capabilities()
	for _, q := range l.queues {
		q.expire(l.n.ageReference())
	}
	if half {
		// What waits for a dead receiver is safe on disk.
		if err := l.results.spill(); err != nil {
			l.logLoss("results cannot be written to disk and wait in memory", err, 0)
		}
	}
	if l.n.currentTurn().Err() != nil {
		return idle
	}
	if wait > 0 {
		return wait
	}
	_, timeout := boundsOf(r)
	i := slices.IndexFunc(l.queues, func(q *queue) bool { return a.takes(q) && q.length() > 0 })
	if i < 0 {
		rs, ok := s.(resender)
		if !ok {
			return idle
		}
		// After the queue is empty, so that nothing sent again is older than the last
		// message.
		if due := l.resent.Add(a.resend).Sub(now); due > 0 {
			return min(due, idle)
		}
		if !l.mayDeliver(timeout) {
			return retryTurn
		}
		l.resend(rs, timeout)
		return 0
	}
	q := l.queues[i]
	n := max(a.batch, 1)
	if rest := l.lastSent.Add(a.pause).Sub(now); rest > 0 && q.length() < n {
		return rest
	}
	if half {
		n = 1
	}
	poison := l.headFail >= patience && l.headFail%2 == 0
	if poison {
		n = 2
	}
	if !l.mayDeliver(timeout) {
		return retryTurn
	}
	messages, err := q.front(n)
	if err != nil {
		l.failure(err, 0)
		return 0
	}
	if len(messages) == 0 {
		return 0 // those at the front were damaged, and dropped
	}
	l.lastSent = now
	if poison && len(messages) == 2 && messages[0].seq == l.head {
		l.deliverBehind(q, s, timeout, messages)
		return 0
	}
	l.deliver(q, s, timeout, messages)
	return 0
}

// mayDeliver reports whether it is still this server's turn. It counts no failure: the receiver
// is not at fault.
func (l *worker) mayDeliver(timeout time.Duration) bool {
	ctx, cancel := l.sending(timeout)
	defer cancel()
	return l.n.holdsTurn(ctx) == nil
}

// deliver sends messages and finishes those delivered, from the front.
func (l *worker) deliver(q *queue, s sender, timeout time.Duration, messages []message) {
	done, refusals, err := l.send(q, s, timeout, messages)
	l.countOutcomes(q, messages, done, refusals)
	if err == nil && done < len(messages) {
		err = errors.New("the receiver did not take everything")
	}
	if err != nil {
		head := messages[min(done, len(messages)-1)].seq
		if head != l.head {
			l.head, l.headFail = head, 0
		}
		if blamesMessage(err) {
			l.headFail++
		}
		if done > 0 {
			l.mu.Lock()
			l.breaker.Failures = 0 // it took some
			l.mu.Unlock()
		}
		l.failure(err, retryAfter(err))
		return
	}
	l.head, l.headFail = 0, 0
	l.noteSuccess()
}

// deliverBehind tries the second message, because the first fails again and again
// although its receiver is alive. If the second succeeds the first is given up.
func (l *worker) deliverBehind(q *queue, s sender, timeout time.Duration, messages []message) {
	_, refusals, err := l.send(nil, s, timeout, messages[1:])
	if err != nil {
		l.headFail++
		l.failure(err, retryAfter(err))
		return
	}
	l.mu.Lock()
	why := l.problem
	l.mu.Unlock()
	given := map[int]error{0: fmt.Errorf("given up after %d attempts, for the next message is taken: %s", l.headFail, why)}
	for _, refusal := range refusals {
		given[1] = refusal
	}
	l.countOutcomes(q, messages, 2, given)
	_ = q.finish(messages[1].seq)
	l.head, l.headFail = 0, 0
	l.noteSuccess()
}

// send passes messages to s. It returns how many from the front are finished, and the
// refusals among all of them. It finishes them in q, if q is not nil, as it goes.
func (l *worker) send(q *queue, s sender, timeout time.Duration, messages []message) (done int, refusals map[int]error, err error) {
	ctx, cancel := l.sending(timeout)
	defer cancel()
	l.setBusy(true)
	defer l.setBusy(false)
	var mu sync.Mutex
	finished := make([]bool, len(messages))
	refusals = map[int]error{}
	err = s.send(ctx, messages, func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		finished[i] = true
		if err != nil {
			refusals[i] = err
		}
		from := done
		for done < len(finished) && finished[done] {
			done++
		}
		if q != nil && q.durable && done > from {
			_ = q.finish(messages[done-1].seq)
		}
	})
	mu.Lock()
	defer mu.Unlock()
	if q != nil && !q.durable && done > 0 {
		_ = q.finish(messages[done-1].seq)
	}
	return done, refusals, err
}

// sending returns the context of one attempt, which ends with this server's turn.
func (l *worker) sending(timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(l.ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	stop := context.AfterFunc(l.n.currentTurn(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// countOutcomes counts deliveries and refusals of the first done messages.
func (l *worker) countOutcomes(q *queue, messages []message, done int, refusals map[int]error) {
	for i := range refusals {
		if i >= done {
			delete(refusals, i)
		}
	}
	l.mu.Lock()
	l.delivered += uint64(done - len(refusals))
	l.mu.Unlock()
	if len(refusals) == 0 {
		return
	}
	q.count("refused", uint64(len(refusals)))
	first := slices.Min(slices.Collect(maps.Keys(refusals)))
	l.logLoss("the receiver refuses messages for good; they are dropped", fmt.Errorf("%s: %w", describe(messages[first]), refusals[first]), len(refusals))
	l.mu.Lock()
	l.problem = "refused: " + describe(messages[first]) + ": " + refusals[first].Error()
	l.mu.Unlock()
}

// logLoss logs the first loss at once, then losses once a minute with their number.
func (l *worker) logLoss(what string, err error, n int) {
	now := l.n.o.Now()
	l.mu.Lock()
	l.unsaid += n
	if !l.saidAt.IsZero() && now.Sub(l.saidAt) < logInterval {
		l.mu.Unlock()
		return
	}
	n, l.unsaid, l.saidAt = l.unsaid, 0, now
	l.mu.Unlock()
	l.log.Error(what, "err", err, "messages", n)
}

func describe(m message) string {
	if m.event != nil {
		return fmt.Sprintf("incident %s, event %d (%s)", m.event.Incident, m.event.Seq, m.event.Kind)
	}
	return "result of " + m.result.Key.ID()
}

func (l *worker) failure(err error, hint time.Duration) {
	if l.ctx.Err() != nil || l.n.currentTurn().Err() != nil {
		return // the worker is being stopped, or another server delivers
	}
	now := l.n.o.Now()
	l.mu.Lock()
	l.failed++
	l.problem = err.Error()
	l.breaker.Fail(now, hint, l.n.o.random())
	b := l.breaker
	l.mu.Unlock()
	switch {
	case b.Failures == 1 || b.Failures == backoff.OpenAfter:
		l.log.Warn("a receiver cannot be reached; its messages wait", "err", err, "attempts", b.Failures, "waiting", l.length(), "next", b.Until)
	case b.Failures%10 == 0:
		l.log.Warn("a receiver still cannot be reached", "err", err, "attempts", b.Failures, "since", b.Since, "waiting", l.length())
	}
}

func (l *worker) noteSuccess() {
	l.mu.Lock()
	b := l.breaker
	l.breaker.Succeed()
	if b.Failures > 0 {
		l.problem = ""
	}
	l.mu.Unlock()
	if b.Failures > 0 {
		l.log.Info("a receiver takes messages again", "attempts", b.Failures, "since", b.Since, "waiting", l.length())
	}
}

func (l *worker) resend(rs resender, timeout time.Duration) {
	known := l.events.known()
	l.resent = l.n.o.Now()
	if len(known) == 0 {
		return
	}
	slices.SortFunc(known, func(a, b incident) int {
		return cmp.Or(a.Event.Opened.Compare(b.Event.Opened), cmp.Compare(a.Event.Incident, b.Event.Incident))
	})
	ctx, cancel := l.sending(timeout)
	defer cancel()
	l.setBusy(true)
	defer l.setBusy(false)
	if err := rs.resend(ctx, known); err != nil {
		if refused(err) {
			l.logLoss("the receiver refuses messages for good", err, 0)
			return
		}
		l.resent = time.Time{} // again as soon as may be
		l.failure(err, retryAfter(err))
		return
	}
	l.noteSuccess()
}

func (l *worker) setBusy(busy bool) {
	l.mu.Lock()
	l.busy = busy
	l.mu.Unlock()
}

func (l *worker) length() int { return l.events.length() + l.results.length() }

func (l *worker) state() api.CheckReceiver {
	waiting := l.length()
	dropped := map[string]uint64{}
	for _, q := range l.queues {
		q.mu.Lock()
		for cause, n := range q.dropped {
			dropped[cause] += n
		}
		q.mu.Unlock()
	}
	_, a := l.definition()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := api.CheckReceiver{
		Name: l.name, Kind: a.kind, To: a.to, State: "idle", Error: l.problem, Next: api.Float(nan),
		Delivered: l.delivered, Failed: l.failed, Spooled: uint64(waiting), Dropped: dropped,
	}
	switch {
	case l.busy:
		s.State = "delivering"
	case l.breaker.Failures > 0:
		s.State = "waiting"
		s.Next = api.Float(float64(l.breaker.Until.UnixMilli()) / 1000)
	case waiting > 0:
		s.State = "delivering"
	}
	return s
}

// stop ends the worker; a send under way may end until ctx does. It returns the number
// of messages that wait on disk.
func (l *worker) stop(ctx context.Context) (int, error) {
	l.once.Do(func() { close(l.halt) })
	select {
	case <-l.ended:
	case <-ctx.Done():
		l.cancel(errClosed)
		<-l.ended
	}
	l.cancel(errClosed)
	l.mu.Lock()
	l.sender.close()
	if l.next != nil {
		l.next.close()
	}
	l.mu.Unlock()
	n := l.length()
	return n, l.closeQueues()
}

func (l *worker) closeQueues() error { return errors.Join(l.events.close(), l.results.close()) }

// reconcile resolves the receiver's incidents that are not open any more.
func (l *worker) reconcile(open func() (map[string]bool, error)) error {
	if len(l.events.known()) == 0 {
		return nil
	}
	ids, err := open()
	if err != nil {
		return err
	}
	n, err := l.events.reconcile(ids)
	if n > 0 {
		l.log.Warn("incidents sent to a receiver are not open any more, though their end was not sent", "incidents", n)
	}
	return err
}
