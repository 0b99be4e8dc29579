package agg

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"tailscope/internal/series"
	"tailscope/internal/store"
)

// files are the contents of a directory by name.
type files map[string][]byte

func readFiles(t testing.TB, fs vfs.FS, dir string) files {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := files{}
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if out[name], err = io.ReadAll(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return out
}

// in makes a file system that holds the files in a directory, one of them changed.
func (l files) in(t testing.TB, dir, changed string, b []byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range l {
		if name == changed {
			if b == nil {
				continue
			}
			content = b
		}
		writeFile(t, fs, fs.PathJoin(dir, name), content)
	}
	return fs
}

func writeFile(t testing.TB, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, category)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(b)); err != nil { // the file may change what it is given
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func on(fs vfs.FS) func(*Options) {
	return func(o *Options) { o.FS = fs }
}

// send commits n spans of several series in one request.
func send(t testing.TB, a *Aggregator, c *clock, n int) {
	t.Helper()
	b := a.NewBatch()
	for i := range n {
		b.Observe(a.SpanTarget(&SpanIdentity{Service: "s", Operation: fmt.Sprint("op", i%3), Tenant: fmt.Sprint("t", i%4), Instance: "x"}),
			c.now().UnixNano(), int64(1+i)*1e6, 1)
	}
	commit(t, b)
}

// lost sums what is said to be lost; an unknown number is an error.
func lost(t testing.TB, a *Aggregator) (n uint64) {
	t.Helper()
	for _, d := range a.Damage() {
		if d.Part != "journal" || d.File == "" || d.Reason == "" || d.Found.IsZero() {
			t.Errorf("damage %+v", d)
		}
		if d.Observations < 0 {
			t.Errorf("not counted: %+v", d)
			continue
		}
		n += uint64(d.Observations)
	}
	if s := a.Stats().Lost; s != n {
		t.Errorf("damage says %d are lost, the totals %d", n, s)
	}
	return n
}

// losses are what damage says, but for where the file is now.
func losses(damage []store.Damage) (out []string) {
	for _, d := range damage {
		out = append(out, fmt.Sprintf("%s: %s, %s, %d, %v %v", d.Part, d.Reason, d.Lost, d.Observations, d.From, d.To))
	}
	return out
}

// crashed leaves behind a store that has generation 1, journals of 2 to 5, of
// which 4 had only records, and the file of acknowledgements.
func crashed(t testing.TB) (l files, base *memStore, acknowledged uint64) {
	t.Helper()
	st, c, fs := newMemStore(), newClock(), vfs.NewMem()
	a := open(t, st, c, "data/journal", on(fs))
	send(t, a, c, 7)
	flush(t, a)
	base = st.clone()
	st.refuse(errors.New("not now"))
	acknowledged = 7
	for gen := 2; gen <= 5; gen++ {
		if gen == 4 {
			a.mu.Lock()
			a.open.records = append(a.open.records, store.State{Key: []byte("r1234567")})
			a.mu.Unlock()
		} else {
			for _, n := range []int{3, 11, 2} {
				send(t, a, c, n)
				acknowledged += uint64(n)
			}
		}
		if gen < 5 {
			if err := a.Flush(context.Background()); err == nil {
				t.Fatal("the store took it")
			}
		}
	}
	crash(a)
	return readFiles(t, fs, "data/journal"), base, acknowledged
}

// Whatever single byte of the journals is flipped, wherever one is cut and
// whichever is removed: what is not said to be lost is replayed exactly once.
func TestAnyDamageIsCounted(t *testing.T) {
	l, base, acknowledged := crashed(t)
	if len(l) != 4 {
		t.Fatalf("files %d, want three journals and the acknowledgements", len(l))
	}
	check := func(what, name string, changed []byte) {
		t.Helper()
		st, c := base.clone(), newClock()
		fs := l.in(t, "data/journal", name, changed)
		before := readFiles(t, fs, "data/journal")
		_, byDoctor, err := CheckJournals(context.Background(), fs, "data/journal", st, "local")
		if err != nil {
			t.Fatalf("%s of %s: doctor: %v", what, name, err)
		}
		if !maps.EqualFunc(before, readFiles(t, fs, "data/journal"), bytes.Equal) {
			t.Fatalf("%s of %s: doctor changed a file", what, name)
		}
		a := open(t, st, c, "data/journal", on(fs))
		if x, y := losses(byDoctor), losses(a.Damage()); !slices.Equal(x, y) {
			t.Fatalf("%s of %s: doctor says %q, the start %q", what, name, x, y)
		}
		if name == ackFile && changed == nil {
			if d := a.Damage(); len(d) != 1 || d[0].Observations != -1 || fs.PathBase(d[0].File) != ackFile {
				t.Fatalf("without the acknowledgements: %+v", d)
			}
			a.damage = nil // it is not known how much that is
		}
		gone := lost(t, a)
		kept := st.count(t, series.SpanDuration, series.Full)
		if kept+gone != acknowledged {
			t.Fatalf("%s of %s: %d stored and %d said to be lost, %d were acknowledged: %+v", what, name, kept, gone, acknowledged, a.Damage())
		}
		if marginal := st.count(t, series.SpanDuration, series.Marginal); marginal != kept {
			t.Fatalf("%s of %s: %d in the marginal view, %d in the full one", what, name, marginal, kept)
		}
		for _, d := range a.Damage() {
			if _, err := fs.Stat(d.File); err != nil && !strings.Contains(d.Reason, "missing") {
				t.Fatalf("%s of %s: %+v: %v", what, name, d, err)
			}
		}
		// It goes on, and says it once.
		send(t, a, c, 5)
		flush(t, a)
		crash(a)
		a = open(t, st, c, "data/journal", on(fs))
		if d := a.Damage(); len(d) != 0 {
			t.Fatalf("%s of %s: said again: %+v", what, name, d)
		}
		if n := st.count(t, series.SpanDuration, series.Full); n != kept+5 {
			t.Fatalf("%s of %s: %d stored after five more, %d before", what, name, n, kept)
		}
		crash(a)
	}
	r := rand.New(rand.NewPCG(16, 3))
	for name, b := range l {
		check("removal", name, nil)
		for at := range b {
			if name == ackFile && at >= 2*ackStride {
				break
			}
			if testing.Short() && at%7 != 0 {
				continue
			}
			flipped := append([]byte(nil), b...)
			flipped[at] ^= 1 << r.IntN(8)
			check(fmt.Sprintf("flip at byte %d", at), name, flipped)
			if name != ackFile {
				check(fmt.Sprintf("cut at byte %d", at), name, b[:at:at])
			}
		}
	}
}

// A byte damaged in the length of any frame costs nothing, and it is said.
func TestDamagedLengthCostsNothing(t *testing.T) {
	st, c, fs := newMemStore(), newClock(), vfs.NewMem()
	a := open(t, st, c, "data/journal", on(fs))
	for i := range 20 { // definitions stand before requests in several places
		b := a.NewBatch()
		for k := range 12 {
			b.Observe(a.SpanTarget(&SpanIdentity{Service: "s", Operation: fmt.Sprint("op", (i/5)*12+k)}), c.now().UnixNano(), 1e6, 1)
		}
		commit(t, b)
	}
	name := fs.PathBase(a.open.journal.path)
	crash(a)
	l := readFiles(t, fs, "data/journal")
	frames := 0
	for at := journalHeader; at < len(l[name]); frames++ {
		length := l[name][at : at+4]
		for i := range 5 {
			b := bytes.Clone(l[name])
			if i < 4 {
				b[at+i] ^= byte(1 + frames%255)
			} else {
				copy(b[at:], "lost") // all of it
			}
			st, fs := newMemStore(), l.in(t, "data/journal", name, b)
			a := open(t, st, c, "data/journal", on(fs))
			if n := st.count(t, series.SpanDuration, series.Full); n != 240 || lost(t, a) != 0 {
				t.Errorf("byte %d: %d of 240 replayed", at+i, n)
			}
			d := a.Damage()
			if len(d) != 1 || d[0].File != "data/damaged/"+name || !strings.Contains(d[0].Reason, fmt.Sprintf("byte %d:", at)) {
				t.Fatalf("byte %d: %+v", at+i, d)
			}
			if kept := readFiles(t, fs, "data/damaged")[name]; !bytes.Equal(kept, b) {
				t.Error("what was set aside is not what was found")
			}
			crash(a)
		}
		at += frameHeader + int(binary.LittleEndian.Uint32(length))
	}
	if frames < 24 {
		t.Errorf("%d frames only", frames)
	}
}

// What is not a journal, or cannot be read, is set aside and named; the other
// journals are replayed, and ingest goes on.
func TestUnreadableJournal(t *testing.T) {
	for _, what := range []string{"directory", "fifo", "dangling link", "nothing is read", "first block is not read"} {
		st, c, dir := newMemStore(), newClock(), filepath.Join(t.TempDir(), "journal")
		a := open(t, st, c, dir)
		send(t, a, c, 5)
		flush(t, a)
		st.refuse(errors.New("not now"))
		for range 2 {
			for i := range 40 { // more than a block, with definitions on the way
				b := a.NewBatch()
				for k := range 11 {
					b.Observe(a.SpanTarget(&SpanIdentity{Service: "s", Operation: fmt.Sprint("op", i), Tenant: fmt.Sprint(k)}), c.now().UnixNano(), 1e6, 1)
				}
				commit(t, b)
			}
			a.Flush(context.Background())
		}
		crash(a)
		st.refuse(nil)
		path := journalPath(dir, 2)
		var err error
		switch what {
		case "directory":
			err = errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "x"), 0o700))
		case "fifo":
			err = errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
		case "dangling link":
			err = errors.Join(os.Remove(path), os.Symlink("nowhere", path))
		}
		if err != nil {
			t.Fatal(err)
		}
		fs := vfs.Default
		if strings.Contains(what, "read") {
			fs = errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == errorfs.OpFileReadAt && op.Path == path && (op.Offset < 4096 || what == "nothing is read") {
					return syscall.EIO
				}
				return nil
			}))
		}
		if _, damage, err := CheckJournals(context.Background(), fs, dir, nil, ""); err != nil || len(damage) == 0 || damage[0].File != path {
			t.Errorf("%s: doctor says %+v, %v", what, damage, err)
		}
		a = open(t, st, c, dir, on(fs))
		n := st.count(t, series.SpanDuration, series.Full)
		if behind := what == "first block is not read"; n < 5+40*11 || behind != (n > 5+40*11) {
			t.Errorf("%s: %d stored", what, n)
		}
		gone := uint64(0)
		named := false
		for _, d := range a.Damage() {
			gone += uint64(max(0, d.Observations))
			named = named || strings.HasPrefix(d.File, filepath.Join(filepath.Dir(dir), "damaged", filepath.Base(path)))
		}
		if n+gone != 5+2*40*11 || !named {
			t.Errorf("%s: %d stored, %d said to be lost: %+v", what, n, gone, a.Damage())
		}
		send(t, a, c, 3)
		crash(a)
		a = open(t, st, c, dir, on(fs))
		if d := a.Damage(); len(d) != 0 || st.count(t, series.SpanDuration, series.Full) != n+3 {
			t.Errorf("%s: at the next start %+v", what, d)
		}
		crash(a)
	}
}

