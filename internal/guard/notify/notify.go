// Package notify delivers the results and events of checks to receivers.
//
// Results, one for each run, go to receivers that keep states of their own: Nagios by
// NSCA, Icinga, Graphite. Events, the changes of an incident, go to receivers that
// notify people: Alertmanager, webhooks, e-mail. A file takes either. Events are on
// disk before they are accepted and stay there until their receiver has acknowledged
// them. They arrive at least once and in order, also after a kill or a crash. Results
// wait in memory and, while their receiver is down, on disk.
//
// Each receiver has a worker with a goroutine, queues and a circuit breaker of its
// own, and a deadline for each step. So one that is dead or hangs delays no other.
package notify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tailscope/api"
	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// Options configure a Notifier. Dir is required.
type Options struct {
	// Dir holds the spools. Only one Notifier may use it.
	Dir       string
	Receivers map[string]spec.Receiver // by name
	Now       func() time.Time         // default time.Now
	// Leapt is by how much Now has leapt ahead, where ages are not to follow;
	// default 0.
	Leapt  func() time.Duration
	Logger *slog.Logger // default slog.Default
	// Shared reports that servers share what receivers are owed, and keep it elsewhere until
	// it is delivered. Then a spool is of one turn: what waits from an earlier one is dropped,
	// for another server has it, and nothing is delivered before Take.
	Shared bool

	random func() float64
	make   func(spec.Receiver) (sender, error)
}

// Notifier delivers to receivers. It is safe for concurrent use.
type Notifier struct {
	o Options

	// changing is held while receivers are exchanged.
	changing sync.Mutex
	open     func() (map[string]bool, error) // under changing
	mu       sync.RWMutex                    // of the fields below
	workers  map[string]*worker
	closed   bool
	turn     context.Context // done: this server does not deliver
	holds    func(context.Context) error

	handing sync.Mutex // one call of Events at a time
	// taken holds the events of a failed call by the workers that took them, so that
	// a retry does not hand them over twice. Under handing.
	taken map[*worker]map[eventID]bool
}

type eventID struct {
	incident string
	seq      int
}

var nan = math.NaN()

func isNaN(f float64) bool { return f != f }

// Open starts a worker for each receiver, and continues with what their spools hold.
func Open(ctx context.Context, o Options) (*Notifier, error) {
	if o.Dir == "" {
		return nil, errors.New("notify: no directory for spools")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Leapt == nil {
		o.Leapt = func() time.Duration { return 0 }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.random == nil {
		o.random = rand.Float64
	}
	if o.make == nil {
		o.make = func(r spec.Receiver) (sender, error) { return newSender(r, o.Now) }
	}
	n := &Notifier{o: o, workers: map[string]*worker{}, turn: context.Background(), holds: func(context.Context) error { return nil }}
	if o.Shared {
		over, end := context.WithCancel(n.turn)
		end()
		n.turn = over
	}
	if err := n.replace(ctx, o.Receivers); err != nil {
		return nil, errors.Join(err, n.Close(ctx))
	}
	n.removeOrphans()
	return n, nil
}

// Replace exchanges the receivers. What waits for one whose name stays goes on to
// wait, and is delivered by the new definition. What waits for one that goes is
// kept on disk in case it comes back, for as long as its age allows; where servers share what
// receivers are owed it is dropped. If a definition is wrong nothing is changed.
func (n *Notifier) Replace(receivers map[string]spec.Receiver) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return n.replace(ctx, receivers)
}

func (n *Notifier) replace(ctx context.Context, receivers map[string]spec.Receiver) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.isClosed() {
		return errClosed
	}
	senders := make(map[string]sender, len(receivers))
	for _, name := range slices.Sorted(maps.Keys(receivers)) {
		r := receivers[name]
		r.Name = name
		s, err := n.o.make(r)
		if err != nil {
			return fmt.Errorf("receiver %s: %w", name, err)
		}
		senders[name] = s
	}
	// New workers first: if one fails, those that run go on.
	fresh := map[string]*worker{}
	for name, r := range receivers {
		r.Name = name
		if n.worker(name) != nil {
			continue
		}
		l, err := openWorker(n, r, senders[name])
		if err != nil {
			for _, l := range fresh {
				_, _ = l.stop(ctx)
			}
			return fmt.Errorf("receiver %s: %w", name, err)
		}
		fresh[name] = l
	}
	n.mu.Lock()
	var removed []*worker
	for name, l := range n.workers {
		if r, stays := receivers[name]; stays {
			r.Name = name
			l.replace(r, senders[name])
		} else {
			removed = append(removed, l)
			delete(n.workers, name)
		}
	}
	maps.Copy(n.workers, fresh)
	n.mu.Unlock()
	for _, l := range removed {
		waiting, err := l.stop(ctx)
		if err != nil {
			n.o.Logger.Error("close the spool of a removed receiver", "receiver", l.name, "err", err)
		}
		switch {
		case waiting > 0 && n.o.Shared:
			n.o.Logger.Warn("a receiver was removed from the configuration with messages undelivered; they are dropped", "receiver", l.name, "messages", waiting)
		case waiting > 0:
			n.o.Logger.Warn("a receiver was removed from the configuration with messages undelivered; they are kept, and delivered if it comes back under the same name",
				"receiver", l.name, "messages", waiting, "dir", l.dir)
		}
	}
	return nil
}

