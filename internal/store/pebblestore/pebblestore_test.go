package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/storetest"
)

const t0 = storetest.T0

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// batch puts values into n consecutive base slots of two series, and a few samples.
func batch(gen uint64, slot int64, n int) *store.Batch {
	b := &store.Batch{Writer: "w", Generation: gen, Resolution: series.Base,
		Series: []series.Series{
			storetest.Span(series.Full, "service", "a", "tenant", fmt.Sprint("t", gen%5)),
			storetest.Span(series.Full, "service", "b"),
			{Family: "queue", Kind: series.Gauge, Labels: labels.FromStrings("q", "a")},
		},
		State: []store.State{{Key: []byte("last"), Value: fmt.Append(nil, gen)}}}
	for i := range n {
		at := slot + int64(i)*10
		b.Points = append(b.Points,
			store.Point{Series: 0, Slot: at, Data: storetest.Dist(0.1, 0.2)},
			store.Point{Series: 1, Slot: at, Data: storetest.Dist(0.3)})
		if i == 0 {
			b.Samples = []store.Samples{{Series: 2, Samples: []series.Sample{{TimeMillis: at * 1000, Value: float64(gen)}}}}
		}
	}
	return b
}

func count(t testing.TB, s store.Store, q store.Query) (n uint64) {
	t.Helper()
	q.Family, q.Schema = series.SpanDuration, 5
	r, err := s.Query(context.Background(), q)
	check(t, err)
	for _, g := range r.Groups {
		for _, p := range g.Points {
			n += p.Hist.Count
		}
	}
	return n
}

func TestReopen(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	twin := storetest.NewTwin()
	for round := range int64(12) {
		s := open(t, Options{FS: fs})
		for i := range int64(4) {
			b := batch(uint64(round*4+i+1), t0+round*1200+i*100, 7)
			check(t, s.Put(ctx, b))
			check(t, twin.Put(ctx, b))
			if round > 6 { // late
				b := batch(uint64(round*4+i+1)+1000, t0+i*10, 3)
				check(t, s.Put(ctx, b))
				check(t, twin.Put(ctx, b))
			}
		}
		if round%3 != 1 {
			check(t, s.Maintain(ctx, time.Unix(t0+round*1500, 0)))
		}
		for _, step := range []int64{0, 10, 60, 600} {
			q := store.Query{Family: series.SpanDuration, Start: t0, End: t0 + 20000, Step: step, Schema: 5, By: []string{"tenant"}}
			got, err := s.Query(ctx, q)
			check(t, err)
			want, err := twin.Query(ctx, q)
			check(t, err)
			if d := storetest.Diff(got, want); d != "" {
				t.Fatalf("round %d, step %d: %s", round, step, d)
			}
		}
		check(t, s.Close())
		if err := s.Put(ctx, batch(9999, t0, 1)); err == nil {
			t.Error("put after close: no error")
		}
		check(t, s.Close())
	}
	s := open(t, Options{FS: fs})
	defer s.Close()
	var state string
	check(t, s.State(ctx, "w", nil, func(k, v []byte) error { state += string(k) + "=" + string(v); return nil }))
	if state != "last=1048" {
		t.Errorf("got state %q, want last=1048", state)
	}
	fams, err := s.Families(ctx)
	check(t, err)
	if len(fams) != 2 {
		t.Errorf("got families %v, want two", fams)
	}
}