// A record of the position that is too short is said, and keeps nothing from starting.
func TestShortPositionRecord(t *testing.T) {
	for n := range 8 {
		l, base, acknowledged := crashed(t)
		base.state["local/"+string(rune(keyPosition))] = make([]byte, n)
		a := open(t, base, newClock(), "data/journal", on(l.in(t, "data/journal", "", nil)))
		if got := base.count(t, series.SpanDuration, series.Full); got != acknowledged {
			t.Errorf("%d bytes: %d of %d stored", n, got, acknowledged)
		}
		if d := a.Damage(); len(d) != 1 || !strings.Contains(d[0].Reason, fmt.Sprintf("%d bytes", n)) {
			t.Errorf("%d bytes: %+v", n, d)
		}
		crash(a)
	}
}

// A journal is kept until its generation lies in a table. What the store's log
// loses after its Put is replayed once, and said.
func TestTheStoresLogIsLost(t *testing.T) {
	st, c, fs := newMemStore(), newClock(), vfs.NewMem()
	durable := uint64(1)
	a := open(t, st, c, "data/journal", on(fs))
	send(t, a, c, 7)
	flush(t, a)
	before := st.clone()
	st.durable = &durable
	send(t, a, c, 11)
	flush(t, a)
	send(t, a, c, 13)
	flush(t, a)
	send(t, a, c, 17)
	crash(a)
	l := readFiles(t, fs, "data/journal")
	for _, gen := range []uint64{2, 3} {
		if _, ok := l[fs.PathBase(storedPath("", gen))]; !ok {
			t.Errorf("generation %d lies in the log alone, and its journal is gone", gen)
		}
	}

	a = open(t, before, c, "data/journal", on(fs)) // without what the log held
	if n := before.count(t, series.SpanDuration, series.Full); n != 7+11+13+17 {
		t.Errorf("%d stored, want 48", n)
	}
	if s := a.Stats(); lost(t, a) != 0 || len(a.Damage()) != 2 || s.Recovered != 24 {
		t.Errorf("%+v, %+v", s, a.Damage())
	}
	crash(a)

	// The log is whole: nothing is replayed twice.
	fs = l.in(t, "data/journal", "", nil).(*vfs.MemFS)
	a = open(t, st, c, "data/journal", on(fs))
	if n := st.count(t, series.SpanDuration, series.Full); n != 48 || len(a.Damage()) != 0 {
		t.Errorf("%d stored, want 48; damage %+v", n, a.Damage())
	}
	durable = 4
	flush(t, a)
	if got := readFiles(t, fs, "data/journal"); len(got) != 1 {
		t.Errorf("%d files left once all lies in tables, want the acknowledgements", len(got))
	}
	crash(a)
}

