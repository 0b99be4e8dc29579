package notify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tailscope/internal/guard/check/event"
	"tailscope/internal/guard/check/spec"
)

// fake is a receiver whose moods are set.
type fake struct {
	mu      sync.Mutex
	about_  capabilities
	mood    func(m message) error // what it says of one message
	hang    bool                  // until the deadline
	got     []int                 // numbers, in order
	batches []time.Time
	known   [][]incident
	closed  bool
}

func (f *fake) capabilities() capabilities { return f.about_ }
func (f *fake) close()                     { f.mu.Lock(); f.closed = true; f.mu.Unlock() }

func (f *fake) send(ctx context.Context, messages []message, report func(int, error)) error {
	f.mu.Lock()
	f.batches = append(f.batches, time.Now())
	hang, mood := f.hang, f.mood
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return explain(ctx, "wait", ctx.Err())
	}
	for i, m := range messages {
		var err error
		if mood != nil {
			err = mood(m)
		}
		if err != nil && !refused(err) {
			return err
		}
		if err == nil {
			f.mu.Lock()
			f.got = append(f.got, numberOf(m))
			f.mu.Unlock()
		}
		report(i, err)
	}
	return nil
}

func (f *fake) set(mood func(message) error) {
	f.mu.Lock()
	f.mood = mood
	f.mu.Unlock()
}

func (f *fake) numbers() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.got)
}

func (f *fake) attempts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.batches)
}

func numberOf(m message) int {
	if m.event != nil {
		return m.event.Seq
	}
	return int(m.result.Reading.Value)
}

func always(err error) func(message) error { return func(message) error { return err } }

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i + 1
	}
	return list
}

// bench holds a notifier with fakes, under a clock of its own.
type bench struct {
	t     *testing.T
	n     *Notifier
	dir   string
	log   *logbook
	fakes map[string]*fake
	seq   int
}

func newBench(t *testing.T, dir string, fakes map[string]*fake, set ...func(*Options)) *bench {
	t.Helper()
	b := &bench{t: t, dir: dir, log: &logbook{}, fakes: fakes}
	receivers := map[string]spec.Receiver{}
	for name := range fakes {
		receivers[name] = spec.Receiver{}
	}
	o := Options{
		Dir: dir, Receivers: receivers, Logger: b.log.logger(), random: func() float64 { return 0.5 },
		make: func(r spec.Receiver) (sender, error) {
			if f := b.fakes[r.Name]; f != nil {
				return f, nil
			}
			return nil, errors.New("no such fake")
		},
	}
	for _, f := range set {
		f(&o)
	}
	var err error
	if b.n, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) close() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.n.Close(ctx); err != nil {
		b.t.Error(err)
	}
}

func (b *bench) sendEvents(n int, names ...string) {
	b.t.Helper()
	for range n {
		b.seq++
		if err := b.n.Events(b.t.Context(), names, []event.Event{someEvent("i", b.seq, event.Changed, event.OK, event.Critical, time.Now())}); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) results(n int, names ...string) {
	var list []event.Result
	for range n {
		b.seq++
		list = append(list, someResult("orders", b.seq, time.Now()))
	}
	b.n.Results(names, list)
}

func (b *bench) same(what string, got, want []int) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// after lets time pass and everything that is due happen.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var takesEvents = capabilities{kind: "fake", to: "here", events: true, batch: 4}
var takesResults = capabilities{kind: "fake", to: "here", results: true, batch: 4}

// One that hangs or is dead keeps nobody waiting, and gets all of it in the end.
func TestDeadReceiver(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		dead, hangs, well := &fake{about_: takesEvents, mood: always(errors.New("connection refused"))}, &fake{about_: takesEvents, hang: true}, &fake{about_: takesEvents}
		b := newBench(t, dir, map[string]*fake{"dead": dead, "hangs": hangs, "well": well})
		defer b.close()
		begun := time.Now()
		b.sendEvents(10, "dead", "hangs", "well")
		if time.Since(begun) != 0 {
			t.Errorf("Events waited %v", time.Since(begun))
		}
		after(0)
		b.same("well", well.numbers(), upTo(10))
		after(5 * time.Minute)
		// 0.75 s, 1.5 s, 3 s … 45 s, 45 s: never more than once in 45 s.
		if n := dead.attempts(); n < 8 || n > 14 {
			t.Errorf("%d attempts in five minutes", n)
		}
		for _, s := range b.n.States() {
			if s.Name != "well" && (s.State == "idle" || s.Spooled != 10 || s.Failed == 0 || s.Error == "") {
				t.Errorf("%+v", s)
			}
		}
		dead.set(nil)
		hangs.mu.Lock()
		hangs.hang = false
		hangs.mu.Unlock()
		after(2 * time.Minute)
		b.same("dead", dead.numbers(), upTo(10))
		b.same("hangs", hangs.numbers(), upTo(10))
		for _, s := range b.n.States() {
			if s.State != "idle" || s.Spooled != 0 || s.Delivered != 10 || s.Error != "" {
				t.Errorf("%+v", s)
			}
		}
		if text := b.log.text(); strings.Count(text, "cannot be reached") > 12 || !strings.Contains(text, "takes messages again") {
			t.Errorf("log:\n%s", text)
		}
	})
}

