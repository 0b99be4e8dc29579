package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/benchmarks/report"
	"tailscope/hist"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
	"tailscope/internal/store/pebblestore"
	"tailscope/test/program"
)

// The data: 10 services × 100 tenants, so that a service is 100 series.
const (
	storeFamily   = "request_seconds"
	storeServices = 10
	storeTenants  = 100
	storeSeries   = storeServices * storeTenants
	storeHours    = 6
	oneService    = "svc-3"
)

func serviceOf(i int) string { return fmt.Sprintf("svc-%d", i/storeTenants) }
func tenantOf(i int) string  { return fmt.Sprintf("tenant-%03d", i%storeTenants) }

// shape makes the observations of one kind of load.
type shape struct {
	what     string
	series   int
	slots    int
	fewest   int // observations of a point
	most     int
	presence float64 // share of slots in which a series is seen
	each     bool    // the observations themselves are kept too
}

const oneOperation = "GET /api/v1/orders/{id}"

// all returns the series.
func (sh shape) all() []series.Series {
	out := make([]series.Series, sh.series)
	for i := range out {
		service, tenant := serviceOf(i), tenantOf(i)
		if sh.series != storeSeries { // many tenants of one service
			service, tenant = "svc-0", fmt.Sprintf("tenant-%05d", i)
		}
		out[i] = series.Series{Family: storeFamily, Kind: series.Distribution,
			Labels: labels.FromStrings("service", service, "operation", oneOperation, "tenant", tenant)}
	}
	return out
}

// storeBench measures bytes per point and the latency of questions.
func storeBench(ctx context.Context, o *options, r *report.Report) error {
	slots := storeHours * 360
	if o.quick {
		slots = 360
	}
	end := time.Now().Truncate(time.Hour)
	if o.wants("dense") {
		dense := shape{"150–250 observations", storeSeries, slots, 150, 250, 1, false}
		if err := measureStore(ctx, o, r, dense, end, true); err != nil {
			return err
		}
	}
	if o.wants("sparse") {
		sparse := shape{"1–3 observations", 20_000, 360, 1, 3, 0.5, false}
		if o.quick {
			sparse.series = 2000
		}
		if err := measureStore(ctx, o, r, sparse, end, false); err != nil {
			return err
		}
	}
	if o.wants("clickhouse") && o.peers {
		return clickHouseBench(ctx, o, r, end)
	}
	return nil
}

// point is one series in one slot, for both stores.
type point struct {
	series int
	data   []byte          // our form
	h      *hist.Histogram // reused; valid until the next slot
	nanos  []int64         // the observations, if the shape says so
}