// A store that was made anew below journals that are far on: they are kept and
// replayed, what came before is said to be missing, and numbers go on.
func TestStoreMadeAnew(t *testing.T) {
	l, _, _ := crashed(t)
	st, c := newMemStore(), newClock()
	fs := l.in(t, "data/journal", "", nil)
	a := open(t, st, c, "data/journal", on(fs))
	if n := st.count(t, series.SpanDuration, series.Full); n != 3*16 {
		t.Errorf("%d stored, want what the journals hold", n)
	}
	d := a.Damage()
	if len(d) != 1 || d[0].Observations != -1 || !strings.Contains(d[0].Lost, "up to 7") {
		t.Errorf("%+v", d)
	}
	if a.open.number != 6 {
		t.Errorf("goes on with generation %d, want 6", a.open.number)
	}
	crash(a)
	// And with no journal left at all.
	for name := range l {
		if name != ackFile {
			delete(l, name)
		}
	}
	a = open(t, newMemStore(), c, "data/journal", on(l.in(t, "data/journal", "", nil)))
	if d := a.Damage(); a.open.number != 6 || len(d) != 1 || d[0].Observations != -1 {
		t.Errorf("generation %d, %+v", a.open.number, d)
	}
	crash(a)
}

// askedStore says what it was asked.
type askedStore struct {
	*memStore
	asked int
}

