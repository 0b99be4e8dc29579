package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/benchmarks/check"
	"tailscope/benchmarks/report"
	"tailscope/internal/guard/check/expr"
	"tailscope/internal/guard/check/history"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
)

const checkText = `The threshold avg(x[-10M], x[-20M], x[-30M], x[-40M], x[-60M], x[-90M], x[-120M], x[-150M], x[-180M]) of each service, once ` +
	`a minute of simulated time, over 15,000 samples of each, one a second. In between the minute's samples are put as the program puts ` +
	`them, every ten seconds and with the points of slots, and the store is maintained. Tailscope looks up through history and expr in a store on disk; ` +
	`Redis is asked over a socket of the file system, by a client in this process, for the same moments, and every answer is held against the truth. ` +
	`Figures are of one threshold: its nine look-ups. CPU is that of both processes. ` +
	`Linear scans are measured on one service of each round, searches of lists on ten.`

func checkBench(ctx context.Context, o *options, r *report.Report) error {
	type size struct {
		name     string
		services int
		minutes  int // of a round
		whole    bool
	}
	points := 15000
	for _, s := range []size{
		{"10 services", 10, 60, false},
		{"1,000 services", 1000, 5, false},
		{"1,000 services, values of 64 bits", 1000, 5, true},
	} {
		if !o.wants(s.name) {
			continue
		}
		if o.quick {
			s.minutes, s.services = 3, min(s.services, 50)
		}
		b := &checkRun{o: o, sec: r.Section(s.name+" × 15,000", checkText), services: s.services, minutes: s.minutes}
		if err := b.run(ctx, points, s.whole); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// checkRun is one size of the benchmark.
type checkRun struct {
	o        *options
	sec      *report.Section
	services int
	minutes  int

	sources []*check.Source
	all     [][]series.Sample // by service, the truth
	now     int64             // Unix seconds: samples are there until then
	keep    int

	st    *history.Cache
	batch store.Batch
	gen   uint64
	redis *check.Redis

	programs []*expr.Program
	view     expr.History
}

func (b *checkRun) run(ctx context.Context, points int, whole bool) (err error) {
	b.keep = points
	dir, err := os.MkdirTemp(b.o.tmp, "check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.batch = store.Batch{Writer: "bench", Resolution: series.Base}
	for i := range b.services {
		b.sources = append(b.sources, check.NewSource(i, whole))
		name := fmt.Sprintf("c%04d", i)
		b.batch.Series = append(b.batch.Series, series.Series{Family: "check_value", Kind: series.Gauge,
			Labels: labels.FromStrings("check", name, "host", "erpserver", "item", name, "service", "orders")})
		p, err := expr.Parse(checkThreshold(fmt.Sprintf(`{check=%q}`, name)), expr.Options{})
		if err != nil {
			return err
		}
		b.programs = append(b.programs, p)
	}
	for i := range b.batch.Series {
		id, _ := b.batch.Series[i].ID(nil)
		b.batch.IDs = append(b.batch.IDs, id)
	}
	b.all = make([][]series.Sample, b.services)
	b.now = 1_789_948_800 + 3600
	open := func() error {
		st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: filepath.Join(dir, "store")})
		if err != nil {
			return err
		}
		b.st = history.NewCache(st, history.CacheOptions{})
		b.view = history.New(history.Options{Cache: b.st, Now: func() time.Time { return time.Unix(b.now, 0) }}).For(history.ForOptions{})
		return nil
	}
	if err := open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.st.Close()) }()
	if b.o.peers {
		if b.redis, err = check.StartRedis(ctx, dir); errors.Is(err, check.ErrNoRedis) {
			b.o.logf("%v: measured without", err)
		} else if err != nil {
			return err
		} else {
			defer func() { err = errors.Join(err, b.redis.Close()) }()
		}
	}
	b.o.logf("put %d services × %d", b.services, points)
	var cpu time.Duration
	for n := 0; n < points; n += 60 {
		c, err := b.minute(ctx)
		if err != nil {
			return err
		}
		cpu += c
	}
	b.sec.Add("putting a sample, with nothing looked up", "tailscope, CPU", "µs", 0, micros(cpu)/float64(points*b.services))
	// As after a restart: nothing is in memory.
	if err := errors.Join(b.st.Close(), open()); err != nil {
		return err
	}
	cold, _, err := b.measure(func(i int) error { return b.evaluate(ctx, i) }, b.services, false)
	if err != nil {
		return err
	}
	b.sec.Add("the first after a start", "tailscope", "µs", 0, cold)
	for rep := range b.o.reps {
		if err := b.round(ctx, rep); err != nil {
			return err
		}
	}
	f := b.sec.Add("samples in memory", "tailscope", "MiB", 0, float64(b.st.Bytes())/(1<<20))
	f.Note = fmt.Sprintf("%.2f bytes a sample of the three hours that are asked for; bounded, 128 MiB unless set otherwise", float64(b.st.Bytes())/float64(b.services)/10800)
	if b.redis != nil {
		u, err := b.redis.Usage()
		if err != nil {
			return err
		}
		b.sec.Add("resident, lists and sorted sets", "redis", "MiB", 0, float64(u.ResidentNow)/(1<<20))
		b.ratios()
	}
	return nil
}