// An answer that no retry will change costs its message alone.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{about_: takesEvents, mood: func(m message) error {
			if m.event.Seq%3 == 0 {
				return refusal{errors.New("400 Bad Request")}
			}
			return nil
		}}
		b := newBench(t, dir, map[string]*fake{"r": f})
		defer b.close()
		b.sendEvents(9, "r")
		after(time.Second)
		b.same("r", f.numbers(), []int{1, 2, 4, 5, 7, 8})
		s := b.n.States()[0]
		if s.Dropped["refused"] != 3 || s.Delivered != 6 || s.Failed != 0 || !strings.Contains(s.Error, "400") {
			t.Errorf("%+v", s)
		}
		if k := strings.Count(b.log.text(), "level=ERROR"); k != 1 {
			t.Errorf("%d lines in the log, want one a minute:\n%s", k, b.log.text())
		}
	})
}

// A message at which a receiver fails every time, though it lives, is given up once
// the one behind it is taken, and only then.
func TestPoison(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		broken := answer{error: errors.New("500 Internal Server Error"), alive: true}
		f := &fake{about_: takesEvents, mood: always(broken)}
		b := newBench(t, dir, map[string]*fake{"r": f})
		defer b.close()
		b.sendEvents(5, "r")
		after(time.Hour)
		if s := b.n.States()[0]; s.Spooled != 5 || len(s.Dropped) != 0 {
			t.Errorf("a receiver that fails at everything loses nothing: %+v", s)
		}
		f.set(func(m message) error {
			if m.event.Seq == 1 {
				return broken
			}
			return nil
		})
		after(5 * time.Minute)
		b.same("r", f.numbers(), []int{2, 3, 4, 5})
		if s := b.n.States()[0]; s.Dropped["refused"] != 1 || s.Delivered != 4 || s.Spooled != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A receiver that says when to ask again is asked then.
func TestRetryAfter(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{about_: takesEvents, mood: always(answer{error: errors.New("429"), after: 2 * time.Minute})}
		b := newBench(t, dir, map[string]*fake{"r": f})
		defer b.close()
		b.sendEvents(1, "r")
		after(119 * time.Second)
		if f.attempts() != 1 {
			t.Errorf("%d attempts", f.attempts())
		}
		f.set(nil)
		after(2 * time.Second)
		b.same("r", f.numbers(), upTo(1))
	})
}

// Results that come in while a receiver is dead are on disk, and come in order.
func TestResultsOfDeadReceiver(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{about_: takesResults, mood: always(errors.New("connection refused"))}
		b := newBench(t, dir, map[string]*fake{"r": f})
		for range 10 {
			b.results(3, "r")
			after(time.Second)
		}
		if l := b.n.worker("r"); len(l.results.memory) != 0 || len(l.results.spool.waiting) != 30 {
			t.Errorf("%d in memory, %d on disk", len(l.results.memory), len(l.results.spool.waiting))
		}
		b.close()
		f.set(nil)
		seq := b.seq
		b = newBench(t, dir, map[string]*fake{"r": f})
		b.seq = seq
		defer b.close()
		b.results(3, "r")
		after(time.Minute)
		b.same("r", f.numbers(), upTo(33))
	})
}