// Reconcile is called before the first Events. open returns the incidents that are
// open. Others end at receivers to which open incidents are sent again and again
// (Alertmanager): a crash or a reload may have kept their end from them. open is
// called again for each receiver that a reload brings back.
func (n *Notifier) Reconcile(open func() (map[string]bool, error)) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	n.open = open
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, l := range n.workers {
		if err := l.reconcile(open); err != nil {
			return fmt.Errorf("receiver %s: %w", l.name, err)
		}
	}
	return nil
}

// Take begins the turn of this server, of those that share what receivers are owed: until
// ctx is done it delivers what Events hands over from now on. known are, by receiver,
// events of the open incidents that another server may have told it, oldest first. holds is
// asked before each delivery, as a machine that was suspended does not know that its turn is
// over; while it returns an error nothing is delivered.
func (n *Notifier) Take(ctx context.Context, known map[string][]event.Event, holds func(context.Context) error) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	n.handing.Lock()
	n.taken = nil // what was taken in an earlier turn is dropped
	n.handing.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, l := range n.workers {
		if err := l.restart(known[name]); err != nil {
			return fmt.Errorf("receiver %s: %w", name, err)
		}
		defer l.wakeUp()
	}
	n.turn, n.holds = ctx, holds
	return nil
}

// holdsTurn returns an error if this server's turn is over, or may be.
func (n *Notifier) holdsTurn(ctx context.Context) error {
	n.mu.RLock()
	holds := n.holds
	n.mu.RUnlock()
	return holds(ctx)
}

// currentTurn returns a context that is done when this server does not deliver.
func (n *Notifier) currentTurn() context.Context {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.turn
}

// Lacking returns a function that returns the receivers, in their order, that have neither got
// nor for good refused all events that Events has handed over to them so far. One that was
// removed since is not among them.
func (n *Notifier) Lacking(receivers []string) func() []string {
	workers := n.workersNamed(receivers)
	last := make([]uint64, len(workers))
	for i, l := range workers {
		last[i] = l.events.last()
	}
	return func() (lack []string) {
		for i, l := range workers {
			if l.events.waits(last[i]) {
				lack = append(lack, l.name)
			}
		}
		return lack
	}
}

func (n *Notifier) isClosed() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.closed
}

func (n *Notifier) worker(name string) *worker {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.workers[name]
}

