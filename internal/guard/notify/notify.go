// Package notify tells receivers what checks came to, each by its own rules.
//
// Two kinds of things are told. Results, one of each run, go to those who keep
// states of their own: Nagios by NSCA, Icinga, Graphite. Events, the changes of an
// incident, go to those who tell people: Alertmanager, webhooks, e-mail. A file
// takes either. Events are on disk before they are accepted and stay there until
// their receiver has acknowledged them: they arrive at least once and in order, a
// kill or a crash notwithstanding. Results wait in memory and, while their receiver
// is down, on disk.
//
// Each receiver has a lane: a goroutine, a queue and a circuit breaker of its own,
// and a deadline on all that it does. So one that is dead or hangs delays nobody.
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

// Options say what is told to whom. Dir is required.
type Options struct {
	// Dir holds the spools. Only one Notifier may use it.
	Dir       string
	Receivers map[string]spec.Receiver // by name
	Now       func() time.Time         // default time.Now
	// Leapt is by how much Now has leapt ahead, where ages are not to follow;
	// default 0.
	Leapt  func() time.Duration
	Logger *slog.Logger // default slog.Default

	random func() float64
	make   func(spec.Receiver) (sender, error)
}

// Notifier tells receivers. It is safe for concurrent use.
type Notifier struct {
	o Options

	// changing is held while receivers are exchanged.
	changing sync.Mutex
	open     func() (map[string]bool, error) // under changing
	mu       sync.RWMutex                    // of the fields below
	lanes    map[string]*lane
	closed   bool

	handing sync.Mutex // one call of Events at a time
	// taken are events of a call that failed, by the lanes that took them: when it
	// is tried again they do not get them twice. Under handing.
	taken map[*lane]map[eventID]bool
}

type eventID struct {
	incident string
	seq      int
}

var nan = math.NaN()

func isNaN(f float64) bool { return f != f }

// Open starts a lane for each receiver, and takes up what their spools hold.
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
	n := &Notifier{o: o, lanes: map[string]*lane{}}
	if err := n.replace(ctx, o.Receivers); err != nil {
		return nil, errors.Join(err, n.Close(ctx))
	}
	n.orphans()
	return n, nil
}

// Replace exchanges the receivers. What waits for one whose name stays goes on to
// wait, and is delivered by the new definition. What waits for one that goes is
// kept on disk in case it comes back, for as long as its age allows. If a
// definition is wrong nothing is changed.
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
	// New lanes first: should one fail, those that run go on.
	fresh := map[string]*lane{}
	for name, r := range receivers {
		r.Name = name
		if n.lane(name) != nil {
			continue
		}
		l, err := openLane(n, r, senders[name])
		if err != nil {
			for _, l := range fresh {
				_, _ = l.stop(ctx)
			}
			return fmt.Errorf("receiver %s: %w", name, err)
		}
		fresh[name] = l
	}
	n.mu.Lock()
	var gone []*lane
	for name, l := range n.lanes {
		if r, stays := receivers[name]; stays {
			r.Name = name
			l.exchange(r, senders[name])
		} else {
			gone = append(gone, l)
			delete(n.lanes, name)
		}
	}
	maps.Copy(n.lanes, fresh)
	n.mu.Unlock()
	for _, l := range gone {
		waiting, err := l.stop(ctx)
		if err != nil {
			n.o.Logger.Error("close the spool of a receiver that is gone", "receiver", l.name, "err", err)
		}
		if waiting > 0 {
			n.o.Logger.Warn("a receiver is gone from the configuration with messages undelivered; they are kept, and delivered if it comes back under the same name",
				"receiver", l.name, "messages", waiting, "dir", l.dir)
		}
	}
	return nil
}

// Reconcile is called before the first Events, with what says which incidents are
// open. Receivers that are told again and again what is open (Alertmanager) end
// what is open no more: a crash or a reload may have kept its end from them. It is
// asked again for each receiver that a reload brings back.
func (n *Notifier) Reconcile(open func() (map[string]bool, error)) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	n.open = open
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, l := range n.lanes {
		if err := l.reconcile(open); err != nil {
			return fmt.Errorf("receiver %s: %w", l.name, err)
		}
	}
	return nil
}

func (n *Notifier) isClosed() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.closed
}

func (n *Notifier) lane(name string) *lane {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.lanes[name]
}