// ratios notes how Tailscope stands to the best of Redis' ways.
func (b *checkRun) ratios() {
	for _, what := range []string{"nine look-ups", "nine look-ups, CPU"} {
		var own *report.Figure
		var best *report.Figure
		for _, f := range b.sec.Figures {
			switch {
			case f.What != what:
			case f.Who == "tailscope":
				own = f
			case strings.HasPrefix(f.Who, "redis") && (best == nil || f.Median() < best.Median()):
				best = f
			}
		}
		if own != nil && best != nil {
			own.Note = fmt.Sprintf("%s takes %.1f times as long", best.Who, best.Median()/own.Median())
		}
	}
}

func checkThreshold(x string) string {
	var args []string
	for _, s := range check.Offsets {
		args = append(args, fmt.Sprintf("%s[-%dM]", x, s/60))
	}
	return "avg(" + strings.Join(args, ", ") + ")"
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// minute lets a minute of samples arrive, and returns what they cost here.
func (b *checkRun) minute(ctx context.Context) (cpu time.Duration, err error) {
	fresh := make([][]series.Sample, b.services)
	for range 6 {
		b.gen++
		b.batch.Generation = b.gen
		b.batch.Samples, b.batch.Points = b.batch.Samples[:0], b.batch.Points[:0]
		for i := range b.services {
			from := len(b.all[i])
			var n series.Number
			for s := b.now; s < b.now+10; s++ {
				v := b.sources[i].Next(s)
				b.all[i] = append(b.all[i], v)
				n.Merge(series.Number{Count: 1, Sum: v.Value, Min: v.Value, Max: v.Value, Last: v.Value, LastTimeMillis: v.TimeMillis})
			}
			ss := b.all[i][from:len(b.all[i]):len(b.all[i])]
			fresh[i] = append(fresh[i], ss...)
			b.batch.Samples = append(b.batch.Samples, store.Samples{Series: uint32(i), Samples: ss})
			b.batch.Points = append(b.batch.Points, store.Point{Series: uint32(i), Slot: b.now, Data: store.AppendNumber(nil, n)})
		}
		b.now += 10
		begin := ownCPU()
		if err := b.st.Put(ctx, &b.batch); err != nil {
			return cpu, err
		}
		cpu += ownCPU() - begin
	}
	begin := ownCPU()
	if err := b.st.Maintain(ctx, time.Unix(b.now, 0)); err != nil {
		return cpu, err
	}
	cpu += ownCPU() - begin
	for i, ss := range fresh {
		if b.redis != nil {
			if err := b.redis.Push(i, ss, b.keep); err != nil {
				return cpu, err
			}
		}
		if n := len(b.all[i]); n > 2*b.keep {
			b.all[i] = slices.Clone(b.all[i][n-b.keep:])
		}
	}
	return cpu, nil
}

// truth searches the samples in memory.
func (b *checkRun) truth(i int, t int64) series.Sample {
	ss := b.all[i]
	k, _ := slices.BinarySearchFunc(ss, t, func(v series.Sample, t int64) int { return int(v.TimeMillis - t) })
	if k == len(ss) || k > 0 && t-ss[k-1].TimeMillis <= ss[k].TimeMillis-t {
		k--
	}
	return ss[k]
}

func (b *checkRun) evaluate(ctx context.Context, i int) error {
	got, err := b.programs[i].Eval(ctx, b.view, time.Unix(b.now, 0), expr.EvalOptions{})
	if err != nil {
		return err
	}
	var sum float64
	for _, s := range check.Offsets {
		sum += b.truth(i, (b.now-s)*1000).Value
	}
	if want := sum / 9; got.Null || max(got.Value-want, want-got.Value) > 1e-9*want {
		return fmt.Errorf("service %d at %d: got %v, want %v", i, b.now, got, want)
	}
	return nil
}

// measure calls fn for the first n services, and returns the microseconds, and
// those of CPU here and in Redis, that each call took.
func (b *checkRun) measure(fn func(i int) error, n int, redis bool) (wall, cpu float64, err error) {
	other := func() (time.Duration, error) {
		if !redis {
			return 0, nil
		}
		u, err := b.redis.Usage()
		return u.CPU(), err
	}
	r0, err := other()
	if err != nil {
		return 0, 0, err
	}
	c0, begin := ownCPU(), time.Now()
	for i := range n {
		if err := fn(i); err != nil {
			return 0, 0, err
		}
	}
	took, c1 := time.Since(begin), ownCPU()
	r1, err := other()
	return micros(took) / float64(n), micros(c1-c0+r1-r0) / float64(n), err
}

// way is one way to look nine samples up.
type way struct {
	who    string
	most   int // services of a round
	target float64
	look   func(i int, ts []int64, dst []series.Sample) ([]series.Sample, error)
	wall   float64
	cpu    float64
	n      int
}

func (b *checkRun) ways(ctx context.Context) []*way {
	each := func(look func(int, int64) (series.Sample, error)) func(int, []int64, []series.Sample) ([]series.Sample, error) {
		return func(i int, ts []int64, dst []series.Sample) ([]series.Sample, error) {
			for _, t := range ts {
				v, err := look(i, t)
				if err != nil {
					return dst, err
				}
				dst = append(dst, v)
			}
			return dst, nil
		}
	}
	var buf []expr.Sample
	all := []*way{
		{who: "tailscope", most: b.services, target: 10, look: func(i int, _ []int64, dst []series.Sample) ([]series.Sample, error) {
			at := time.Unix(b.now, 0)
			buf = buf[:0]
			var err error
			for _, s := range b.programs[i].Selectors() {
				if buf, err = b.view.Look(ctx, s, at, buf); err != nil {
					return dst, err
				}
			}
			for _, v := range buf {
				dst = append(dst, series.Sample{TimeMillis: v.Time.UnixMilli(), Value: v.Value})
			}
			return dst, nil
		}},
		{who: "a sorted slice in memory", most: b.services, look: each(func(i int, t int64) (series.Sample, error) { return b.truth(i, t), nil })},
	}
	if b.redis != nil {
		all = append(all,
			&way{who: "redis, sorted set, pipelined", most: b.services, look: b.redis.Pipelined},
			&way{who: "redis, sorted set", most: min(b.services, 100), look: each(b.redis.Sorted)},
			&way{who: "redis, list, binary search", most: 10, look: each(b.redis.Binary)},
			&way{who: "redis, list, linear scan", most: 1, look: each(b.redis.Linear)})
	}
	return all
}

// round goes through some minutes, in each of which every way takes its turn.
func (b *checkRun) round(ctx context.Context, rep int) error {
	runtime.GC()
	ways := b.ways(ctx)
	var putting time.Duration
	var evalWall, evalCPU float64
	for minute := range b.minutes {
		c, err := b.minute(ctx)
		if err != nil {
			return err
		}
		putting += c
		for k := range ways {
			w := ways[(k+minute)%len(ways)]
			if w.most == 1 && minute > 0 {
				continue
			}
			var got []series.Sample
			var ts [9]int64
			for k, s := range check.Offsets {
				ts[k] = (b.now - s) * 1000
			}
			got = make([]series.Sample, 0, 9*w.most)
			wall, cpu, err := b.measure(func(i int) (err error) {
				got, err = w.look(i, ts[:], got)
				return err
			}, w.most, strings.HasPrefix(w.who, "redis"))
			if err != nil {
				return fmt.Errorf("%s: %w", w.who, err)
			}
			for k, v := range got {
				if want := b.truth(k/9, ts[k%9]); v != want {
					return fmt.Errorf("%s: sample %d of service %d is %v, want %v", w.who, k%9, k/9, v, want)
				}
			}
			w.wall, w.cpu, w.n = w.wall+wall, w.cpu+cpu, w.n+1
		}
		wall, cpu, err := b.measure(func(i int) error {
			_, err := b.programs[i].Eval(ctx, b.view, time.Unix(b.now, 0), expr.EvalOptions{})
			return err
		}, b.services, false)
		if err != nil {
			return err
		}
		evalWall, evalCPU = evalWall+wall, evalCPU+cpu
	}
	for _, w := range ways {
		b.sec.Add("nine look-ups", w.who, "µs", w.target, w.wall/float64(w.n))
	}
	for _, w := range ways {
		b.sec.Add("nine look-ups, CPU", w.who, "µs", 0, w.cpu/float64(w.n))
	}
	b.sec.Add("the threshold evaluated", "tailscope", "µs", 0, evalWall/float64(b.minutes))
	b.sec.Add("the threshold evaluated, CPU", "tailscope", "µs", 0, evalCPU/float64(b.minutes))
	b.sec.Add("putting a sample", "tailscope, CPU", "µs", 0, micros(putting)/float64(b.minutes*60*b.services))
	b.o.logf("%d/%d tailscope %.2f µs", rep+1, b.o.reps, ways[0].wall/float64(ways[0].n))
	return nil
}