// What Put has acknowledged survives a crash at any moment, whole and once;
// rollups and runs under way leave no trace.
func TestCrash(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 12 {
		fs := vfs.NewCrashableMem()
		twin := storetest.NewTwin()
		s := open(t, Options{FS: fs})
		gen := uint64(0)
		var crashed *vfs.MemFS
		for i := range 30 {
			gen++
			back := rng.Int64N(4000)
			b := batch(gen, t0+floorTo(6000+int64(i)*300-back, 10), 5)
			check(t, s.Put(ctx, b))
			check(t, twin.Put(ctx, b))
			if i%5 == 4 {
				check(t, s.Maintain(ctx, time.Unix(t0+6000+int64(i)*300, 0)))
			}
			if i == 10+round {
				break
			}
		}
		crashed = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: round * 9, RNG: rng})
		check(t, s.Close())

		s = open(t, Options{FS: crashed})
		if g, err := s.Flushed(ctx, "w"); err != nil || g != gen {
			t.Fatalf("round %d: flushed %d, %v, want %d", round, g, err, gen)
		}
		for _, now := range []int64{0, t0 + 20000} {
			if now > 0 {
				check(t, s.Maintain(ctx, time.Unix(now, 0)))
			}
			for _, step := range []int64{0, 10, 60, 3600} {
				q := store.Query{Family: series.SpanDuration, Start: t0, End: t0 + 20000, Step: step, Schema: 5, By: []string{"tenant"}}
				got, err := s.Query(ctx, q)
				check(t, err)
				want, _ := twin.Query(ctx, q)
				if d := storetest.Diff(got, want); d != "" {
					t.Fatalf("round %d, step %d: %s", round, step, d)
				}
			}
		}
		check(t, s.Close())
	}
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{FS: vfs.Default, Dir: dir})
	_, err := Open(context.Background(), Options{Dir: dir})
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "stop the other") {
		t.Errorf("second open: got %v, want ErrLocked that names the directory and what to do", err)
	}
	check(t, s.Close())
	s = open(t, Options{FS: vfs.Default, Dir: dir})
	check(t, s.Close())
}

func TestVersion(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, Options{FS: fs})
	check(t, s.Close())
	write := func(content string) {
		f, err := fs.Create("data/"+formatFile, vfs.WriteCategoryUnspecified)
		check(t, err)
		_, err = f.Write([]byte(content))
		check(t, errors.Join(err, f.Close()))
	}
	write("tailscope pebblestore 99\n")
	if _, err := Open(context.Background(), Options{FS: fs, Dir: "data"}); !errors.Is(err, store.ErrVersion) {
		t.Errorf("a later format: got %v, want ErrVersion", err)
	}
	check(t, errors.Join(fs.Remove("data/"+formatFile), fs.Remove("data/"+identityFile)))
	if _, err := Open(context.Background(), Options{FS: fs, Dir: "data"}); !errors.Is(err, store.ErrVersion) {
		t.Errorf("a database without a format file: got %v, want ErrVersion", err)
	}
	write(formatContent)
	s = open(t, Options{FS: fs})
	check(t, s.Close())
}

func TestFull(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	s := open(t, Options{FS: fs, MinFreeBytes: 1 << 20})
	defer s.Close()
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 10 << 20, TotalBytes: 20 << 20})
	check(t, s.Put(ctx, batch(1, t0, 5)))
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 19, TotalBytes: 20 << 20})
	if err := s.Put(ctx, batch(2, t0, 5)); !errors.Is(err, store.ErrFull) {
		t.Errorf("nearly full disk: got %v, want ErrFull", err)
	}
	if n := count(t, s, store.Query{Start: t0, End: t0 + 100}); n != 15 {
		t.Errorf("reading on a full disk: got count %d, want 15", n)
	}
	if g, _ := s.Flushed(ctx, "w"); g != 1 {
		t.Errorf("got flushed %d after a refused put, want 1", g)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 10 << 20, TotalBytes: 20 << 20})
	check(t, s.Put(ctx, batch(2, t0, 5)))
	if n := count(t, s, store.Query{Start: t0, End: t0 + 100}); n != 30 {
		t.Errorf("after space was freed: got count %d, want 30", n)
	}
}

