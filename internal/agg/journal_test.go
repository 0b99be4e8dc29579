package agg

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// written commits one of everything and returns the journal.
func written(t testing.TB) []byte {
	t.Helper()
	c := newClock()
	a := open(t, newMemStore(), c, t.TempDir())
	now := c.now().UnixNano()
	b := a.NewBatch()
	span := a.SpanTarget(&SpanIdentity{Service: "s", Operation: "o", Tenant: "t", Instance: "i"})
	gauge := a.SeriesTarget(series.Series{Family: "g", Kind: series.Gauge, Labels: labels.FromStrings("service", "s")})
	dist := a.SeriesTarget(series.Series{Family: "d", Labels: labels.FromStrings("service", "s")})
	h := hist.New(cellSchema)
	h.Record(0.25)
	b.Observe(span, now, 25_000_000, 1)
	b.Observe(span, now-3*slotNanos, 300, 7)
	b.Distribution(dist, now, h)
	b.Number(gauge, now, 1.5)
	b.DeltaNumber(gauge, StreamID{1, 2}, now, 2)
	b.Cumulative(dist, StreamID{3, 4}, 5, now-1e9, now, h)
	commit(t, b)
	b = a.NewBatch()
	b.Observe(span, now, 1, 1)
	commit(t, b)
	b = a.NewBatch()
	plain := a.SpanTarget(&SpanIdentity{Service: "s", Operation: "o", Instance: "i"})
	b.ObserveTenant(plain, "u", false, now, 2, 1)
	b.ObserveTenant(plain, "u", false, now, 3, 4)
	b.ObserveTenant(plain, "v", true, now, 5, 1)
	b.ObserveTenant(plain, "", false, now, 6, 1)
	commit(t, b)
	raw, err := os.ReadFile(a.open.journal.path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The bytes of format 4. A change here needs a new version in journalMagic.
const golden = `
54534a524e4c0004010000000000000000000000000000000000000000000000ba7fdc407000000001000000000000000000
000000000000caa7d822c25924df010102157370616e5f6475726174696f6e5f7365636f6e647301000308696e7374616e63
650169096f7065726174696f6e016f0773657276696365017303010201740201010201050164000001077365727669636501
73020305000104016700010107736572766963650173020204007e000000020000000000000000000000060000000bc722bd
e2ce20560288bb94caca33c0aa83a9010800c0f0f50b0905ac02071a00051180e59a771390f6a8949567000000000000f83f
140100000000000000020000000000000090f6a894956700000000000000401d030000000000000004000000000000000500
00000000000080a08da4d4f6da983180c8e3dddbf6da9831051180e59a770f00000003000000060000000000000001000000
f95817bf1462b9a30288bb94caca33c0aa83a90108000109000000040000000700000000000000000000005ea3b8930d7847
920103060200020406022300000005000000070000000000000004000000620052441c2b8ece0288bb94caca33c0aa83a901
0e7520000221000304365f6f7468657220000506200006
`

// What format 3 wrote of the same, but for the spans observed with their tenants.
const golden3 = `
54534a524e4c0003010000000000000000000000000000000000000000000000690d528a7000000001000000000000000000
000000000000caa7d822c25924df010102157370616e5f6475726174696f6e5f7365636f6e647301000308696e7374616e63
650169096f7065726174696f6e016f0773657276696365017303010201740201010201050164000001077365727669636501
73020305000104016700010107736572766963650173020204007e000000020000000000000000000000060000000bc722bd
e2ce20560288bb94caca33c0aa83a9010800c0f0f50b0905ac02071a00051180e59a771390f6a8949567000000000000f83f
140100000000000000020000000000000090f6a894956700000000000000401d030000000000000004000000000000000500
00000000000080a08da4d4f6da983180c8e3dddbf6da9831051180e59a770f00000003000000060000000000000001000000
f95817bf1462b9a30288bb94caca33c0aa83a901080001
`

// What format 2 wrote of the same.
const golden2 = `
54534a524e4c0002010000000000000084e9a7d170000000caa7d822010102157370616e5f6475726174696f6e5f7365636f
6e647301000308696e7374616e63650169096f7065726174696f6e016f077365727669636501730301020174020101020105
016400000107736572766963650173020305000104016700010107736572766963650173020204007e0000000bc722bd0288
bb94caca33c0aa83a9010800c0f0f50b0905ac02071a00051180e59a771390f6a8949567000000000000f83f140100000000
000000020000000000000090f6a894956700000000000000401d030000000000000004000000000000000500000000000000
80a08da4d4f6da983180c8e3dddbf6da9831051180e59a770f000000f95817bf0288bb94caca33c0aa83a901080001
`

// What format 1 wrote of the same.
const golden1 = `
54534a524e4c00010100000000000000ade508c8a50000004d957d05010101157370616e5f6475726174696f6e5f7365636f
6e6473000003096f7065726174696f6e016f077365727669636501730674656e616e7401740102157370616e5f6475726174
696f6e5f7365636f6e647301000308696e7374616e63650169096f7065726174696f6e016f07736572766963650173020101
020105016400000107736572766963650173020305000104016700010107736572766963650173020204007e0000000bc722
bd0288bb94caca33c0aa83a9010800c0f0f50b0905ac02071a00051180e59a771390f6a8949567000000000000f83f140100
000000000000020000000000000090f6a894956700000000000000401d030000000000000004000000000000000500000000
00000080a08da4d4f6da983180c8e3dddbf6da9831051180e59a770f000000f95817bf0288bb94caca33c0aa83a901080001
`

func TestJournalGolden(t *testing.T) {
	got := hex.EncodeToString(written(t))
	want := strings.Join(strings.Fields(golden), "")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// script writes down what a journal says.
type script struct{ b strings.Builder }

func (s *script) defineSeries(n uint32, x series.Series) error {
	fmt.Fprintf(&s.b, "series %d %s view=%d kind=%d %s\n", n, x.Family, x.View, x.Kind, x.Labels)
	return nil
}

func (s *script) defineTenant(n, marginal uint32, tenant []byte) error {
	fmt.Fprintf(&s.b, "series %d of tenant %q beside series %d\n", n, tenant, marginal)
	return nil
}

func (s *script) defineTarget(n, full, marginal uint32) error {
	fmt.Fprintf(&s.b, "target %d full=%d marginal=%d\n", n, full, marginal)
	return nil
}

func (s *script) entries(millis int64, e *entryReader) (n uint64, err error) {
	fmt.Fprintf(&s.b, "entries at %d\n", millis)
	for ; e.next(); n++ {
		switch e.op {
		case opObserve, opWeighted:
			fmt.Fprintf(&s.b, "  target %d%s slot %d: %d ns, weight %d\n", e.target, e.tenant, e.entrySlot*10, e.nanos, e.weight)
		case opDistribution:
			fmt.Fprintf(&s.b, "  target %d slot %d: histogram %x\n", e.target, e.entrySlot*10, e.hist)
		case opNumber:
			fmt.Fprintf(&s.b, "  target %d at %d: %v\n", e.target, e.millis, e.value)
		case opDeltaNumber:
			fmt.Fprintf(&s.b, "  target %d stream %v at %d: +%v\n", e.target, e.stream, e.millis, e.value)
		case opCumulative:
			fmt.Fprintf(&s.b, "  target %d stream %v resource %d from %d to %d: histogram %x\n", e.target, e.stream, e.resource, e.start, e.time, e.hist)
		}
	}
	return n, e.err()
}

// What format 1 said first, and what 2 says instead.
const (
	definitions1 = `series 1 span_duration_seconds view=0 kind=0 {operation="o", service="s", tenant="t"}
series 2 span_duration_seconds view=1 kind=0 {instance="i", operation="o", service="s"}
`
	definitions2 = `series 2 span_duration_seconds view=1 kind=0 {instance="i", operation="o", service="s"}
series 1 of tenant "t" beside series 2
`
)

const playedEntries = `target 1 full=1 marginal=2
series 5 d view=0 kind=0 {service="s"}
target 3 full=5 marginal=0
series 4 g view=0 kind=1 {service="s"}
target 2 full=4 marginal=0
entries at 1772366405000
  target 1 slot 1772366400: 25000000 ns, weight 1
  target 1 slot 1772366370: 300 ns, weight 7
  target 3 slot 1772366400: histogram 1180e59a77
  target 2 at 1772366405000: 1.5
  target 2 stream [1 2] at 1772366405000: +2
  target 3 stream [3 4] resource 5 from 1772366404000000000 to 1772366405000000000: histogram 1180e59a77
entries at 1772366405000
  target 1 slot 1772366400: 1 ns, weight 1
`

// What format 4 says behind it.
const playedTenants = `series 6 of tenant "" beside series 2
target 4 full=6 marginal=2
entries at 1772366405000
  target 4u slot 1772366400: 2 ns, weight 1
  target 4u slot 1772366400: 3 ns, weight 4
  target 4_other slot 1772366400: 5 ns, weight 1
  target 4 slot 1772366400: 6 ns, weight 1
`

func TestJournalSaysWhatWasWritten(t *testing.T) {
	raw := written(t)
	got, acc := play(t, raw)
	if acc.applied != 11 || acc.lost != 0 || acc.tail != 0 || acc.damage != "" || acc.end != 11 {
		t.Fatalf("%+v", acc)
	}
	if want := definitions2 + playedEntries + playedTenants; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Journals that the versions before left behind are played.
func TestJournalsOfOlderFormats(t *testing.T) {
	for i, text := range []string{golden1, golden2, golden3} {
		raw := unhex(t, text)
		s, acc := play(t, raw)
		want := []string{definitions1, definitions2, definitions2}[i] + playedEntries
		if acc.format != byte(i+1) || acc.applied != 7 || acc.tail != 0 || acc.damage != "" || s != want {
			t.Errorf("%+v\ngot\n%s\nwant\n%s", acc, s, want)
		}
		c := newClock()
		dir := t.TempDir()
		if err := os.WriteFile(journalPath(dir, 1), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		st := newMemStore()
		a := open(t, st, c, dir)
		if n := st.count(t, series.SpanDuration, series.Full); n != 9 {
			t.Errorf("%d observations replayed, want 9", n)
		}
		if d := a.Damage(); len(d) != 0 {
			t.Errorf("damage %+v", d)
		}
	}
}

// A frame of format 2 that is damaged costs itself, and what lacks its definitions.
func TestDamageToOlderFormats(t *testing.T) {
	raw := unhex(t, golden2)
	raw[len(raw)-2] ^= 1 // in the last of two requests
	raw = append(raw, raw[oldHeader:]...)
	s, acc := play(t, raw)
	if !acc.unknown || acc.damage == "" || acc.applied != 6+6 || acc.tail == 0 {
		t.Errorf("%+v\n%s", acc, s)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// play decodes the journal of generation 1 into a script.
func play(t testing.TB, raw []byte) (string, *account) {
	t.Helper()
	var s script
	acc, err := decodeJournal(bytes.NewReader(raw), int64(len(raw)), "j", 1, &s)
	if err != nil {
		t.Fatal(err)
	}
	return s.b.String(), acc
}

// The series of folded tenants, of none, and of one that is labelled so are
// distinguished by what the journal holds of them.
func TestTenantsInTheJournal(t *testing.T) {
	st, c := newMemStore(), newClock()
	dir := t.TempDir()
	a := open(t, st, c, dir, func(o *Options) { o.MaxTenants = 1 })
	for i, id := range []SpanIdentity{
		{Service: "s", Operation: "o", Kind: "server", Status: "ok", Tenant: "a", Instance: "i"},
		{Service: "s", Operation: "o", Kind: "server", Status: "ok", Tenant: "b", Instance: "i"},
		{Service: "s", Operation: "o", Kind: "server", Status: "ok", Instance: "i"},
		{Service: "s", Kind: "server", Status: "ok", Tenant: "c", Instance: "j"},
		{Service: "s", Kind: "server", Status: "ok"},
	} {
		observe(t, a, c, id, 1<<i)
	}
	crash(a)
	open(t, st, c, dir)
	got := map[string]uint64{}
	for name, slots := range st.slots(t, series.SpanDuration, series.Full) {
		for _, h := range slots {
			got[name] += h.Count
		}
	}
	want := map[string]uint64{
		`{kind="server", operation="o", service="s", status="ok", tenant="a"}`: 1,
		`{kind="server", service="s", status="ok", tenant="_other"}`:           2 + 8,
		`{kind="server", operation="o", service="s", status="ok"}`:             4,
		`{kind="server", service="s", status="ok"}`:                            16,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("replayed %v, want %v", got, want)
	}
}

// Any bytes are replayed, refused or taken for damage; never a panic, what is
// lost is what the positions say, and what was accepted can be flushed.
func FuzzJournal(f *testing.F) {
	raw := written(f)
	f.Add(raw)
	f.Add(raw[:len(raw)-5])
	f.Add(raw[:journalHeader])
	f.Add(unhex(f, golden1))
	f.Add(unhex(f, golden2))
	f.Add(unhex(f, golden3))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		// Frames with true checksums get further.
		b = bytes.Clone(b)
		if len(b) >= journalHeader && b[7] == journalFormat {
			copy(b, header{1, binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:]) & 0xffff}.append(nil))
			position := uint64(0)
			for at, number := journalHeader, uint32(1); at+frameHeader <= len(b); number++ {
				n := int(binary.LittleEndian.Uint32(b[at:])) & 0xffff
				if n == 0 || at+frameHeader+n > len(b) {
					break
				}
				entries := int(b[at+16])
				sealFrame(b[:at+frameHeader+n], at, entries)
				placeFrame(b[at:], frameSeed(1), number, position)
				position += uint64(entries)
				at += frameHeader + n
			}
		}
		o := Options{}
		o.EnsureDefaults()
		a := &Aggregator{o: o, streams: newStreams()}
		a.reg = newRegistry(&a.o)
		g := &generation{number: 1, cells: newCells(&a.slabs, 0)}
		acc, err := decodeJournal(bytes.NewReader(b), int64(len(b)), "j", 1, &replayer{a: a, g: g})
		if err != nil {
			if !errors.Is(err, store.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		if acc.applied != g.entries {
			t.Fatalf("%d entries applied, %d counted: %+v", g.entries, acc.applied, acc)
		}
		if acc.placed && acc.applied+acc.lost < acc.end-acc.header.before {
			t.Fatalf("from position %d to %d, %d applied and %d lost", acc.header.before, acc.end, acc.applied, acc.lost)
		}
		if acc.tail < 0 || acc.tail > int64(len(b)) {
			t.Fatalf("tail of %d of %d bytes", acc.tail, len(b))
		}
		makeTotals(g, a.reg.series)
		batch := a.build.batch(g, &a.reg.tables)
		last := int64(0)
		for _, p := range batch.Points {
			if int(p.Series) >= len(batch.Series) || p.Slot < last || len(p.Data) == 0 && batch.Series[p.Series].Kind != series.Distribution {
				t.Fatalf("point %+v", p)
			}
			last = p.Slot
		}
		g.cells.release()
	})
}