func (s *askedStore) WriteTables(context.Context) error {
	s.asked++
	*s.durable = s.flushed["local"]
	return nil
}

func TestKeptJournalsAreBounded(t *testing.T) {
	durable := uint64(0)
	st, c, fs := &askedStore{memStore: newMemStore()}, newClock(), vfs.NewMem()
	st.durable = &durable
	a := open(t, st, c, "data/journal", on(fs), func(o *Options) { o.KeptBytes = 3000 })
	most := int64(0)
	for range 30 {
		send(t, a, c, 100)
		flush(t, a)
		most = max(most, a.keptBytes)
	}
	if st.asked == 0 || st.asked > 20 || most > 3000 {
		t.Errorf("asked %d times in 30 generations, at most %d bytes kept", st.asked, most)
	}
}

// A disk that is full refuses and keeps everything; what a write that failed
// half way left behind is written over.
func TestHalfAWrite(t *testing.T) {
	st, c, mem := newMemStore(), newClock(), vfs.NewMem()
	half := &halfFS{FS: mem}
	a := open(t, st, c, "data/journal", on(half))
	send(t, a, c, 9)
	for range 3 {
		half.fail = true
		b := a.NewBatch()
		b.Observe(a.SpanTarget(&SpanIdentity{Service: "new", Operation: strings.Repeat("x", 300)}), c.now().UnixNano(), 1, 1)
		if _, err := b.Commit(context.Background()); !errors.Is(err, ErrOverloaded) || !errors.Is(err, store.ErrFull) {
			t.Fatalf("got %v", err)
		}
	}
	half.fail = false
	half.mem = mem
	crash(a)
	after := newMemStore()
	b := open(t, after, c, "data/journal", on(mem)) // with the half write at the end
	if n := after.count(t, series.SpanDuration, series.Full); n != 9 || lost(t, b) != 0 {
		t.Errorf("%d replayed, want 9; %+v", n, b.Damage())
	}
	send(t, b, c, 4)
	crash(b)
	b = open(t, after, c, "data/journal", on(mem))
	if n := after.count(t, series.SpanDuration, series.Full); n != 13 || lost(t, b) != 0 {
		t.Errorf("%d replayed, want 13; %+v", n, b.Damage())
	}
}

