package traces

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"tailscope/internal/store"
)

// described is spans in words, with names and texts in place of their numbers.
func described(a *Assembler, messages [][]Span) string {
	var b bytes.Buffer
	for _, m := range messages {
		fmt.Fprintln(&b, "message")
		for _, s := range m {
			fmt.Fprintf(&b, "%x %x %x %d %d %+v %q %q %d %v %d\n", s.TraceID, s.ID, s.Parent, s.Start, s.End,
				a.names.list[s.Name.common()].identity(a.names.tenants[s.Name.tenant()]), a.names.texts[s.Text].s, s.Detail, s.Weight, s.Failed, s.Queued)
		}
	}
	return b.String()
}

func encodeFrame(t testing.TB, a *Assembler, messages [][]Span) []byte {
	t.Helper()
	e, err := NewFrameEncoder(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		e.Add(m)
	}
	return e.Frame()
}

func decodeFrame(t testing.TB, a *Assembler, frame []byte) (out [][]Span, err error) {
	t.Helper()
	d, err := NewFrameDecoder(a)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Decode(frame, func(spans []Span) {
		for i := range spans {
			spans[i].Detail = bytes.Clone(spans[i].Detail)
		}
		out = append(out, slices.Clone(spans))
	})
	return out, err
}

// someMessages is a trace in two messages, the second with another trace.
func someMessages(t testing.TB, a *Assembler) [][]Span {
	x := script(t, a, 1, `
		a - shop server app GET_/checkout 0-100 at=s1 tenant=acme queued=-5 weight=4
		b a shop client db SELECT_orders 10-40 text=SELECT_1 detail=timeout failed weight=1
		c a shop client external POST_/pay 50-90 weight=1
		d c payments server app POST_/pay 55-85 at=p1 weight=1`)
	y := script(t, a, 2, "q zz shop server app GET_/checkout 0-100 tenant=globex weight=1")
	return [][]Span{x[:3], append(x[3:], y...)}
}