// A file system that fails leaves nothing half-done: what Put acknowledged is
// there when the store is opened again, once, and nothing else is. Pebble ends
// the process when its log or manifest cannot be written, so the failing part
// runs in a process of its own, which is this test again.
func TestFailingWrites(t *testing.T) {
	if dir := os.Getenv("PEBBLESTORE_FAILING_DIR"); dir != "" {
		failingWrites(t, dir)
		return
	}
	for _, after := range []int{4, 9, 16, 40, 90} {
		t.Run(fmt.Sprint("after=", after), func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0], "-test.run=^TestFailingWrites$")
			cmd.Env = append(os.Environ(), "PEBBLESTORE_FAILING_DIR="+dir, fmt.Sprint("PEBBLESTORE_FAILING_AFTER=", after))
			out, _ := cmd.Output()
			acknowledged := uint64(strings.Count(string(out), "acknowledged\n"))
			if !strings.Contains(string(out), "fault\n") {
				t.Fatalf("the fault was not reached: %s", out)
			}
			s := open(t, Options{FS: vfs.Default, Dir: dir})
			defer s.Close()
			g, err := s.Flushed(context.Background(), "w")
			check(t, err)
			if g < acknowledged || g > acknowledged+1 {
				t.Errorf("got flushed %d, acknowledged were %d", g, acknowledged)
			}
			if n := count(t, s, store.Query{Start: t0, End: t0 + 3600}); n != g*15 {
				t.Errorf("got count %d with %d generations, want %d", n, g, g*15)
			}
			check(t, s.Maintain(context.Background(), time.Unix(t0+90000, 0)))
			if n := count(t, s, store.Query{Start: t0, End: t0 + 3600}); n != g*15 {
				t.Errorf("got count %d with %d generations after compaction, want %d", n, g, g*15)
			}
		})
	}
}

func failingWrites(t *testing.T, dir string) {
	after, err := strconv.Atoi(os.Getenv("PEBBLESTORE_FAILING_AFTER"))
	check(t, err)
	var n atomic.Int64
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpRename:
			if c := n.Add(1); c >= int64(after) { // and ever after, as a full disk would
				if c == int64(after) {
					fmt.Println("fault")
				}
				return fmt.Errorf("injected: %w", syscall.ENOSPC)
			}
		}
		return nil
	}))
	s, err := Open(context.Background(), Options{FS: fs, Dir: dir, MemtableBytes: 1 << 20})
	if err != nil {
		return
	}
	for g := uint64(1); g < 200; g++ {
		if err := s.Put(context.Background(), batch(g, t0+int64(g)*10, 5)); err != nil {
			os.Exit(1)
		}
		fmt.Println("acknowledged")
		if g%7 == 0 {
			// Pebble tries a flush that fails again until it succeeds, and a
			// compaction waits for it.
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			err := s.Maintain(ctx, time.Unix(t0+int64(g)*600, 0))
			cancel()
			if err != nil {
				os.Exit(1)
			}
		}
	}
}

