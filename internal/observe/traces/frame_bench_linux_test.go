package traces

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"tailscope/internal/store"
)

// realistic returns messages of about 500 spans of ten-span traces, half a trace each, with
// ids that do not compress.
func realistic(a *Assembler) [][]Span {
	rng := rand.New(rand.NewPCG(1, 2))
	s := newStream(a, 10)
	id := func(b [8]byte) [8]byte {
		return bytesOf(binary.LittleEndian.Uint64(b[:]) * 0x9e3779b97f4a7c15)
	}
	var out [][]Span
	for range 20 {
		var front, back []Span
		all := slices.Clone(s.next(epoch0.UnixNano()))
		trace := map[store.TraceID]store.TraceID{}
		for i := range all {
			x := &all[i]
			if _, ok := trace[x.TraceID]; !ok {
				var to store.TraceID
				binary.LittleEndian.PutUint64(to[:], rng.Uint64())
				binary.LittleEndian.PutUint64(to[8:], rng.Uint64())
				trace[x.TraceID] = to
			}
			x.TraceID = trace[x.TraceID]
			if x.ID = id(x.ID); x.Parent != [8]byte{} {
				x.Parent = id(x.Parent)
			}
			x.Start += rng.Int64N(1e6)
			x.End += 1e6 + rng.Int64N(1e6)
			x.Detail = fmt.Appendf(nil, "/cart/%d/items", rng.IntN(1e6))
			if n := x.Name; a.names.list[n.common()].id.Service == "payments" {
				x.Detail = nil
				back = append(back, *x)
			} else {
				front = append(front, *x)
			}
		}
		for _, m := range [][]Span{front, back} {
			slices.SortStableFunc(m, func(x, y Span) int {
				return cmp.Compare(binary.LittleEndian.Uint64(x.TraceID[:]), binary.LittleEndian.Uint64(y.TraceID[:]))
			})
			out = append(out, m)
		}
	}
	return out
}

// BenchmarkFrame is what a span costs that another server puts together: packing it, and
// unpacking it there. An operation is one span.
func BenchmarkFrame(b *testing.B) {
	a, _, _ := start(b, Options{})
	messages := realistic(a)
	spans := 0
	for _, m := range messages {
		spans += len(m)
	}
	e, err := NewFrameEncoder(a)
	if err != nil {
		b.Fatal(err)
	}
	pack := func() []byte {
		for _, m := range messages {
			e.Add(m)
		}
		return e.Frame()
	}
	frame := pack()
	measure := func(b *testing.B, work func()) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		begin := threadTime(b)
		done := 0
		for ; done < b.N; done += spans {
			work()
		}
		b.ReportMetric(float64(threadTime(b)-begin)/float64(done), "cpu-ns/op")
	}
	b.Run("work=pack", func(b *testing.B) {
		measure(b, func() { pack() })
		b.ReportMetric(float64(len(frame))/float64(spans), "bytes/span")
	})
	b.Run("work=unpack", func(b *testing.B) {
		d, err := NewFrameDecoder(a)
		if err != nil {
			b.Fatal(err)
		}
		measure(b, func() {
			if err := d.Decode(frame, func([]Span) {}); err != nil {
				b.Fatal(err)
			}
		})
	})
}