func measureStore(ctx context.Context, o *options, r *report.Report, sh shape, end time.Time, questions bool) error {
	dir, err := os.MkdirTemp(o.tmp, "store-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	st, err := pebblestore.Open(ctx, pebblestore.Options{Dir: filepath.Join(data, "store")})
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			_ = st.Close()
		}
	}()
	var prom *promStore
	if o.peers {
		if prom, err = openPromStore(filepath.Join(dir, "prometheus"), sh.series); err != nil {
			return err
		}
		defer prom.close()
	}

	all := sh.all()
	g := newGenerator(sh)
	start := end.Add(-time.Duration(sh.slots) * 10 * time.Second)
	points := 0
	var spent cpuTimes
	o.logf("%s: filling %d series × %d slots", sh.what, sh.series, sh.slots)
	for slot := range sh.slots {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := start.Unix() + int64(slot)*10
		pts := g.slot()
		points += len(pts)
		b := &store.Batch{Writer: "bench", Generation: uint64(slot + 1), Resolution: series.Base, Series: all,
			Families: []store.FamilyInfo{{Name: storeFamily, Kind: series.Distribution}}}
		for _, p := range pts {
			b.Points = append(b.Points, store.Point{Series: uint32(p.series), Slot: at, Data: p.data})
		}
		spent.time(&spent.put, func() { err = st.Put(ctx, b) })
		if err != nil {
			return err
		}
		if slot%360 == 359 {
			spent.time(&spent.settle, func() { err = st.Maintain(ctx, time.Unix(at+10+15*60, 0)) })
			if err != nil {
				return err
			}
		}
		if prom != nil {
			spent.time(&spent.promAppend, func() { err = prom.append(ctx, at+10, pts) })
			if err != nil {
				return err
			}
		}
	}
	spent.time(&spent.settle, func() { err = st.Maintain(ctx, end.Add(time.Hour)) })
	if err != nil {
		return err
	}
	if err := st.Close(); err != nil { // so that everything is on disk
		return err
	}
	closed = true
	onDisk, err := dirSize(data)
	if err != nil {
		return err
	}
	if st, err = pebblestore.Open(ctx, pebblestore.Options{Dir: filepath.Join(data, "store")}); err != nil {
		return err
	}
	closed = false
	settled, err := measureUsage(st)
	if err != nil {
		return err
	}
	spent.time(&spent.compact, func() { err = st.Compact(ctx) })
	if err != nil {
		return err
	}
	compacted, err := measureUsage(st)
	if err != nil {
		return err
	}
	width := fmt.Sprintf("%.1f %%", 100*(math.Exp2(1.0/32)-1))
	sec := r.Section("Bytes on disk: points of "+sh.what, fmt.Sprintf(
		"%d series, %d slots of 10 s, %d points at schema 5 (buckets %s wide) of log-normal observations, with true sums, minima and maxima in nanoseconds; "+
			"settled, and what settling has replaced compacted away; just settled, some of it is still there. Prometheus: the same counts as native histograms of schema 5, as counters, compacted into blocks; it keeps no minima and maxima.",
		sh.series, sh.slots, points, width))
	target := 45.0
	if sh.most <= 3 {
		target = 10
	}
	per := func(n int64) float64 { return float64(n) / float64(points) }
	sec.Add("10 s points and label index", "tailscope", "B per point", target, per(compacted.base+compacted.index))
	sec.Add("10 s points alone", "tailscope", "B per point", 0, per(compacted.base))
	sec.Add("rollups to 1 min, 10 min, 1 h", "tailscope", "B per 10 s point", 0, per(compacted.rollups))
	sec.Add("10 s points and label index, just settled", "tailscope", "B per point", 0, per(settled.base+settled.index))
	sec.Add("whole directory, just settled", "tailscope", "B per 10 s point", 0, per(onDisk))
	sec.Add("Put", "tailscope", "CPU-s per million points", 0, spent.put.Seconds()/float64(points)*1e6)
	sec.Add("compaction", "tailscope", "CPU-s per million points", 0, spent.compact.Seconds()/float64(points)*1e6)
	sec.Add("rollups and settling", "tailscope", "CPU-s per million points", 0, spent.settle.Seconds()/float64(points)*1e6)
	if prom != nil {
		spent.time(&spent.promCompact, func() { err = prom.compact(ctx, start, end) })
		if err != nil {
			return err
		}
		n, blocks := prom.size()
		f := sec.Add("blocks", "prometheus", "B per point", 0, per(n))
		f.Note = fmt.Sprintf("%d blocks", blocks)
		sec.Add("append", "prometheus", "CPU-s per million points", 0, spent.promAppend.Seconds()/float64(points)*1e6)
		sec.Add("compaction", "prometheus", "CPU-s per million points", 0, spent.promCompact.Seconds()/float64(points)*1e6)
	}
	if !questions {
		return nil
	}
	sec = r.Section("Questions over 1,000 series × 6 h of 10 s slots", fmt.Sprintf(
		"The same data. Tailscope over HTTP: a client's wall time for `tailscope serve` to answer, JSON included; in process: the query layer over the store, "+
			"which uses %d cores. Prometheus: its own engine over its own database in process, a single quantile, nothing printed.", runtime.GOMAXPROCS(0)))
	if err := ourQuestions(ctx, o, sec, st, data, start, end, func() error { closed = true; return st.Close() }); err != nil {
		return err
	}
	if prom != nil {
		return prom.questions(ctx, o, sec, start, end)
	}
	return nil
}

// question is one thing asked of both.
type question struct {
	name   string
	target float64 // ms
	path   string
	params url.Values
	direct func(context.Context, store.Store) (any, error)
	promQL string
	step   time.Duration // of a range query, 0 for an instant one
}