func TestRetention(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{Retention: [4]time.Duration{2 * time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour}, SampleAge: 24 * time.Hour})
	defer s.Close()
	const day = 24 * 3600
	gen := uint64(0)
	for at := int64(0); at < 2*day; at += 100 {
		gen++
		check(t, s.Put(ctx, batch(gen, t0+at, 10)))
		if at%1800 == 0 {
			check(t, s.Maintain(ctx, time.Unix(t0+at, 0)))
		}
	}
	now := int64(t0 + 2*day)
	check(t, s.Maintain(ctx, time.Unix(now, 0)))
	// Nothing is lost from the totals, down to the coarsest tier.
	if n, want := count(t, s, store.Query{Start: t0, End: now}), gen*30; n != want {
		t.Errorf("all: got count %d, want %d", n, want)
	}
	for _, tt := range []struct {
		name       string
		start, end int64
		from, to   int64
		resolution series.Resolution
	}{
		{"base slots", now - 3600 + 10, now - 3600 + 20, now - 3600 + 10, now - 3600 + 20, series.Base},
		{"minutes", now - 4*3600 + 10, now - 4*3600 + 20, now - 4*3600, now - 4*3600 + 60, series.Minute},
		{"ten minutes", now - 13*3600 + 70, now - 13*3600 + 80, now - 13*3600, now - 13*3600 + 600, series.TenMin},
		{"hours", now - 40*3600 + 700, now - 40*3600 + 3800, now - 40*3600, now - 38*3600, series.Hour},
		{"from hours to now", now - 40*3600 + 10, now, now - 40*3600, now, series.Hour},
	} {
		r, err := s.Query(ctx, store.Query{Family: series.SpanDuration, Schema: 5, Start: tt.start, End: tt.end})
		check(t, err)
		if r.Start != tt.from || r.End != tt.to || r.Resolution != tt.resolution {
			t.Errorf("%s: got [%d, %d) of %d s slots, want [%d, %d) of %d s", tt.name, r.Start-now, r.End-now, r.Resolution, tt.from-now, tt.to-now, tt.resolution)
		}
		if want := uint64(tt.to-tt.from) / 10 * 3; r.Groups[0].Points[0].Hist.Count != want {
			t.Errorf("%s: got count %d, want %d", tt.name, r.Groups[0].Points[0].Hist.Count, want)
		}
	}
	// Late data for slots that have expired goes to the finest tier that is kept.
	for i, age := range []int64{3 * 3600, 10 * 3600, 30 * 3600} {
		before := count(t, s, store.Query{Start: t0, End: now})
		for range 2 { // once, and again
			check(t, s.Put(ctx, batch(gen+uint64(i)+1, now-age, 6)))
			if n := count(t, s, store.Query{Start: t0, End: now}); n != before+18 {
				t.Errorf("%d s late: got count %d, want %d", age, n, before+18)
			}
		}
	}
	// And what no tier keeps is dropped.
	check(t, s.Put(ctx, batch(gen+10, t0-30*day, 6)))
	if got := s.Stats().Expired; got == 0 {
		t.Error("points older than everything were not counted")
	}
	ss, err := s.Samples(ctx, store.SampleQuery{Family: "queue", StartMillis: 0, EndMillis: now * 1000})
	check(t, err)
	first := ss[0].Samples[0].TimeMillis / 1000
	if first < now-25*3600 || first > now-23*3600 {
		t.Errorf("the first sample is %d s old, want about a day", now-first)
	}
	// The index goes with the last tier.
	check(t, s.Maintain(ctx, time.Unix(now+10*day, 0)))
	if names, err := s.LabelNames(ctx, "", series.Full, nil, 0, now*2); err != nil || len(names) != 0 {
		t.Errorf("after everything has expired: got labels %v, %v", names, err)
	}
	if n := count(t, s, store.Query{Start: t0, End: now}); n != 0 {
		t.Errorf("after everything has expired: got count %d", n)
	}
}

func TestRetentionBySize(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{MaxBytes: 600 << 10})
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	b := &store.Batch{Writer: "w", Resolution: series.Base}
	for i := range 50 {
		b.Series = append(b.Series, storetest.Span(series.Full, "service", fmt.Sprint(i)))
	}
	values := make([]float64, 40)
	total := uint64(0)
	const hours = 20
	for at := int64(0); at < hours*3600; at += 60 {
		b.Generation++
		b.Points = b.Points[:0]
		for i := range b.Series {
			for k := range values {
				values[k] = rng.ExpFloat64()
			}
			b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: t0 + at, Data: storetest.Dist(values...)})
			total += uint64(len(values))
		}
		if err := s.Put(ctx, b); err != nil {
			t.Fatalf("%v: %v", err, s.db.Metrics())
		}
		if at%600 == 0 {
			check(t, s.db.Flush())
			check(t, s.Maintain(ctx, time.Unix(t0+at, 0)))
		}
	}
	check(t, s.db.Flush())
	check(t, s.Maintain(ctx, time.Unix(t0+hours*3600, 0)))
	if s.floor[0] <= t0 {
		t.Error("no base slots were dropped")
	}
	if s.floor[3] > s.floor[2] || s.floor[2] > s.floor[1] || s.floor[1] > s.floor[0] {
		t.Errorf("got floors %v, the finest must go first", s.floor)
	}
	if n := count(t, s, store.Query{Start: t0, End: t0 + hours*3600}); s.floor[1] <= t0 && n != total {
		t.Errorf("got count %d in what is left, want %d", n, total)
	}
	used, err := s.db.EstimateDiskUsage(partPrefix(nil, 0, max(s.floor[0], 0)), []byte{0xff})
	check(t, err)
	if used > 1200<<10 {
		t.Errorf("%d bytes are left, the bound is %d", used, s.opts.MaxBytes)
	}
}