// named returns the lanes of names, once each. A name that no receiver has is one
// that a reload took away a moment ago.
func (n *Notifier) named(names []string) []*lane {
	n.mu.RLock()
	defer n.mu.RUnlock()
	list := make([]*lane, 0, len(names))
	for _, name := range names {
		if l := n.lanes[name]; l != nil && !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	return list
}

// Results hands over what runs came to, for those receivers that want every one. It
// waits for none of them. The results' texts and lists are kept: they must not be
// changed any more.
func (n *Notifier) Results(receivers []string, results []event.Result) {
	for _, l := range n.named(receivers) {
		l.pushResults(results)
	}
}

// Events hands over events in their order. When it returns nil they are on disk for
// every one of the receivers that wants them, and will be delivered at least once;
// with an error some receivers may have them, and the caller tries again. It waits
// for disks alone. After Close the error wraps none of another package.
func (n *Notifier) Events(ctx context.Context, receivers []string, events []event.Event) error {
	if n.isClosed() {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	lanes := n.named(receivers)
	if len(lanes) == 1 {
		return lanes[0].pushEvents(events)
	}
	n.handing.Lock()
	defer n.handing.Unlock()
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, l := range lanes {
		wg.Go(func() { errs[i] = l.pushEvents(untaken(events, n.taken[l])) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		n.taken = nil
		return nil
	}
	if n.taken == nil {
		n.taken = map[*lane]map[eventID]bool{}
	}
	for i, l := range lanes {
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

// States says how each receiver fares, by name.
func (n *Notifier) States() []api.CheckReceiver {
	n.mu.RLock()
	lanes := slices.SortedFunc(maps.Values(n.lanes), func(a, b *lane) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	n.mu.RUnlock()
	list := make([]api.CheckReceiver, 0, len(lanes))
	for _, l := range lanes {
		list = append(list, l.state())
	}
	return list
}

// Close stops all lanes. Deliveries under way may end until ctx does; what is left
// waits on disk for the next Open.
func (n *Notifier) Close(ctx context.Context) error {
	n.changing.Lock()
	defer n.changing.Unlock()
	n.mu.Lock()
	lanes := slices.Collect(maps.Values(n.lanes))
	n.lanes = map[string]*lane{}
	n.closed = true
	n.mu.Unlock()
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, l := range lanes {
		wg.Go(func() { _, errs[i] = l.stop(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// orphans says which spools have no receiver any more, and removes those that
// nobody touched for longer than anything is kept.
func (n *Notifier) orphans() {
	dirs, err := os.ReadDir(n.o.Dir)
	if err != nil {
		return
	}
	for _, d := range dirs {
		name, err := nameOfDir(d.Name())
		if err != nil || !d.IsDir() || n.lane(name) != nil {
			continue
		}
		path := filepath.Join(n.o.Dir, d.Name())
		waiting, err := n.waitingIn(path)
		switch _, latest := usage(path); {
		case err != nil:
			n.o.Logger.Warn("the spool of a receiver that is gone cannot be read", "receiver", name, "dir", path, "err", err)
		case waiting == 0:
			_ = os.RemoveAll(path)
		case n.aged().Sub(latest) > spoolAgeEvents:
			n.o.Logger.Warn("the spool of a receiver that is gone is removed: it is older than anything is kept", "receiver", name, "messages", waiting)
			_ = os.RemoveAll(path)
		default:
			n.o.Logger.Warn("a spool belongs to no receiver of the configuration; it is delivered if one of this name comes back", "receiver", name, "messages", waiting, "dir", path)
		}
	}
}

// aged returns the moment that ages are counted from.
func (n *Notifier) aged() time.Time { return n.o.Now().Add(-n.o.Leapt()) }

// waitingIn is how many messages a receiver's directory holds.
func (n *Notifier) waitingIn(dir string) (waiting int, err error) {
	for _, kind := range []string{"events", "results"} {
		ids, err := segmentIDs(filepath.Join(dir, kind))
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && len(ids) == 0:
			continue
		case err != nil:
			return waiting, err
		}
		s, err := openSpool(filepath.Join(dir, kind), spoolBytes, n.o.Now)
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

// usage is how much a spool holds, and when it was last written.
func usage(dir string) (bytes int64, latest time.Time) {
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

// dirOf is the directory of a receiver's name, which may hold any character.
func dirOf(name string) string { return "r-" + url.PathEscape(name) }

func nameOfDir(dir string) (string, error) {
	if len(dir) < 3 || dir[:2] != "r-" {
		return "", errors.New("not the directory of a receiver")
	}
	return url.PathUnescape(dir[2:])
}
