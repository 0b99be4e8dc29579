package chstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tailscope/internal/store"
)

// fakeLog is the table log of one kind: parts that are merged, and whose rows of earlier
// eras are deleted, while it is written.
type fakeLog struct {
	parts []fakePart
	block uint64
}

type fakePart struct {
	first, last uint64
	rows        []logged
}

func (f *fakeLog) append(e logged) {
	f.block++
	f.parts = append(f.parts, fakePart{f.block, f.block, []logged{e}})
}

// merge makes one part of n neighbours, whose rows stay in order.
func (f *fakeLog) merge(at, n int) {
	p := fakePart{first: f.parts[at].first, last: f.parts[at+n-1].last}
	for _, o := range f.parts[at : at+n] {
		p.rows = append(p.rows, o.rows...)
	}
	f.parts = slices.Replace(f.parts, at, at+n, p)
}

// drop deletes rows of earlier eras in one part, as a mutation does with one after the other.
func (f *fakeLog) drop(at int, before uint64) {
	p := &f.parts[at]
	p.rows = slices.DeleteFunc(slices.Clone(p.rows), func(e logged) bool { return e.era < before })
}

// read is readLog.
func (f *fakeLog) read(l *kindLog, rng *rand.Rand) {
	var all []logged
	for _, i := range rng.Perm(len(f.parts)) { // parts come in any order
		p := f.parts[i]
		if p.last <= l.seen {
			continue
		}
		for _, e := range p.rows {
			if e.era >= l.era {
				e.first, e.last = p.first, p.last
				all = append(all, e)
			}
		}
	}
	l.advance(all)
}

func newKindLog() *kindLog {
	return &kindLog{kind: "k", outcomes: map[txn]uint64{}, records: map[string]store.Record{}}
}

// content describes what a log comes to, but for its outcomes.
func (l *kindLog) content() string {
	s := fmt.Sprint(l.revision)
	for _, k := range slices.Sorted(maps.Keys(l.records)) {
		s += fmt.Sprintf(" %s=%s@%d", k, l.records[k].Value, l.records[k].Revision)
	}
	return s
}

// Whoever reads a log comes to the same result, however late, often and in whichever parts
// it is read; and exactly one of several writes that expect one revision counts.
func TestLogIsTheSameForAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		f := &fakeLog{}
		servers := make([]*kindLog, 4)
		for i := range servers {
			servers[i] = newKindLog()
		}
		deleted := uint64(0)         // eras before it may be deleted
		reference := newKindLog()    // reads each row as it comes
		given := map[uint64]string{} // by revision: the write
		checkpoint := func(s *kindLog) {
			if s.writes == 0 {
				return
			}
			e := logged{op: opCheckpoint, era: s.era + 1, txn: newTxn(), base: s.writes, revision: s.revision,
				keys: []string{pastKey}, values: []string{encodeOutcomes(s.outcomes)}, ifs: []uint64{0}}
			for k, r := range s.records {
				e.keys, e.values, e.ifs = append(e.keys, k), append(e.values, string(r.Value)), append(e.ifs, r.Revision)
			}
			f.append(e)
			f.read(reference, rng)
			f.read(s, rng)
			if s.era >= e.era {
				deleted = max(deleted, s.era)
			}
		}
		for range rapid.IntRange(1, 120).Draw(rt, "operations") {
			s := servers[rng.IntN(len(servers))]
			switch op := rng.IntN(12); {
			case op < 5: // a write, by what the server knows, which may be old
				e := logged{era: s.era, txn: newTxn()}
				for range 1 + rng.IntN(2) {
					k := fmt.Sprint(rng.IntN(3))
					e.keys = append(e.keys, k)
					e.values = append(e.values, []string{"", "a", "b"}[rng.IntN(3)])
					e.ifs = append(e.ifs, []uint64{store.AnyRevision, s.records[k].Revision}[rng.IntN(2)])
				}
				s.awaited = e.txn
				for range 1 + rng.IntN(2) { // perhaps sent twice
					f.append(e)
				}
				f.read(reference, rng)
				want, counts := reference.outcome(e.txn)
				if rng.IntN(3) == 0 { // others go on before the writer reads
					o := servers[rng.IntN(len(servers))]
					f.read(o, rng)
					checkpoint(o)
					for i := range f.parts {
						f.drop(i, deleted)
					}
				}
				f.read(s, rng)
				revision, known := s.outcome(e.txn)
				if (s.era <= e.era+1 || known) && (counts != known || want != revision) {
					rt.Fatalf("a write has the outcome %d %v, want %d %v", revision, known, want, counts)
				}
				if revision > 0 {
					if other, twice := given[revision]; twice {
						rt.Fatalf("revision %d is given to %s and %v", revision, other, e)
					}
					given[revision] = fmt.Sprint(e)
				}
			case op == 5: // by what the server knows
				checkpoint(s)
			case op < 8 && len(f.parts) > 1:
				n := 2 + rng.IntN(min(4, len(f.parts)-1))
				f.merge(rng.IntN(len(f.parts)-n+1), n)
			case op < 10 && deleted > 0:
				f.drop(rng.IntN(len(f.parts)), deleted)
			default:
				f.read(s, rng)
			}
		}
		for i, s := range append(servers, newKindLog()) { // the last one starts now
			f.read(s, rng)
			if s.content() != reference.content() || s.era != reference.era {
				rt.Fatalf("server %d: got era %d, %s, want era %d, %s", i, s.era, s.content(), reference.era, reference.content())
			}
		}
	})
}

func TestBlocksOf(t *testing.T) {
	for name, want := range map[string][2]uint64{
		"all_1_1_0": {1, 1}, "d41d8cd98f00b204e9800998ecf8427e_3_17_2": {3, 17}, "0a1b_3_17_2_21": {3, 17},
	} {
		first, last, err := blocksOf(name)
		if err != nil || first != want[0] || last != want[1] {
			t.Errorf("%s: got %d to %d, %v, want %v", name, first, last, err, want)
		}
	}
	for _, name := range []string{"", "all", "all_1", "all_x_1_0"} {
		if _, _, err := blocksOf(name); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
}