// With a pause between batches many results share one.
func TestBatches(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{about_: capabilities{kind: "fake", results: true, batch: 1000, pause: time.Second}}
		b := newBench(t, dir, map[string]*fake{"r": f})
		defer b.close()
		for range 100 {
			b.results(10, "r")
			after(100 * time.Millisecond)
		}
		after(time.Second)
		b.same("r", f.numbers(), upTo(1000))
		if n := f.attempts(); n > 12 {
			t.Errorf("%d connections in ten seconds", n)
		}
	})
}

// A receiver gets the levels that it wants, and their end.
func TestLevels(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{about_: takesEvents}
		b := newBench(t, dir, map[string]*fake{"r": f})
		defer b.close()
		if err := b.n.Replace(map[string]spec.Receiver{"r": {Levels: []string{"CRITICAL"}}}); err != nil {
			t.Fatal(err)
		}
		say := func(incident string, seq int, kind event.Kind, from, to event.Level) {
			t.Helper()
			if err := b.n.Events(t.Context(), []string{"r"}, []event.Event{someEvent(incident, seq, kind, from, to, time.Now())}); err != nil {
				t.Fatal(err)
			}
		}
		say("a", 1, event.Opened, event.OK, event.Warning)
		say("a", 2, event.Resolved, event.Warning, event.OK)
		say("b", 3, event.Opened, event.OK, event.Warning)
		say("b", 4, event.Changed, event.Warning, event.Critical)
		say("b", 5, event.Changed, event.Critical, event.Warning)
		say("b", 6, event.Resolved, event.Warning, event.OK)
		say("b", 7, event.Resolved, event.Warning, event.OK)
		after(time.Second)
		b.same("r", f.numbers(), []int{4, 5, 6})
	})
}

// A reload keeps what waits for those that stay, says what waits for one that goes,
// and changes nothing if a definition is wrong.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		old, removed := &fake{about_: takesEvents, mood: always(errors.New("connection refused"))}, &fake{about_: takesEvents, mood: always(errors.New("connection refused"))}
		b := newBench(t, dir, map[string]*fake{"stays": old, "goes/../away": removed})
		defer b.close()
		b.sendEvents(5, "stays", "goes/../away")
		after(time.Minute)
		if err := b.n.Replace(map[string]spec.Receiver{"unknown": {}}); err == nil || !strings.Contains(err.Error(), "unknown") {
			t.Errorf("got %v", err)
		}
		if k := len(b.n.States()); k != 2 {
			t.Errorf("%d receivers after a reload that failed", k)
		}
		fresh := &fake{about_: takesEvents}
		b.fakes["stays"] = fresh
		if err := b.n.Replace(map[string]spec.Receiver{"stays": {}}); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		b.same("stays", fresh.numbers(), upTo(5))
		old.mu.Lock()
		if !old.closed {
			t.Error("the old sender is not closed")
		}
		old.mu.Unlock()
		if !strings.Contains(b.log.text(), "messages=5") {
			t.Errorf("the removed receiver is not logged:\n%s", b.log.text())
		}
		removed.set(nil)
		if err := b.n.Replace(map[string]spec.Receiver{"stays": {}, "goes/../away": {}}); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		b.same("goes", removed.numbers(), upTo(5))
	})
}

// Servers that share what receivers are owed drop that of a receiver which is removed.
func TestReplaceOfServersThatShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := &fake{about_: takesEvents, mood: always(errors.New("connection refused"))}
		b := newBench(t, t.TempDir(), map[string]*fake{"gone": gone}, func(o *Options) { o.Shared = true })
		defer b.close()
		if err := b.n.Take(t.Context(), nil, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		b.sendEvents(2, "gone")
		after(time.Second)
		lacking := b.n.Lacking([]string{"gone"})
		if got := lacking(); !slices.Equal(got, []string{"gone"}) {
			t.Errorf("%q lack events, want the receiver that is down", got)
		}
		if err := b.n.Replace(nil); err != nil {
			t.Fatal(err)
		}
		if got := lacking(); len(got) > 0 || !strings.Contains(b.log.text(), "they are dropped") {
			t.Errorf("%q lack events, and the log says %s", got, b.log.text())
		}
	})
}