func questionsOver(start, end time.Time) []question {
	window := strconv.Itoa(int(end.Sub(start).Seconds())) + "s"
	p := func(kv ...string) url.Values {
		v := url.Values{"family": {storeFamily}, "start": {strconv.FormatInt(start.Unix(), 10)}, "end": {strconv.FormatInt(end.Unix(), 10)}}
		for i := 0; i < len(kv); i += 2 {
			v.Set(kv[i], kv[i+1])
		}
		return v
	}
	sel := query.Selection{Family: storeFamily, Start: start, End: end}
	one := sel
	one.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "service", oneService)}
	qs := func(v ...float64) []query.Quantile {
		out := make([]query.Quantile, len(v))
		for i, q := range v {
			out[i] = query.Quantile{Key: strconv.FormatFloat(q, 'g', -1, 64), Q: q}
		}
		return out
	}
	match := `{service="` + oneService + `"}`
	const family = storeFamily
	return []question{
		{"p50, p95, p99 of all series merged", 20, "/api/v1/distribution", p("q", "0.5,0.95,0.99"),
			func(ctx context.Context, st store.Store) (any, error) {
				return query.Distribution(ctx, st, query.DistributionRequest{Selection: sel, Quantiles: qs(.5, .95, .99)})
			}, `histogram_quantile(0.99, sum(increase(` + family + `[` + window + `])))`, 0},
		{"p99 by tenant", 20, "/api/v1/distribution", p("q", "0.99", "by", "tenant"),
			func(ctx context.Context, st store.Store) (any, error) {
				return query.Distribution(ctx, st, query.DistributionRequest{Selection: sel, By: []string{"tenant"}, Quantiles: qs(.99)})
			}, `histogram_quantile(0.99, sum by (tenant) (increase(` + family + `[` + window + `])))`, 0},
		{"p99 per minute of one service (100 series)", 10, "/api/v1/timeline", p("match", match, "q", "0.99", "step", "60"),
			func(ctx context.Context, st store.Store) (any, error) {
				return query.Timeline(ctx, st, query.TimelineRequest{Selection: one, Grid: query.Grid{Step: 60}, Quantiles: qs(.99)})
			}, `histogram_quantile(0.99, sum(rate(` + family + match + `[1m])))`, time.Minute},
		{"heatmap of one service by minute", 10, "/api/v1/heatmap", p("match", match, "step", "60"),
			func(ctx context.Context, st store.Store) (any, error) {
				return query.Heatmap(ctx, st, query.HeatmapRequest{Selection: one, Grid: query.Grid{Step: 60}})
			}, `sum(rate(` + family + match + `[1m]))`, time.Minute},
		{"heatmap of one service at 1,280 columns", 0, "/api/v1/heatmap", p("match", match, "width", "1280"),
			func(ctx context.Context, st store.Store) (any, error) {
				return query.Heatmap(ctx, st, query.HeatmapRequest{Selection: one, Grid: query.Grid{Width: 1280}})
			}, `sum(rate(` + family + match + `[20s]))`, 20 * time.Second},
	}
}

// ourQuestions asks in process, then hands the directory to a server and asks
// that by HTTP.
func ourQuestions(ctx context.Context, o *options, sec *report.Section, st store.Store, data string, start, end time.Time, release func() error) error {
	times := 5 * o.reps
	var answers [][]byte
	for _, q := range questionsOver(start, end) {
		var answer any
		ask := func() (err error) {
			answer, err = q.direct(ctx, st)
			return err
		}
		if err := repeat(ctx, times, ask, func(first bool, d time.Duration) {
			if !first {
				sec.Add(q.name, "tailscope, in process", "ms", 0, ms(d))
			}
		}); err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		b, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		answers = append(answers, b)
	}
	if err := release(); err != nil {
		return err
	}
	p, err := program.StartTailscope(ctx, data)
	if err != nil {
		return err
	}
	defer p.Kill()
	for i, q := range questionsOver(start, end) {
		if err := askTimes(ctx, sec, p, q.name, q.target, times, q.path, q.params, answers[i]); err != nil {
			return err
		}
	}
	return nil
}