// What a server sends arrives as it was, under the other server's numbers, message by message.
func TestFrame(t *testing.T) {
	a, _, _ := start(t, Options{})
	b, _, _ := start(t, Options{})
	b.Name(&Identity{Service: "other"}) // numbers differ
	b.Text("other")
	want := someMessages(t, a)
	e, err := NewFrameEncoder(a)
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewFrameDecoder(b)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 { // both are used again
		for _, m := range want {
			e.Add(m)
		}
		frame := e.Frame()
		if h, err := PeekFrame(frame); err != nil || h.Spans != 5 {
			t.Errorf("head %+v %v", h, err)
		}
		var got [][]Span
		if err := d.Decode(frame, func(spans []Span) { got = append(got, slices.Clone(spans)) }); err != nil {
			t.Fatal(err)
		}
		diff(t, described(b, got), described(a, want))
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

func TestFrameRefuses(t *testing.T) {
	a, _, _ := start(t, Options{})
	good := encodeFrame(t, a, someMessages(t, a))
	head := len(frameMagic) + 1
	for name, f := range map[string]func([]byte) []byte{
		"empty":       func(b []byte) []byte { return nil },
		"no frame":    func(b []byte) []byte { return append([]byte("POST"), b[4:]...) },
		"cut":         func(b []byte) []byte { return b[:len(b)-1] },
		"changed":     func(b []byte) []byte { b[len(b)-8] ^= 1; return b },
		"more spans":  func(b []byte) []byte { b[head]++; return b },
		"fewer spans": func(b []byte) []byte { b[head]--; return b },
		"other size":  func(b []byte) []byte { b[head+1] ^= 1; return b },
		"huge":        func(b []byte) []byte { return binary.AppendUvarint(b[:head:head], 1<<40) },
		"impossible":  func(b []byte) []byte { return append(binary.AppendUvarint(b[:head:head], 1000), b[head+1:]...) },
	} {
		if _, err := decodeFrame(t, a, f(bytes.Clone(good))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	newer := bytes.Clone(good)
	newer[len(frameMagic)] = 2
	if _, err := decodeFrame(t, a, newer); !errors.Is(err, ErrVersion) {
		t.Errorf("a newer version: %v", err)
	}
}

// A giant frame that does not unpack leaves no giant buffer behind.
func TestFrameShrinks(t *testing.T) {
	a, _, _ := start(t, Options{})
	frame := append([]byte(frameMagic), frameVersion)
	frame = binary.AppendUvarint(frame, 1)
	frame = binary.AppendUvarint(frame, 64<<20)
	d, err := NewFrameDecoder(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(append(frame, "not zstd"...), func([]Span) {}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v, want %v", err, ErrCorrupt)
	}
	if n := cap(d.body); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

// Whatever the bytes of a body, decoding ends with an error or with spans that survive another
// round, and that an assembler takes.
func FuzzDecodeFrame(f *testing.F) {
	a, _, _ := start(f, Options{MemoryBytes: 8 << 20})
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		f.Fatal(err)
	}
	e, err := NewFrameEncoder(a)
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range someMessages(f, a) {
		e.Add(m)
	}
	f.Add(uint16(5), bytes.Clone(e.e.b))
	f.Fuzz(func(t *testing.T, spans uint16, body []byte) {
		frame := binary.AppendUvarint(append([]byte(frameMagic), frameVersion), uint64(spans))
		frame = z.EncodeAll(body, binary.AppendUvarint(frame, uint64(len(body))))
		got, err := decodeFrame(t, a, frame)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		// A trace that the message has in two places becomes one.
		for _, m := range got {
			for i := range m {
				m[i].Detail = m[i].Detail[:min(len(m[i].Detail), MaxDetail)]
			}
			slices.SortStableFunc(m, func(x, y Span) int { return bytes.Compare(x.TraceID[:], y.TraceID[:]) })
		}
		again, err := decodeFrame(t, a, encodeFrame(t, a, got))
		if err != nil || described(a, again) != described(a, got) {
			t.Fatalf("%v\ngot  %s\nwant %s", err, described(a, again), described(a, got))
		}
		for _, m := range got {
			a.AddRouted(m)
		}
	})
}

// elsewhere sends traces whose id begins with an odd byte away, and remembers them.
type elsewhere struct{ sent [][]Span }

func (e *elsewhere) Route(id *store.TraceID) Peer {
	if id[0]%2 == 0 {
		return nil
	}
	return e
}

func (e *elsewhere) Send(spans []Span) { e.sent = append(e.sent, slices.Clone(spans)) }

// Traces of another server go there, but for those that came whole and are closed at once, and
// those that are open here.
func TestRoute(t *testing.T) {
	a, _, c := start(t, Options{MemoryBytes: 64 << 20})
	e := &elsewhere{}
	a.RouteBy(e)
	x := script(t, a, 1, checkout)
	y := script(t, a, 2, checkout)
	a.Add([]Span{x[0], y[0], x[1], y[1]})
	if st := a.Stats(); len(e.sent) != 1 || len(e.sent[0]) != 2 || e.sent[0][1].ID != x[1].ID || st.OpenSpans != 2 || st.Spans != 2 {
		t.Errorf("sent %v, %+v", e.sent, st)
	}
	a.AddRouted(x[:2]) // another server says that this one has it
	a.Add(x[2:])
	if st := a.Stats(); len(e.sent) != 1 || st.OpenSpans != 7 {
		t.Errorf("sent %v, %+v", e.sent, st)
	}
	// What was sent in one message stays together up to some thousand spans.
	e.sent = nil
	names := someNames(a)
	var many []Span
	for n := range uint64(100) {
		s := fill(names, n, 90, true)
		for i := range s {
			s[i].TraceID[0] = 3
		}
		many = append(many, s...)
	}
	a.Add(many)
	n := 0
	for _, s := range e.sent {
		n += len(s)
		if len(s) > maxSent || len(s)%90 != 0 {
			t.Errorf("%d spans sent together", len(s))
		}
	}
	if n != len(many) || len(e.sent) != 3 {
		t.Errorf("%d of %d spans sent, in %d parts", n, len(many), len(e.sent))
	}
	e.sent = nil
	a.trustAll(c.now())
	once := 0
	for n := range uint64(200) {
		s := fill(names, 1000+n, 3, true)
		for i := range s {
			s[i].TraceID[0] = 5
		}
		if !a.waits(&s[0]) {
			once++
		}
		a.Add(s)
	}
	if st := a.Stats(); int(st.AtOnce) != once || len(e.sent) != 200-once || once == 200 {
		t.Errorf("%d of 200 traces closed at once, %d sent, want %d at once", st.AtOnce, len(e.sent), once)
	}
}