// Close waits for a send as long as it may, and keeps the rest.
func TestClose(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{about_: takesEvents, hang: true}
		b := newBench(t, dir, map[string]*fake{"r": f})
		b.sendEvents(3, "r")
		after(time.Second)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := b.n.Close(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("Close took %v", took)
		}
		if err := b.n.Events(t.Context(), []string{"r"}, []event.Event{someEvent("i", 4, event.Opened, event.OK, event.Critical, t0)}); !errors.Is(err, errClosed) {
			t.Errorf("after Close: %v", err)
		}
		b.n.Results([]string{"r"}, []event.Result{someResult("orders", 1, t0)})
		f.hang = false
		b = newBench(t, dir, map[string]*fake{"r": f})
		defer b.close()
		after(time.Second)
		b.same("r", f.numbers(), upTo(3))
	})
}

// resending is a fake to which everything is sent again.
type resending struct{ *fake }

func (r resending) resend(_ context.Context, known []incident) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = append(r.known, known)
	if r.mood != nil {
		return r.mood(message{})
	}
	return nil
}

// Open incidents are sent again and again, also after a restart, and resolved ones for
// a quarter of an hour more.
func TestResend(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := resending{&fake{about_: capabilities{kind: "fake", events: true, batch: 10, resend: time.Minute}}}
		open := func() *Notifier {
			n, err := Open(t.Context(), Options{
				Dir: dir, Receivers: map[string]spec.Receiver{"r": {}}, Logger: (&logbook{}).logger(),
				make: func(spec.Receiver) (sender, error) { return f, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		say := func(n *Notifier, incident string, seq int, kind event.Kind, to event.Level) {
			t.Helper()
			e := someEvent(incident, seq, kind, event.OK, to, time.Now())
			e.Key.Check = incident
			if err := n.Events(t.Context(), []string{"r"}, []event.Event{e}); err != nil {
				t.Fatal(err)
			}
		}
		times := func() string {
			f.mu.Lock()
			defer f.mu.Unlock()
			var list []string
			for _, known := range f.known {
				text := ""
				for _, k := range known {
					text += k.Event.Incident
					if !k.Done.IsZero() {
						text += "-"
					}
				}
				list = append(list, text)
			}
			f.known = nil
			return strings.Join(list, " ")
		}
		n := open()
		after(0)
		say(n, "a", 1, event.Opened, event.Critical)
		after(time.Second)
		say(n, "b", 1, event.Opened, event.Critical)
		after(3 * time.Minute)
		if got := times(); got != "ab ab ab" {
			t.Errorf("got %q", got)
		}
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		n = open()
		defer n.Close(t.Context())
		after(time.Second)
		if got := times(); got != "ab" {
			t.Errorf("after a restart: got %q", got)
		}
		say(n, "a", 2, event.Resolved, event.OK)
		after(2 * time.Minute)
		if got := times(); got != "ba- ba-" {
			t.Errorf("resolved: got %q", got)
		}
		after(20 * time.Minute)
		got := strings.Fields(times())
		if k := strings.Count(fmt.Sprint(got), "ba-"); k < 12 || k > 14 || got[len(got)-1] != "b" {
			t.Errorf("got %q", got)
		}
	})
}

// Incidents sent to a receiver that are not open any more end there: a crash or a
// reload kept their end from it.
func TestReconcile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := resending{&fake{about_: capabilities{kind: "fake", events: true, batch: 10, resend: time.Minute}}}
		isOpen := func() (map[string]bool, error) { return map[string]bool{"b": true}, nil }
		for range 2 {
			n, err := Open(t.Context(), Options{
				Dir: dir, Receivers: map[string]spec.Receiver{"r": {}}, Logger: (&logbook{}).logger(),
				make: func(spec.Receiver) (sender, error) { return f, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"a", "b"} {
				e := someEvent(id, 1, event.Opened, event.OK, event.Critical, time.Now())
				e.Key.Check = id
				if err := n.Events(t.Context(), []string{"r"}, []event.Event{e}); err != nil {
					t.Fatal(err)
				}
			}
			after(time.Second)
			if err := n.Replace(nil); err != nil { // it is removed for a while
				t.Fatal(err)
			}
			if err := n.Reconcile(isOpen); err != nil {
				t.Fatal(err)
			}
			if err := n.Replace(map[string]spec.Receiver{"r": {}}); err != nil {
				t.Fatal(err)
			}
			after(2 * time.Minute)
			f.mu.Lock()
			last := f.known[len(f.known)-1]
			f.mu.Unlock()
			if len(last) != 2 || last[0].Event.Incident != "a" || last[0].Done.IsZero() || last[0].Event.Kind != event.Resolved || !last[1].Done.IsZero() {
				t.Errorf("%+v", last)
			}
			if err := n.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A name that is given to another kind of receiver: what waited for the old one is
// nothing that the new one could send.
func TestOtherKind(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		dead := &fake{about_: takesEvents, mood: always(errors.New("connection refused"))}
		b := newBench(t, dir, map[string]*fake{"r": dead})
		defer b.close()
		b.sendEvents(3, "r")
		after(time.Second)
		fresh := &fake{about_: takesResults}
		b.fakes["r"] = fresh
		if err := b.n.Replace(map[string]spec.Receiver{"r": {Spool: spec.Spool{Age: time.Hour}}}); err != nil {
			t.Fatal(err)
		}
		b.results(2, "r")
		after(time.Second)
		b.same("r", fresh.numbers(), []int{4, 5})
		after(2 * time.Hour)
		if s := b.n.States()[0]; s.Spooled != 0 || s.Dropped["age"] != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// Spools that belong to nobody are said if anything waits there, and go if nothing
// does or all of it is too old.
func TestOrphans(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		dead, well := &fake{about_: takesEvents, mood: always(errors.New("connection refused"))}, &fake{about_: takesEvents}
		b := newBench(t, dir, map[string]*fake{"dead": dead, "well": well})
		b.sendEvents(3, "dead", "well")
		after(time.Second)
		b.close()
		// Not a directory: it cannot be read, and what it held is not known.
		odd := filepath.Join(dir, "r-odd", "events")
		if err := errors.Join(os.Mkdir(filepath.Dir(odd), 0o700), os.WriteFile(odd, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		b = newBench(t, dir, nil)
		b.close()
		if _, err := os.Stat(odd); err != nil {
			t.Errorf("a spool that cannot be read does not stay: %v", err)
		}
		if text := b.log.text(); strings.Count(text, "level=WARN") != 2 || !strings.Contains(text, "cannot be read") || !strings.Contains(text, "receiver=dead messages=3") {
			t.Errorf("log:\n%s", text)
		}
		if _, err := os.Stat(filepath.Join(dir, "r-well")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an empty spool stays: %v", err)
		}
	})
}

// A server that cannot tell whether its turn lasts delivers nothing, and goes on once it can.
func TestNothingIsDeliveredInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{about_: takesEvents}
		b := newBench(t, t.TempDir(), map[string]*fake{"r": f}, func(o *Options) { o.Shared = true })
		defer b.close()
		var doubt atomic.Bool
		holds := func(context.Context) error {
			if doubt.Load() {
				return errors.New("the store is away")
			}
			return nil
		}
		if err := b.n.Take(t.Context(), nil, holds); err != nil {
			t.Fatal(err)
		}
		b.sendEvents(1, "r")
		after(time.Second)
		doubt.Store(true)
		b.sendEvents(2, "r")
		after(time.Minute)
		b.same("in doubt", f.numbers(), upTo(1))
		doubt.Store(false)
		after(retryTurn)
		b.same("after it", f.numbers(), upTo(3))
		if s := b.n.States()[0]; s.Failed != 0 {
			t.Errorf("%d attempts count as failed", s.Failed)
		}
	})
}