// askTimes asks a server one thing again and again and notes how long each
// answer took and what the server spent on it. The first answer, which finds
// nothing in any cache, is noted apart. Unless want is nil, an answer that
// differs from it is an error.
func askTimes(ctx context.Context, sec *report.Section, p *program.Tailscope, name string, target float64, times int, path string, params url.Values, want []byte) error {
	before, err := p.Usage()
	if err != nil {
		return err
	}
	var size int
	var cold time.Duration
	var figure *report.Figure
	err = repeat(ctx, times, func() error {
		b, err := askRaw(ctx, p.URL, path, params)
		if err == nil && want != nil && !bytes.Equal(bytes.TrimSpace(b), bytes.TrimSpace(want)) {
			err = fmt.Errorf("the server answers %.200q, in process it is %.200q", b, want)
		}
		size = len(b)
		return err
	}, func(first bool, d time.Duration) {
		if first {
			cold = d
			return
		}
		figure = sec.Add(name, "tailscope", "ms", target, ms(d))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	after, err := p.Usage()
	if err != nil {
		return err
	}
	figure.Note = fmt.Sprintf("first answer %.1f ms; %.1f ms of CPU an answer; %.1f kB of JSON", ms(cold), ms(after.CPU()-before.CPU())/float64(times+1), float64(size)/1000)
	return nil
}

// repeat does something n times after a first time, and reports how long each took.
func repeat(ctx context.Context, n int, do func() error, took func(first bool, d time.Duration)) error {
	for i := range n + 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		begin := time.Now()
		if err := do(); err != nil {
			return err
		}
		took(i == 0, time.Since(begin))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// cpuTimes is this process's CPU time by what it was spent on.
type cpuTimes struct{ put, settle, compact, promAppend, promCompact time.Duration }

func (c *cpuTimes) time(into *time.Duration, do func()) {
	before := ownCPU()
	do()
	*into += ownCPU() - before
}

// usage is the size of a store on disk, in bytes.
type usage struct{ base, rollups, index int64 }

func measureUsage(st *pebblestore.Store) (u usage, err error) {
	for _, res := range series.Resolutions {
		n, index, err := st.Usage(res)
		if err != nil {
			return u, err
		}
		if u.index = index; res == series.Base {
			u.base = n
		} else {
			u.rollups += n
		}
	}
	return u, nil
}

// dirSize returns the bytes of the files in dir. Files may go meanwhile.
func dirSize(dir string) (int64, error) {
	var n int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				n += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return n, err
}

// generator draws the points of one slot after the other.
type generator struct {
	sh      shape
	factors []float64 // of log-normal observations, drawn once
	medians []float64
	parts   []*part
}

// part is the work of one goroutine.
type part struct {
	rng    *rand.Rand
	from   int
	to     int
	points []point
	hists  []*hist.Histogram
	buf    []byte
}

func newGenerator(sh shape) *generator {
	rng := rand.New(rand.NewPCG(11, 11))
	g := &generator{sh: sh, factors: make([]float64, 1<<20), medians: make([]float64, sh.series)}
	for i := range g.factors {
		g.factors[i] = math.Exp(0.5 * rng.NormFloat64())
	}
	for i := range g.medians {
		g.medians[i] = 2e6 * math.Exp(1.2*rng.NormFloat64()) // nanoseconds
	}
	n := runtime.GOMAXPROCS(0)
	for k := range n {
		p := &part{rng: rand.New(rand.NewPCG(12, uint64(k))), from: sh.series * k / n, to: sh.series * (k + 1) / n}
		for range p.to - p.from {
			p.hists = append(p.hists, hist.New(hist.DefaultSchema))
		}
		g.parts = append(g.parts, p)
	}
	return g
}

// slot draws the next slot's points, in order of series. They are valid until
// the next call.
func (g *generator) slot() []point {
	var wg sync.WaitGroup
	for _, p := range g.parts {
		wg.Go(func() { p.draw(g) })
	}
	wg.Wait()
	var out []point
	for _, p := range g.parts {
		out = append(out, p.points...)
	}
	return out
}

func (p *part) draw(g *generator) {
	p.points, p.buf = p.points[:0], slices.Grow(p.buf[:0], (p.to-p.from)*128)
	for i := p.from; i < p.to; i++ {
		if g.sh.presence < 1 && p.rng.Float64() >= g.sh.presence {
			continue
		}
		h := p.hists[i-p.from]
		h.Reset(hist.DefaultSchema)
		var each []int64
		n := g.sh.fewest + p.rng.IntN(g.sh.most-g.sh.fewest+1)
		at := p.rng.IntN(len(g.factors))
		for k := range n {
			ns := int64(g.medians[i] * g.factors[(at+k)%len(g.factors)])
			if err := h.RecordNanos(ns, 1); err != nil {
				panic(err) // cannot happen: durations are positive
			}
			if g.sh.each {
				each = append(each, ns)
			}
		}
		from := len(p.buf)
		var err error
		if p.buf, err = h.AppendBinary(p.buf); err != nil {
			panic(err) // cannot happen: h was just recorded
		}
		p.points = append(p.points, point{i, p.buf[from:len(p.buf):len(p.buf)], h, each})
	}
}
