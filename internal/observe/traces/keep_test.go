package traces

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tailscope/internal/store"
)

// whys lists the requests of all kept traces with the reasons.
func (k *traceStore) whys() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var b strings.Builder
	for id, t := range k.traces {
		for _, e := range t.Entries {
			fmt.Fprintf(&b, "%d %s %v", id[0], e.Operation, time.Duration(e.DurationNanos))
			for w, name := range map[store.Why]string{store.WhySlow: "slow"} {
				if e.Why&w != 0 {
					b.WriteString(" " + name)
				}
			}
			if e.Why&store.WhyFailed != 0 {
				b.WriteString(" failed")
			}
			if e.Why&store.WhyExemplar != 0 {
				b.WriteString(" exemplar")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func TestWhatIsKept(t *testing.T) {
	k := &traceStore{}
	a, _, c := start(t, Options{Keeper: k})
	add := func(n byte, text string) {
		a.AddWhole(script(t, a, n, text))
		a.tick(t, c) // in this order, whatever their shards
	}
	add(1, "a - s server app o 0-10")
	add(2, "a - s server app o 0-100")                         // slower: displaces, but 1 is its bucket's exemplar
	add(3, "a - s server app o 0-100.5")                       // same bucket, slower
	add(4, "a - s server app o 0-99 failed")                   // the first that failed
	add(5, "a - s server app o 0-98 failed")                   // the second
	add(6, "a - s server app o 0-97")                          // nothing about it
	add(7, "a - s server app p 0-99")                          // another operation
	add(8, "a - s server app o 20000-20099")                   // another slot, same minute
	add(9, "a - s server app o 0-98\nb a u server app p 0-97") // for the request within it
	if got := k.whys(); got != "" {
		t.Errorf("kept before slots are over:\n%s", got)
	}
	c.advance(10 * time.Second)
	a.tick(t, c)
	c.advance(12 * time.Second)
	a.tick(t, c)
	diffSet(t, k.whys(), `
		1 o 10ms exemplar
		2 o 100ms exemplar
		3 o 100.5ms slow
		4 o 99ms failed
		7 p 99ms slow exemplar
		9 o 98ms
		9 p 97ms slow exemplar
	`)
	c.advance(20 * time.Second)
	a.tick(t, c)
	if got := k.whys(); !strings.Contains(got, "8 o 99ms slow\n") {
		t.Errorf("slot two is missing:\n%s", got)
	}
	if st := a.Stats(); st.Kept != 7 || st.LostKept != 0 || a.keep.held != 0 {
		t.Errorf("%+v, %d bytes", st, a.keep.held)
	}
	// Marks of slots long over are forgotten.
	c.advance(10 * time.Minute)
	a.tick(t, c)
	if kp := &a.keep; len(kp.slots)+len(kp.seen) != 0 || kp.marks != 0 {
		t.Errorf("%d slots, %d exemplars, %d bytes", len(kp.slots), len(kp.seen), kp.marks)
	}
}

// What is kept is what came, statement and detail included.
func TestKeptAsItCame(t *testing.T) {
	long := strings.Repeat("x", 300)
	got := kept(t, `
		b a s client db q 10-20 text=select_? detail=deadlock failed at=db:1
		c a s client db q 20-30 weight=3
		a - s server app o 0-100 queued=-5 detail=`+long+` at=s1 tenant=acme`)
	if !got.Complete || got.LeftOut != 0 || len(got.Spans) != 3 {
		t.Fatalf("%+v", got)
	}
	a, b, c := got.Spans[0], got.Spans[1], got.Spans[2]
	if a.Detail != long[:MaxDetail] || a.Queued != ms(-5) || a.Tenant != "acme" || a.Instance != "s1" || a.Kind != "server" || a.Start != ms(0) || a.End != ms(100) {
		t.Errorf("%+v", a)
	}
	if b.Text != "select_?" || b.Detail != "deadlock" || !b.Failed || b.Parent != spanID("a") || b.ID != spanID("b") || b.Weight != 1 || b.Queued != 0 {
		t.Errorf("%+v", b)
	}
	if c.Weight != 3 || c.Text != "" || c.Detail != "" {
		t.Errorf("%+v", c)
	}
}

// Of a large trace the requests, the failed and the longest spans are kept, and
// every one of them has its nearest kept ancestor for parent.
func TestLargeTraceIsCut(t *testing.T) {
	var text strings.Builder
	text.WriteString("a - s server app o 0-100000\n")
	for i := range 1000 {
		// Short ones with a longer one below, which is asynchronous.
		fmt.Fprintf(&text, "b%d a s internal app x %d-%d\n", i, i, i+1)
		fmt.Fprintf(&text, "c%d b%d s internal app y %d-%d\n", i, i, i, i+100)
		fmt.Fprintf(&text, "d%d c%d s client db z %d-%d\n", i, i, i, i+50)
	}
	text.WriteString("f b7 s internal app failing 7-7.1 failed\n")
	text.WriteString("r b8 u server app inner 8-8.1\n")
	tr := kept(t, text.String())
	if len(tr.Spans) != maxKept || tr.LeftOut != 3003-maxKept || !tr.Complete {
		t.Fatalf("%d spans, %d left out", len(tr.Spans), tr.LeftOut)
	}
	a := Analyse(tr)
	have := map[string]int{}
	for i, s := range tr.Spans {
		have[strings.TrimRight(string(s.ID[:]), "\x00")] = i
		if a.Spans[i].Orphan {
			t.Errorf("%s is an orphan", s.ID)
		}
	}
	for _, want := range []string{"a", "f", "r"} {
		if _, ok := have[want]; !ok {
			t.Errorf("%s is left out", want)
		}
	}
	if p := a.Spans[have["f"]].Parent; tr.Spans[p].ID != spanID("a") {
		t.Errorf("f is below %s", tr.Spans[p].ID)
	}
	if a.Spans[have["a"]].Request == false || a.Root != have["a"] {
		t.Error("the root is not the root")
	}
}

func TestKeeperFails(t *testing.T) {
	k := &traceStore{fail: 1}
	a, _, _ := start(t, Options{Keeper: k})
	a.AddWhole(script(t, a, 1, checkout))
	if err := a.Flush(context.Background()); err == nil {
		t.Error("no error")
	}
	if err := a.Flush(context.Background()); err != nil || len(k.traces) != 1 {
		t.Errorf("%v, %d traces", err, len(k.traces))
	}
	k.fail = maxAttempts
	a.AddWhole(script(t, a, 2, strings.ReplaceAll(checkout, "0-100", "0-900")))
	for range maxAttempts {
		_ = a.Flush(context.Background())
	}
	st := a.Stats()
	for _, kept := range k.traces { // both start at the same time
		if from := kept.Entries[0].StartNanos / 1e9; st.Lost.From != from || st.Lost.To != from+1 || st.Lost.Last < from {
			t.Errorf("lost %+v, want from %d", st.Lost, from)
		}
	}
	if st.Kept != 1 || st.LostKept != 1 || st.KeepErrors != 1+maxAttempts || a.keep.held != 0 {
		t.Errorf("%+v", st)
	}
}

// Waiting traces stay within their part of the memory; when it is full they are
// handed over before their time.
func TestKeptMemory(t *testing.T) {
	k := &traceStore{}
	a, _, c := start(t, Options{Keeper: k, MemoryBytes: 2 << 20})
	most := int64(0)
	for i := range 3000 {
		a.AddWhole(script(t, a, byte(i), fmt.Sprintf("a - s server app o%d 0-%d detail=%s", i%500, i+1, strings.Repeat("d", 200))))
		if i%10 == 0 {
			a.tick(t, c)
			most = max(most, a.keep.held)
		}
	}
	if most == 0 || most > 2<<20/32 {
		t.Errorf("%d bytes held", most)
	}
	if st := a.Stats(); st.Kept == 0 {
		t.Errorf("%+v", st)
	}
}

// What is imported from long ago neither fills the marks nor is kept beyond
// the age at which kept traces go.
func TestKeepOfImports(t *testing.T) {
	k := &traceStore{}
	a, _, c := start(t, Options{MemoryBytes: 4 << 20, Keeper: k, KeepAge: 30 * 24 * time.Hour})
	name := a.Name(&Identity{Service: "s", Operation: "o", Kind: "server", Component: "app"})
	now, n := c.now().UnixNano(), uint64(0)
	ending := func(ago time.Duration) {
		n++
		at := now - int64(ago)
		a.AddWhole([]Span{{TraceID: traceID(n), ID: bytesOf(n), Name: name, Start: at - 1e6, End: at}})
		if n%256 == 0 {
			a.tick(t, c)
		}
	}
	const each = 4000
	for i := range each { // months ago, each in a slot of its own
		ending(90*24*time.Hour - time.Duration(i)*time.Minute)
	}
	a.tick(t, c)
	if kp := &a.keep; kp.marks != 0 || len(kp.waiting) != 0 {
		t.Errorf("%d bytes of marks, %d traces of long ago", kp.marks, len(kp.waiting))
	}
	for i := range each { // days ago, likewise
		ending(29*24*time.Hour - time.Duration(int64(i)*oldKept)*time.Second)
		if i == 0 {
			ending(29*24*time.Hour - time.Second) // no slower, in the same slot
		}
	}
	if err := a.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if st := a.Stats(); st.Kept != each || st.LeftOutKept != 0 {
		t.Errorf("kept %d of %d, left out %d", st.Kept, each, st.LeftOutKept)
	}
}

// While the clock has leapt ahead, requests of the right time are kept.
func TestKeepInAClockLeap(t *testing.T) {
	const leap = 30 * 24 * time.Hour
	var leapt atomic.Int64
	a, _, c := start(t, Options{MemoryBytes: 4 << 20, Keeper: &traceStore{}, KeepAge: 7 * 24 * time.Hour, Leapt: func() time.Duration { return time.Duration(leapt.Load()) }})
	name := a.Name(&Identity{Service: "s", Operation: "o", Kind: "server", Component: "app"})
	at := c.now().UnixNano()
	c.advance(leap)
	for n, kept := range []uint64{0, 1} {
		id := uint64(n + 1)
		a.AddWhole([]Span{{TraceID: traceID(id), ID: bytesOf(id), Name: name, Start: at - 1e6, End: at}})
		if err := a.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if st := a.Stats(); st.Kept != kept {
			t.Errorf("leapt by %v: kept %d, want %d", time.Duration(leapt.Load()), st.Kept, kept)
		}
		leapt.Store(int64(leap))
	}
}