// halfFS writes half of what it is given, as a disk does that fills up.
type halfFS struct {
	vfs.FS
	mem  vfs.FS
	fail bool
}

func (h *halfFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.Create(name, c)
	return halfFile{f, h}, err
}

type halfFile struct {
	vfs.File
	h *halfFS
}

func (f halfFile) WriteAt(b []byte, at int64) (int, error) {
	if !f.h.fail {
		return f.File.WriteAt(b, at)
	}
	n, _ := f.File.WriteAt(b[:len(b)/2], at)
	return n, syscall.ENOSPC
}

// Whatever call to the file system fails, once, nothing that was acknowledged
// is lost or counted twice.
func TestAnyCallFails(t *testing.T) {
	for at := int32(0); ; at++ {
		st, c, mem := newMemStore(), newClock(), vfs.NewMem()
		acknowledged := uint64(0)
		var calls atomic.Int32 // of the goroutines that write, sync and cut
		inject := errorfs.InjectorFunc(func(errorfs.Op) error {
			if calls.Add(1) == at+1 {
				return errorfs.ErrInjected
			}
			return nil
		})
		run := func(fs vfs.FS) {
			a, err := Open(context.Background(), st, Options{Writer: "local", Dir: "data/journal", FS: fs, Now: c.now, FlushInterval: 1 << 40})
			if err != nil {
				return
			}
			for range 3 {
				for _, n := range []int{3, 11} {
					b := a.NewBatch()
					for i := range n {
						b.Observe(a.SpanTarget(&SpanIdentity{Service: "s", Operation: fmt.Sprint(i)}), c.now().UnixNano(), 1, 1)
					}
					if _, err := b.Commit(context.Background()); err == nil {
						acknowledged += uint64(n)
					}
				}
				a.syncJournals()
				a.Flush(context.Background())
			}
			crash(a)
		}
		fs := errorfs.Wrap(mem, inject)
		run(fs)
		run(fs)
		a := open(t, st, c, "data/journal", on(mem))
		if n := st.count(t, series.SpanDuration, series.Full); n != acknowledged || lost(t, a) != 0 {
			t.Fatalf("call %d: %d stored, %d acknowledged, damage %+v", at, n, acknowledged, a.Damage())
		}
		crash(a)
		if calls.Load() <= at {
			if at < 30 {
				t.Errorf("only %d calls", at)
			}
			return
		}
	}
}

// A damaged journal that cannot be kept in the directory of damaged files is not
// deleted either.
func TestDamagedJournalIsKeptSomewhere(t *testing.T) {
	l, base, _ := crashed(t)
	name := filepath.Base(journalPath("", 3))
	for what, how := range map[string]func(b []byte){
		"all of it": func(b []byte) {
			for i := range b {
				b[i] ^= 0x5a
			}
		},
		"a byte": func(b []byte) { b[len(b)/2] ^= 0x5a },
	} {
		st, c := base.clone(), newClock()
		changed := bytes.Clone(l[name])
		how(changed)
		fs := l.in(t, "data/journal", name, changed)
		full := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if strings.HasPrefix(op.Path, "data/damaged") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return syscall.ENOSPC
			}
			return nil
		}))
		a := open(t, st, c, "data/journal", on(full))
		send(t, a, c, 1)
		flush(t, a)
		a.Close(context.Background())
		kept := false
		for _, b := range readFiles(t, fs, "data/journal") {
			kept = kept || bytes.Equal(b, changed)
		}
		if !kept {
			t.Errorf("%s is damaged: the journal is gone, of which what does not check could be read by other means", what)
		}
		if len(a.Damage()) == 0 {
			t.Errorf("%s is damaged: nothing is said", what)
		}
	}
}
