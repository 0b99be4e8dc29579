package packed

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

const slot0 = 1_800_000_000

// dist returns a histogram of n durations in its compact form.
func dist(t testing.TB, r *rand.Rand, n int) []byte {
	h := hist.New(hist.DefaultSchema)
	for range n {
		if err := h.RecordNanos(1e5+int64(r.ExpFloat64()*1e8), 1); err != nil {
			t.Fatal(err)
		}
	}
	b, err := h.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// someBatch returns a batch as an aggregator makes them: operations, tenants that share the
// labels of their operation, numbers and raw samples.
func someBatch(t testing.TB, r *rand.Rand, operations, tenants int) *store.Batch {
	b := &store.Batch{Writer: "0123456789abcdef", Generation: 7, Resolution: series.Base, Tenants: []string{""}, TenantOf: []uint32{}}
	for i := range tenants {
		b.Tenants = append(b.Tenants, fmt.Sprintf("tenant-%d", i))
	}
	add := func(s series.Series, tenant uint32) uint32 {
		whole := s.WithTenant(b.Tenants[tenant])
		id, _ := whole.ID(nil)
		b.Series, b.IDs, b.TenantOf = append(b.Series, s), append(b.IDs, id), append(b.TenantOf, tenant)
		return uint32(len(b.Series)) - 1
	}
	for op := range operations {
		ls := labels.FromStrings("component", "app", "kind", "server", "operation", fmt.Sprintf("GET /a/%d", op), "service", "shop", "status", "ok")
		n := add(series.Series{Family: series.SpanDuration, View: series.Marginal, Labels: ls}, 0)
		b.Points = append(b.Points, store.Point{Series: n, Slot: slot0, Data: dist(t, r, 200)}, store.Point{Series: n, Slot: slot0 + 10, Data: dist(t, r, 3)})
		for tenant := range tenants {
			n := add(series.Series{Family: series.SpanDuration, Labels: ls}, uint32(tenant)+1)
			b.Points = append(b.Points, store.Point{Series: n, Slot: slot0, Data: dist(t, r, 1)})
		}
	}
	g := add(series.Series{Family: "queue_length", Kind: series.Gauge, Labels: labels.FromStrings("service", "shop")}, 0)
	b.Points = append(b.Points, store.Point{Series: g, Slot: slot0 - 10, Data: store.AppendNumber(nil, series.Number{Count: 2, Sum: 3, Min: 1, Max: 2, Last: 2, LastTimeMillis: slot0*1000 - 1})})
	b.Samples = []store.Samples{{Series: g, Samples: []series.Sample{{TimeMillis: slot0*1000 - 5000, Value: 1}, {TimeMillis: slot0*1000 - 1, Value: math.Pi}}}}
	b.Families = []store.FamilyInfo{{Name: "queue_length", Kind: series.Gauge, IntervalSeconds: 5}, {Name: series.SpanDuration}}
	b.State = []store.State{{Key: []byte("k"), Value: []byte("v")}}
	return b
}

func someTraces(n int) []store.Trace {
	var list []store.Trace
	for i := range n {
		list = append(list, store.Trace{ID: store.TraceID{1, byte(i)}, Data: bytes.Repeat([]byte{byte(i)}, 40*i), Entries: []store.TraceEntry{
			{Span: [8]byte{2}, Service: "shop", Operation: "GET /a", Tenant: "acme", Failed: i%2 == 0, Why: store.WhySlow | store.WhyFailed, StartNanos: slot0 * 1e9, DurationNanos: 5e6},
			{Span: [8]byte{3}, Service: "stock", StartNanos: slot0*1e9 + 1, DurationNanos: 0},
		}})
	}
	return list
}

func encode(t testing.TB, memory int, b *store.Batch) (frames [][]byte) {
	e, err := NewEncoder(memory)
	if err == nil {
		err = e.Batch(b, func(f []byte) error { frames = append(frames, slices.Clone(f)); return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

func decoder(t testing.TB) *Decoder {
	d, err := NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// content lists what a batch says, whatever its numbers of series are.
func content(batches ...*store.Batch) map[string]string {
	out := map[string]string{}
	for _, b := range batches {
		for i, p := range b.Points {
			s := b.Whole(int(p.Series))
			id, _ := s.ID(nil)
			if b.IDs[p.Series] != id {
				panic(fmt.Sprintf("point %d: the identity of %v is wrong", i, s))
			}
			key := fmt.Sprintf("%s %d %d %s @%d", s.Family, s.View, s.Kind, s.Labels, p.Slot)
			if _, twice := out[key]; twice {
				panic(key + " twice")
			}
			out[key] = hex.EncodeToString(p.Data)
		}
		for _, ss := range b.Samples {
			for _, v := range ss.Samples {
				out[fmt.Sprint("sample of ", b.Whole(int(ss.Series)), " @", v.TimeMillis)] = fmt.Sprint(v.Value)
			}
		}
		for _, f := range b.Families {
			out["family "+f.Name] = fmt.Sprint(f)
		}
	}
	return out
}

// What goes in comes out, in one frame or in many, each within its bound.
func TestBatch(t *testing.T) {
	b := someBatch(t, rand.New(rand.NewPCG(1, 2)), 20, 30)
	want := content(b)
	for _, memory := range []int{0, 64 << 10, 8 << 10, 1} {
		frames := encode(t, memory, b)
		if one := len(frames) == 1; one != (memory == 0) {
			t.Errorf("memory %d: %d frames", memory, len(frames))
		}
		var got []*store.Batch
		for i, f := range frames {
			h, err := Peek(f)
			if err != nil || h.Kind != Batch || memory > 1 && h.Memory > memory {
				t.Fatalf("memory %d: frame %d has head %+v, %v", memory, i, h, err)
			}
			x, err := decoder(t).Batch(f, h.Memory)
			if err != nil {
				t.Fatalf("memory %d: frame %d: %v", memory, i, err)
			}
			if wantGen, _ := PartGeneration(b.Generation, i); x.Writer != b.Writer || x.Generation != wantGen || AgentGeneration(x.Generation) != b.Generation || len(x.State) != 0 {
				t.Errorf("frame %d: writer %q, generation %d", i, x.Writer, x.Generation)
			}
			if _, err := decoder(t).Batch(f, h.Memory-1); !errors.Is(err, ErrTooLarge) {
				t.Errorf("frame %d with less memory: %v", i, err)
			}
			got = append(got, x)
		}
		if c := content(got...); !reflect.DeepEqual(c, want) {
			t.Errorf("memory %d: got %d points and samples, want %d, or others", memory, len(c), len(want))
		}
	}
}

// A batch that breaks a rule of store.Batch is refused by the decoder, so that the store
// does not refuse it again and again.
func TestRules(t *testing.T) {
	for name, spoil := range map[string]func(*store.Batch){
		"resolution of 7 s is not kept": func(b *store.Batch) { b.Points, b.Resolution = nil, 7 },
		"twice in a slot":               func(b *store.Batch) { b.Points = append(b.Points, b.Points[0]) },
		"series 0 twice in a slot": func(b *store.Batch) { // listed twice
			b.Series, b.TenantOf = append(b.Series, b.Series[0]), append(b.TenantOf, b.TenantOf[0])
			b.Points = append(b.Points, store.Point{Series: uint32(len(b.Series)) - 1, Slot: b.Points[0].Slot, Data: b.Points[0].Data})
		},
		"two entries of samples":  func(b *store.Batch) { b.Samples = append(b.Samples, b.Samples[0]) },
		`tenant "tenant-0" twice`: func(b *store.Batch) { b.Tenants[2] = "tenant-0" },
	} {
		b := someBatch(t, rand.New(rand.NewPCG(1, 2)), 1, 2)
		spoil(b)
		f := encode(t, 0, b)[0]
		if _, err := decoder(t).Batch(f, largest); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// So is a trace that is kept for a reason that is not known here.
func TestTraceRules(t *testing.T) {
	list := someTraces(1)
	list[0].Entries[0].Why = 8
	e, err := NewEncoder(0)
	if err != nil {
		t.Fatal(err)
	}
	err = e.Traces(list, func(f []byte) error {
		_, err := decoder(t).Traces(f, largest)
		return err
	})
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "kept for 1000") {
		t.Errorf("got %v", err)
	}
}

// Samples of one series that one frame does not hold go on in the next: an entry once each.
func TestManySamples(t *testing.T) {
	b := someBatch(t, rand.New(rand.NewPCG(1, 2)), 1, 1)
	for i := range 300 {
		b.Samples[0].Samples = append(b.Samples[0].Samples, series.Sample{TimeMillis: slot0*1000 + int64(i), Value: float64(i)})
	}
	var got []*store.Batch
	for _, f := range encode(t, 8<<10, b) {
		x, err := decoder(t).Batch(f, largest)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, x)
	}
	if !reflect.DeepEqual(content(got...), content(b)) || len(got) < 3 {
		t.Errorf("%d frames hold others", len(got))
	}
}

// A batch of state alone, which stays with the agent, has no frame.
func TestStateAlone(t *testing.T) {
	if f := encode(t, 0, &store.Batch{Writer: "w", Generation: 1, State: []store.State{{Key: []byte("k")}}}); len(f) != 0 {
		t.Errorf("got %d frames", len(f))
	}
}

func TestTraces(t *testing.T) {
	want := someTraces(20)
	for _, memory := range []int{0, 4 << 10} {
		e, err := NewEncoder(memory)
		if err != nil {
			t.Fatal(err)
		}
		var got []store.Trace
		frames := 0
		err = e.Traces(want, func(f []byte) error {
			frames++
			h, err := Peek(f)
			if err != nil {
				return err
			}
			list, err := decoder(t).Traces(f, h.Memory)
			got = append(got, list...)
			return err
		})
		for i := range got {
			if len(got[i].Data) == 0 {
				got[i].Data = want[i].Data
			}
		}
		if err != nil || !reflect.DeepEqual(got, want) || (frames == 1) != (memory == 0) {
			t.Errorf("memory %d: %v, %d frames, got %d traces", memory, err, frames, len(got))
		}
	}
}

// The bytes of version 1 stay what they are: agents and servers are not updated together.
// The body is held against its bytes before they are compressed, which zstd is free to change.
func TestGolden(t *testing.T) {
	b := &store.Batch{Writer: "w1", Generation: 3, Resolution: series.Base, Tenants: []string{"", "acme"}, TenantOf: []uint32{0, 1},
		Series: []series.Series{
			{Family: "f", View: series.Marginal, Labels: labels.FromStrings("a", "1", "b", "2")},
			{Family: "f", Labels: labels.FromStrings("a", "1", "b", "2")},
		},
		Points:   []store.Point{{Series: 0, Slot: 20, Data: []byte{0x11, 0x05}}, {Series: 1, Slot: 30, Data: []byte{0x11, 0x07}}},
		Families: []store.FamilyInfo{{Name: "f", IntervalSeconds: 10}},
	}
	e, err := NewEncoder(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Batch(b, func(f []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	want := "027731" + "8160" + "0a" + // writer, generation 3*4096+1, resolution
		"05" + "0101010101" + "6661316232" + // texts f a 1 b 2
		"01" + "02" + "0004" + "61636d65" + // tenants "" and acme
		"01" + "00000a" + // families
		"02" + "0001" + "0002" + "01020304" + "00" + // series of the marginal
		"0000" + "0200" + "01" + // that of acme: all labels shared
		"02" + "0401" + "0201" + "0000" + "0202" + "1105" + "1107" + // points
		"00" // samples
	if got := hex.EncodeToString(e.body); got != want {
		t.Errorf("the body is\n%s, want\n%s", got, want)
	}
}

// No byte of a frame can be changed or cut off without notice.
func TestDamage(t *testing.T) {
	f := encode(t, 0, someBatch(t, rand.New(rand.NewPCG(1, 2)), 1, 1))[0]
	d := decoder(t)
	for i := range f {
		if _, err := d.Batch(f[:i], 1<<20); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v", i, err)
		}
		for bit := range 8 {
			g := slices.Clone(f)
			g[i] ^= 1 << bit
			if _, err := d.Batch(g, 1<<20); err == nil {
				t.Fatalf("bit %d of byte %d changed: taken", bit, i)
			}
		}
	}
	f[4] = 9
	if _, err := d.Batch(f, 1<<20); !errors.Is(err, ErrVersion) {
		t.Errorf("version 9: %v", err)
	}
}

// manyLabels returns a body whose only series says that it has so many labels, each the
// first again.
func manyLabels(n int) []byte {
	body := []byte{1, 'w', 1, 10, 1, 1, 'a', 0, 0, 1, 0, 0, 0} // writer, generation, resolution, texts, tenants, families, series
	body = binary.AppendUvarint(body, uint64(n))
	return append(body, make([]byte, 2*n)...)
}

// Labels that are not in order end the decoding: a frame of some hundred bytes that says
// that millions follow does not take memory for them.
func TestManyLabels(t *testing.T) {
	e, err := NewEncoder(0)
	if err != nil {
		t.Fatal(err)
	}
	f, err := e.frame(Batch, func() (int, error) { e.body = manyLabels(1 << 20); return 1 << 10, nil })
	if err != nil {
		t.Fatal(err)
	}
	d := decoder(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = d.Batch(f, largest)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrCorrupt) || took > 8<<20 {
		t.Errorf("a frame of %d bytes took %d bytes: %v", len(f), took, err)
	}
}

// FuzzBody decodes any bytes as the body of a frame whose head and checksum are right, as
// only somebody who knows the format can send. What is accepted says the same when it is
// packed again, and takes no more memory than its head said.
func FuzzBody(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	e, err := NewEncoder(0)
	if err != nil {
		f.Fatal(err)
	}
	for _, n := range []int{0, 1, 3} {
		if err := e.Batch(someBatch(f, r, n, n), func([]byte) error { return nil }); err != nil {
			f.Fatal(err)
		}
		f.Add(slices.Clone(e.body), 1<<12, true)
		if err := e.Traces(someTraces(n), func([]byte) error { return nil }); err != nil {
			f.Fatal(err)
		}
		f.Add(slices.Clone(e.body), 1<<12, false)
	}
	f.Add(manyLabels(1<<10), 1<<12, true)
	d := decoder(f)
	f.Fuzz(func(t *testing.T, body []byte, memory int, batch bool) {
		if memory < 0 || memory > 1<<20 {
			return
		}
		kind := Traces
		if batch {
			kind = Batch
		}
		frame, err := e.frame(kind, func() (int, error) { e.body = append(e.body, body...); return memory, nil })
		if err != nil {
			t.Fatal(err)
		}
		h, err := Peek(frame)
		if err != nil {
			t.Fatal(err)
		}
		if !batch {
			list, err := d.Traces(frame, h.Memory)
			if err != nil || len(list) == 0 {
				return
			}
			var again []store.Trace
			err = e.Traces(list, func(f []byte) error {
				some, err := d.Traces(f, largest)
				again = append(again, some...)
				return err
			})
			if err != nil || !reflect.DeepEqual(again, list) {
				t.Fatalf("packed again: %v", err)
			}
			return
		}
		b, err := d.Batch(frame, h.Memory)
		if err != nil {
			return
		}
		if held := pointCost*cap(b.Points) + seriesCost*cap(b.Series) + textCost*cap(b.Tenants); held > h.Memory {
			t.Fatalf("takes %d bytes, its head said %d", held, h.Memory)
		}
		if err := storetest.NewTwin().Put(t.Context(), b); err != nil {
			t.Fatalf("what is decoded is not taken by a store: %v", err)
		}
		b.Generation = 1
		var again []*store.Batch
		err = e.Batch(b, func(f []byte) error {
			x, err := d.Batch(f, largest)
			again = append(again, x)
			return err
		})
		if err != nil {
			t.Fatalf("packed again: %v", err)
		}
		points := 0
		for _, x := range again {
			points += len(x.Points)
		}
		if points != len(b.Points) {
			t.Fatalf("packed again: %d points, want %d", points, len(b.Points))
		}
	})
}

func BenchmarkBatch(b *testing.B) {
	batch := someBatch(b, rand.New(rand.NewPCG(1, 2)), 50, 40)
	frames := encode(b, 0, batch)
	size := 0
	for _, f := range frames {
		size += len(f)
	}
	b.Run("encode", func(b *testing.B) {
		e, err := NewEncoder(0)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := e.Batch(batch, func([]byte) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(size)/float64(len(batch.Points)), "bytes/point")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch.Points)), "ns/point")
	})
	b.Run("decode", func(b *testing.B) {
		d := decoder(b)
		for b.Loop() {
			for _, f := range frames {
				if _, err := d.Batch(f, largest); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch.Points)), "ns/point")
	})
}