func TestSampleCount(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{SampleCount: 1000})
	defer s.Close()
	sr := series.Series{Family: "queue", Kind: series.Gauge, Labels: labels.FromStrings("q", "a")}
	rare := series.Series{Family: "rare", Kind: series.Gauge, Labels: labels.FromStrings("q", "a")}
	for h := range int64(20) {
		var ss []series.Sample
		for i := range int64(360) {
			ss = append(ss, series.Sample{TimeMillis: (t0 + h*3600 + i*10) * 1000, Value: float64(i)})
		}
		check(t, s.Put(ctx, &store.Batch{Writer: "w", Generation: uint64(h + 1), Series: []series.Series{sr, rare},
			Samples: []store.Samples{{Series: 0, Samples: ss}, {Series: 1, Samples: ss[:1]}}}))
		check(t, s.Maintain(ctx, time.Unix(t0+h*3600, 0)))
	}
	check(t, s.Maintain(ctx, time.Unix(t0+22*3600, 0)))
	n := func(family string) int {
		ss, err := s.Samples(ctx, store.SampleQuery{Family: family, StartMillis: 0, EndMillis: t0 * 2000})
		check(t, err)
		return len(ss[0].Samples)
	}
	if got := n("queue"); got < 1000 || got >= 1000+2*360 {
		t.Errorf("got %d samples, want 1000 and at most two hours more", got)
	}
	if got := n("rare"); got != 20 {
		t.Errorf("got %d samples of a rare series, want all 20", got)
	}
}

// Enough series and points for several chunks, blocks and batches of each kind.
func TestManySeries(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	defer s.Close()
	s.rollSeries, s.compactBatch = 100, 700
	twin := storetest.NewTwin()
	rng := rand.New(rand.NewPCG(3, 3))
	var ss []series.Series
	for i := range 700 {
		ss = append(ss, storetest.Span(series.View(i%2)*series.Total, "service", fmt.Sprint(i%3), "operation", fmt.Sprint(i%7), "tenant", fmt.Sprint(i)))
	}
	long := make([]float64, 400)
	for at := int64(0); at < 2*3600; at += 200 {
		b := &store.Batch{Writer: "w", Generation: uint64(at/10 + 1), Resolution: series.Base, Series: ss}
		for i := range ss {
			if rng.IntN(3) == 0 {
				continue
			}
			data := storetest.Dist(rng.ExpFloat64(), float64(rng.IntN(1e9))/1e9)
			if rng.IntN(50) == 0 {
				for k := range long {
					long[k] = rng.ExpFloat64()
				}
				data = storetest.Dist(long...)
			}
			b.Points = append(b.Points, store.Point{Series: uint32(i), Slot: t0 + at, Data: data})
		}
		check(t, errors.Join(s.Put(ctx, b), twin.Put(ctx, b)))
		check(t, s.Maintain(ctx, time.Unix(t0+at, 0)))
	}
	for _, now := range []int64{7300, 86400 * 2} {
		check(t, s.Maintain(ctx, time.Unix(t0+now, 0)))
		for _, step := range []int64{0, 10, 60, 600, 3600} {
			for _, measure := range []store.Measure{store.Buckets, store.Moments} {
				for view := series.Full; view <= series.Total; view += series.Total {
					q := store.Query{Family: series.SpanDuration, View: view, Start: t0 + 400, End: t0 + 7000, Step: step, Schema: 5, Measure: measure, By: []string{"operation"},
						Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "tenant", ".*[1-4]")}}
					got, err := s.Query(ctx, q)
					check(t, err)
					want, _ := twin.Query(ctx, q)
					if d := storetest.Diff(got, want); d != "" {
						t.Fatalf("at %d, step %d, view %d: %s", now, step, view, d)
					}
				}
			}
		}
	}
	if blocks := s.Stats().Settled; blocks == 0 {
		t.Error("nothing was compacted")
	}
}