// workersNamed returns the workers of names, once each. A name without a receiver was
// removed by a reload a moment ago.
func (n *Notifier) workersNamed(names []string) []*worker {
	n.mu.RLock()
	defer n.mu.RUnlock()
	list := make([]*worker, 0, len(names))
	for _, name := range names {
		if l := n.workers[name]; l != nil && !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	return list
}

// Results hands over results to those receivers that want every one. It does not wait
// for delivery. It keeps the results' texts and lists: the caller must not change
// them.
func (n *Notifier) Results(receivers []string, results []event.Result) {
	for _, l := range n.workersNamed(receivers) {
		l.pushResults(results)
	}
}

// Events hands over events in their order. When it returns nil they are on disk for
// every one of the receivers that wants them, and will be delivered at least once;
// with an error some receivers may have them, and the caller tries again. It waits
// for disks alone.
func (n *Notifier) Events(ctx context.Context, receivers []string, events []event.Event) error {
	if n.isClosed() {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if n.currentTurn().Err() != nil {
		return event.ErrTurnOver
	}
	workers := n.workersNamed(receivers)
	if len(workers) == 1 {
		return workers[0].pushEvents(events)
	}
	n.handing.Lock()
	defer n.handing.Unlock()
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, l := range workers {
		wg.Go(func() { errs[i] = l.pushEvents(untaken(events, n.taken[l])) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		n.taken = nil
		return nil
	}
	if n.taken == nil {
		n.taken = map[*worker]map[eventID]bool{}
	}
	for i, l := range workers {
		if errs[i] != nil {
			continue
		}
		if n.taken[l] == nil {
			n.taken[l] = map[eventID]bool{}
		}
		for j := range events {
			n.taken[l][eventID{events[j].Incident, events[j].Seq}] = true
		}
	}
	return err
}

func untaken(events []event.Event, taken map[eventID]bool) []event.Event {
	if len(taken) == 0 {
		return events
	}
	var out []event.Event
	for _, e := range events {
		if !taken[eventID{e.Incident, e.Seq}] {
			out = append(out, e)
		}
	}
	return out
}

// States returns the state of each receiver, by name.
func (n *Notifier) States() []api.CheckReceiver {
	n.mu.RLock()
	workers := slices.SortedFunc(maps.Values(n.workers), func(a, b *worker) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	n.mu.RUnlock()
	list := make([]api.CheckReceiver, 0, len(workers))
	for _, l := range workers {
		list = append(list, l.state())
	}
	return list
}

// Close stops all workers. Deliveries under way may end until ctx does; what is left
// waits on disk for the next Open.
func (n *Notifier) Close(ctx context.Context) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	n.mu.Lock()
	workers := slices.Collect(maps.Values(n.workers))
	n.workers = map[string]*worker{}
	n.closed = true
	n.mu.Unlock()
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, l := range workers {
		wg.Go(func() { _, errs[i] = l.stop(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// removeOrphans logs spools whose receiver was removed, and deletes those last
// written longer ago than any message is kept.
func (n *Notifier) removeOrphans() {
	dirs, err := os.ReadDir(n.o.Dir)
	if err != nil {
		return
	}
	for _, d := range dirs {
		name, err := receiverName(d.Name())
		if err != nil || !d.IsDir() || n.worker(name) != nil {
			continue
		}
		path := filepath.Join(n.o.Dir, d.Name())
		waiting, err := countWaiting(path, n.o.Now)
		switch _, latest := diskUsage(path); {
		case err != nil:
			n.o.Logger.Warn("the spool of a removed receiver cannot be read", "receiver", name, "dir", path, "err", err)
		case waiting == 0:
			_ = os.RemoveAll(path)
		case n.ageReference().Sub(latest) > spoolAgeEvents:
			n.o.Logger.Warn("the spool of a removed receiver is deleted: it is older than any message is kept", "receiver", name, "messages", waiting)
			_ = os.RemoveAll(path)
		case n.o.Shared:
			n.o.Logger.Warn("a spool belongs to no receiver of the configuration; a server that shares its store does not deliver it: delete the directory", "receiver", name, "messages", waiting, "dir", path)
		default:
			n.o.Logger.Warn("a spool belongs to no receiver of the configuration; it is delivered if one of this name comes back", "receiver", name, "messages", waiting, "dir", path)
		}
	}
}

// ageReference returns the moment from which ages are counted.
func (n *Notifier) ageReference() time.Time { return n.o.Now().Add(-n.o.Leapt()) }

// Waiting returns the number of messages that wait in the spools of a directory that no
// Notifier uses. A directory that is not there has none.
func Waiting(dir string) (waiting int, err error) {
	dirs, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, d := range dirs {
		if _, err := receiverName(d.Name()); err != nil || !d.IsDir() {
			continue
		}
		n, err := countWaiting(filepath.Join(dir, d.Name()), time.Now)
		if err != nil {
			return 0, fmt.Errorf("spool %s: %w", d.Name(), err)
		}
		waiting += n
	}
	return waiting, nil
}

// countWaiting returns the number of messages in a receiver's directory.
func countWaiting(dir string, now func() time.Time) (waiting int, err error) {
	for _, kind := range []string{"events", "results"} {
		ids, err := segmentIDs(filepath.Join(dir, kind))
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && len(ids) == 0:
			continue
		case err != nil:
			return waiting, err
		}
		s, err := openSpool(filepath.Join(dir, kind), spoolBytes, now)
		if err != nil {
			return waiting, err
		}
		waiting += len(s.waiting)
		if err := s.close(); err != nil {
			return waiting, err
		}
	}
	return waiting, nil
}

// diskUsage returns the size of a spool and when it was last written.
func diskUsage(dir string) (bytes int64, latest time.Time) {
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Size()
			if info.ModTime().After(latest) {
				latest = info.ModTime()
			}
		}
		return nil
	})
	return bytes, latest
}

// spoolDir returns the directory of a receiver, whose name may hold any character.
func spoolDir(name string) string { return "r-" + url.PathEscape(name) }

func receiverName(dir string) (string, error) {
	if len(dir) < 3 || dir[:2] != "r-" {
		return "", errors.New("not the directory of a receiver")
	}
	return url.PathUnescape(dir[2:])
}