// A question for more than one answer may hold is refused; the same data in
// fewer steps is answered.
func TestAnswersAreBounded(t *testing.T) {
	ctx := context.Background()
	const bound = 9 << 18
	s := open(t, Options{AnswerBytes: bound})
	defer s.Close()
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base}
	for i := range uint32(50) {
		b.Series = append(b.Series, storetest.Span(series.Full, "service", fmt.Sprint(i)), series.Series{Family: "queue", Kind: series.Gauge, Labels: labels.FromStrings("q", fmt.Sprint(i))})
		samples := make([]series.Sample, 3600)
		for k := range samples {
			samples[k].TimeMillis = (t0 + int64(k)) * 1000
		}
		b.Samples = append(b.Samples, store.Samples{Series: 2*i + 1, Samples: samples})
		for k := range int64(100) {
			b.Points = append(b.Points, store.Point{Series: 2 * i, Slot: t0 + 10*k, Data: storetest.Dist(0.1)})
		}
	}
	check(t, s.Put(ctx, b))
	for _, measure := range []store.Measure{store.Buckets, store.Moments} {
		q := store.Query{Family: series.SpanDuration, Start: t0, End: t0 + 3600, Step: 10, Each: true, Schema: 5, Measure: measure}
		// Moments take less than buckets do.
		if _, err := s.Query(ctx, q); errors.Is(err, store.ErrTooMany) != (measure == store.Buckets) {
			t.Errorf("measure %d: %v", measure, err)
		}
		q.Step = 600
		_, err := s.Query(ctx, q)
		check(t, err)
	}
	if _, err := s.Samples(ctx, store.SampleQuery{Family: "queue", StartMillis: t0 * 1000, EndMillis: (t0 + 3600) * 1000}); !errors.Is(err, store.ErrTooMany) {
		t.Errorf("samples: %v", err)
	}
	_, err := s.Samples(ctx, store.SampleQuery{Family: "queue", StartMillis: t0 * 1000, EndMillis: (t0 + 100) * 1000})
	check(t, err)
}

// What a question has is bounded by its budget, whatever it reads: figures,
// samples, series and the values of labels.
func TestQuestionsHoldNoMoreThanTheirBudget(t *testing.T) {
	s := open(t, Options{})
	defer s.Close()
	b := &store.Batch{Writer: "w", Generation: 1, Resolution: series.Base}
	for i := range uint32(500) {
		b.Series = append(b.Series, storetest.Span(series.Full, "service", fmt.Sprint(i)), series.Series{Family: "queue", Kind: series.Gauge, Labels: labels.FromStrings("q", fmt.Sprint(i))})
		samples := make([]series.Sample, 100)
		for k := range samples {
			samples[k].TimeMillis = (t0 + int64(k)) * 1000
		}
		b.Samples = append(b.Samples, store.Samples{Series: 2*i + 1, Samples: samples})
		for k := range int64(10) {
			b.Points = append(b.Points, store.Point{Series: 2 * i, Slot: t0 + 10*k, Data: storetest.Dist(0.1)})
		}
	}
	check(t, s.Put(context.Background(), b))
	all := store.NewMemory(1 << 30)
	spans := store.Query{Family: series.SpanDuration, Start: t0, End: t0 + 3600, Each: true, Schema: 5}
	for _, c := range []struct {
		name     string
		little   int64 // bytes that do not do
		question func(context.Context) error
	}{
		{"a histogram of each series", 300 << 10, func(ctx context.Context) error { _, err := s.Query(ctx, spans); return err }},
		{"a histogram of each slot", 2 << 20, func(ctx context.Context) error {
			q := spans
			q.Step = 10
			_, err := s.Query(ctx, q)
			return err
		}},
		{"samples", 500 << 10, func(ctx context.Context) error {
			_, err := s.Samples(ctx, store.SampleQuery{Family: "queue", StartMillis: t0 * 1000, EndMillis: (t0 + 3600) * 1000})
			return err
		}},
		{"values of a label", 40 << 10, func(ctx context.Context) error {
			_, err := s.LabelValues(ctx, series.SpanDuration, series.Full, "service", nil, t0, t0+3600)
			return err
		}},
	} {
		budget := all.Question(c.little)
		var want *store.BudgetError
		if err := c.question(store.WithBudget(context.Background(), budget)); !errors.As(err, &want) {
			t.Errorf("%s with %d bytes: %v, want a BudgetError", c.name, c.little, err)
		}
		budget.Close()
		budget = all.Question(10 * c.little)
		if err := c.question(store.WithBudget(context.Background(), budget)); err != nil || budget.Used() == 0 {
			t.Errorf("%s with ten times as much: %v, %d bytes used", c.name, err, budget.Used())
		}
		budget.Close()
	}
	if all.Used() != 0 {
		t.Errorf("%d bytes are held after all", all.Used())
	}
}

// A question about many days holds no more of their indexes than the bound,
// and none is missed.
func TestIndexesAreBounded(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{IndexBytes: 256 << 10})
	defer s.Close()
	const days = 30
	for day := range int64(days) {
		b := &store.Batch{Writer: "w", Generation: uint64(day + 1), Resolution: series.Base}
		for i := range uint32(500) {
			b.Series = append(b.Series, storetest.Span(series.Full, "service", "a", "tenant", fmt.Sprint(day, "-", i)))
			b.Points = append(b.Points, store.Point{Series: i, Slot: t0 + day*secondsPerDay, Data: storetest.Dist(0.1)})
		}
		check(t, s.Put(ctx, b))
	}
	held := func() int { s.write.Lock(); defer s.write.Unlock(); return len(s.units.m) }
	check(t, s.Maintain(ctx, time.Unix(t0, 0)))
	before := held()
	if before < recentPuts || before > 2*recentPuts {
		t.Errorf("%d units are held after Puts to one each", before)
	}
	for gen := range uint64(2 * recentPuts) { // of nothing
		check(t, s.Put(ctx, &store.Batch{Writer: "w", Generation: days + 1 + gen}))
	}
	for range 3 {
		tenants, err := s.LabelValues(ctx, series.SpanDuration, series.Full, "tenant", nil, t0, t0+days*secondsPerDay)
		check(t, err)
		if len(tenants) != 500*days {
			t.Errorf("%d tenants, want %d", len(tenants), 500*days)
		}
		if n := s.Stats().IndexBytes; n > 256<<10 {
			t.Errorf("%d bytes of indexes are held", n)
		}
	}
}

func TestDirect(t *testing.T) {
	ctx := context.Background()
	s := open(t, Options{})
	defer s.Close()
	twin := storetest.NewTwin()
	a := storetest.Span(series.Full, "service", "a")
	put := func(gen uint64, r series.Resolution, slots ...int64) {
		b := &store.Batch{Writer: "w", Generation: gen, Resolution: r, Series: []series.Series{a}}
		for _, at := range slots {
			b.Points = append(b.Points, store.Point{Slot: t0 + at, Data: storetest.Dist(1)})
		}
		check(t, errors.Join(s.Put(ctx, b), twin.Put(ctx, b)))
	}
	put(1, series.Base, 0, 10, 60, 3600, 4000)
	put(2, series.Minute, 0, 60, 600, 3660)
	put(3, series.TenMin, 0, 600, 3600)
	put(4, series.Hour, 0, 3600)
	for _, now := range []int64{0, 100, 700, 4000, 9000, 30 * 3600} {
		check(t, s.Maintain(ctx, time.Unix(t0+now, 0)))
		put(10+uint64(now), series.Minute, 60, 120, 7200)
		put(11+uint64(now), series.TenMin, 600)
		for _, q := range []store.Query{
			{Start: t0, End: t0 + 4*3600}, {Start: t0, End: t0 + 4*3600, Step: 3600}, {Start: t0, End: t0 + 4*3600, Step: 7200},
		} {
			q.Family, q.Schema = series.SpanDuration, 5
			got, err := s.Query(ctx, q)
			check(t, err)
			want, _ := twin.Query(ctx, q)
			if d := storetest.Diff(got, want); d != "" {
				t.Errorf("at %d, step %d: %s", now, q.Step, d)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no directory":    {},
		"short retention": {Dir: "d", Retention: [4]time.Duration{time.Minute}},
		"falling":         {Dir: "d", Retention: [4]time.Duration{48 * time.Hour, 24 * time.Hour}},
	} {
		o.FS = vfs.NewMem()
		if s, err := Open(context.Background(), o); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		}
	}
}
